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
    """Remembers the last answers of each stream. Not for use by two threads at once."""

    def __init__(self) -> None:
        # By the stream of the frame, then by that of the answer: a tiled picture has the answers of all its streams.
        self._streams: dict[int, dict[int, _Shown]] = {}

    def update(self, stream: int, time: int, answers: Sequence[Answer], seconds: int, size: int = 0) -> list[Panel]:
        """Take in one frame of a stream and return what is shown on it.

        Args:
            stream: number of the stream.
            time: of the frame in its stream, in nanoseconds; before the last answer's frame nothing is shown.
            answers: those that the frame brings.
            seconds: for how long an answer is shown; a newer one of the same stream takes its place.
            size: of the font in points; 0: by the picture's height.
        """
        shown = self._streams.get(stream, {})
        shown = {number: one for number, one in shown.items() if 0 <= time - one.since < seconds * _NANOSECONDS}
        for answer in answers:
            shown[answer.stream] = _Shown(answer.text, time)
        self._streams[stream] = shown
        if not shown:
            del self._streams[stream]
            return []
        if len(shown) == 1:
            return [Panel(next(iter(shown.values())).text, size=size)]
        return [Panel("\n".join(f"{number}: {one.text}" for number, one in sorted(shown.items())), size=size)]

    def forget(self, stream: int) -> None:
        """Forget a stream."""
        self._streams.pop(stream, None)

    def clear(self) -> None:
        """Forget all streams."""
        self._streams.clear()
