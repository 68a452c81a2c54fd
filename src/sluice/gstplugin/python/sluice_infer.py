import sys

sys.path.append(__file__.rsplit("/", 4)[0])
from sluice.elements.infer import SluiceInfer

__gstelementfactory__ = ("sluiceinfer", 0, SluiceInfer)
