import sys

sys.path.append(__file__.rsplit("/", 4)[0])
from sluice.elements.host_element import SluiceHost

__gstelementfactory__ = ("sluicehost", 0, SluiceHost)
