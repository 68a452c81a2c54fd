import sys

sys.path.append(__file__.rsplit("/", 4)[0])
from sluice.elements.analytics import SluiceAnalytics

__gstelementfactory__ = ("sluiceanalytics", 0, SluiceAnalytics)
