"""What a process uses, as Linux tells it."""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_CPU = 11  # index of the processor time in user mode behind the name in /proc/PID/stat; that in the kernel is next


@dataclass(frozen=True)
class ProcessNumbers:
    """A process at one moment.

    Attributes:
        rss: bytes of memory that are in RAM.
        fds: open file descriptors.
        threads: Python's; GStreamer's own are not among them. 0 for another process.
        cpu_seconds: processor time so far, of all threads.
        switch_interval: seconds after which a thread that wants Python's interpreter gets it.
    """

    rss: int
    fds: int
    threads: int
    cpu_seconds: float
    switch_interval: float


def read_process(pid: int | None = None) -> ProcessNumbers:
    """Return the numbers of a process, of this one by default; 0 for what the system does not tell."""
    where = Path("/proc") / ("self" if pid is None else str(pid))
    try:
        rss = int((where / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        fds = len(os.listdir(where / "fd")) - (pid is None)  # noqa: PTH208 - one is the listing's own
        times = (where / "stat").read_text().rpartition(")")[2].split()[_CPU : _CPU + 2]
        seconds = sum(map(int, times)) / _TICKS
    except OSError:
        rss = fds = 0
        seconds = 0.0
    if pid is not None:
        return ProcessNumbers(rss, fds, 0, seconds, sys.getswitchinterval())
    own = os.times()
    return ProcessNumbers(rss, fds, threading.active_count(), own.user + own.system, sys.getswitchinterval())
