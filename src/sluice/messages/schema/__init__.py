"""Sluice's own message format, which ``sluice-1.json`` beside this file describes as a JSON Schema."""

from sluice.messages.schema.sluice import (
    CLOCK_TIME_NONE,
    UNTRACKED_OBJECT_ID,
    VERSION,
    Attribute,
    FrameRecord,
    Mask,
    Numbers,
    ObjectRecord,
    Per,
    Shares,
    encode,
    messages,
    utc_text,
)

__all__ = [
    "CLOCK_TIME_NONE",
    "UNTRACKED_OBJECT_ID",
    "VERSION",
    "Attribute",
    "FrameRecord",
    "Mask",
    "Numbers",
    "ObjectRecord",
    "Per",
    "Shares",
    "encode",
    "messages",
    "utc_text",
]
