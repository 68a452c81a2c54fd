import sys

sys.path.append(__file__.rsplit("/", 4)[0])
from sluice.elements.osd import SluiceOsd

__gstelementfactory__ = ("sluiceosd", 0, SluiceOsd)
