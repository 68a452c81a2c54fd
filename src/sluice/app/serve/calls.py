"""Work that may wait, such as on a camera, kept away from the event loop and bounded in time and number.

Threads of `concurrent.futures` are joined when the process ends, which a camera that hangs must not prevent; these are
daemons.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

from sluice.errors import SluiceError

Result = TypeVar("Result")

MOST_CALLS = 64
"""Calls under way at the same time: more are refused, so that what hangs cannot fill the memory with threads."""


class BusyError(SluiceError):
    """Something else is being done to the same thing, or too much is being done at once."""


class UnfinishedError(SluiceError):
    """A call takes longer than the caller is kept waiting; it goes on."""


class Calls:
    """Runs functions on threads of their own for a coroutine."""

    def __init__(self, most: int = MOST_CALLS) -> None:
        """Allow so many at the same time."""
        self._most = most
        self._lock = threading.Lock()
        self._running = 0
        self._keys: set[str] = set()

    async def run(self, work: Callable[[], Result], *, patience: float, key: str | None = None) -> Result:
        """Return what a function returns.

        Args:
            work: the function; called on a daemon thread.
            patience: seconds after which UnfinishedError is raised; the function goes on.
            key: of two calls with the same key, the second is refused while the first runs.

        Raises:
            BusyError: too many calls are under way, or one with this key.
            UnfinishedError: it takes too long.
            Exception: what the function raises.
        """
        self._enter(key)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()

        def finish(result: Result | None, error: BaseException | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)  # type: ignore[arg-type]

        def call() -> None:
            result, failure = None, None
            try:
                result = work()
            except BaseException as error:
                failure = error
            finally:
                self._leave(key)
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(finish, result, failure)

        threading.Thread(target=call, name="sluice-call", daemon=True).start()
        try:
            return await asyncio.wait_for(asyncio.shield(future), patience)
        except asyncio.TimeoutError:
            future.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody else looks at it
            raise UnfinishedError(f"it is not done after {patience:g} s and goes on") from None

    def _enter(self, key: str | None) -> None:
        with self._lock:
            if key is not None and key in self._keys:
                raise BusyError(f"a change of {key} is under way; try again when it is done")
            if self._running >= self._most:
                raise BusyError(f"{self._running} calls are under way, the most there may be; try again later")
            self._running += 1
            if key is not None:
                self._keys.add(key)

    def _leave(self, key: str | None) -> None:
        with self._lock:
            self._running -= 1
            if key is not None:
                self._keys.discard(key)
