"""At least once, in order: messages go to the spool, and from there to the broker on a thread of the client's own.

``put`` by a streaming thread → `Writer`'s queue and thread → spool → the client's thread → `Transport`. A message is on
disk before it is sent and leaves it when the broker has acknowledged it; nothing that the broker or the disk does is
waited for by the streaming thread.
"""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from sluice.errors import SluiceError
from sluice.messages.brokers.refusals import Refusals, Refused, Suspicion
from sluice.messages.brokers.transport import ConnectionLostError, Message, Transport, TransportError
from sluice.messages.spool import Spool
from sluice.messages.writer import Overflow

_MOST = 128
"""Messages per `Transport.send`: enough to hide a round trip, few enough to be sent twice after a lost connection."""

_MOST_BYTES = 1 << 20
_HEARTBEAT = 1.0  # seconds between calls of Transport.idle
_FIRST_WAIT, _LONGEST_WAIT = 0.25, 5.0  # seconds between attempts to connect; doubled each time
_HURRY = 1.0  # seconds for acknowledgements at a stop
_SILENT = 1.0  # seconds that `flush` waits before it says so


@dataclass
class DeliveryCounters:
    """What became of messages behind the queue.

    Attributes:
        sent: given to the client library, again at every attempt.
        acknowledged: by the broker; with those of an earlier run that were still in the spool.
        spooled: in the spool now, not acknowledged.
        dropped: given up because the spool was full.
        failed: refused by the broker for good.
        reconnects: connections after the first.
    """

    sent: int = 0
    acknowledged: int = 0
    spooled: int = 0
    dropped: int = 0
    failed: int = 0
    reconnects: int = 0


