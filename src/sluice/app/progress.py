"""Showing how far a run is: a bar per stream on a terminal, a line per stream now and then elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from sluice.app.accounts import Progress

Look = Callable[[], "list[Progress]"]
_REFRESH = 0.2  # seconds between looks at the numbers on a terminal
_LINES = 5.0  # seconds between lines elsewhere


def show_progress(look: Look, stream: TextIO = sys.stderr, *, quiet: bool = False) -> AbstractContextManager[object]:
    """Return a context in which progress is shown on a text stream, which is not the one that results go to."""
    if quiet:
        return nullcontext()
    return Bars(look, stream) if stream.isatty() else Lines(look, stream)


class _Watcher:
    """Looks at the numbers on a thread of its own while the run lasts, and once more at its end."""

    def __init__(self, look: Look, stream: TextIO, period: float) -> None:
        self._look = look
        self._stream = stream
        self._period = period
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="sluice-progress", daemon=True)

    def __enter__(self) -> _Watcher:
        self.begin()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(1.0)
        self.show(self._look(), last=True)
        self.end()

    def _watch(self) -> None:
        while not self._over.wait(self._period):
            self.show(self._look())

    def begin(self) -> None:
        """Prepare the screen."""

    def show(self, streams: Iterable[Progress], last: bool = False) -> None:
        """Show the numbers."""
        raise NotImplementedError

    def end(self) -> None:
        """Leave the screen as the next writer expects it."""


class Lines(_Watcher):
    """Plain lines: name, frames, share done, frames per second since the start."""

    def __init__(self, look: Look, stream: TextIO, period: float = _LINES) -> None:
        """Write lines to a stream every `period` seconds."""
        super().__init__(look, stream, period)
        self._begun = time.monotonic()

    def show(self, streams: Iterable[Progress], last: bool = False) -> None:
        """Write one line per stream."""
        seconds = max(time.monotonic() - self._begun, 1e-9)
        for item in streams:
            share = "" if item.fraction is None or last else f" ({item.fraction:.0%})"
            print(
                f"{item.name}: {item.frames} frames{share}, {item.frames / seconds:.1f} frames/s, {item.state}",
                file=self._stream,
                flush=True,
            )


class Bars(_Watcher):
    """One bar per stream, drawn by rich."""

    def __init__(self, look: Look, stream: TextIO) -> None:
        """Draw on a terminal."""
        super().__init__(look, stream, _REFRESH)
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[frames]} frames"),
            TextColumn("{task.fields[rate]:.1f}/s"),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
            console=Console(file=stream, force_terminal=True),
        )
        self._tasks: list[TaskID] = []
        self._begun = time.monotonic()

    def begin(self) -> None:
        """Draw the empty bars."""
        for item in self._look():
            self._tasks.append(self._bars.add_task(item.name, total=None, frames=0, rate=0.0, state=item.state))
        self._bars.start()

    def show(self, streams: Iterable[Progress], last: bool = False) -> None:
        """Move the bars; a stream of unknown length has a moving one until it ends."""
        seconds = max(time.monotonic() - self._begun, 1e-9)
        for task, item in zip(self._tasks, streams, strict=False):
            fraction = 1.0 if last else item.fraction
            self._bars.update(
                task,
                total=None if fraction is None else 1.0,
                completed=fraction or 0.0,
                frames=item.frames,
                rate=item.frames / seconds,
                state=item.state,
            )

    def end(self) -> None:
        """Leave the bars on the screen."""
        self._bars.stop()
