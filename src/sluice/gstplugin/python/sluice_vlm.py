import sys

sys.path.append(__file__.rsplit("/", 4)[0])
from sluice.elements.vlm import SluiceVlm

__gstelementfactory__ = ("sluicevlm", 0, SluiceVlm)
