import sys

sys.path.append(__file__.rsplit("/", 4)[0])
from sluice.elements.demux import SluiceDemux

__gstelementfactory__ = ("sluicedemux", 0, SluiceDemux)
