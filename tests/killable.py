"""Servers of tests that are started, killed as a power cut does, and started again."""

from __future__ import annotations

import contextlib
import random
import socket
from typing import TypeVar

Self = TypeVar("Self", bound="Killable")

# Below those that the system gives to clients (32768 and up): one of those may be taken before the server has it, and
# while the server is dead, even by the very client that tries to reach it, which is then connected to itself.
_PORTS = range(20_000, 32_000)


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """A port of this machine that nobody has at the moment, and that nobody is given who asks for any."""
    for port in random.SystemRandom().sample(_PORTS, 100):
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, kind) as found:
            found.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("100 ports are all taken")


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
