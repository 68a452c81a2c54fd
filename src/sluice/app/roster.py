"""The streams of a run by number and name: which there are, and which there were."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from sluice.app.outputs import distinct_names
from sluice.app.sources import Source
from sluice.errors import ConfigurationError


class UnknownStream(ConfigurationError):
    """There is no stream of that name."""


class Listed(Protocol):
    """What a roster knows of a stream."""

    number: int
    name: str


Entry = TypeVar("Entry", bound=Listed)


class Roster(Generic[Entry]):
    """All streams that have not been removed. Numbers are given once and never again. Any thread may call."""

    def __init__(self) -> None:
        """Begin with no stream."""
        self._lock = threading.Lock()
        self._streams: dict[str, Entry] = {}
        self._next = 0

    def add(
        self, source: Source, name: str | None, make: Callable[[int, str], Entry], number: int | None = None
    ) -> Entry:
        """Add a stream; without a name it is named after its source, unlike the others.

        Args:
            source: what it shows.
            name: its name, or None.
            make: makes the stream of a number and a name.
            number: its number, where somebody else gives them, each to one stream; None: the next.

        Raises:
            ConfigurationError: the name is taken, or is none.
        """
        with self._lock:
            name = self._free_name(source) if name is None else self._checked(name)
            stream = make(self._next if number is None else number, name)
            self._next = max(self._next, stream.number + 1)
            self._streams[name] = stream
        return stream

    def remove(self, stream: Entry) -> None:
        """Forget a stream; its name may be used again."""
        with self._lock:
            if self._streams.get(stream.name) is stream:
                del self._streams[stream.name]

    def get(self, name: str) -> Entry:
        """Return the stream of a name.

        Raises:
            UnknownStream: there is none; names those there are.
        """
        with self._lock:
            stream = self._streams.get(name)
            names = list(self._streams)
        if stream is None:
            shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
            raise UnknownStream(f"there is no stream {name!r}; there are: {shown or 'none'}")
        return stream

    def all(self) -> list[Entry]:
        """Return the streams in the order of their numbers."""
        with self._lock:
            return sorted(self._streams.values(), key=lambda stream: stream.number)

    def _free_name(self, source: Source) -> str:
        (base,) = distinct_names([source.name])
        taken = {name.lower() for name in self._streams}
        name, number = base, 1
        while name.lower() in taken:
            number += 1
            name = f"{base}-{number}"
        return name

    def _checked(self, name: str) -> str:
        if not isinstance(name, str) or not name or distinct_names([name]) != [name]:
            raise ConfigurationError(
                f"the stream name {name!r} can't be used: letters, digits, space and _ . - ( ) [ ] make a name"
            )
        if name.lower() in {taken.lower() for taken in self._streams}:
            raise ConfigurationError(f"there is a stream {name!r} already; names differ in more than capitals")
        return name
