import sys

sys.path.append(__file__.rsplit("/", 4)[0])
from sluice.elements.msgbroker import SluiceMsgBroker

__gstelementfactory__ = ("sluicemsgbroker", 0, SluiceMsgBroker)
