"""What the messages on a run's bus mean for the run and for its streams."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GLib, Gst

from sluice.app.credentials import redact
from sluice.app.exceptions import as_exception
from sluice.app.gst import describe
from sluice.app.model_control import ModelControl
from sluice.app.places import is_of_closed_source
from sluice.app.remarks import Remarks
from sluice.app.roster import Roster
from sluice.app.streams.events import EventLog
from sluice.app.streams.stream import Stream
from sluice.app.streams.tending import Tending
from sluice.app.summary import Summary
from sluice.app.vlm import note_outcome
from sluice.contract import gstref
from sluice.contract._native import library
from sluice.errors import SluiceError

if TYPE_CHECKING:
    from sluice.app.graph import Graph

HEARD = (
    Gst.MessageType.ERROR
    | Gst.MessageType.WARNING
    | Gst.MessageType.INFO
    | Gst.MessageType.LATENCY
    | Gst.MessageType.ELEMENT
    | Gst.MessageType.APPLICATION
)
"""The types of messages that are of interest."""
# How many texts of one kind a summary keeps; a camera that warns with every frame must not fill the memory.
MOST_TEXTS = 20
_FORWARDED = Gst.MessageType.EOS
_STREAM_ERROR = GLib.quark_to_string(Gst.StreamError.quark())


def keep_what_is_heard(bus: Gst.Bus) -> None:
    """Let nothing onto a bus but what `Hearing` takes in; see native/bus.c for why that matters."""
    keep = library().sluice_bus_keep
    keep.argtypes, keep.restype = [ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint], None
    keep(gstref.address(bus), int(HEARD), int(_FORWARDED))


class Hearing:
    """Takes in one message after another, on the engine's thread.

    Attributes:
        fatal: what has ended the whole run; None while nothing has.
        ended: the ends of the graph in which all is written.
        broken: those that could not be written to their end.
    """

    def __init__(
        self,
        graph: Graph,
        roster: Roster[Stream],
        tending: Tending,
        summary: Summary,
        model: ModelControl,
        events: EventLog,
    ) -> None:
        """Listen for a run, whose parts are told what concerns them."""
        self.fatal: SluiceError | None = None
        self.ended: set[Gst.Element] = set()
        self.broken: set[Gst.Element] = set()
        self._graph = graph
        self._roster = roster
        self._tending = tending
        self._summary = summary
        self._model = model
        self._events = events
        self._remarks = Remarks(events)
        self._latency_changed = False

    def hear(self, message: Gst.Message) -> bool:
        """Take in a message; return whether the streams are to be looked at at once."""
        if message.type == Gst.MessageType.ERROR:
            self._handle_error(message)
        elif message.type == Gst.MessageType.WARNING:
            self._handle_warning(message)
        elif message.type == Gst.MessageType.INFO:
            self._handle_info(message)
        elif message.type == Gst.MessageType.LATENCY:
            self._latency_changed = True
        elif message.has_name("model-updated"):
            self._model.ended(message)
        elif message.has_name("prompt-updated"):
            self._model.prompted(message)
        elif message.has_name("sluice-vlm"):
            note_outcome(self._events, message)
        elif message.has_name("sluice-source-ended"):
            return True
        elif message.has_name("GstBinForwarded"):
            inner = message.get_structure().get_value("message")
            if inner.type == Gst.MessageType.EOS and inner.src in self._graph.endings.elements:
                self.ended.add(inner.src)
                self._tending.branch_ended(inner.src, self._roster.all())
        return False

    def hear_output(self, kind: str, stream: str, text: str, details: Mapping[str, Any]) -> None:
        """Note what happened to a live output; for any thread."""
        self._events.add(kind, stream, text, **details)
        if kind.endswith(("-failed", "-lost")) and len(self._summary.warnings) < MOST_TEXTS:
            self._summary.warnings.append(text)

    def heard_all(self) -> None:
        """Do once what many of the messages heard ask for, and note what some have said too much of.

        Every element of a stream that is added posts that its latency changed, and to look at the latency is to ask
        every end of the graph, each of which asks every source.
        """
        if self._latency_changed:
            self._latency_changed = False
            self._graph.pipeline.recalculate_latency()
        self._remarks.look()

    def _handle_error(self, message: Gst.Message) -> None:
        place = self._graph.place_of(message, self._roster.all())
        if place is None:
            if not is_of_closed_source(message, self._graph.pipeline):
                self.fatal = self.fatal or as_exception(message)
            return
        kind, stream = place
        if stream is None:
            self.broken.add(self._graph.endings.branches[-1].bin)
            self.fatal = self.fatal or as_exception(message)
        elif kind == "source":
            # Once the run is lost, sources complain that nobody takes their frames any more.
            if not (self.fatal or self._summary.stopped or stream.ending):
                self._tending.fault(stream, message)
        else:
            self._branch_failed(stream, message)

    def _branch_failed(self, stream: Stream, message: Gst.Message) -> None:
        assert stream.branch is not None
        self.broken.add(stream.branch.bin)
        self.ended.add(stream.branch.bin)
        if stream.frames_seen:  # a file for which no frame came cannot be finished
            self._tending.give_up(stream, message)

    def _handle_warning(self, message: Gst.Message) -> None:
        text = redact(describe(message)[0])
        kind, stream = self._graph.place_of(message, self._roster.all()) or ("", None)
        if stream is None:
            if kind or not is_of_closed_source(message, self._graph.pipeline):
                if len(self._summary.warnings) < MOST_TEXTS:
                    self._summary.warnings.append(text)
                self._remarks.note(message, None)
            return
        if not self._tending.warned(stream, message):
            self._remarks.note(message, stream.name)
        if len(stream.summary.warnings) < MOST_TEXTS:
            stream.summary.warnings.append(text)
        if kind == "source" and message.parse_warning()[0].domain == _STREAM_ERROR:
            stream.summary.damaged = True

    def _handle_info(self, message: Gst.Message) -> None:
        kind, stream = self._graph.place_of(message, self._roster.all()) or ("", None)
        if kind or not is_of_closed_source(message, self._graph.pipeline):
            self._remarks.note(message, None if stream is None else stream.name)
