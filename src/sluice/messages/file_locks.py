"""Who may write to a file that others may write to as well: locks that end with the process, however that ends.

They are open file description locks of Linux (fcntl(2)) on single bytes far behind anything in a file: they keep nobody
from reading it, and two descriptors of one process exclude each other too. A file system without locks has none.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sluice.errors import ConfigurationError

_PRESENT, _WRITING = 2**62, 2**62 + 1  # the bytes that are locked


def claim(descriptor: int, path: Path, *, shared: bool) -> None:
    """Take a file until it is closed.

    Args:
        descriptor: open for writing, and for reading too where it is shared.
        path: for messages.
        shared: let others take it as well, if they share it too.

    Raises:
        ConfigurationError: somebody has it, and one of both does not share it.
    """
    try:
        _lock(descriptor, fcntl.F_OFD_SETLK, fcntl.F_RDLCK if shared else fcntl.F_WRLCK, _PRESENT)
    except (BlockingIOError, PermissionError):
        holders = _holders(os.fstat(descriptor).st_ino)
        named = f" (process {' and '.join(map(str, holders))})" if holders else ""
        raise ConfigurationError(
            f"{str(path)!r} is being written by another run{named}; name another file, or end that run first"
        ) from None
    except OSError:
        pass  # a file system without locks


@contextmanager
def writing(descriptor: int) -> Iterator[None]:
    """Be the only one to write to a file that is shared; waits for another's line."""
    with suppress(OSError):
        _lock(descriptor, fcntl.F_OFD_SETLKW, fcntl.F_WRLCK, _WRITING)
    try:
        yield
    finally:
        with suppress(OSError):
            _lock(descriptor, fcntl.F_OFD_SETLK, fcntl.F_UNLCK, _WRITING)


def _lock(descriptor: int, command: int, kind: int, byte: int) -> None:
    # struct flock: l_type, l_whence, l_start, l_len, l_pid
    fcntl.fcntl(descriptor, command, struct.pack("hhqqi4x", kind, os.SEEK_SET, byte, 1, 0))


def _holders(inode: int) -> list[int]:
    """Return the processes that have taken a file, of those that this one may look at."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/fdinfo/*"):
        with suppress(OSError):
            if any("OFDLCK" in line and f":{inode} " in line for line in entry.read_text().splitlines()):
                found.add(int(entry.parts[2]))
    return sorted(found - {os.getpid()}) or sorted(found)
