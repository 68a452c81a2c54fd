"""JPEG pictures of an annotated stream, made only while somebody wants them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.gst import make_element
from sluice.app.outputs.feed import LINGER
from sluice.app.outputs.hub import Hub
from sluice.app.outputs.options import PictureOptions
from sluice.app.outputs.relay import Relay
from sluice.app.outputs.stage import RAW_FRAMES, Stage
from sluice.elements.guard import guarded
from sluice.errors import ConfigurationError

Viewer = Callable[[bytes], None]


class Pictures:
    """Gives every new picture to those who subscribed. What is not said otherwise is for the hub's thread.

    Attributes:
        counts: pictures made.
    """

    def __init__(
        self,
        hub: Hub,
        name: str,
        options: PictureOptions,
        acquire: Callable[[object, Callable[[], object]], Relay],
        release: Callable[[object], object],
    ) -> None:
        """Prepare it; `acquire` and `release` are those of the drawn frames."""
        self._hub, self._name, self._options = hub, name, options
        self._acquire, self._release = acquire, release
        self._stage: Stage | None = None
        self._viewers: dict[int, Viewer] = {}
        self._lock = threading.Lock()
        self._next = 0
        self.made = 0

    @property
    def viewers(self) -> int:
        """How many have subscribed."""
        return len(self._viewers)

    def subscribe(self, viewer: Viewer) -> int:
        """Have every picture passed to a function, which must return at once; return a number for `unsubscribe`.

        Raises:
            ConfigurationError: there are as many viewers as there may be.
        """
        if len(self._viewers) >= self._options.viewers:
            raise ConfigurationError(f"{self._name}: there are {len(self._viewers)} viewers already; try again later")
        self._next += 1
        with self._lock:
            self._viewers[self._next] = viewer
        number = self._next
        try:
            self.resume()
        except Exception:
            self.unsubscribe(number)
            raise
        return number

    def unsubscribe(self, number: int) -> None:
        """End a subscription; pictures are made for some seconds more, in case somebody comes back."""
        with self._lock:
            known = self._viewers.pop(number, None)
        if known is not None and not self._viewers:
            self._hub.remind(LINGER, self._end_if_unused)

    def stop(self) -> None:
        """End at once."""
        stage, self._stage = self._stage, None
        if stage is not None:
            stage.stop()
            self._release(self)

    def resume(self) -> None:
        """Begin again for those who are still subscribed, after the stream was gone."""
        if self._viewers and self._stage is None:
            self._begin()

    def _begin(self) -> None:
        options = self._options
        encoder = make_element("jpegenc", quality=options.quality)
        sink = make_element("fakesink", sync=False, signal_handoffs=True, enable_last_sample=False)
        sink.set_property("async", False)
        sink.connect("handoff", _hand_off, weakref.ref(self))
        stage = Stage(
            self._hub, f"pictures-{self._name}", [encoder, sink], most=RAW_FRAMES, raw=True, on_end=self._ended
        )
        source = self._acquire(self, self._lost)  # which may raise, and then nothing has begun
        self._stage = stage
        stage.begin(source, interval=1_000_000_000 // options.fps)

    def _lost(self) -> None:
        if self._stage is not None:
            self._stage.finish()

    def _end_if_unused(self) -> None:
        if not self._viewers:
            self.stop()

    def _ended(self, _reason: str | None) -> None:
        self._stage = None
        self._release(self)

    def show(self, picture: bytes) -> None:
        """Pass a picture to all viewers; called on the pipeline's thread."""
        self.made += 1
        with self._lock:
            viewers = list(self._viewers.values())
        for viewer in viewers:
            viewer(picture)


@guarded(failure=None)
def _hand_off(_sink: Gst.Element, buffer: Gst.Buffer, _pad: Gst.Pad, pictures: weakref.ref[Pictures]) -> None:
    known = pictures()
    if known is not None:
        known.show(bytes(buffer.extract_dup(0, buffer.get_size())))
