"""What a slow model said last of each stream, for as long as it is shown."""

from collections.abc import Sequence
from dataclasses import dataclass

from sluice.contract.answer_meta import Answer
from sluice.drawing.shapes import Panel

_NANOSECONDS = 1_000_000_000


@dataclass
class _Shown:
    text: str
    since: int


class ShownAnswers:
    """Remembers the last answer of each stream. Not for use by two threads at once."""

    def __init__(self) -> None:
        self._streams: dict[int, _Shown] = {}

    def update(self, stream: int, time: int, answers: Sequence[Answer], seconds: int, size: int = 0) -> list[Panel]:
        """Take in one frame of a stream and return what is shown on it.

        Args:
            stream: number of the stream.
            time: of the frame in its stream, in nanoseconds; before the last answer's frame nothing is shown.
            answers: those that the frame brings.
            seconds: for how long an answer is shown; a newer one takes its place.
            size: of the font in points; 0: by the picture's height.
        """
        if answers:
            self._streams[stream] = _Shown(answers[-1].text, time)
        shown = self._streams.get(stream)
        if shown is None:
            return []
        if not 0 <= time - shown.since < seconds * _NANOSECONDS:
            del self._streams[stream]
            return []
        return [Panel(shown.text, size=size)]

    def forget(self, stream: int) -> None:
        """Forget a stream."""
        self._streams.pop(stream, None)

    def clear(self) -> None:
        """Forget all streams."""
        self._streams.clear()
