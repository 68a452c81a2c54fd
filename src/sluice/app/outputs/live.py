"""What stands behind one stream of a pipeline that runs for long: nothing until somebody wants it."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.outputs.feed import Feed, drawing, encoding, end_sink
from sluice.app.outputs.files_live import Clips, Hls, Recorder
from sluice.app.outputs.hub import Hub
from sluice.app.outputs.options import OutputOptions
from sluice.app.outputs.pictures import Pictures
from sluice.app.outputs.relay import Relay
from sluice.app.outputs.standing import Standing
from sluice.app.outputs.triggers import Triggers

_CLOSING = 6.0  # seconds that the files of a stream have to be finished
Tell = Callable[..., None]

_PREPARING = 5.0  # seconds that a disk is waited for before the stream begins without what is written to it
_BEGINNING = 60.0  # seconds to wait for the hub, in which hundreds of streams may be added at once


class LiveBranch:
    """The end of one stream in the pipeline, and a relay to all that is made of it.

    The bin only counts and hands on; drawing, encoding, writing and serving happen in pipelines of their own, so that
    whatever fails or lags there costs this stream's frames there and nothing here. With recordings of a source that
    can wait, it waits for them.

    Attributes:
        bin: the ``Gst.Bin`` with the ghost pad "sink"; it takes single frames with metadata.
        path: None: it writes no single file.
        name: the stream's.
    """

    path: Path | None = None

    def __init__(
        self,
        hub: Hub,
        number: int,
        name: str,
        options: OutputOptions,
        *,
        live: bool,
        tell: Tell,
        on_close: Callable[[LiveBranch], object],
        batches: Gst.Pad | None = None,
    ) -> None:
        """Build it and begin the outputs that go on.

        Args:
            hub: the thread of all outputs.
            number: of the stream.
            name: of the stream, as it is in paths, URLs and events.
            options: what is made of it.
            live: whether frames are lost rather than waited for.
            tell: takes kind, stream, text and details of an event.
            on_close: called when it is to be closed.
            batches: for a view of all streams: the pad that whole batches pass; then there is no bin.
        """
        self.hub, self.name = hub, name
        self._tell, self._on_close = tell, on_close
        entry = batches or self._make_bin(number)
        self._raw = Relay(entry, keyed=False)
        self._closed = False
        self._closing = threading.Lock()
        clips = options.clips
        self._drawing = Feed(
            hub,
            f"draw-{name}",
            lambda _feed: self._raw,
            lambda _feed: None,
            lambda: drawing(options, tiled=batches is not None),
            keyed=False,
            on_failure=lambda reason: self._feed_failed("drawing", reason),
        )
        self._encoding = Feed(
            hub,
            f"encode-{name}",
            lambda feed: self._drawing.acquire(feed, lambda: None),  # the end reaches it through the relay
            self._drawing.release,
            lambda: encoding(options),
            keyed=True,
            ring_ns=int((clips.before if clips else 0) * 1e9),
            ring_bytes=clips.ring_bytes if clips else 0,
            key_ns=round(options.key_interval * 1e9),
            on_failure=lambda reason: self._feed_failed("encoding", reason),
        )
        self.pictures = (
            Pictures(hub, name, options.pictures, self._drawing.acquire, self._drawing.release)
            if options.pictures
            else None
        )
        self.standing: dict[str, Standing] = {}
        if batches is None:  # a view of all streams is for viewers only: every stream has its own recordings
            self._prepare(options, live)
            hub.call(lambda: self._begin(options, entry), _BEGINNING)

    def _make_bin(self, number: int) -> Gst.Pad:
        """Make the bin and return the pad that its frames come to."""
        sink = end_sink()
        self.bin = Gst.Bin.new(f"outputs_{number}")
        self.bin.add(sink)
        entry = sink.get_static_pad("sink")
        self.bin.add_pad(Gst.GhostPad.new("sink", entry))
        return entry

    def _prepare(self, options: OutputOptions, live: bool) -> None:
        """Make the outputs that write files, and do what needs the disk; on the caller's thread, not on the hub's."""
        record, every = options.record, not live
        if record is not None:
            every = record.delivery == "every" or (record.delivery == "auto" and not live)
        waits = every and (record is not None or options.hls is not None)
        self._drawing.waits = self._encoding.waits = waits
        if record is not None:
            self.standing["record"] = Recorder(self, record, waits)
        if options.hls is not None:
            self.standing["hls"] = Hls(self, options.hls, waits)
        if options.clips is not None:
            self.standing["clips"] = Clips(self, options.clips)
        for output in self.standing.values():
            output.prepare(_PREPARING)

    def _begin(self, options: OutputOptions, entry: Gst.Pad) -> None:
        clips = self.standing.get("clips")
        if options.clips is not None and isinstance(clips, Clips):
            triggers = Triggers(options.clips, _pass_to(self.hub, weakref.ref(clips)))
            if triggers.any:
                triggers.watch(entry)
        self.tick()

    # For the graph

    @property
    def frames_out(self) -> int:
        """Frames that arrived here."""
        return self._raw.read().buffers

    def end(self) -> None:
        """Finish with what has arrived; may wait where the recordings are waited for, but not for a disk that hangs."""
        self.hub.remind(_CLOSING, self._force)
        self.bin.get_static_pad("sink").send_event(Gst.Event.new_eos())

    def close(self) -> None:
        """Finish all files and stop serving; waits for the files, six seconds at most.

        Of several that call it at once, such as the end of the pipeline and that of all outputs, each waits.
        """
        with self._closing:
            if self._closed:
                return
            self._closed = True
            try:
                self._on_close(self)
                self.hub.call(self._close)
                deadline = time.monotonic() + _CLOSING
                while not self.hub.call(self._idle) and time.monotonic() < deadline:
                    time.sleep(0.02)
            finally:
                self.hub.call(self._stop)

    def _close(self) -> None:
        """End the frames; the ends of all files follow from that, behind what is on its way."""
        for output in self.standing.values():
            output.close()
        if not self._raw.read().ended:
            self._drawing.finish()

    def _force(self) -> None:
        """Give up outputs that hang and hold the end of the stream back."""
        if self._raw.read().ended:
            return
        for output in self.standing.values():
            output.abandon()
        self._encoding.stop()
        self._drawing.stop()

    def _idle(self) -> bool:
        return all(output.idle for output in self.standing.values())

    def _stop(self) -> None:
        if self.pictures is not None:
            self.pictures.stop()
        self._encoding.stop()
        self._drawing.stop()

    # For the outputs, on the hub's thread

    @property
    def flowing(self) -> bool:
        """Whether frames may still come."""
        return not self._closed and not self._raw.read().ended

    def encoded(self, user: object, on_lost: Callable[[], object]) -> Relay:
        """Return the encoded stream, which is made until `release`; `on_lost` is called if it ends before."""
        return self._encoding.acquire(user, on_lost)

    def release(self, user: object) -> None:
        """Give the encoded stream back."""
        self._encoding.release(user)

    def tell(self, kind: str, text: str, **details: Any) -> None:
        """Report an event of this stream."""
        self._tell(kind, self.name, text, **details)

    def tick(self) -> None:
        """Look after the outputs; called twice a second."""
        for output in self.standing.values():
            output.tick()
        if self.pictures is not None and self.flowing:
            self.pictures.resume()

    def now(self) -> int:
        """Running time of the last frame in nanoseconds."""
        return self._raw.read().last_time or 0

    def stats(self) -> dict[str, int]:
        """Return what was made of the stream so far, by names such as ``record-segments``."""
        raw, packets = self._raw.read(), self._encoding.relay
        numbers = {
            "frames": raw.buffers,
            "draw-active": int(self._drawing.active),
            "draw-dropped": self._drawing.dropped,
            "draw-failures": self._drawing.failures,
            "encode-active": int(self._encoding.active),
            "encode-dropped": self._encoding.dropped,
            "encode-failures": self._encoding.failures,
            "encoded": 0 if packets is None else packets.read().buffers,
            "ring-bytes": 0 if packets is None else packets.read().ring_bytes,
            "viewers": 0 if packets is None else packets.read().targets,
        }
        if self.pictures is not None:
            numbers |= {"pictures": self.pictures.made, "pictures-viewers": self.pictures.viewers}
        for kind, output in self.standing.items():
            output.count()
            numbers |= {f"{kind}-{name}": count for name, count in output.counts.items()}
            numbers[f"{kind}-enabled"] = int(output.enabled)
        return numbers

    def _feed_failed(self, what: str, reason: str) -> None:
        self.tell("output-failed", f"{self.name}: {what}: {reason}", output=what)


def _pass_to(hub: Hub, clips: weakref.ref[Clips]) -> Callable[[str, int], None]:
    """Return what passes triggers to the clips. The pad holds it, so it must not hold what holds the pad."""

    def trigger(reason: str, at: int) -> None:
        known = clips()
        if known is not None:
            hub.post(lambda: known.trigger(reason, at))

    return trigger
