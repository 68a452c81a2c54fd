"""The seam to a broker: what the delivery needs of a client library, and nothing else."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Protocol

from sluice.errors import ConfigurationError, SluiceError


class TransportError(SluiceError):
    """The broker cannot be reached, or did not take what it was sent; it is tried again."""


class ConnectionLostError(TransportError):
    """A broker that had greeted us closed the connection instead of answering.

    So do brokers that go away, and some that are sent a message larger than they take.
    """


@dataclass(frozen=True)
class Message:
    """One message: its id, the same at every attempt, and its bytes."""

    id: str
    payload: bytes


class Transport(Protocol):
    """A client of one broker, used by one thread only; every method returns or raises within its time limit."""

    def connect(self) -> None:
        """Connect, or raise (any exception means: not now). Called again after `close`."""

    def send(self, batch: Sequence[Message]) -> list[str | None]:
        """Send messages in their order and wait for the broker's word on them.

        Returns:
            For each message from the front: None if the broker has acknowledged it, or why it will never take this one.
            Shorter than the batch, or an exception: the connection is of no use any more, the rest has no answer.

        Raises:
            ConnectionLostError: nothing was answered, and the message in front may be the reason.
        """

    def idle(self) -> None:
        """Answer heartbeats; called about once a second while nothing is sent. Raises when the connection is lost."""

    def close(self) -> None:
        """Let go of the connection, without waiting for anything. Harmless when there is none."""


def client_library(module: str, protocol: str, package: str) -> ModuleType:
    """Import a client library when it is first needed.

    Args:
        module: what to import.
        protocol: name of the protocol, and of Sluice's extra that installs the library.
        package: the library's name on PyPI.

    Raises:
        ConfigurationError: it is not installed, with the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigurationError(
            f"{protocol} needs the Python package {package} ({error}); install it with: "
            f"pip install 'sluice-video[{protocol}]'"
        ) from error
