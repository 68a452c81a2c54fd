"""Pictures and events that go on for as long as somebody looks, sent so that who reads slowly delays nobody."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from starlette.responses import StreamingResponse
from starlette.types import Send

from sluice.app.serve.calls import BusyError, Calls
from sluice.app.serve.engine import Pictures
from sluice.app.streams import Event, EventLog
from sluice.errors import SluiceError

BOUNDARY = "sluice-picture"
_HEARTBEAT = 15.0  # seconds after which a line without meaning shows that the connection stands
_log = logging.getLogger(__name__)
_PATIENCE = 30.0  # seconds that a reader may take for one part before it is left alone
_SUBSCRIBING = 5.0  # seconds that the outputs may take to begin or end giving pictures
_RETRY_MS = 2000  # after which a browser that lost the connection asks again


class Viewers:
    """Counts those who look, and refuses more than there may be.

    Attributes:
        count: how many look.
        closed: whether the service ends, and no answer goes on.
    """

    def __init__(self, most: int) -> None:
        """Allow so many."""
        self._most = most
        self._wakers: set[asyncio.Event] = set()
        self.closed = False

    @property
    def count(self) -> int:
        """How many look."""
        return len(self._wakers)

    def check(self) -> None:
        """Raise BusyError if there may be no more."""
        if self.closed or self.count >= self._most:
            raise BusyError(f"{self.count} viewers look already, the most that http.most_viewers allows")

    @contextmanager
    def one(self) -> Iterator[asyncio.Event]:
        """Count one more while it looks, and give it the event that wakes it; see `close`."""
        waker = asyncio.Event()
        self._wakers.add(waker)
        try:
            yield waker
        finally:
            self._wakers.discard(waker)

    def close(self) -> None:
        """Have everybody who looks notice that the service ends; called on the loop's thread."""
        self.closed = True
        for waker in self._wakers:
            waker.set()


class _Mailbox:
    """The newest picture of each of some streams, put in by other threads and taken by one coroutine.

    A picture that was not taken in time gives way to a newer one: the sender never waits.
    """

    def __init__(self, filled: asyncio.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._newest: dict[str, bytes] = {}
        self._filled = filled

    def putter(self, name: str) -> Callable[[bytes], None]:
        """Return what puts pictures of a stream in, from any thread and at once."""

        def put(picture: bytes) -> None:
            _wake(self._loop, lambda: self._put(name, picture))

        return put

    def take(self) -> dict[str, bytes]:
        """Return the newest picture of each stream that has one since the last time."""
        newest, self._newest = self._newest, {}
        return newest

    def _put(self, name: str, picture: bytes) -> None:
        self._newest[name] = picture
        self._filled.set()


def _wake(loop: asyncio.AbstractEventLoop, work: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(work)
    except RuntimeError:  # the loop was closed: the service ends
        return


async def pictures(
    live: Pictures, names: Sequence[str], viewers: Viewers, calls: Calls, most_fps: float
) -> AsyncIterator[tuple[str, bytes]]:
    """Give pictures with their streams' names, as they come and no faster than asked for; begins with those there are.

    A stream that goes away gives no more pictures; one that is not there gives none.
    """
    pause = 1 / most_fps
    with viewers.one() as filled:
        mailbox = _Mailbox(filled)
        subscription = _Subscription(live)
        putters = {name: mailbox.putter(name) for name in names}
        try:
            try:
                await calls.run(lambda: subscription.begin(putters), patience=_SUBSCRIBING)
            except SluiceError as error:  # the answer has begun: all that can be done is to end it
                _log.warning("no live pictures of %s: %s", ", ".join(names), error)
                return
            while not viewers.closed:
                begun = time.monotonic()
                for name, picture in mailbox.take().items():
                    yield name, picture
                await asyncio.sleep(max(0.0, pause - (time.monotonic() - begun)))
                await filled.wait()
                filled.clear()
        finally:
            threading.Thread(target=subscription.end, name="sluice-unsubscribe", daemon=True).start()


class _Subscription:
    """Pictures of some streams; both methods may wait, and `end` may be called while `begin` still does."""

    def __init__(self, live: Pictures) -> None:
        self._live = live
        self._lock = threading.Lock()
        self._ended = False
        self._unsubscribes: list[Callable[[], None]] = []

    def begin(self, putters: Mapping[str, Callable[[bytes], None]]) -> None:
        for name, put in putters.items():
            try:
                unsubscribe = self._live.subscribe_mjpeg(name, put)
            except SluiceError:  # removed meanwhile, or without pictures
                continue
            with self._lock:
                self._unsubscribes.append(unsubscribe)
                ended = self._ended
            if ended:
                self.end()

    def end(self) -> None:
        with self._lock:
            self._ended = True
            unsubscribes, self._unsubscribes = self._unsubscribes, []
        for unsubscribe in unsubscribes:
            unsubscribe()


class LiveResponse(StreamingResponse):
    """An answer without end; a reader that takes nothing for long is left alone, so that nothing is made for it."""

    async def stream_response(self, send: Send) -> None:
        """Send until the content or the reader's patience with us ends."""
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await send(start)
        try:
            async for chunk in self.body_iterator:
                body = chunk.encode() if isinstance(chunk, str) else bytes(chunk)
                message = {"type": "http.response.body", "body": body, "more_body": True}
                await asyncio.wait_for(send(message), _PATIENCE)
        except asyncio.TimeoutError:
            return  # the server closes the connection
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def multipart(source: AsyncIterator[tuple[str, bytes]]) -> AsyncIterator[bytes]:
    """Give pictures as the parts of a multipart answer, each with its stream's name in a header."""
    async for name, picture in source:
        head = f"--{BOUNDARY}\r\nContent-Type: image/jpeg\r\nX-Stream: {name}\r\nContent-Length: {len(picture)}\r\n\r\n"
        yield head.encode() + picture + b"\r\n"


async def server_sent_events(
    log: EventLog, since: int, viewers: Viewers, encode: Callable[[Event], object]
) -> AsyncIterator[str]:
    """Give events behind a number as server-sent events, for ever."""
    loop = asyncio.get_running_loop()
    with viewers.one() as happened:
        unsubscribe = log.subscribe(lambda _event: _wake(loop, happened.set))
        try:
            yield f"retry: {_RETRY_MS}\n\n"
            while not viewers.closed:
                happened.clear()
                for event in log.since(since):
                    since = event.number
                    yield f"id: {event.number}\nevent: happening\ndata: {json.dumps(encode(event))}\n\n"
                try:
                    await asyncio.wait_for(happened.wait(), _HEARTBEAT)
                except asyncio.TimeoutError:
                    yield ": still here\n\n"
        finally:
            unsubscribe()
