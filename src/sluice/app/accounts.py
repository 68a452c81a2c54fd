"""How far the streams of a run are, and which of its files are whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluice.app.streams.branch import Branch
from sluice.app.streams.stream import Stream
from sluice.app.summary import Summary

if TYPE_CHECKING:
    from sluice.app.source_bin import SourceBin


@dataclass(frozen=True)
class Progress:
    """How far a stream is: its name, the frames seen behind the tracker, and its state.

    Attributes:
        fraction: 0..1 of the stream was seen behind the tracker, None where its length is unknown.
        state: "running", "ended" or "failed"; of a stream that waits to be opened again, why it does.
    """

    name: str
    frames: int
    fraction: float | None
    state: str


def progress_of(streams: Sequence[Stream], frame_limit: int | None) -> list[Progress]:
    """Return how far each stream is, of a run that ends each after so many frames."""
    found = []
    for stream in streams:
        state, session = stream.supervisor.state, stream.session
        shown = str(state) if state.is_fault else "failed" if stream.summary.failed else "running"
        if stream.finished and not stream.summary.failed:
            shown = "ended"
        fraction = 1.0 if stream.finished else _seen_of(stream, session, frame_limit) if session else None
        found.append(Progress(stream.name, stream.frames_seen, fraction, shown))
    return found


def _seen_of(stream: Stream, session: SourceBin, frame_limit: int | None) -> float | None:
    """Return how much of a stream was seen behind the tracker, which is less than what was decoded.

    With a slow model, what waits in between is a good part of a short clip.
    """
    seen = stream.frames_seen  # first: what comes meanwhile counts as waiting
    decoded, frames = session.fraction(frame_limit), session.frames_in
    if decoded is None or not frames:
        return decoded
    waiting = stream.frames_in - stream.frames_dropped - seen
    return decoded * (1.0 - min(max(waiting / frames, 0.0), 1.0))


def leave_out_broken(
    summary: Summary,
    branches: Mapping[int, Branch],
    streams: Sequence[Stream],
    ended: AbstractSet[Any],
    broken: AbstractSet[Any],
) -> None:
    """Take out of a summary the files that hold no whole video, with a warning; streams that failed say why they did.

    Args:
        summary: the run's.
        branches: by their streams' numbers; -1 is that of all.
        streams: the streams.
        ended: bins of the branches that were written to their end.
        broken: bins of those that could not be.
    """
    owners = {stream.number: stream.summary for stream in streams}
    for number, branch in branches.items():
        if branch.path is None:
            continue
        if not branch.frames_out:
            why = "no frame reached it"
        elif branch.bin in broken:
            why = "it could not be written to its end"
        elif branch.bin not in ended:
            why = "it was not finished in time"
        else:
            continue
        path, text = str(branch.path), f"{branch.path} is no whole video: {why}"
        if (stream := owners.get(number)) is not None:
            stream.output = None
            stream.warnings += [] if stream.failed else [text]
        elif path in summary.outputs:
            summary.outputs.remove(path)
            summary.warnings.append(text)
