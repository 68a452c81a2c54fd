"""A run in several processes: the streams are shared out, each process has a whole pipeline (`sluice.app.worker`).

One Python interpreter works for one thread at a time; where that is the limit, as with small networks on a fast GPU,
more processes do more. Messages for a file or the standard output come together here, whole lines in the order of each
process; to a broker every process sends its own.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sluice import errors
from sluice.app.accounts import Progress
from sluice.app.merged_lines import MergedLines
from sluice.app.options import Options
from sluice.app.outputs import check_distinct, distinct_names
from sluice.app.planned import Planned
from sluice.app.sources import parse_sources
from sluice.app.spawning import Spawned, how_it_ended
from sluice.app.summary import StreamSummary, Summary
from sluice.app.vlm import VlmOptions
from sluice.app.worker import Part
from sluice.errors import ConfigurationError, SluiceError
from sluice.messages.brokers import is_url, spool_of_process

_STOPPING = 1.9  # seconds that processes have for a stop, of the two that it may take
_LOOK = 0.1  # seconds between two looks whether messages can still be written


class Processes:
    """Runs streams in several processes; used as `sluice.Pipeline` is, without iteration."""

    def __init__(self, sources: Sequence[str | Path], processes: int, **options: Any) -> None:
        """Share out the work; nothing is opened before `start`.

        Args:
            sources: see `sluice.Pipeline`.
            processes: how many; no more than there are streams are started.
            options: the other arguments of `sluice.Pipeline`; the model by its name.

        Raises:
            ConfigurationError: a source or value that cannot be used, by name.
        """
        if options.get("tracker") == "none":
            options["tracker"] = None
        options["vlm"] = VlmOptions.of(options.get("vlm"))
        self._options = Options(**options)
        found = parse_sources(sources)
        check_distinct(found, self._options)
        _check(self._options, len(found))
        names = distinct_names(source.name for source in found)
        self._planned = [
            Planned(source, name, number=number) for number, (source, name) in enumerate(zip(found, names, strict=True))
        ]
        self._count = min(processes, len(found))
        self._workers: list[_Worker] = []
        self._merged: MergedLines | None = None
        self._unwritten: SluiceError | None = None
        self._begun = 0.0
        self._ended: float | None = None
        self._stopped = False

    def start(self) -> Processes:
        """Start all processes and wait until each has loaded its model.

        Raises:
            SluiceError: one could not start, as a pipeline in this process would say; the others are stopped.
        """
        self._begun = time.monotonic()
        messages = self._options.messages
        if messages is not None and not is_url(str(messages)):
            self._merged = MergedLines(str(messages), self._messages_failed)
        try:
            for number, part in enumerate(self._parts()):
                self._workers.append(_Worker(number, part, self._merged))
            for worker in self._workers:
                worker.wait_started()
        except BaseException:
            self._stop_all()
            raise
        return self

    def wait(self) -> None:
        """Wait until every process has ended; a KeyboardInterrupt gets through."""
        for worker in self._workers:
            while not worker.over.wait(_LOOK):
                if self._unwritten is not None:  # ends the run, as the broker's element does that of one process
                    self._stop_all()
        self._close()

    def stop(self) -> None:
        """End all streams and all processes, within two seconds."""
        self._stopped = self._stopped or any(not worker.over.is_set() for worker in self._workers)
        self._stop_all()

    @property
    def started(self) -> bool:
        """Whether all processes were started."""
        return len(self._workers) == self._count and all(worker.started.is_set() for worker in self._workers)

    def progress(self) -> list[Progress]:
        """How far each stream is."""
        return [item for worker in self._workers for item in worker.progress]

    @property
    def summary(self) -> Summary:
        """How it went, or goes so far, of all streams together."""
        seconds = (self._ended or time.monotonic()) - self._begun
        merged = merged_summary([worker.summary for worker in self._workers], seconds, stopped=self._stopped)
        if self._unwritten is None:
            return merged
        return replace(merged, stopped=False, errors=[*merged.errors, str(self._unwritten)])

    def _parts(self) -> list[Part]:
        """What each process does: streams next to one another, as evenly as possible."""
        each, more = divmod(len(self._planned), self._count)
        parts, first = [], 0
        for number in range(self._count):
            size = each + (number < more)
            parts.append(Part(self._planned[first : first + size], self._options_of(number)))
            first += size
        return parts

    def _options_of(self, process: int) -> Options:
        messages = self._options.messages
        if messages is None or not is_url(str(messages)):
            return self._options
        return replace(self._options, spool=spool_of_process(str(messages), process))

    def _stop_all(self) -> None:
        deadline = time.monotonic() + _STOPPING
        for worker in self._workers:
            worker.ask_to_stop()
        for worker in self._workers:
            worker.end(deadline)
        self._close()

    def _messages_failed(self, error: SluiceError) -> None:
        self._unwritten = error

    def _close(self) -> None:
        self._ended = self._ended or time.monotonic()
        if self._merged is not None:
            self._merged.close()


class _Worker:
    """A process, and what it has said."""

    def __init__(self, number: int, part: Part, merged: MergedLines | None) -> None:
        self._number, self._part = number, part
        self.started, self.over = threading.Event(), threading.Event()
        self.progress = [Progress(planned.name or "", 0, None, "running") for planned in part.planned]
        self.summary = Summary(
            [StreamSummary(planned.source.shown, name=planned.name or "") for planned in part.planned],
            model=part.options.model_name,
            tracker=part.options.tracker,
        )
        self._error: SluiceError | None = None
        self._told = False
        passed = [] if merged is None else [merged.add()]
        if passed:
            part = replace(part, options=replace(part.options, messages=f"/dev/fd/{passed[0]}"))
        spawned = Spawned("sluice.app.worker", passed)
        for descriptor in passed:
            os.close(descriptor)
        self._process, self._connection = spawned.process, spawned.connection
        with contextlib.suppress(OSError):  # it may have ended already, which `_listen` tells
            self._connection.send(part)
        threading.Thread(target=self._listen, name=f"sluice-process-{number}", daemon=True).start()

    @property
    def name(self) -> str:
        """The process and its streams, for messages."""
        first, last = self._part.planned[0].number, self._part.planned[-1].number
        streams = f"stream {first}" if first == last else f"streams {first} to {last}"
        return f"process {self._number} (pid {self._process.pid}, {streams})"

    def wait_started(self) -> None:
        """Wait until the model is loaded and everything started; raises why it could not be."""
        while not self.started.wait(0.05):
            if self.over.is_set():
                raise self._error or SluiceError(f"{self.name} ended before it had started")

    def ask_to_stop(self) -> None:
        """Ask it to end its streams and finish its files."""
        with contextlib.suppress(OSError, ValueError):
            self._connection.send("stop")

    def end(self, deadline: float) -> None:
        """Wait for its end until a moment of the monotonic clock, then end it."""
        self.over.wait(max(0.0, deadline - time.monotonic()))
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self.over.wait(0.5)

    def _listen(self) -> None:
        """Take in what the process says until it has gone."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                self._take(self._connection.recv())
        status = self._process.wait()
        if not self._told:
            self._lost(status)
        self.over.set()

    def _take(self, said: dict[str, Any]) -> None:
        self.progress = said.get("progress", self.progress)
        if "error" in said:
            kind, text = said["error"]
            self._error = getattr(errors, kind, SluiceError)(text)
        if "summary" in said:
            self.summary, self._told = said["summary"], True
            if self._error is not None and self.started.is_set():
                self.summary.errors = [f"{self.name}: {text}" for text in self.summary.errors]
                self._fail(f"it was in {self.name}, which ended: {self._error}")
        if "started" in said:
            self.started.set()

    def _lost(self, status: int) -> None:
        """Say of every stream that its process died."""
        how = how_it_ended(status)
        if self._error is None:
            self._error = SluiceError(f"{self.name} ended without a report: {how}")
        for stream, seen in zip(self.summary.streams, self.progress, strict=False):
            stream.frames_in = stream.frames_out = seen.frames
        self._fail(f"it was in {self.name}, which died: {how}")

    def _fail(self, why: str) -> None:
        for stream in self.summary.streams:
            if not stream.errors:
                stream.errors.append(f"{stream.uri}: {why}")
        self.progress = [replace(item, state="failed") for item in self.progress]


