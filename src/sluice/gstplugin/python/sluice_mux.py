import sys

sys.path.append(__file__.rsplit("/", 4)[0])
from sluice.elements.mux import SluiceMux

__gstelementfactory__ = ("sluicemux", 0, SluiceMux)
