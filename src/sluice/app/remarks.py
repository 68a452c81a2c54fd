"""What elements warn of, as events: an element that warns with every frame has some, then one now and then."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.allowance import Allowance
from sluice.app.credentials import redact
from sluice.app.gst import describe
from sluice.app.streams.events import EventLog
from sluice.elements.guard import TOLD_AS

WARNING, INFO = REMARKS = ("element-warning", "element-info")
"""The kinds of the events."""
_TIDY_AT = 256  # things that may speak, from which those that have long been silent are forgotten


@dataclass(frozen=True)
class _Remark:
    kind: str
    stream: str | None
    element: str
    text: str


def _kind_of(source: Gst.Object | None) -> str:
    """The kind of element that a message is from, which stays the same while elements of a kind come and go."""
    factory = source.get_factory() if isinstance(source, Gst.Element) else None
    if factory is not None:
        return str(factory.get_name())
    return "the pipeline" if source is None else str(source.get_name())


class Remarks:
    """Notes what elements say as the events "element-warning" and "element-info", with the kind of the element."""

    def __init__(self, events: EventLog, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with nothing said; `clock` gives seconds that only go forward."""
        self._events = events
        self._clock = clock
        self._allowed: dict[tuple[str | None, str], Allowance[_Remark]] = {}

    def note(self, message: Gst.Message, stream: str | None) -> None:
        """Note a warning or an info, unless its element tells it by another message too, or has said too much."""
        warned = message.type == Gst.MessageType.WARNING
        details = message.parse_warning_details() if warned else None
        if details is not None and details.has_field(TOLD_AS):
            return
        element = _kind_of(message.src)
        kind = WARNING if warned else INFO
        remark, now = _Remark(kind, stream, element, redact(describe(message)[0])), self._clock()
        if len(self._allowed) >= _TIDY_AT:
            self._allowed = {key: value for key, value in self._allowed.items() if not value.is_idle(now)}
        if self._allowed.setdefault((stream, element), Allowance(now)).say(remark, now):
            self._add(remark, 0)

    def look(self) -> None:
        """Note the newest of what an element has said too much of, once it is time."""
        now = self._clock()
        for allowance in self._allowed.values():
            if (due := allowance.due(now)) is not None:
                self._add(*due)

    def _add(self, remark: _Remark, left_out: int) -> None:
        more = f" ({left_out} before this one are not told: there are many)" if left_out else ""
        self._events.add(
            remark.kind,
            remark.stream,
            f"{remark.element}: {remark.text}{more}",
            element=remark.element,
            left_out=left_out,
        )
