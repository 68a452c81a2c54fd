import sys

sys.path.append(__file__.rsplit("/", 4)[0])
from sluice.elements.msgconv import SluiceMsgConv

__gstelementfactory__ = ("sluicemsgconv", 0, SluiceMsgConv)
