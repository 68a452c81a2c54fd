"""The delivery with a transport made for the test: answers, refusals, policies of a full spool, waiting, secrets."""

import itertools
import re
import sqlite3
import threading
import time
from contextlib import closing

import pytest

from sluice.messages import Overflow
from sluice.messages.brokers import Delivery, TransportError
from sluice.messages.brokers.transport import ConnectionLostError
from sluice.messages.spool import Spool
from waiting import PATIENCE, until


class Fake:
    """A broker that can be away, answer a part, refuse, or hang."""

    def __init__(self, *, away=False):
        self.away = away
        self.taken = []
        self.script = []
        self.gate = threading.Event()
        self.gate.set()
        self.hanging = False
        self.connects = self.closes = self.idles = 0
        self.threads = set()

    def connect(self):
        self.threads.add(threading.current_thread().name)
        self.connects += 1
        if self.away:
            raise ConnectionRefusedError("nobody listens, said hunter2")

    def send(self, batch):
        self.threads.add(threading.current_thread().name)
        self.hanging = not self.gate.is_set()
        self.gate.wait(PATIENCE)
        self.hanging = False
        if self.away:
            raise TransportError("gone")
        step = self.script.pop(0) if self.script else lambda batch: [None] * len(batch)
        answers = step(batch)
        self.taken += [message for message, answer in zip(batch, answers, strict=False) if answer is None]
        return answers

    def idle(self):
        self.idles += 1

    def close(self):
        self.closes += 1

    @property
    def payloads(self):
        return [message.payload for message in self.taken]


@pytest.fixture
def deliver(tmp_path):
    made = []

    def make(fake, path=None, capacity=1 << 20, overflow=Overflow.WAIT, patience=PATIENCE, **options):
        problems = []
        spool = Spool(path, capacity=capacity)
        made.append(
            Delivery(
                fake,
                spool,
                overflow=overflow,
                patience=patience,
                on_away=problems.append,
                on_refused=lambda text: problems.append(f"refused: {text}"),
                **options,
            )
        )
        made[-1].problems = problems
        return made[-1]

    yield make
    for delivery in made:
        delivery.close()


def some(*numbers):
    return [b"%d" % number for number in numbers]


def test_messages_go_in_order_and_leave_the_spool(deliver):
    fake = Fake()
    delivery = deliver(fake)
    assert delivery.write(some(*range(1000))) == [None] * 1000
    delivery.flush()
    assert fake.payloads == some(*range(1000))
    counters = delivery.counters
    assert (counters.sent, counters.acknowledged, counters.spooled) == (1000, 1000, 0)
    assert fake.threads == {"sluice-broker"}


