"""Messages that a broker will never take: found, set aside, and told without a flood."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from sluice.messages.spool import Spool

_PAUSE = 10.0  # seconds between two words about refused messages

_SUSPECT = 3
"""Connections in a row that a message sent alone must end before it counts as the reason."""


class Refused(NamedTuple):
    """A message that was refused: its id, its number in the spool, its bytes, and the broker's reason."""

    id: str
    number: int
    payload: bytes
    reason: str


class Refusals:
    """Sets refused messages aside in the spool's table ``refused``, and tells one of them in ten seconds."""

    def __init__(self, spool: Spool, on_refused: Callable[[str], None]) -> None:
        """Keep messages in a spool; ``on_refused`` is told."""
        self._spool = spool
        self._on_refused = on_refused
        self._silent_until = 0.0
        self._untold = 0

    def set_aside(self, refused: Sequence[Refused]) -> list[str]:
        """Keep messages where the spool's user finds them; return for each a text that names it."""
        texts = []
        for message in refused:
            kept = self._spool.set_aside(message.number, message.payload, message.reason)
            where = f"set aside in the table refused of {str(self._spool.path)!r}" if kept else "given up"
            texts.append(f"message {message.id} of {len(message.payload)} bytes is {where}: {message.reason}")
        return texts

    def tell(self, texts: Sequence[str]) -> None:
        """Tell the first of some texts, unless one was told just now; the others are counted."""
        if not texts:
            return
        if time.monotonic() < self._silent_until:
            self._untold += len(texts)
            return
        before, self._untold = self._untold, len(texts) - 1
        self._silent_until = time.monotonic() + _PAUSE
        self._on_refused(texts[0] + (f"; so were {before} before it" if before else ""))

    def tell_rest(self) -> None:
        """Tell how many have not been told."""
        untold, self._untold = self._untold, 0
        if untold:
            self._on_refused(f"{untold} more messages were refused")


class Suspicion:
    """Finds the message that a broker answers by closing the connection, as some do with one that is too large.

    A broker that goes away does not look like that: between its connections, attempts to connect fail.
    """

    def __init__(self) -> None:
        """Suspect no message."""
        self._number = 0
        self._lost_alone = -1
        self.proven = False
        """Whether this broker has ended connections because of a message: one more lost is no outage yet."""

    @property
    def active(self) -> bool:
        """Whether the message in front is to be sent alone."""
        return self._lost_alone >= 0

    def lost(self, number: int, *, alone: bool) -> bool:
        """Say that a connection was lost with a message in front; whether that message must be the reason."""
        if not self.active or number != self._number:
            self._number, self._lost_alone = number, 0
        self._lost_alone += alone
        found = self._lost_alone >= _SUSPECT
        self.proven |= found
        return found

    def clear(self) -> None:
        """Something else has happened than a lost connection."""
        self._lost_alone = -1
