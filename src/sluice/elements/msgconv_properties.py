"""The properties of ``sluicemsgconv``; those that nvmsgconv has carry its names and meanings.

Imports gi and the standard library only: it is read when GStreamer scans its plugins.
"""

import json
from pathlib import PurePath
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GLib, GObject, Gst

from sluice.elements.enums import enumeration
from sluice.errors import ConfigurationError

SLUICE = 1000
"""payload-type of Sluice's own schema; nvmsgconv's numbers end at 257."""
_RESERVED = 256
PAYLOAD_TYPES = {
    "PAYLOAD_DEEPSTREAM": 0,
    "PAYLOAD_DEEPSTREAM_MINIMAL": 1,
    "PAYLOAD_DEEPSTREAM_PROTOBUF": 2,
    "PAYLOAD_RESERVED": _RESERVED,
    "PAYLOAD_CUSTOM": 257,
    "sluice": SLUICE,
}
_STOCK_LIBRARY = "libnvds_msgconv.so"
_WORDS = {"per": ("frame", "object"), "empty-frames": ("emit", "skip")}
_OURS = ("per", "embeddings", "masks", "stream-members")
"""Properties that say something about Sluice's own schema only."""

_READY = GObject.ParamFlags.READWRITE | GObject.ParamFlags(Gst.PARAM_MUTABLE_READY)
_UINT_MAX = 2**32 - 1

GPROPERTIES: dict[str, tuple[Any, ...]] = {
    "payload-type": (
        enumeration("SluicePayloadType", PAYLOAD_TYPES),
        "Payload type",
        "Schema of the messages: sluice (Sluice's own), 0 or PAYLOAD_DEEPSTREAM (full), 1 or "
        "PAYLOAD_DEEPSTREAM_MINIMAL, 2 or PAYLOAD_DEEPSTREAM_PROTOBUF, 257 or PAYLOAD_CUSTOM (nvmsgconv: default 0)",
        *(SLUICE, _READY),
    ),
    "config": (
        str,
        "Configuration",
        "File that describes sensors, places and analytics modules: key file, .yml or .csv; needed for payload-type 0",
        *(None, _READY),
    ),
    "strict-config": (
        bool,
        "Strict configuration",
        "An unknown key or group of config is an error; false: a warning, as nvmsgconv goes on too",
        *(False, _READY),
    ),
    "msg2p-newapi": (
        bool,
        "New API",
        "DeepStream's schemas: make messages of frames and objects; false: of the event messages that a program "
        "attached. Sluice's own schema is always made of frames and objects",
        *(False, _READY),
    ),
    "frame-interval": (
        GObject.TYPE_UINT,
        "Frame interval",
        "Only frames whose number is a multiple of this give messages (nvmsgconv's default is 30); without effect on "
        "event messages",
        *(1, GLib.MAXINT32, 1, _READY),
    ),
    "comp-id": (
        GObject.TYPE_UINT,
        "Component id",
        "Written to the messages, for the broker's comp-id; of event messages only those with this component id are "
        "used, 0 for all",
        *(0, _UINT_MAX, 0, _READY),
    ),
    "dummy-payload": (
        bool,
        "Dummy payload",
        "payload-type 1 and 2 of event messages: a message for frames without events too; as in nvmsgconv it takes the "
        "place of the first event where there are some",
        *(False, _READY),
    ),
    "multiple-payloads": (
        bool,
        "Multiple payloads",
        "Accepted for nvmsgconv's sake, without effect, as with its stock library",
        *(False, _READY),
    ),
    "msg2p-lib": (
        str,
        "Message library",
        f"Accepted for nvmsgconv's sake: {_STOCK_LIBRARY}, which is built in here; other libraries are refused",
        *(None, _READY),
    ),
    "debug-payload-dir": (
        str,
        "Debug folder",
        "Folder to which the messages of each frame are also written, in a file named after the time",
        *(None, _READY),
    ),
    "per": (
        str,
        "Per",
        "Sluice's own schema: what one message is about: frame (with all its objects) or object",
        *("frame", _READY),
    ),
    "empty-frames": (
        str,
        "Empty frames",
        "Frames without objects: emit a message that says so, or skip them",
        *("emit", _READY),
    ),
    "embeddings": (
        bool,
        "Embeddings",
        "Sluice's own schema: tell the objects' embeddings, which are long: some 10 KB of text for 512 numbers",
        *(False, _READY),
    ),
    "stream-members": (
        str,
        "Stream members",
        "Sluice's own schema: members that the messages of each stream have besides, as JSON by the stream's number: "
        '{"0": {"name": "gate"}}. Can be set while playing',
        *(None, GObject.ParamFlags.READWRITE | GObject.ParamFlags(Gst.PARAM_MUTABLE_PLAYING)),
    ),
    "masks": (
        bool,
        "Masks",
        "Sluice's own schema: tell the objects' masks, run-length encoded",
        *(False, _READY),
    ),
    "stats": (
        Gst.Structure,
        "Statistics",
        "Counters since the last start: frames, messages, skipped (frames without a message)",
        GObject.ParamFlags.READABLE,
    ),
}

_DEFAULT = -2
"""Place of the default value in a description, before the flags."""

DEFAULTS = {name: description[_DEFAULT] for name, description in GPROPERTIES.items() if name != "stats"}


def read_members(text: str | None) -> dict[int, dict[str, Any]]:
    """Return what ``stream-members`` tells of each stream, by its number.

    Raises:
        ConfigurationError: it is no JSON of that form.
    """
    try:
        members = {int(stream): dict(told) for stream, told in json.loads(text or "{}").items()}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigurationError(
            f'stream-members is {text!r}; right is JSON by the number of the stream: {{"0": {{"name": "gate"}}}}'
        ) from error
    return members


def check(values: dict[str, Any]) -> None:
    """Check values that no type checks.

    Raises:
        ConfigurationError: one cannot be used; names it and what would be right.
    """
    for name, words in _WORDS.items():
        if values[name] not in words:
            raise ConfigurationError(f"{name} is {values[name]!r}; it can be {' or '.join(words)}")
    library = values["msg2p-lib"]
    if library and PurePath(library).name != _STOCK_LIBRARY:
        raise ConfigurationError(
            f"msg2p-lib is {library!r}; message libraries in C are not loaded: leave it unset, or {_STOCK_LIBRARY}"
        )
    kind = values["payload-type"]
    if kind == _RESERVED:
        raise ConfigurationError("payload-type 256 (PAYLOAD_RESERVED) is no schema; it can be 0, 1, 2, 257 or sluice")
    if kind != SLUICE:
        for name in _OURS:
            if values[name] != DEFAULTS[name]:
                raise ConfigurationError(
                    f"{name} is set, but DeepStream's schemas have no such choice; use it with payload-type=sluice"
                )
    elif values["dummy-payload"]:
        raise ConfigurationError("dummy-payload is for DeepStream's payload-type 1 and 2; sluice has empty-frames=emit")