def test_ids_are_distinct_and_the_same_at_each_attempt(deliver):
    seen = []
    fake = Fake()

    def half(batch):
        seen.append([message.id for message in batch])
        return [None] * (len(batch) // 2)

    fake.script = [half, half]
    delivery = deliver(fake)
    delivery.write(some(*range(8)))
    delivery.flush()
    assert seen[1][0] == seen[0][4]
    assert len({message.id for message in fake.taken}) == 8
    assert fake.payloads == some(*range(8))
    assert delivery.counters.sent == 8 + 4 + 2


def test_a_broker_that_takes_messages_again_is_told_once_after_it_was_away(deliver):
    fake, back = Fake(), []
    fake.script = [lambda batch: [None]]  # and away
    delivery = deliver(fake, on_back=back.append)
    delivery.write(some(1, 2, 3))
    delivery.flush()
    delivery.write(some(4))
    delivery.flush()
    assert delivery.problems == ["the broker does not acknowledge"]
    assert back == ["it takes messages again; 0 that were kept are still to be sent"]


def test_a_short_answer_means_a_new_connection(deliver):
    fake = Fake()
    fake.script = [lambda batch: [None]]
    delivery = deliver(fake)
    delivery.write(some(1, 2, 3))
    delivery.flush()
    assert fake.payloads == some(1, 2, 3)
    assert (fake.connects, fake.closes, delivery.counters.reconnects) == (2, 1, 1)
    assert delivery.problems == ["the broker does not acknowledge"]


def test_a_refused_message_is_told_counted_and_does_not_hold_up_the_rest(deliver):
    fake = Fake()
    fake.script = [lambda batch: [None, "too large", None]]
    delivery = deliver(fake)
    delivery.write(some(1, 2, 3))
    delivery.flush()
    assert fake.payloads == some(1, 3)
    (told,) = delivery.problems
    assert re.fullmatch(r"refused: message \w+-2 of 1 bytes is given up: too large", told)
    assert (delivery.counters.acknowledged, delivery.counters.failed) == (2, 1)


def test_flush_waits_until_the_answers_are_counted_and_told(deliver, monkeypatch):
    removed, remove = threading.Event(), Spool.remove

    def remove_and_dawdle(spool, number):
        found = remove(spool, number)
        removed.set()
        time.sleep(0.3)
        return found

    monkeypatch.setattr(Spool, "remove", remove_and_dawdle)
    fake = Fake()
    fake.script = [lambda batch: [None, "too large", None]]
    delivery = deliver(fake)
    delivery.write(some(1, 2, 3))
    assert removed.wait(10)
    delivery.flush()
    assert len(delivery.problems) == 1
    assert (delivery.counters.acknowledged, delivery.counters.failed) == (2, 1)


def test_a_refused_message_is_kept_beside_the_spool(deliver, tmp_path):
    fake = Fake()
    fake.script = [lambda batch: [None, "hunter2 is too large", None]]
    delivery = deliver(fake, tmp_path / "s.db", scrub=lambda text: text.replace("hunter2", "***"))
    delivery.write(some(1, 2, 3))
    delivery.flush()
    assert f"set aside in the table refused of '{tmp_path / 's.db'}': *** is too large" in delivery.problems[0]
    delivery.close()
    with closing(sqlite3.connect(tmp_path / "s.db")) as database:
        assert database.execute("SELECT * FROM refused").fetchall() == [(2, "*** is too large", b"2")]


def test_many_refused_messages_are_counted_and_told_twice(deliver):
    fake = Fake()
    fake.script = [lambda batch: ["no"] * len(batch)] * 10
    delivery = deliver(fake)
    delivery.write(some(*range(1000)))
    delivery.flush()
    assert delivery.counters.failed == 1000
    assert len(delivery.problems) == 2
    assert delivery.problems[1] == "refused: 999 more messages were refused"


def lost_at(*numbers):
    """What a broker does that closes the connection at some messages."""

    def send(batch):
        for place, message in enumerate(batch):
            if message.payload in some(*numbers):
                if not place:
                    raise ConnectionLostError("the connection was lost")
                return [None] * place
        return [None] * len(batch)

    return send


def test_messages_that_end_every_connection_are_set_aside_and_the_rest_goes_on(deliver):
    fake = Fake()
    fake.script = [lost_at(3, 4, 7)] * 100
    delivery = deliver(fake)
    delivery.write(some(*range(10)))
    delivery.flush()
    assert fake.payloads == some(0, 1, 2, 5, 6, 8, 9)
    assert (delivery.counters.acknowledged, delivery.counters.failed) == (7, 3)
    refused = [text for text in delivery.problems if "-4 of 1 bytes is given up" in text]
    assert refused[0].endswith("each time it was sent alone, the connection was lost")


def test_a_broker_that_is_known_to_end_connections_at_refused_messages_is_told_away_only_when_it_is(deliver):
    fake = Fake()
    fake.script = [lost_at(3, 5, 7)] * 100
    delivery = deliver(fake, patience=30)

    def lost_ones():
        return [text for text in delivery.problems if not text.startswith("refused")]

    for number in range(10):
        delivery.write(some(number))
        delivery.flush()
    assert delivery.counters.failed == 3
    assert lost_ones() == ["the connection was lost"]
    fake.script.clear()
    fake.away = True
    delivery.write(some(10))
    until(lambda: len(lost_ones()) == 2)
    fake.away = False
    delivery.flush()
    assert delivery.counters.acknowledged == 8


def test_an_outage_behind_a_refused_message_is_told(deliver):
    fake = Fake()

    def leave(batch):
        fake.away = True
        raise ConnectionLostError("the connection was lost")

    fake.script = [lost_at(3)] * 4
    delivery = deliver(fake, scrub=lambda text: text.replace("hunter2", "***"))
    delivery.write(some(3))
    delivery.flush()
    assert delivery.counters.failed == 1
    fake.script = [leave]
    delivery.write(some(4))
    until(lambda: "nobody listens, said ***" in delivery.problems)
    fake.away = False
    delivery.flush()
    assert fake.payloads == some(4)


def test_a_message_is_not_to_blame_for_a_broker_that_goes_away_and_comes_back(deliver):
    fake = Fake()

    def lose(batch):
        fake.away = True
        threading.Timer(0.6, lambda: setattr(fake, "away", False)).start()
        raise ConnectionLostError("the connection was lost")

    fake.script = [lose] * 4
    delivery = deliver(fake)
    delivery.write(some(1, 2))
    delivery.flush()
    assert fake.payloads == some(1, 2)
    assert delivery.counters.failed == 0


def test_a_message_is_not_to_blame_for_a_broker_that_cannot_answer_now(deliver):
    fake = Fake()

    def busy(batch):
        raise TransportError("503")

    fake.script = [busy] * 4
    delivery = deliver(fake)
    delivery.write(some(1))
    delivery.flush()
    assert (delivery.counters.acknowledged, delivery.counters.failed) == (1, 0)


def test_the_end_waits_shorter_for_a_broker_that_is_away_and_says_so_of_one_that_is_there(deliver):
    away = deliver(Fake(away=True), patience=60, patience_away=0.1)
    away.write(some(1))
    with pytest.raises(TransportError, match="1 messages are not acknowledged yet"):
        away.flush()
    waits = []
    slow = Fake()
    slow.gate.clear()

    def answer_now(text):
        waits.append(text)
        slow.gate.set()

    delivery = deliver(slow, patience=60, patience_away=0.1, on_wait=answer_now)
    delivery.write(some(1))
    delivery.flush()
    assert waits == ["waiting 60 s at most for the acknowledgement of 1 messages"]


def test_a_broker_that_is_away_is_told_once_without_secrets_and_then_gets_everything(deliver, tmp_path):
    fake = Fake(away=True)
    delivery = deliver(fake, tmp_path / "s.db", scrub=lambda text: text.replace("hunter2", "***"))
    delivery.write(some(1, 2, 3))
    until(lambda: fake.connects >= 3)
    assert delivery.problems == ["nobody listens, said ***"]
    assert delivery.counters.spooled == 3
    fake.away = False
    delivery.flush()
    assert fake.payloads == some(1, 2, 3)
    fake.away = True
    delivery.write(some(4))
    until(lambda: len(delivery.problems) == 2)
    assert delivery.problems[1] == "gone"


def test_attempts_become_rarer(deliver):
    fake = Fake(away=True)
    moments = []
    connect = fake.connect

    def noted():
        moments.append(time.monotonic())
        connect()

    fake.connect = noted
    deliver(fake)
    until(lambda: len(moments) == 4)
    gaps = [after - before for before, after in itertools.pairwise(moments)]
    # Doubled, times a random factor of a half to one.
    assert [low <= gap for low, gap in zip((0.25, 0.5, 1.0), gaps, strict=True)] == [True] * 3


def test_what_is_not_acknowledged_goes_with_the_next_run_under_the_same_id(deliver, tmp_path):
    path = tmp_path / "s.db"
    first = deliver(Fake(away=True), path, patience=0.1)
    first.write(some(1, 2))
    with pytest.raises(
        TransportError, match=r"2 messages are not acknowledged yet; they stay in .*s\.db' and are sent"
    ):
        first.flush()
    first.close()
    fake = Fake()
    second = deliver(fake, path)
    second.write(some(3))
    second.flush()
    assert fake.payloads == some(1, 2, 3)
    numbers = [message.id.rpartition("-") for message in fake.taken]
    assert len({origin for origin, _, _ in numbers}) == 1
    assert [int(number) for _, _, number in numbers] == [1, 2, 3]


def test_without_a_file_what_is_left_at_the_stop_counts_as_dropped(deliver):
    delivery = deliver(Fake(away=True), patience=0.1)
    delivery.write(some(1, 2))
    with pytest.raises(TransportError, match="lost with the stop, since spool=none"):
        delivery.flush()
    delivery.close()
    assert delivery.counters.dropped == 2


BIG = b"x" * 1000


def test_a_full_spool_drops_the_oldest(deliver):
    fake = Fake(away=True)
    delivery = deliver(fake, capacity=3 * 1100, overflow=Overflow.DROP_OLDEST)
    delivery.write([b"%d" % n + BIG for n in range(10)])
    assert (delivery.counters.spooled, delivery.counters.dropped) == (3, 7)
    fake.away = False
    delivery.flush()
    assert [payload[:1] for payload in fake.payloads] == [b"7", b"8", b"9"]


def test_a_full_spool_drops_the_newest(deliver):
    fake = Fake(away=True)
    delivery = deliver(fake, capacity=3 * 1100, overflow=Overflow.DROP_NEWEST)
    delivery.write([b"%d" % n + BIG for n in range(10)])
    assert (delivery.counters.spooled, delivery.counters.dropped) == (3, 7)
    fake.away = False
    delivery.flush()
    assert [payload[:1] for payload in fake.payloads] == [b"0", b"1", b"2"]


def test_a_full_spool_makes_the_writer_wait_and_loses_nothing(deliver):
    fake = Fake(away=True)
    delivery = deliver(fake, capacity=3 * 1100)
    giver = threading.Thread(target=delivery.write, args=([b"%d" % n + BIG for n in range(10)],))
    giver.start()
    giver.join(0.3)
    assert giver.is_alive()
    fake.away = False
    giver.join(PATIENCE)
    delivery.flush()
    assert [payload[:1] for payload in fake.payloads] == [b"%d" % n for n in range(10)]
    assert delivery.counters.dropped == 0


def test_what_is_under_way_is_not_dropped(deliver):
    fake = Fake()
    fake.gate.clear()
    delivery = deliver(fake, capacity=3 * 1100, overflow=Overflow.DROP_OLDEST)
    delivery.write([b"0" + BIG])
    until(lambda: delivery.counters.sent == 1)
    delivery.write([b"%d" % n + BIG for n in range(1, 6)])
    fake.gate.set()
    delivery.flush()
    assert [payload[:1] for payload in fake.payloads] == [b"0", b"4", b"5"]
    counters = delivery.counters
    assert (counters.acknowledged, counters.dropped) == (3, 3)


@pytest.mark.parametrize("overflow", Overflow)
def test_a_message_larger_than_the_spool_is_dropped_whatever_the_policy(deliver, overflow):
    fake = Fake()
    delivery = deliver(fake, capacity=2000, overflow=overflow)
    delivery.write([b"1", BIG * 3, b"2"])
    delivery.flush()
    assert fake.payloads == some(1, 2)
    assert delivery.counters.dropped == 1


def test_a_stop_waits_a_second_at_most_for_room(deliver):
    delivery = deliver(Fake(away=True), capacity=1100)
    giver = threading.Thread(target=delivery.write, args=([BIG, BIG],))
    giver.start()
    until(lambda: delivery.counters.spooled == 1)
    start = time.monotonic()
    delivery.hurry()
    giver.join(PATIENCE)
    assert time.monotonic() - start < 5
    assert delivery.counters.dropped == 1


def test_waiting_for_the_connection(deliver):
    fake = Fake(away=True)
    delivery = deliver(fake)
    until(lambda: delivery.problems)
    assert "nobody listens" in delivery.wait_connected(0.2)
    waiting = threading.Thread(target=delivery.wait_connected)
    waiting.start()
    delivery.release()
    waiting.join(PATIENCE)
    assert not waiting.is_alive()
    delivery.resume()
    fake.away = False
    assert delivery.wait_connected(PATIENCE) is None


def test_a_hanging_client_does_not_hold_up_the_stop(deliver, tmp_path):
    fake = Fake()
    fake.gate.clear()
    delivery = deliver(fake, tmp_path / "s.db")
    delivery.write(some(1))
    until(lambda: fake.hanging)
    delivery.close()
    assert fake.hanging
    again = Fake()
    deliver(again, tmp_path / "s.db").flush()
    assert again.payloads == some(1)
    fake.gate.set()


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (b'{"a":1}', b'{"message_id":"ID","a":1}'),
        (b"{  }", b'{"message_id":"ID"}'),
        (b"[1]", b"[1]"),
        (b"", b""),
        (b"\x00\xff", b"\x00\xff"),
    ],
)
def test_the_id_inside_the_payload(deliver, payload, expected):
    fake = Fake()
    delivery = deliver(fake, id_in_payload=True)
    delivery.write([payload])
    delivery.flush()
    (message,) = fake.taken
    assert message.payload.replace(message.id.encode(), b"ID") == expected


