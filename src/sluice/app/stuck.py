"""Connections on which the other side talks and talks: they are cut off, since what reads them cannot be interrupted.

GStreamer's RTSP client reads an answer that it has begun to its end, whatever it is told meanwhile, and keeps all of it
in memory. A server whose answer never ends would so hold its source for ever. The client gives no access to its socket;
but no other connection looks like that one.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import struct
import threading
from collections.abc import Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from sluice.app.sources import Source

SILENT = 8.0
"""Seconds for which this side has sent nothing. A session that plays over TCP sends a report every five seconds."""
_HEARD = 1.0  # seconds since the other side sent something last
_AGAIN = 2.0  # seconds until the next look
_RTSP_PORT = 554
# Of struct tcp_info in linux/tcp.h: tcpi_last_data_sent and tcpi_last_data_recv, in milliseconds.
_SENT_OFFSET, _HEARD_OFFSET, _INFO_SIZE = 44, 52, 104
_log = logging.getLogger(__name__)


@contextmanager
def bounded(source: Source, silent: float = SILENT) -> Iterator[None]:
    """Cut off what a source of RTSP hangs on while the block, which closes it, takes longer than it should."""
    parts = urlsplit(source.uri)
    if not parts.scheme.lower().startswith("rtsp") or not parts.hostname:
        yield
        return
    host, port, done = parts.hostname, parts.port or _RTSP_PORT, threading.Event()

    def watch() -> None:
        wait = silent
        while not done.wait(wait):
            wait = _AGAIN
            if cut_off(host, port, silent):
                _log.warning("%s: its answer never ends; the connection is cut off", source.shown)

    threading.Thread(target=watch, name="sluice-stuck", daemon=True).start()
    try:
        yield
    finally:
        done.set()


def cut_off(host: str, port: int, silent: float = SILENT) -> int:
    """Shut down the TCP connections of this process that the other side keeps sending on without being asked.

    Args:
        host, port: the other side.
        silent: seconds for which nothing was sent to it.

    Returns:
        how many there were.
    """
    try:
        known = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return 0
    addresses = {entry[4][:2] for entry in known}
    return sum(_cut(number, addresses, silent) for number in _sockets())


def _sockets() -> list[int]:
    """The numbers of the open files that are sockets."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if str(entry.readlink()).startswith("socket:"):
                found.append(int(entry.name))
    return found


def _cut(number: int, addresses: Container[tuple[object, ...]], silent: float) -> bool:
    try:
        copy = socket.socket(fileno=os.dup(number))  # the number itself may be another's any moment
    except OSError:
        return False
    with copy:
        try:
            if copy.type != socket.SOCK_STREAM or copy.getpeername()[:2] not in addresses:
                return False
            info = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_SIZE)
            (sent,), (heard,) = (struct.unpack_from("=I", info, at) for at in (_SENT_OFFSET, _HEARD_OFFSET))
            if sent < 1000 * silent or heard > 1000 * _HEARD:
                return False
            copy.shutdown(socket.SHUT_RDWR)
        except OSError:
            return False
    return True
