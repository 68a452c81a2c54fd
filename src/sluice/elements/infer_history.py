"""Which tracked objects a secondary model has seen, and what it said: nvinfer's rules for inferring them again.

Plain Python, so that it is tested without GStreamer.
"""

import threading
from dataclasses import dataclass

from sluice.models.whole import WholeFrame

GROWTH = 1.2
"""An object whose box is larger than when it was inferred by more than this factor is inferred again."""

IDLE_FRAMES = 150
CLEANING_FRAMES = 1800
NEVER = float("inf")


@dataclass
class Seen:
    """One object that was given to the model.

    Attributes:
        area: of its box in square pixels, when it was last inferred.
        inferred: number of that frame.
        seen: number of the last frame it was on.
        result: what lasts of the model's last answer; None before the first.
        labels: the model's labels at that time.
    """

    area: float
    inferred: float
    seen: int
    result: WholeFrame | None = None
    labels: tuple[str, ...] = ()


class History:
    """The objects of all streams; used by the thread that reads buffers and the one that writes results.

    Args:
        interval: frames after which an object is inferred again. None: never, for a model whose answers last (a
            classification or an embedding is true of the object); every frame, for one whose answers do not.
    """

    def __init__(self, interval: int | None) -> None:
        self._interval = interval
        self._lasting = False
        self._streams: dict[int, dict[int, Seen]] = {}
        self._cleaned: dict[int, int] = {}
        self._lock = threading.Lock()

    def look(self, stream: int, object_id: int, area: float, frame: int) -> tuple[Seen, bool]:
        """Take note of a tracked object on a frame; return what is known of it, and whether to infer it now."""
        with self._lock:
            objects = self._streams.setdefault(stream, {})
            self._clean(stream, objects, frame)
            known = objects.get(object_id)
            if known is None:
                known = objects[object_id] = Seen(area, frame, frame)
                return known, True
            known.seen = frame
            interval = self._interval if self._interval is not None else (NEVER if self._lasting else 0)
            restarted = frame < known.inferred  # the stream counts from 0 again, and so may the tracker
            again = restarted or area > GROWTH * known.area or frame - known.inferred > interval
            if again:
                known.area, known.inferred = area, frame
            return known, again

    def store(
        self, known: Seen, result: WholeFrame | None, labels: tuple[str, ...], *, area: float, lasting: bool
    ) -> None:
        """Put what lasts of an answer in the place of the last one.

        Args:
            known: the object.
            area: of its box when it was given to the model.
            result: what may be attached again; None for nothing.
            labels: the model's labels.
            lasting: whether the answer holds for the object rather than for the picture.
        """
        with self._lock:
            known.result, known.labels, self._lasting = result, labels, lasting
            known.area = known.area or area  # a later frame may have been refused while this answer was on its way

    def failed(self, known: Seen) -> None:
        """Let an object for which the model gave no answer be inferred on its next frame."""
        with self._lock:
            known.area = 0.0

    def forget(self, stream: int) -> None:
        """Drop everything of a stream: it ended, began anew or was removed."""
        with self._lock:
            self._streams.pop(stream, None)
            self._cleaned.pop(stream, None)

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._streams.clear()
            self._cleaned.clear()

    def __len__(self) -> int:
        with self._lock:
            return sum(map(len, self._streams.values()))

    def _clean(self, stream: int, objects: dict[int, Seen], frame: int) -> None:
        """Drop the objects that were not seen for a while, from time to time."""
        last = self._cleaned.setdefault(stream, frame)
        if frame < last or frame - last >= CLEANING_FRAMES:
            self._cleaned[stream] = frame
            for object_id in [key for key, known in objects.items() if abs(frame - known.seen) > IDLE_FRAMES]:
                del objects[object_id]
