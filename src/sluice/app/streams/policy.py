"""What a user may choose per stream: how its frames are delivered, which of them, and what happens when it fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from sluice.errors import ConfigurationError

Delivery = Literal["auto", "every", "freshest"]
Decoder = Literal["auto", "software", "vaapi", "nvdec"]
Transport = Literal["auto", "tcp", "udp"]

LONGEST_SIDE = 32_767
"""The most pixels a picture may be wide or high: what GStreamer's video converter takes."""
LONGEST_SECONDS = 86_400.0
"""The longest time a policy may name: a day."""


@dataclass(frozen=True)
class RetryPolicy:
    """When a stream that failed is opened again: first soon, then less and less often.

    Attributes:
        first: seconds before the first attempt.
        most: seconds that a wait never exceeds (but for the jitter).
        factor: how many times longer each wait is than the one before.
        jitter: share by which a wait is made longer or shorter at random, so that cameras that were lost together are
            not all asked together; 0..1.
        limit: attempts in a row without a frame after which the stream has failed for good; None: never.
    """

    first: float = 1.0
    most: float = 30.0
    factor: float = 2.0
    jitter: float = 0.2
    limit: int | None = None

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ConfigurationError: one cannot be used; names it and what would be right.
        """
        _check_number("retry.first", self.first, 0.0, LONGEST_SECONDS)
        _check_number("retry.most", self.most, self.first, LONGEST_SECONDS)
        _check_number("retry.factor", self.factor, 1.0, 100.0)
        _check_number("retry.jitter", self.jitter, 0.0, 1.0)
        if self.limit is not None and not (type(self.limit) is int and self.limit >= 1):
            raise ConfigurationError(f"retry.limit is {self.limit!r}; it is a whole number from 1, or None for ever")

    def wait(self, failures: int, random: Callable[[], float], *, patient: bool = False) -> float:
        """Return the seconds to wait after so many failures in a row (at least 1).

        Args:
            failures: how many there were since the last frame.
            random: gives a number from 0 to 1.
            patient: wait the most at once, where an early attempt is useless or does harm.
        """
        steps = min(failures - 1, 64)  # enough for every wait to have become the most; more would overflow
        wait = self.most if patient else min(self.most, self.first * self.factor**steps)
        return wait * (1 + self.jitter * (2 * random() - 1))


@dataclass(frozen=True)
class StreamPolicy:
    """How one stream is treated.

    Attributes:
        delivery: "every": no frame is left out, a slow model holds the source back; "freshest": a frame that waits
            gives way to a newer one, and is counted as dropped; "auto": freshest for what is live, every for the rest.
        fps: most frames per second that go on; those between are dropped and counted. None: all.
        region: x, y, width and height in pixels of the part of the picture that the model is given; its results are in
            the whole picture's pixels all the same. It ends at the picture's edge; where the picture has nothing of
            it, the model is given the whole and an event says so. None: the whole picture.
        decoder: "software", "vaapi" or "nvdec", or "auto" for what GStreamer ranks highest here.
        transport: of RTSP, "tcp" or "udp"; "auto": UDP, and TCP where no packet arrives.
        latency_ms: milliseconds by which RTSP packets are held to put them in order.
        loop: begin anew at the end of a file, which is then played at its own rate, as a camera gives its frames; else
            a file is read as fast as the model takes it.
        connect_seconds: a live source that has given no frame so long after it was opened has failed.
        stall_seconds: a live source that gives no frame for so long has stalled.
        retry: what is done when the stream fails; None: nothing. "auto": a camera is opened again for ever, and in a
            service whatever comes over a network; a file never. In a run that is no service, a camera that never gave a
            frame is not opened again.
    """

    delivery: Delivery = "auto"
    fps: float | None = None
    region: tuple[int, int, int, int] | None = None
    decoder: Decoder = "auto"
    transport: Transport = "auto"
    latency_ms: int = 200
    loop: bool = False
    connect_seconds: float = 10.0
    stall_seconds: float = 5.0
    retry: RetryPolicy | Literal["auto"] | None = "auto"

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ConfigurationError: one cannot be used; names it and what would be right.
        """
        for name, value, known in (
            ("delivery", self.delivery, get_args(Delivery)),
            ("decoder", self.decoder, get_args(Decoder)),
            ("transport", self.transport, get_args(Transport)),
        ):
            if value not in known:
                raise ConfigurationError(f"{name} is {value!r}; it is one of {', '.join(known)}")
        if self.fps is not None:
            _check_number("fps", self.fps, 0.001, 1000.0)
        _check_number("latency_ms", self.latency_ms, 0, 60_000)
        _check_number("connect_seconds", self.connect_seconds, 0.1, LONGEST_SECONDS)
        _check_number("stall_seconds", self.stall_seconds, 0.1, LONGEST_SECONDS)
        if not (self.retry is None or self.retry == "auto" or isinstance(self.retry, RetryPolicy)):
            raise ConfigurationError(f"retry is {self.retry!r}; it is 'auto', None or a RetryPolicy")
        _check_region(self.region)

    def freshest(self, live: bool) -> bool:
        """Whether frames that wait give way to newer ones, for a source that is live or not."""
        return self.delivery == "freshest" or (self.delivery == "auto" and live)

    def retries(self, comes_and_goes: bool) -> RetryPolicy | None:
        """Return what is done when the stream fails, for a source that may come back or a mere file."""
        if isinstance(self.retry, RetryPolicy) or self.retry is None:
            return self.retry
        return RetryPolicy() if comes_and_goes else None


def _check_number(name: str, value: object, least: float, most: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise ConfigurationError(f"{name} is {value!r}; it is a number from {least:g} to {most:g}")


def _check_region(region: object) -> None:
    if region is None:
        return
    sides = region if isinstance(region, tuple | list) else ()
    whole = len(sides) == 4 and all(type(side) is int and 0 <= side <= LONGEST_SIDE for side in sides)
    if not whole or not (sides[2] and sides[3]):
        raise ConfigurationError(
            f"region is {region!r}; it is x, y, width, height in pixels, the last two at least 1, each at most "
            f"{LONGEST_SIDE}"
        )
