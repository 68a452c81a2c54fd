"""Servers of tests that are started, killed as a power cut does, and started again."""

from __future__ import annotations

import socket
from typing import TypeVar

Self = TypeVar("Self", bound="Killable")


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """A port of this machine that nobody has at the moment."""
    with socket.socket(socket.AF_INET, kind) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Killable:
    """As a context manager it runs from the block's begin, and is dead at its end."""

    def start(self) -> None:
        """Start it, or start it again."""
        raise NotImplementedError

    def kill(self) -> None:
        """End it at once; without effect where it is dead."""
        raise NotImplementedError

    def __enter__(self: Self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
