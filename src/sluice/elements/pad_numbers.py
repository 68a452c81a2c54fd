"""Numbers of request pads, which any number of threads may ask for at the same time."""

from __future__ import annotations

import threading


class PadNumbers:
    """The numbers that an element's request pads of one kind have."""

    def __init__(self, prefix: str) -> None:
        """Begin without any; `prefix` is what a pad's name has before its number."""
        self._prefix = prefix
        self._taken: set[int] = set()
        self._lock = threading.Lock()

    def take(self, name: str | None) -> int | None:
        """Take the number in a pad's name, or the lowest that is free without a name.

        Returns:
            None where the name has no number, or one that is taken.
        """
        with self._lock:
            if name is None:
                number = next(number for number in range(len(self._taken) + 1) if number not in self._taken)
            else:
                digits = name.removeprefix(self._prefix)
                if not digits.isdecimal() or int(digits) in self._taken:
                    return None
                number = int(digits)
            self._taken.add(number)
            return number

    def give_back(self, number: int) -> None:
        """Let a number be taken again."""
        with self._lock:
            self._taken.discard(number)
