"""Results as messages: what they say, how they travel on frames, where they go, and the thread that brings them."""

from sluice.messages.payload import attach_payloads, read_payloads
from sluice.messages.schema import Attribute, FrameRecord, Numbers, ObjectRecord, Per, Shares, messages
from sluice.messages.sinks import LineSink, Sink, open_sink
from sluice.messages.writer import Counters, Overflow, Writer

__all__ = [
    "Attribute",
    "Counters",
    "FrameRecord",
    "LineSink",
    "Numbers",
    "ObjectRecord",
    "Overflow",
    "Per",
    "Shares",
    "Sink",
    "Writer",
    "attach_payloads",
    "messages",
    "open_sink",
    "read_payloads",
]