def test_idle_is_called_while_nothing_is_sent(deliver):
    fake = Fake()
    deliver(fake)
    until(lambda: fake.idles >= 2)


def test_a_spool_that_cannot_be_read_any_more_is_named(deliver, tmp_path, monkeypatch):
    def fail(*_):
        raise sqlite3.DatabaseError("database disk image is malformed")

    monkeypatch.setattr(Spool, "first", fail)
    delivery = deliver(Fake(), tmp_path / "s.db")
    until(lambda: delivery.problems)
    assert delivery.problems[0].startswith(f"the spool '{tmp_path / 's.db'}' cannot be read: database disk image is")


def test_a_disk_that_becomes_full_sends_nothing_again_and_again(deliver, tmp_path):
    """Each message is sent once, and the user is told why the file keeps them."""
    from messages.test_message_spool import FullDisk

    fake = Fake(away=True)
    delivery = deliver(fake, tmp_path / "spool.db")
    delivery.write(some(*range(300)))
    spool = delivery._spool
    spool._db = FullDisk(spool._db)
    fake.away = False
    delivery.flush()
    assert fake.payloads == some(*range(300))
    assert (delivery.counters.acknowledged, delivery.counters.spooled) == (300, 0)
    (told,) = [text for text in delivery.problems if text.startswith("refused: ")]
    assert "the disk takes no change of the spool" in told
    assert "the next run sends them again" in told
