"""Calls over a connection: any number at a time, each answered when it is done, and things told without being asked."""

from __future__ import annotations

import contextlib
import importlib
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from sluice.errors import SluiceError, text_of, with_own_lines

_log = logging.getLogger(__name__)


class ProcessDownError(SluiceError):
    """The process that has the stream does not run at the moment."""


@dataclass(frozen=True)
class Call:
    """A function that the other side is to call: its name, and what it is given."""

    number: int
    method: str
    arguments: tuple[Any, ...]
    named: Mapping[str, Any]


@dataclass(frozen=True)
class Failure:
    """An error of the other side: its class by name, and its text."""

    module: str
    name: str
    text: str

    @staticmethod
    def of(error: BaseException, *, with_lines: bool = False) -> Failure:
        """Describe an error; of one of the user's code that was told as ours, with its lines if wanted."""
        known = isinstance(error, SluiceError)
        text = with_own_lines(error) if isinstance(error, SluiceError) and with_lines else text_of(error)
        return Failure(type(error).__module__ if known else "", type(error).__qualname__, text)

    def error(self) -> Exception:
        """Return an error of that class, where it is one of Sluice's own; else a RuntimeError."""
        if not self.module.startswith("sluice."):
            return RuntimeError(self.text)
        kind = getattr(importlib.import_module(self.module), self.name, SluiceError)
        return kind(self.text) if issubclass(kind, SluiceError) else SluiceError(self.text)


@dataclass(frozen=True)
class Answer:
    """What came of a call: its result, or why there is none."""

    number: int
    result: Any = None
    failure: Failure | None = None


@dataclass(frozen=True)
class Told:
    """Something that nobody asked for."""

    topic: str
    value: Any


class Caller:
    """The side that calls. Any thread may; none waits for another's call."""

    def __init__(self, connection: Connection) -> None:
        """Call over this connection, on which somebody has `listen` run."""
        self._connection = connection
        self._sending = threading.Lock()
        self._lock = threading.Lock()
        self._pending: dict[int, Future[Any]] = {}
        self._next = 0
        self._over: str | None = None

    def begin(self, method: str, *arguments: Any, **named: Any) -> Future[Any]:
        """Have a function called, and return what will have its result, or its error."""
        future: Future[Any] = Future()
        with self._lock:
            if self._over is not None:
                future.set_exception(ProcessDownError(self._over))
                return future
            number, self._next = self._next, self._next + 1
            self._pending[number] = future
        with contextlib.suppress(OSError):  # the other side has gone, which `listen` notes and `end` tells
            self.send(Call(number, method, arguments, named))
        return future

    def send(self, what: Any) -> None:
        """Send something that has no answer; raises OSError where nobody is there."""
        with self._sending:
            self._connection.send(what)

    def listen(self, told: Callable[[Told], None]) -> None:
        """Take in what comes until the other side has gone."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                self._take(self._connection.recv(), told)

    def end(self, why: str) -> None:
        """Have every call that is under way, and every later one, raise ProcessDownError with this text."""
        with self._lock:
            self._over = why
            pending, self._pending = list(self._pending.values()), {}
        for future in pending:
            future.set_exception(ProcessDownError(why))

    def _take(self, received: Any, told: Callable[[Told], None]) -> None:
        if isinstance(received, Told):
            told(received)
            return
        with self._lock:
            future = self._pending.pop(received.number, None)
        if future is None:
            return
        if received.failure is None:
            future.set_result(received.result)
        else:
            future.set_exception(received.failure.error())


class Answerer:
    """The side that is called: each call on a thread of its own, so that one that waits holds up no other."""

    def __init__(
        self, connection: Connection, methods: Mapping[str, Callable[..., Any]], before: Callable[[], None]
    ) -> None:
        """Answer calls of these functions.

        Args:
            connection: to whoever calls.
            methods: by name.
            before: called before each answer, to tell what is to be known before it.
        """
        self._connection = connection
        self._methods = methods
        self._before = before
        self._sending = threading.Lock()

    def tell(self, topic: str, value: Any) -> None:
        """Tell something, if there is still somebody to hear it."""
        self._send(Told(topic, value))

    def serve(self) -> None:
        """Take calls until something else comes, or the other side has gone."""
        with contextlib.suppress(EOFError, OSError):
            while isinstance(call := self._connection.recv(), Call):
                threading.Thread(target=self._answer, args=(call,), name=f"sluice-{call.method}", daemon=True).start()

    def _answer(self, call: Call) -> None:
        try:
            answer = Answer(call.number, self._methods[call.method](*call.arguments, **call.named))
        except BaseException as error:
            if not isinstance(error, SluiceError):
                _log.exception("%s failed", call.method)
            answer = Answer(call.number, failure=Failure.of(error))
        self._before()
        self._send(answer)

    def _send(self, what: Any) -> None:
        with self._sending, contextlib.suppress(OSError):
            self._connection.send(what)
