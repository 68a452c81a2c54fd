"""A text about all streams that is set on elements, and that several threads change."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

_REMEMBERED = 64  # streams that have left, of which frames may still be on their way


class StreamTexts:
    """Sets the text anew whenever a stream's part of it changes, so that the newest is the last one that is set.

    One thread sets it at a time, without a lock: setting a property calls into GStreamer.
    """

    def __init__(self, form: Callable[[Mapping[int, Any]], str], set_text: Callable[[str], None]) -> None:
        """Begin without streams.

        Args:
            form: makes the text of what was told of the streams, by their numbers.
            set_text: sets it.
        """
        self._form = form
        self._set_text = set_text
        self._told: dict[int, Any] = {}
        self._left: deque[int] = deque()
        self._changed = threading.Condition()
        self._setting = False
        self._newest = self._set = 0  # numbers of texts

    def tell(self, number: int, value: Any) -> None:
        """Tell something of a stream; returns when the text with it, or a newer one, is set."""
        with self._changed:
            self._told[number] = value
        self._renew()

    def forget(self, number: int) -> None:
        """Take note that a stream has left; it stays in the text for as long as frames of it may come."""
        with self._changed:
            self._left.append(number)
            if len(self._left) <= _REMEMBERED:
                return
            self._told.pop(self._left.popleft(), None)
        self._renew()

    def _renew(self) -> None:
        with self._changed:
            self._newest += 1
            mine = self._newest
            self._changed.wait_for(lambda: not self._setting or self._set >= mine)
            if self._set >= mine:
                return
            self._setting, number, text = True, self._newest, self._form(self._told)
        try:
            self._set_text(text)
        finally:
            with self._changed:
                self._setting, self._set = False, number
                self._changed.notify_all()
