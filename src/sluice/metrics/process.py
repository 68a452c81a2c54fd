"""What this process uses, as Linux tells it."""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ProcessNumbers:
    """This process at one moment.

    Attributes:
        rss: bytes of memory that are in RAM.
        fds: open file descriptors.
        threads: Python's; GStreamer's own are not among them.
        cpu_seconds: processor time so far, of all threads.
        switch_interval: seconds after which a thread that wants Python's interpreter gets it.
    """

    rss: int
    fds: int
    threads: int
    cpu_seconds: float
    switch_interval: float


def read_process() -> ProcessNumbers:
    """Return the numbers of this process; 0 for what the system does not tell."""
    try:
        rss = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        fds = len(os.listdir("/proc/self/fd")) - 1  # noqa: PTH208 - one is the listing's own
    except OSError:
        rss = fds = 0
    times = os.times()
    return ProcessNumbers(rss, fds, threading.active_count(), times.user + times.system, sys.getswitchinterval())
