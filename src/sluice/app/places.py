"""Which part of a pipeline a message on its bus comes from."""

from __future__ import annotations

from collections.abc import Sequence

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.gst import describe
from sluice.app.streams.branch import Branch
from sluice.app.streams.stream import Stream

SOURCE = "source_"
"""What the names of the bins of sources begin with."""
Place = tuple[str, Stream | None]
"""("source", stream), or ("branch", stream or None for that of all streams)."""


def find(
    message: Gst.Message,
    streams: Sequence[Stream],
    *,
    pipeline: Gst.Element,
    splitter: Gst.Element | None,
    whole: Branch | None,
) -> Place | None:
    """Return what a message comes from; None for what all streams share, and for sources that were closed.

    Args:
        message: an error or a warning.
        streams: all there are.
        pipeline: whose bus it was on.
        splitter: the demuxer, if there is one.
        whole: the branch of all streams together, if there is one.
    """
    bins: dict[Gst.Element, Place] = {}
    for stream in streams:
        if (session := stream.session) is not None:
            bins[session.bin] = ("source", stream)
        if stream.branch is not None:
            bins[stream.branch.bin] = ("branch", stream)
    if whole is not None:
        bins[whole.bin] = ("branch", None)
    element = message.src
    if splitter is not None and element == splitter and (number := _stream_named(message)) is not None:
        return next((("branch", stream) for stream in streams if stream.number == number), None)
    while element is not None:
        if element in bins:
            return bins[element]
        if element == pipeline:
            return None
        element = element.get_parent()
    # An element that was removed since: the debug text still has its path.
    names = {f"/GstBin:{bin.get_name()}/": place for bin, place in bins.items()}
    return next((place for name, place in names.items() if name in describe(message)[1]), None)


def is_of_closed_source(message: Gst.Message, pipeline: Gst.Element) -> bool:
    """Whether a message that has no place comes from a source that is being closed: nobody wants to know it then."""
    element, top = message.src, message.src
    while element is not None and element != pipeline:
        top, element = element, element.get_parent()
    name = top.get_name() if top is not None else ""
    return name.startswith(SOURCE) or f"/GstBin:{SOURCE}" in describe(message)[1]


def _stream_named(message: Gst.Message) -> int | None:
    """Return the stream that the details of an error message name."""
    details = message.parse_error_details() if message.type == Gst.MessageType.ERROR else None
    found, stream = details.get_int("stream") if details is not None else (False, 0)
    return stream if found else None
