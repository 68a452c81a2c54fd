"""What an error of GStreamer means for a stream: the state it puts it into."""

from __future__ import annotations

import re
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.gst import describe
from sluice.app.streams.states import StreamState

_RESOURCE = Gst.ResourceError.quark()
_STREAM = Gst.StreamError.quark()
_CORE = Gst.CoreError.quark()

# What elements say in words only, in the text or behind it, by the first that is found. Elements give the same code to
# a wrong password as to a closed port, and none at all to a name that cannot be resolved.
_WORDS: tuple[tuple[str, StreamState], ...] = (
    (
        r"unauthori[sz]ed|\b401\b|\b403\b|forbidden|authenticat|not authorized|passphrase",
        StreamState.UNAUTHORIZED,
    ),
    (
        r"error resolving|name or service not known|temporary failure in name resolution|could not resolve"
        r"|no address associated|cannot resolve|unknown host|hostname cannot",
        StreamState.UNKNOWN_HOST,
    ),
    (r"not found|\b404\b|no such file|\b410\b", StreamState.NOT_FOUND),
    (
        r"connection refused|no route to host|network is unreachable|failed to connect|could not connect"
        r"|cannot connect|host is unreachable|socket i/o timed out|connection timed out|connection timeout",
        StreamState.REFUSED,
    ),
    (
        r"no (suitable )?plugin|missing (plug-?in|element|decoder)|no decoder|not have a decoder|no video stream"
        r"|unsupported|no supported",
        StreamState.UNSUPPORTED,
    ),
)
_BY_CODE: dict[tuple[int, int], StreamState] = {
    (_RESOURCE, int(Gst.ResourceError.NOT_AUTHORIZED)): StreamState.UNAUTHORIZED,
    (_RESOURCE, int(Gst.ResourceError.NOT_FOUND)): StreamState.NOT_FOUND,
    (_RESOURCE, int(Gst.ResourceError.OPEN_READ)): StreamState.REFUSED,
    (_RESOURCE, int(Gst.ResourceError.OPEN_READ_WRITE)): StreamState.REFUSED,
    (_RESOURCE, int(Gst.ResourceError.BUSY)): StreamState.REFUSED,
    (_STREAM, int(Gst.StreamError.CODEC_NOT_FOUND)): StreamState.UNSUPPORTED,
    (_STREAM, int(Gst.StreamError.TYPE_NOT_FOUND)): StreamState.UNSUPPORTED,
    (_STREAM, int(Gst.StreamError.WRONG_TYPE)): StreamState.UNSUPPORTED,
    (_STREAM, int(Gst.StreamError.NOT_IMPLEMENTED)): StreamState.UNSUPPORTED,
    (_STREAM, int(Gst.StreamError.DECODE)): StreamState.CORRUPT,
    (_STREAM, int(Gst.StreamError.DEMUX)): StreamState.CORRUPT,
    (_STREAM, int(Gst.StreamError.FORMAT)): StreamState.CORRUPT,
    (_CORE, int(Gst.CoreError.MISSING_PLUGIN)): StreamState.UNSUPPORTED,
    (_CORE, int(Gst.CoreError.NEGOTIATION)): StreamState.UNSUPPORTED,
}


def classify(message: Gst.Message) -> StreamState:
    """Return the state into which an error or warning message of a source puts its stream."""
    parse = message.parse_error if message.type == Gst.MessageType.ERROR else message.parse_warning
    error: Any = parse()[0]
    text, debug = describe(message)
    # Of the debug text only what the element itself adds; the file names before it hold words of their own.
    return classify_text(error.domain, error.code, f"{text}\n{debug.partition(':' + chr(10))[2]}")


def classify_text(domain: str, code: int, words: str) -> StreamState:
    """Return the state for an error by its domain, code and words; LOST for what fits nothing better."""
    words = re.sub(r"\w+://\S+", "", words.lower())  # an address is no reason
    for pattern, state in _WORDS:
        if re.search(pattern, words):
            return state
    return _BY_CODE.get((_quark(domain), code), StreamState.LOST)


def _quark(domain: str) -> int:
    from gi.repository import GLib

    return int(GLib.quark_from_string(domain))
