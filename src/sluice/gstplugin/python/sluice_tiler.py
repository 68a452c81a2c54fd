import sys

sys.path.append(__file__.rsplit("/", 4)[0])
from sluice.elements.tiler import SluiceTiler

__gstelementfactory__ = ("sluicetiler", 0, SluiceTiler)
