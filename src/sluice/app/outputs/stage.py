"""A pipeline of its own between a relay and whatever takes its frames: what fails in it fails alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstVideo", "1.0")
from gi.repository import Gst, GstVideo

from sluice.app.credentials import redact
from sluice.app.gst import add_chain, describe, make_element
from sluice.app.outputs.hub import Hub
from sluice.app.outputs.relay import FOREVER, Relay, Target
from sluice.contract import gstref
from sluice.contract.structures import required_structure
from sluice.elements.guard import guarded

# A recorder may be behind by so many encoded frames before it loses some: half a minute at 25 fps.
MOST_PACKETS = 750
# A viewer: two seconds.
MOST_VIEWED = 50
RAW_FRAMES = 3
"""Raw frames that may wait in front of a stage; they are large, and belong to the decoder's pool."""
_FINISHING = 5.0  # seconds that a stage has to write what it got before it is stopped


class Stage:
    """One pipeline fed by a relay. All methods are for the hub's thread.

    Attributes:
        pipeline: the ``Gst.Pipeline``.
        target: what the relay gives it, once begun.
        over: whether it has ended.
    """

    def __init__(
        self,
        hub: Hub,
        name: str,
        chain: list[Gst.Element],
        *,
        most: int,
        raw: bool = False,
        waits: bool = False,
        is_live: bool = False,
        on_end: Callable[[str | None], object],
        on_message: Callable[[Gst.Structure], object] | None = None,
    ) -> None:
        """Build it.

        Args:
            hub: whose thread calls `on_end` and `on_message`.
            name: for logs.
            chain: what the frames go through, to a sink.
            most: buffers that may wait in front.
            raw: of too many the oldest are lost, not the new ones up to the next key frame.
            waits: nothing is lost; the sender waits.
            is_live: it plays by a clock, as what is sent over a network does.
            on_end: called once when it has ended, with the reason if it was an error.
            on_message: called with what the elements post.
        """
        self._hub, self._on_end, self._on_message = hub, on_end, on_message
        self.pipeline = Gst.Pipeline.new(name)
        self._entry = make_element("appsrc", format="time", emit_signals=False, is_live=is_live)
        if raw or waits:
            self._entry.set_property("max-buffers", most)
        self._entry.set_property("max-bytes", 0)
        self._entry.set_property("block", waits)
        if raw and not waits:
            Gst.util_set_object_arg(self._entry, "leaky-type", "downstream")
        self._most, self._waits = most, waits
        add_chain(self.pipeline, self._entry, *chain)
        self._probe: int | None = None
        self.target: Target | None = None
        self.over = False
        self._finishing = False

    def begin(
        self, relay: Relay, *, since: int = FOREVER, until: int = FOREVER, interval: int = 0, rebased: bool = False
    ) -> None:
        """Start it and let it have frames, as `Relay.attach` has it; it may have ended when this returns."""
        self.pipeline.get_bus().set_sync_handler(self._hear)
        pass_key_requests(self._entry, relay)
        if self.pipeline.set_state(Gst.State.PLAYING) == Gst.StateChangeReturn.FAILURE:
            self._hub.post(lambda: self._end("it could not be started"))
            return
        bounds = {"since": since, "until": until, "interval": interval}
        self.target = relay.attach(self._entry, most=self._most, waits=self._waits, rebased=rebased, **bounds)

    def finish(self) -> None:
        """Let it write what it has got and end; `on_end` is called then, after five seconds at the latest."""
        if self.over or self._finishing:
            return
        self._finishing = True
        if self.target is None:
            self._end(None)
            return
        self.target.detach()
        self._hub.remind(_FINISHING, self._give_up)

    def stop(self) -> None:
        """End it at once, without calling `on_end`."""
        if not self.over:
            self.over = True
            self._release()

    def _hear(self, _bus: Gst.Bus, message: Gst.Message, *_: Any) -> Gst.BusSyncReply:
        """Take a message on the thread that posts it, and let it go: nobody else reads this bus."""
        if message.type == Gst.MessageType.EOS:
            self._hub.post(lambda: self._end(None))
        elif message.type == Gst.MessageType.ERROR:
            text, debug = describe(message)
            reason = redact(text + _detail(debug))
            self._hub.post(lambda: self._end(reason))
        elif message.type == Gst.MessageType.LATENCY:
            self._hub.post(self.pipeline.recalculate_latency)
        elif message.type == Gst.MessageType.ELEMENT and self._on_message is not None:
            structure = required_structure(message)
            self._hub.post(lambda: self._said(structure))
        gstref.unref(gstref.address(message))  # whoever drops a message lets it go, and with it its element
        return Gst.BusSyncReply.DROP

    def _said(self, structure: Gst.Structure) -> None:
        if self._on_message is not None:
            self._on_message(structure)

    def _give_up(self) -> None:
        self._end(f"it was not finished within {_FINISHING:g} s")

    def _end(self, reason: str | None) -> None:
        if self.over:
            return
        self.over = True
        if self.target is not None and self.target.ended and not self.target.pushed:
            reason = None  # sinks complain of an end that comes before anything else
        self._release()
        self._on_end(reason)

    def _release(self) -> None:
        """Stop the pipeline on a thread of its own: a sink may hang on its disk. Then the sender waits no more."""
        pipeline, entry, target = self.pipeline, self._entry, self.target

        def stop() -> None:
            # First of all the sender is let go: what is behind may hang for ever, and the pipeline begins with that.
            entry.set_locked_state(True)
            entry.set_state(Gst.State.NULL)
            pipeline.get_bus().set_sync_handler(None)
            pipeline.set_state(Gst.State.NULL)
            if target is not None:
                target.detach()

        self._hub.aside(stop)


def _detail(debug: str) -> str:
    """Return the line of a debug text that says more than the message."""
    lines = debug.partition(":\n")[2].strip().splitlines()
    return f" ({lines[0]})" if lines else ""


def pass_key_requests(entry: Gst.Element, relay: Relay) -> None:
    """Have requests for key frames that reach an appsrc go on to the encoder, which is in another pipeline."""
    entry.get_static_pad("src").add_probe(Gst.PadProbeType.EVENT_UPSTREAM, _pass_key_request, relay)


@guarded(failure=Gst.PadProbeReturn.OK)
def _pass_key_request(_pad: Gst.Pad, info: Gst.PadProbeInfo, relay: Relay) -> Gst.PadProbeReturn:
    event = info.get_event()
    if GstVideo.video_event_is_force_key_unit(event):
        relay.pass_upstream(event)
        return Gst.PadProbeReturn.DROP
    return Gst.PadProbeReturn.OK
