"""Drawing and encoding, each once per stream and only while somebody wants what comes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.gst import make_element
from sluice.app.outputs.encoding import Fit, live_encoder
from sluice.app.outputs.hub import Hub
from sluice.app.outputs.options import OutputOptions
from sluice.app.outputs.relay import Relay
from sluice.app.outputs.stage import RAW_FRAMES, Stage

LINGER = 3.0
"""Seconds for which drawing and encoding go on without anybody, since viewers come back, and pages reload."""


def end_sink() -> Gst.Element:
    """Return a sink for a relay to stand before: it waits for nothing and keeps no frame."""
    sink = make_element("fakesink", sync=False, enable_last_sample=False)
    sink.set_property("async", False)
    return sink


class Feed:
    """A stage that exists while it has users, who are told when it is gone. All methods are for the hub's thread.

    Attributes:
        relay: what leaves it; None before the first user.
        failures: how often it ended by an error.
    """

    def __init__(
        self,
        hub: Hub,
        name: str,
        source: Callable[[Feed], Relay],
        leave: Callable[[Feed], object],
        build: Callable[[], list[Gst.Element]],
        *,
        keyed: bool,
        ring_ns: int = 0,
        ring_bytes: int = 0,
        key_ns: int = 0,
        on_failure: Callable[[str], object],
    ) -> None:
        """Describe it.

        Args:
            hub: whose thread everything is done on.
            name: for logs.
            source: called with this when it begins, for the relay in front of it.
            leave: called with this when it has ended.
            build: makes what the frames go through.
            keyed, ring_ns, ring_bytes, key_ns: see `Relay`.
            on_failure: called with the reason when an error ended it.
        """
        self._hub, self._name, self._source, self._leave, self._build = hub, name, source, leave, build
        self._relay_options: dict[str, Any] = {
            "keyed": keyed,
            "ring_ns": ring_ns,
            "ring_bytes": ring_bytes,
            "key_ns": key_ns,
        }
        self._on_failure = on_failure
        self._users: dict[object, Callable[[], object]] = {}
        self._stage: Stage | None = None
        self.waits = False
        self.relay: Relay | None = None
        self.failures = 0

    @property
    def active(self) -> bool:
        """Whether it is at work."""
        return self._stage is not None

    @property
    def dropped(self) -> int:
        """Frames that it did not take in time."""
        return 0 if self._stage is None or self._stage.target is None else self._stage.target.dropped

    def acquire(self, user: object, on_lost: Callable[[], object]) -> Relay:
        """Return the relay behind it, and keep it at work until `release`; `on_lost` is called if it ends before.

        Raises:
            ConfigurationError: an element that it needs is missing.
        """
        if self._stage is None:
            self._begin()
        assert self.relay is not None
        self._users[user] = on_lost
        return self.relay

    def release(self, user: object) -> None:
        """Let it end if nobody else wants it; not at once."""
        if self._users.pop(user, None) is not None and not self._users:
            self._hub.remind(LINGER, self._end_if_unused)

    def finish(self) -> None:
        """End it behind what it has got; those that use it get their ends through the relay."""
        if self._stage is not None:
            self._stage.finish()

    def stop(self) -> None:
        """End it at once."""
        stage, self._stage = self._stage, None
        if stage is not None:
            stage.stop()
            self._leave(self)

    def _begin(self) -> None:
        sink = end_sink()
        chain = [*self._build(), sink]
        stage = Stage(self._hub, self._name, chain, most=RAW_FRAMES, raw=True, waits=self.waits, on_end=self._ended)
        source = self._source(self)  # which may raise, and then nothing has begun
        self._stage = stage
        self.relay = Relay(sink.get_static_pad("sink"), **self._relay_options)
        stage.begin(source)

    def _end_if_unused(self) -> None:
        if not self._users:
            self.stop()

    def _ended(self, reason: str | None) -> None:
        self._stage = None
        self._leave(self)
        if reason is not None:
            self.failures += 1
            self._on_failure(reason)
        lost, self._users = list(self._users.values()), {}
        for on_lost in lost:
            on_lost()


def drawing(options: OutputOptions, *, tiled: bool) -> list[Gst.Element]:
    """Return elements that draw what was found and give all pictures the even size of the first, in I420.

    With `tiled` they take whole batches and put their frames side by side.
    """
    width, height = options.tiled_size
    tiler = [make_element("sluicetiler", width=width, height=height)] if tiled else []
    fit = Fit()
    convert = make_element("videoconvert")
    fit.watch(convert.get_static_pad("sink"))
    # Either brings frames from GPU memory to the host, where the rest reads them.
    first = make_element("sluiceosd", display_mask=True) if options.overlay else make_element("sluicehost")
    return [*tiler, first, convert, *fit.elements]


def encoding(options: OutputOptions) -> list[Gst.Element]:
    """Return an encoder for live viewing and what follows it."""
    return live_encoder(options.bitrate)
