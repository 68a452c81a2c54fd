"""What a fleet's file says is looked at where `apply` runs; what only a node can know is asked there."""

from __future__ import annotations

from collections.abc import Iterator

from sluice.app.fleet.schema import Fleet
from sluice.app.serve.checking import check_source, tried
from sluice.app.serve.loading import Fault, FaultyConfigError, shown
from sluice.app.serve.marks import Location, Marked
from sluice.messages.brokers import from_url, is_url
from sluice.tracking.algorithms import algorithm


def check_file(fleet: Fleet, file: Marked) -> None:
    """Check what the schema cannot; nothing that the file names is opened.

    Args:
        fleet: what was read.
        file: from where, with its lines.

    Raises:
        FaultyConfigError: naming all that is wrong, with lines and without credentials.
    """
    faults = [Fault(file.line(at), shown(at), text) for at, text in _faults(fleet)]
    if faults:
        raise FaultyConfigError(file.path, faults)


def _faults(fleet: Fleet) -> Iterator[tuple[Location, str]]:
    for index, stream in enumerate(fleet.streams):
        at = ("streams", index, "source")
        if not stream.source.strip():
            yield at, "is empty; name what is opened, such as rtsp://camera/stream"
        elif ":" in stream.source:  # a file is on the nodes, and need not be here
            yield from check_source(at, stream.source)
    if fleet.tracker.name != "none":
        yield from tried(("tracker", "name"), lambda: algorithm(fleet.tracker.name))
    messages = fleet.messages
    if messages is not None and is_url(messages):
        yield from tried(("messages",), lambda: from_url(messages))
