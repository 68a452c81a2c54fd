import sys

sys.path.append(__file__.rsplit("/", 4)[0])
from sluice.elements.tracker import SluiceTracker

__gstelementfactory__ = ("sluicetracker", 0, SluiceTracker)
