import sys

sys.path.append(__file__.rsplit("/", 4)[0])
from sluice.elements.analyticsbridge import SluiceAnalyticsBridge

__gstelementfactory__ = ("sluiceanalyticsbridge", 0, SluiceAnalyticsBridge)