def _check(options: Options, streams: int) -> None:
    """Refuse what needs all streams in one process.

    Raises:
        ConfigurationError: it does.
    """
    if options.model is not None and not isinstance(options.model, str | Path):
        raise ConfigurationError("processes: the model is an object, which other processes do not have; name its class")
    together = options.tile or (options.out is not None and Path(options.out).suffix.lower() == ".mp4" and streams > 1)
    if together:
        raise ConfigurationError(
            "processes: one video of all streams needs them in one process; right is a folder for --out, without --tile"
        )


def merged_summary(parts: Sequence[Summary], seconds: float, *, stopped: bool) -> Summary:
    """Return one summary of several processes' parts, in the order of the streams."""
    streams = [stream for part in parts for stream in part.streams]
    told = next((part for part in parts if part.provider), parts[0])
    frames = sum(stream.frames_out for stream in streams)
    segments: dict[str, int] = {}
    for part in parts:
        for name, count in part.segments.items():
            segments[name] = segments.get(name, 0) + count
    return replace(
        told,
        streams=streams,
        fps=frames / seconds if seconds else 0.0,
        seconds=seconds,
        stopped=stopped or any(part.stopped for part in parts),
        skipped=sum(part.skipped for part in parts),
        busy=max(part.busy for part in parts),
        unconfirmed=sum(part.unconfirmed for part in parts),
        segments=segments,
        host_frames=sum(part.host_frames for part in parts),
        host_reason=next((part.host_reason for part in parts if part.host_reason), ""),
        outputs=[output for part in parts for output in part.outputs],
        warnings=[text for part in parts for text in part.warnings],
        errors=[text for part in parts for text in part.errors],
    )
