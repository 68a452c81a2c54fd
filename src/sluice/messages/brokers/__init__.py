"""Message brokers: where messages go (`Endpoint`), and the promise that they arrive (`Delivery`)."""

from sluice.messages.brokers.delivery import Delivery, DeliveryCounters
from sluice.messages.brokers.endpoint import (
    Endpoint,
    from_properties,
    from_url,
    hide_secrets,
    is_url,
    protocol_of_library,
)
from sluice.messages.brokers.opening import default_spool, open_delivery, spool_of_process
from sluice.messages.brokers.options import PROTOCOLS
from sluice.messages.brokers.transport import Message, Transport, TransportError

__all__ = [
    "PROTOCOLS",
    "Delivery",
    "DeliveryCounters",
    "Endpoint",
    "Message",
    "Transport",
    "TransportError",
    "default_spool",
    "from_properties",
    "from_url",
    "hide_secrets",
    "is_url",
    "open_delivery",
    "protocol_of_library",
    "spool_of_process",
]
