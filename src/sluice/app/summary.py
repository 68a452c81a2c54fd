"""What a finished run reports: one `StreamSummary` per stream, and the `Summary` of all."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sluice.app.pace import advice


@dataclass
class StreamSummary:
    """How one stream went.

    Attributes:
        uri: where it came from, without credentials.
        name: the stream's, unique in the run.
        frames_in: frames that left its decoder.
        frames_out: frames that left the last element: the encoder where a file is written for the stream.
        objects: objects on all frames together.
        tracks: distinct identities among them.
        dropped: frames left out by policy: of a live source that nobody took in time, or above a target rate.
        overtaken: those of them that gave way to newer ones in front of the model.
        reconnects: how often the source was opened again.
        decoder: the decoding element, "" where there was none.
        memory: which memory its frames went to the model in: "system", "NVMM" or "CUDAMemory"; "" where none came.
        damaged: whether the stream was damaged; what shows it is among the warnings.
        warnings: what went wrong without ending the stream.
        errors: what ended the stream before its time; it failed if there are any.
        output: the annotated video, if one was written for this stream.
    """

    uri: str
    frames_in: int = 0
    frames_out: int = 0
    objects: int = 0
    tracks: int = 0
    dropped: int = 0
    damaged: bool = False
    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    output: str | None = None
    name: str = ""
    reconnects: int = 0
    decoder: str = ""
    memory: str = ""
    overtaken: int = 0

    @property
    def failed(self) -> bool:
        """Whether the stream delivered no frame or was ended by an error."""
        return bool(self.errors)


@dataclass
class Summary:
    """How a run went.

    Attributes:
        streams: one entry per stream, in the order of the sources.
        fps: frames of all streams that came out, per second of the whole run.
        seconds: how long the run took, from the first state change to the end.
        model: the model's name.
        runtime: what executed it: the runtime of a network file, "python" for Python code.
        provider: which library kept the metadata, "nvidia" or "portable".
        tracker: name of the tracker, None without one.
        stopped: whether the run was stopped before its streams had ended.
        skipped: frames passed on without detections because of an error of the model.
        busy: seconds that the model computed in each second of the run; of several processes, the busiest one's.
        unconfirmed: objects that the tracker left out, since they belonged to no confirmed track.
        segments: what became of the segments that a slow model was asked about: "asked", "answered", and how many have
            no answer, by reason; empty without one.
        host_frames: how often a frame was brought from GPU memory to the host.
        host_reason: why that was done in front of the model; "" where frames stayed in GPU memory, or were never there.
        outputs: files written for all streams together.
        warnings: what went wrong outside the streams without ending the run.
        errors: what ended the whole run.
    """

    streams: list[StreamSummary]
    fps: float = 0.0
    seconds: float = 0.0
    model: str = "none"
    runtime: str = "none"
    provider: str = ""
    tracker: str | None = None
    stopped: bool = False
    skipped: int = 0
    busy: float = 0.0
    unconfirmed: int = 0
    segments: dict[str, int] = field(default_factory=dict)
    host_frames: int = 0
    host_reason: str = ""
    outputs: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether every stream ended well."""
        return not self.errors and not any(stream.failed for stream in self.streams)

    def as_dict(self) -> dict[str, Any]:
        """Return the summary as JSON takes it."""
        return asdict(self)

    def write(self, path: str | Path) -> None:
        """Write the summary as JSON.

        Raises:
            OSError: the file cannot be written.
        """
        Path(path).write_text(json.dumps(self.as_dict(), indent=2) + "\n", encoding="utf-8")

    def __str__(self) -> str:
        lines = [
            f"{stream.uri}: {stream.frames_in} frames in, {stream.frames_out} out, {stream.objects} objects, "
            f"{stream.tracks} tracks" + _remarks(stream)
            for stream in self.streams
        ]
        lines.append(
            f"{self.fps:.1f} frames/s over {self.seconds:.1f} s, model {self.model}, runtime {self.runtime}, "
            f"metadata kept by the {self.provider} library" + (", stopped" if self.stopped else "")
        )
        if self.unconfirmed:
            lines.append(
                f"{self.unconfirmed} objects belonged to no confirmed track and were left out "
                "(--keep-unconfirmed keeps them, without an id)"
            )
        if self.segments:
            lost = {name: count for name, count in self.segments.items() if name not in ("asked", "answered")}
            without = (
                f", without an answer: {', '.join(f'{count} {name}' for name, count in lost.items())}" if lost else ""
            )
            lines.append(
                f"{self.segments.get('answered', 0)} of {self.segments.get('asked', 0)} segments answered{without}"
            )
        lines += self._memory()
        came, late = (sum(getattr(stream, name) for stream in self.streams) for name in ("frames_in", "overtaken"))
        lines += filter(None, [advice(self.busy, late / max(came, 1))])
        lines += [f"warning: {warning}" for warning in self.warnings]
        # The first line alone: a traceback below it stands in the JSON, and on the terminal where it happened.
        return "\n".join(lines + [f"error: {error.strip().splitlines()[0]}" for error in self.errors if error.strip()])

    def _memory(self) -> list[str]:
        """Say where frames were, if any was in GPU memory."""
        stayed = sum(stream.memory not in ("", "system") for stream in self.streams)
        if not stayed and not self.host_frames:
            return []
        reason = f" in front of the model, since {self.host_reason}" if self.host_reason else ""
        return [
            f"GPU memory up to the model: {stayed} of {len(self.streams)} streams; "
            f"{self.host_frames} frames brought to the host{reason}"
        ]


def _remarks(stream: StreamSummary) -> str:
    remarks = [f"{stream.dropped} dropped"] if stream.dropped else []
    remarks += [f"opened again {stream.reconnects} times"] if stream.reconnects else []
    remarks += ["damaged"] if stream.damaged else []
    more = len(stream.warnings) - 1
    remarks += [f"warning: {stream.warnings[0]}" + (f", and {more} more" if more else "")] if stream.warnings else []
    remarks += [f"failed: {stream.errors[0].removeprefix(f'{stream.uri}: ')}"] if stream.errors else []
    return f" ({'; '.join(remarks)})" if remarks else ""