class Delivery:
    """A `Sink` whose messages reach a broker at least once and in order.

    ``on_away(text)`` is called on the client's thread when the broker cannot be reached or stops to answer, once until
    it works again; where a broker is known to end connections at messages that it refuses, one more that it ends is not
    told, only that it cannot be reached. ``on_back(text)`` when it has taken messages again after that.
    ``on_refused(text)`` when messages that the broker will never take are set aside, or the disk is so full that
    acknowledged ones cannot be removed; ``on_wait(text)`` when `flush` waits for a broker that is there, for longer
    than a second. All without a lock held.
    """

    def __init__(
        self,
        transport: Transport,
        spool: Spool,
        *,
        overflow: Overflow,
        patience: float,
        patience_away: float | None = None,
        on_away: Callable[[str], None],
        on_refused: Callable[[str], None],
        on_wait: Callable[[str], object] = str,
        on_back: Callable[[str], object] = str,
        id_in_payload: bool = False,
        scrub: Callable[[str], str] = str,
    ) -> None:
        """Start the client's thread.

        Args:
            transport: the client, not connected.
            spool: owned and closed by the delivery.
            overflow: what to do when the spool is full.
            patience: seconds that `flush` waits for acknowledgements.
            patience_away: the same while the broker cannot be reached; None: no difference.
            on_away: see above.
            on_refused: see above.
            on_wait: see above.
            on_back: see above.
            id_in_payload: put the id as first member ``message_id`` into payloads that are JSON objects.
            scrub: takes secrets out of a text.
        """
        self._transport = transport
        self._spool = spool
        self._overflow = overflow
        self._patience = patience
        self._patience_away = patience if patience_away is None else min(patience, patience_away)
        self._on_away = on_away
        self._on_wait = on_wait
        self._on_back = on_back
        self._on_refused = on_refused
        self._refusals = Refusals(spool, on_refused)
        self._suspicion = Suspicion()
        self._id_in_payload = id_in_payload
        self._scrub = scrub
        self._changed = threading.Condition()
        self._counters = DeliveryCounters()
        self._connections = 0
        self._connected = False
        self._released = False
        self._stopping = False
        self._settling = False  # the spool has let go of messages that are not counted and told yet
        self._leave_by = float("inf")
        self._last_problem = ""
        self._told_away = False
        self._told_kept = False
        self._thread = threading.Thread(target=self._run, name="sluice-broker", daemon=True)
        self._thread.start()

    @property
    def counters(self) -> DeliveryCounters:
        """A copy of the counters."""
        with self._changed:
            return DeliveryCounters(**{**vars(self._counters), "spooled": len(self._spool)})

    def set_overflow(self, overflow: Overflow) -> None:
        """Change what a full spool does."""
        with self._changed:
            self._overflow = overflow
            self._changed.notify_all()

    def wait_connected(self, timeout: float | None = None, *, attempts: bool = True) -> str | None:
        """Wait for a connection; return None when there is one, else why there is none (also after `release`).

        Args:
            timeout: seconds; None waits for as long as it takes.
            attempts: wait for further attempts when one fails.
        """

        def known() -> bool:
            failed = bool(self._last_problem) and not attempts
            return self._connected or failed or self._released or self._stopping

        with self._changed:
            self._changed.wait_for(known, timeout)
            return None if self._connected else self._last_problem or "no answer"

    def release(self) -> None:
        """End every `wait_connected`, until `resume`."""
        with self._changed:
            self._released = True
            self._changed.notify_all()

    def resume(self) -> None:
        """End `release`."""
        with self._changed:
            self._released = False

    def hurry(self) -> None:
        """Say that the stop has begun: `flush` and a full spool are waited for no longer than a second."""
        with self._changed:
            self._leave_by = time.monotonic() + _HURRY
            self._released = True
            self._changed.notify_all()

    # As a sink, on the writer's thread

    def write(self, messages: Sequence[bytes]) -> list[Exception | None]:
        """Spool messages; with Overflow.WAIT this waits for room. Refused ones come back as their exception."""
        results: list[Exception | None] = []
        while len(results) < len(messages):
            rest = messages[len(results) :]
            try:
                results += self._spool_some(rest)
            except (sqlite3.Error, SluiceError) as error:
                results += [error] * len(rest)
        return results

    def _spool_some(self, messages: Sequence[bytes]) -> list[Exception | None]:
        fitting = self._spool.room(messages)
        if fitting:
            self._spool.append(messages[:fitting])
            with self._changed:
                self._changed.notify_all()
            return [None] * fitting
        with self._changed:
            overflow = self._overflow
        if overflow is Overflow.DROP_OLDEST and self._spool.ever_fits(messages[0]):
            dropped = self._spool.drop_oldest(messages[0])
            self._count(dropped=dropped)
            if dropped:
                return []
        elif overflow is Overflow.WAIT and self._wait_for_room(messages):
            return []
        self._count(dropped=1)
        return [None]

    def _wait_for_room(self, messages: Sequence[bytes]) -> bool:
        """Wait until a message fits in or the policy changes; False when it never will, or the stop has come."""
        if not self._spool.ever_fits(messages[0]):
            return False
        with self._changed:
            while self._overflow is Overflow.WAIT and not self._spool.room(messages[:1]):
                if time.monotonic() >= self._leave_by:
                    return False
                self._changed.wait(min(_HEARTBEAT, max(0.0, self._leave_by - time.monotonic())))
        return True

    def flush(self) -> None:
        """Wait for the broker to acknowledge all that is spooled; at most the patience, or a second at a stop.

        Raises:
            TransportError: it has not; the rest stays in the spool, and goes with the next run.
        """
        start, told = time.monotonic(), False
        while True:
            with self._changed:
                left, away = len(self._spool), bool(self._last_problem) and not self._connected
                until = min(start + (self._patience_away if away else self._patience), self._leave_by)
                remaining = until - time.monotonic()
                if not (left or self._settling) or self._stopping or remaining <= 0:
                    break
                self._changed.wait(min(remaining, _SILENT))
            if not (told or away) and time.monotonic() - start >= _SILENT:
                told = True
                self._on_wait(f"waiting {until - start:.0f} s at most for the acknowledgement of {left} messages")
        self._refusals.tell_rest()
        if left:
            where = f"stay in {str(self._spool.path)!r} and are sent by the next run"
            what = where if self._spool.path is not None else "are lost with the stop, since spool=none keeps none"
            raise TransportError(f"{left} messages are not acknowledged yet; they {what}")

    def close(self) -> None:
        """End the client's thread; one that its library holds up ends later, with nothing left to do."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join(_HURRY / 4)
        if self._spool.path is None:
            self._count(dropped=len(self._spool))
        self._spool.close()

    # On the client's thread

    def _run(self) -> None:
        wait = _FIRST_WAIT
        while not self._stopping:
            settled = self._settled
            try:
                self._connect()
                self._serve()
            except Exception as error:
                self._note_away(error)
            with suppress(Exception):  # a lost connection may not close in order, and a new one is made in any case
                self._transport.close()
            useful = self._settled > settled or self._suspicion.active
            wait = _FIRST_WAIT if useful else min(2 * wait, _LONGEST_WAIT)
            with self._changed:
                # Jitter: a thousand clients of one broker do not come back in the same moment.
                self._changed.wait_for(lambda: self._stopping, wait * random.uniform(0.5, 1))

    @property
    def _settled(self) -> int:
        """How many messages have an answer for good."""
        return self._counters.acknowledged + self._counters.failed

    def _connect(self) -> None:
        try:
            self._transport.connect()
        except Exception:
            self._suspicion.clear()
            raise
        self._note_connected()

    def _serve(self) -> None:
        """Send what is spooled until the connection is lost, which raises, or the stop comes."""
        while not self._stopping:
            batch = self._first()
            if not batch:
                with self._changed:
                    came = self._changed.wait_for(lambda: len(self._spool) or self._stopping, _HEARTBEAT)
                if not came:
                    self._transport.idle()
                continue
            self._count(sent=len(batch))
            try:
                answers = self._transport.send([self._message(number, payload) for number, payload in batch])
            except ConnectionLostError as error:
                if not self._suspicion.lost(batch[0][0], alone=len(batch) == 1):
                    self._spool.land()
                    raise
                self._settle(batch, [f"each time it was sent alone, {error}"])
                return
            except Exception:
                self._suspicion.clear()
                self._spool.land()
                raise
            self._settle(batch, answers)
            if len(answers) < len(batch):
                raise ConnectionLostError("the broker does not acknowledge")

    def _first(self) -> list[tuple[int, bytes]]:
        """Return the messages to send next."""
        try:
            return self._spool.first(1 if self._suspicion.active else _MOST, _MOST_BYTES)
        except sqlite3.Error as error:
            raise SluiceError(
                f"the spool {str(self._spool.path)!r} cannot be read: {error}; stop, move the file away and start anew"
            ) from error

    def _settle(self, batch: Sequence[tuple[int, bytes]], answers: Sequence[str | None]) -> None:
        """Take note of the answers, count and tell; `flush` waits for all of it."""
        self._suspicion.clear()
        if not answers:
            self._spool.land()
            return
        with self._changed:
            self._settling = True
        try:
            self._take_answers(batch, answers)
        finally:
            with self._changed:
                self._settling = False
                self._changed.notify_all()

    def _take_answers(self, batch: Sequence[tuple[int, bytes]], answers: Sequence[str | None]) -> None:
        refused = [
            Refused(self._id(number), number, payload, self._scrub(answer))
            for (number, payload), answer in zip(batch, answers, strict=False)
            if answer is not None
        ]
        texts = self._refusals.set_aside(refused)
        removed = self._spool.remove(batch[len(answers) - 1][0])
        self._count(acknowledged=len(answers) - len(refused), failed=len(refused))
        with self._changed:
            back, self._last_problem, self._told_away = self._told_away, "", False
        if back:
            self._on_back(f"it takes messages again; {len(self._spool)} that were kept are still to be sent")
        self._refusals.tell(texts)
        if not removed and not self._told_kept:
            self._on_refused(
                f"the disk takes no change of the spool {str(self._spool.path)!r}, as when it is full: messages that "
                "are acknowledged stay in it; if they still do at the stop, the next run sends them again"
            )
        self._told_kept = not removed

    def _id(self, number: int) -> str:
        return f"{self._spool.origin}-{number}"

    def _message(self, number: int, payload: bytes) -> Message:
        name = self._id(number)
        if self._id_in_payload and payload[:1] == b"{":
            rest = payload[1:].lstrip()
            payload = b'{"message_id":"' + name.encode() + (b'"' if rest[:1] == b"}" else b'",') + rest
        return Message(name, payload)

    def _note_connected(self) -> None:
        with self._changed:
            self._connections += 1
            self._counters.reconnects = self._connections - 1
            self._connected = True
            self._changed.notify_all()

    def _note_away(self, error: Exception) -> None:
        text = self._scrub(f"{error}" or type(error).__name__)
        # Where it may be a message's fault again, only the next connection shows whether the broker is away.
        tell = not (isinstance(error, ConnectionLostError) and self._suspicion.proven)
        with self._changed:
            self._last_problem = text
            self._connected = False
            tell = tell and not self._told_away and not self._stopping
            self._told_away |= tell
            self._changed.notify_all()
        if tell:
            self._on_away(text)

    def _count(self, **more: int) -> None:
        with self._changed:
            for name, value in more.items():
                setattr(self._counters, name, getattr(self._counters, name) + value)
            self._changed.notify_all()
