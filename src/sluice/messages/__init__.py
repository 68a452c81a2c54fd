"""Results as messages: what they say (schema), where they go (sinks), and the thread that takes them there (writer)."""

from sluice.messages.schema import Attribute, FrameRecord, ObjectRecord, Per, messages
from sluice.messages.sinks import LineSink, Sink, open_sink
from sluice.messages.writer import Counters, Overflow, Writer

__all__ = [
    "Attribute",
    "Counters",
    "FrameRecord",
    "LineSink",
    "ObjectRecord",
    "Overflow",
    "Per",
    "Sink",
    "Writer",
    "messages",
    "open_sink",
]
