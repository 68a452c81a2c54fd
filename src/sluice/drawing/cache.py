"""A cache bounded by the bytes it holds."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class BoundedCache(Generic[Value]):
    """The values used last, as many as fit into `max_bytes`, and always the newest. Not for two threads at once."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._entries: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()

    @property
    def held_bytes(self) -> int:
        """Bytes held now, by what the makers said."""
        return self._bytes

    def get(self, key: Hashable, make: Callable[[], tuple[Value, int]]) -> Value:
        """The value under `key`; `make` is called for one that is not held and returns it with its size in bytes."""
        found = self._entries.get(key)
        if found is not None:
            self._entries.move_to_end(key)
            return found[0]
        value, size = make()
        self._entries[key] = value, size
        self._bytes += size
        while self._bytes > self._max_bytes and len(self._entries) > 1:
            self._bytes -= self._entries.popitem(last=False)[1][1]
        return value
