"""Frames from one pipeline to others, in C: no Python runs per buffer, and no pipeline waits for another unasked."""

import ctypes
import functools
import time
from dataclasses import dataclass

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstVideo", "1.0")
from gi.repository import Gst, GstVideo

from sluice.contract import gstref
from sluice.contract._native import library

FOREVER = 2**64 - 1
"""As the end of a target: it has none. The same number is GST_CLOCK_TIME_NONE."""
_BETWEEN_KEYS = 0.3  # seconds between key frames that viewers ask for
_WAITS, _REBASED = 1, 2  # flags of sluice_relay_attach()


class _RelayCounts(ctypes.Structure):
    """``SluiceRelayCounts`` of native/relay.c."""

    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in ("buffers", "bytes", "keys", "last_time", "ring_buffers", "ring_bytes", "targets", "ended")
    )


class _TargetCounts(ctypes.Structure):
    """``SluiceTargetCounts`` of native/relay.c."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in ("pushed", "dropped", "ended"))


@functools.cache
def _functions() -> ctypes.CDLL:
    functions = library()
    functions.sluice_relay_watch.restype = ctypes.c_void_p
    functions.sluice_relay_watch.argtypes = [ctypes.c_void_p, ctypes.c_int, *[ctypes.c_uint64] * 3]
    functions.sluice_relay_release.argtypes = [ctypes.c_void_p]
    functions.sluice_relay_attach.restype = ctypes.c_void_p
    functions.sluice_relay_attach.argtypes = [
        *(ctypes.c_void_p, ctypes.c_void_p),
        *(ctypes.c_uint64, ctypes.c_uint, *[ctypes.c_uint64] * 3),
    ]
    functions.sluice_relay_detach.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    functions.sluice_relay_extend.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    functions.sluice_relay_read.argtypes = [ctypes.c_void_p, ctypes.POINTER(_RelayCounts)]
    functions.sluice_relay_arrival.restype = ctypes.c_int64
    functions.sluice_relay_arrival.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    functions.sluice_relay_read_target.argtypes = [ctypes.c_void_p, ctypes.POINTER(_TargetCounts)]
    return functions


@dataclass(frozen=True)
class RelayCounts:
    """What has arrived at a relay.

    Attributes:
        buffers: that arrived.
        bytes: in them.
        keys: of them, those that can be decoded without an earlier one.
        last_time: running time of the last in nanoseconds, None before the first.
        ring_buffers: that are kept now.
        ring_bytes: in those.
        targets: that are attached now.
        ended: whether the stream has ended.
    """

    buffers: int
    bytes: int
    keys: int
    last_time: int | None
    ring_buffers: int
    ring_bytes: int
    targets: int
    ended: bool


class Target:
    """An appsrc that gets what arrives at a relay, until it is detached."""

    def __init__(self, relay: "Relay", address: int) -> None:
        """Take over a target that was attached; `address` is that of its counts in C, which the relay keeps."""
        self._relay = relay
        self._address: int | None = address
        self._last = _TargetCounts()

    def _counts(self) -> _TargetCounts:
        if self._address is not None:
            _functions().sluice_relay_read_target(self._address, ctypes.byref(self._last))
        return self._last

    @property
    def pushed(self) -> int:
        """Buffers it has got."""
        return int(self._counts().pushed)

    @property
    def dropped(self) -> int:
        """Buffers it did not get, since too many were waiting in it, and those up to the next key frame."""
        return int(self._counts().dropped)

    @property
    def ended(self) -> bool:
        """Whether it has got its end."""
        return bool(self._counts().ended)

    def extend(self, until: int) -> None:
        """Let it go on to this running time, in nanoseconds, unless it goes on for longer already."""
        if self._address is not None:
            _functions().sluice_relay_extend(self._address, until)

    def detach(self) -> None:
        """End it after what it has got. Without effect the second time; not for two threads at once."""
        self._counts()
        address, self._address = self._address, None
        if address is not None:
            self._relay._detach(address)

    def __del__(self) -> None:
        self.detach()


class Relay:
    """What passes a pad, for any number of targets.

    Times become running times that never go back: a stream that begins anew goes on where it was.
    """

    def __init__(self, pad: Gst.Pad, *, keyed: bool, ring_ns: int = 0, ring_bytes: int = 0, key_ns: int = 0) -> None:
        """Watch a sink pad.

        Args:
            pad: the pad.
            keyed: whether what passes is encoded, so that a target begins with a key frame and loses whole groups.
            ring_ns: how much of an encoded stream is kept, in nanoseconds.
            ring_bytes: but never more than so much.
            key_ns: how often the encoder in front is asked for a key frame, in nanoseconds; 0: never.
        """
        self._pad = pad
        self._next_request = 0.0
        self._address: int = _functions().sluice_relay_watch(gstref.address(pad), keyed, ring_ns, ring_bytes, key_ns)

    def __del__(self) -> None:
        _functions().sluice_relay_release(self._address)

    def attach(
        self,
        appsrc: Gst.Element,
        *,
        most: int,
        waits: bool = False,
        rebased: bool = False,
        since: int = FOREVER,
        until: int = FOREVER,
        interval: int = 0,
    ) -> Target:
        """Let an appsrc have what arrives from now on.

        Args:
            appsrc: what gets it, with its caps.
            most: buffers that may wait in it; what is beyond is dropped and counted.
            waits: wait for room instead; the appsrc must have a limit and ``block``.
            rebased: give the buffers times of the appsrc's own pipeline, for one that plays them by its clock.
            since: begin with what the ring has from this running time on; FOREVER: with what comes.
            until: the running time after which the target ends.
            interval: the least nanoseconds between two raw frames; those between are not counted as dropped.
        """
        flags = (_WAITS if waits else 0) | (_REBASED if rebased else 0)
        bounds = (since, until, interval)
        address = _functions().sluice_relay_attach(self._address, gstref.address(appsrc), most, flags, *bounds)
        return Target(self, address)

    def _detach(self, target: int) -> None:
        _functions().sluice_relay_detach(self._address, target)

    def ask_for_key(self) -> None:
        """Ask the encoder for a key frame, so that a new viewer need not wait for the next."""
        self.pass_upstream(GstVideo.video_event_new_upstream_force_key_unit(FOREVER, True, 0))

    def pass_upstream(self, event: Gst.Event) -> None:
        """Send a request for a key frame on to the encoder. What many viewers want at once is asked for once."""
        now = time.monotonic()
        at_once = GstVideo.video_event_parse_upstream_force_key_unit(event)[1] == FOREVER
        if at_once and now < self._next_request:
            return
        if at_once:
            self._next_request = now + _BETWEEN_KEYS
        self._pad.push_event(event)

    def arrival(self, running_time: int) -> float | None:
        """Return when a key frame arrived, in seconds since 1970; None for one that is not among the last thousand.

        Args:
            running_time: of the frame in nanoseconds, as the targets get it.
        """
        found = int(_functions().sluice_relay_arrival(self._address, running_time))
        return None if found < 0 else found / 1e6

    def read(self) -> RelayCounts:
        """Return the counts as they are now."""
        raw = _RelayCounts()
        _functions().sluice_relay_read(self._address, ctypes.byref(raw))
        last = None if raw.last_time == FOREVER else int(raw.last_time)
        kept = (int(raw.ring_buffers), int(raw.ring_bytes))
        return RelayCounts(
            int(raw.buffers), int(raw.bytes), int(raw.keys), last, *kept, int(raw.targets), bool(raw.ended)
        )
