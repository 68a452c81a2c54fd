"""A process of ``sluice run --processes``: a part of the streams through a pipeline of its own.

``python -m sluice.app.worker FD`` speaks over the socket FD with the process that started it
(`sluice.app.processes`): it is given a `Part`, tells how far it is, and stops when it is told to or when the other end
has gone.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluice.app.spawning import connect

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from sluice.app.job import Job
    from sluice.app.options import Options
    from sluice.app.planned import Planned

REPORTS = 0.2
"""Seconds between two reports of how far the streams are."""


@dataclass(frozen=True)
class Part:
    """What a process is to do.

    Attributes:
        planned: its streams.
        options: everything else.
    """

    planned: list[Planned]
    options: Options


def main(descriptor: int) -> None:
    """Run one part."""
    connection = connect(descriptor)
    part: Part = connection.recv()
    from sluice.app.job import Job

    job: Job | None = None
    try:
        job = Job(part.planned, part.options, iterated=False)
        threading.Thread(target=_obey, args=(connection, job), name="sluice-orders", daemon=True).start()
        job.start()
        _tell(connection, started=True)
        _run(connection, job)
    except BaseException as error:
        _tell(connection, error=(type(error).__name__, str(error)))
    finally:
        if job is not None:
            job.stop()
            _tell(connection, progress=_progress(job), summary=job.summary)


def _run(connection: Connection, job: Job) -> None:
    """Report until the end; raises what ended the run before its time."""
    over = threading.Event()

    def report() -> None:
        while not over.wait(REPORTS):
            _tell(connection, progress=_progress(job))

    reporter = threading.Thread(target=report, name="sluice-reports", daemon=True)
    reporter.start()
    try:
        job.wait()
    finally:
        over.set()
        reporter.join(1)


def _obey(connection: Connection, job: Job) -> None:
    """Wait for the order to stop, or for the end of who could give it."""
    with contextlib.suppress(EOFError, OSError):
        connection.recv()
    job.stop()


def _progress(job: Job) -> list[Any]:
    return job.progress()


def _tell(connection: Connection, **said: Any) -> None:
    """Say something, if there is still somebody to hear it; one thread speaks at a time."""
    with _speaking, contextlib.suppress(OSError):
        connection.send(said)


_speaking = threading.Lock()

if __name__ == "__main__":
    main(int(sys.argv[1]))
