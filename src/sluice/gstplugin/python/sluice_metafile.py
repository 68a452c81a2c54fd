import sys

sys.path.append(__file__.rsplit("/", 4)[0])
from sluice.elements.metafile import SluiceMetaFile

__gstelementfactory__ = ("sluicemetafile", 0, SluiceMetaFile)
