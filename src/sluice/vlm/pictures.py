"""Pictures for a model: taken from the stream as copies, made into JPEGs by a thread of their own."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from sluice.vlm.failures import NoAnswer, Reason

Image = npt.NDArray[np.uint8]

_PATIENCE = 30.0  # seconds in which a JPEG must have been made, far beyond what any picture takes


@dataclass(frozen=True)
class Encoding:
    """How pictures are given to the model.

    Attributes:
        size: longest side in pixels; larger pictures are shrunk to it. 0: never.
        quality: of the JPEG, 1 to 100.
    """

    size: int = 1024
    quality: int = 90


class Picture:
    """One picture of a segment.

    Attributes:
        pts: its time in the stream in nanoseconds, None if unknown.
        utc: its wall-clock time in nanoseconds since 1970, None if unknown.
    """

    def __init__(self, rgb: Callable[[], Image], pts: int | None = None, utc: int | None = None) -> None:
        """Take a copy of a frame.

        Args:
            rgb: makes uint8 [height, width, 3] of it; called once, on the encoder's thread.
            pts, utc: see the class.
        """
        self.pts = pts
        self.utc = utc
        self._rgb: Callable[[], Image] | None = rgb
        self._done = threading.Event()
        self._jpeg = b""
        self._fault: Exception | None = None

    def encode(self, encoding: Encoding) -> None:
        """Make the JPEG, and let go of the copy."""
        rgb, self._rgb = self._rgb, None
        if rgb is None:
            return
        try:
            self._jpeg = _jpeg(rgb(), encoding)
        except Exception as error:
            self._fault = error
        self._done.set()

    def drop(self) -> None:
        """Let go of the copy, of which no JPEG will be made; whoever waits for it is told so."""
        self._rgb = None
        self._fault = NoAnswer(Reason.STOPPED, "the element was stopped before a picture was encoded")
        self._done.set()

    @property
    def jpeg(self) -> bytes:
        """The picture as JPEG; waits until it is made.

        Raises:
            NoAnswer: it could not be made, or was dropped.
        """
        if not self._done.wait(_PATIENCE):
            raise NoAnswer(Reason.MODEL_ERROR, "a picture was not encoded in time")
        if isinstance(self._fault, NoAnswer):
            raise self._fault
        if self._fault is not None:
            raise NoAnswer(
                Reason.MODEL_ERROR, f"a picture cannot be encoded: {type(self._fault).__name__}: {self._fault}"
            ) from self._fault
        return self._jpeg

    def rgb(self) -> Image:
        """The picture as the model is shown it: uint8 [height, width, 3] of the JPEG."""
        decoded = cv2.imdecode(np.frombuffer(self.jpeg, np.uint8), cv2.IMREAD_COLOR)
        if decoded is None:
            raise NoAnswer(Reason.MODEL_ERROR, "a picture's own JPEG cannot be read")
        return np.asarray(cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB), np.uint8)


def _jpeg(rgb: Image, encoding: Encoding) -> bytes:
    height, width = rgb.shape[:2]
    longest = max(height, width)
    if 0 < encoding.size < longest:
        factor = encoding.size / longest
        target = max(1, round(width * factor)), max(1, round(height * factor))
        rgb = np.asarray(cv2.resize(rgb, target, interpolation=cv2.INTER_AREA), np.uint8)
    made, data = cv2.imencode(
        ".jpg", cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, encoding.quality]
    )
    if not made:
        raise ValueError(f"no JPEG can be made of {width}x{height} pixels")
    return bytes(data)


class Encoder:
    """Encodes pictures on one daemon thread. Copies that wait for it are bounded: see `has_room`."""

    MOST_WAITING = 32

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding
        self._waiting: deque[Picture] = deque()
        self._changed = threading.Condition()
        self._closed = False
        threading.Thread(target=self._run, name="sluice-vlm-encoder", daemon=True).start()

    def has_room(self, *, wait: bool = False) -> bool:
        """Whether another picture may be put; False where too many wait, or it is closed.

        Args:
            wait: wait for room.
        """
        with self._changed:
            if wait:
                self._changed.wait_for(lambda: self._closed or len(self._waiting) < self.MOST_WAITING)
            return not self._closed and len(self._waiting) < self.MOST_WAITING

    def put(self, picture: Picture) -> None:
        """Have a picture encoded; once closed, drop it."""
        with self._changed:
            if not self._closed:
                self._waiting.append(picture)
                self._changed.notify_all()
                return
        picture.drop()

    def close(self) -> None:
        """End the thread after the picture it is at; those that wait are dropped."""
        with self._changed:
            self._closed = True
            left = list(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
        for picture in left:
            picture.drop()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._waiting)
                if self._closed:
                    return
                picture = self._waiting.popleft()
                self._changed.notify_all()
            picture.encode(self._encoding)
