import sys

sys.path.append(__file__.rsplit("/", 4)[0])
from sluice.elements.index import SluiceIndex

__gstelementfactory__ = ("sluiceindex", 0, SluiceIndex)
