"""Playing a pipeline to its end, and reading an element's counters; for tests that make their pipelines themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract.structures import fields_of
from waiting import PATIENCE

Watched = TypeVar("Watched", bound=Any)
_ENDS = Gst.MessageType.EOS | Gst.MessageType.ERROR


def end_of(pipeline: Gst.Pipeline, seconds: float = PATIENCE) -> Gst.Message:
    """Wait for a pipeline's EOS or first error; fail where neither comes."""
    message = pipeline.get_bus().timed_pop_filtered(int(seconds * Gst.SECOND), _ENDS)
    assert message is not None, f"neither EOS nor an error within {seconds:g} s"
    return message


def reaches_its_end(pipeline: Gst.Pipeline, seconds: float = PATIENCE) -> None:
    """Wait for a pipeline's EOS; fail on an error, or where it does not come."""
    message = end_of(pipeline, seconds)
    assert message.type == Gst.MessageType.EOS, message.parse_error()


def play(pipeline: Gst.Pipeline, seconds: float = PATIENCE) -> None:
    """Play a pipeline until its EOS, and stop it; fail on an error, or where the end does not come."""
    assert pipeline.set_state(Gst.State.PLAYING) != Gst.StateChangeReturn.FAILURE, end_of(pipeline, 0).parse_error()
    try:
        reaches_its_end(pipeline, seconds)
    finally:
        pipeline.set_state(Gst.State.NULL)


@contextmanager
def stopping(make: Callable[[str], Watched]) -> Iterator[Callable[[str], Watched]]:
    """Give what makes an object with a ``pipeline`` of a launch line; all of the pipelines are stopped at the end."""
    made: list[Watched] = []

    def make_and_remember(line: str) -> Watched:
        made.append(make(line))
        return made[-1]

    yield make_and_remember
    for one in made:
        one.pipeline.set_state(Gst.State.NULL)


def stats_of(element: Gst.Element) -> dict[str, Any]:
    """An element's ``stats`` by name."""
    return fields_of(element.get_property("stats"))
