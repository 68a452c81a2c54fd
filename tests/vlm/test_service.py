"""The queue, the threads that ask, and the account of every segment; with hand-made back ends."""

import threading
import time

import numpy as np
import pytest

from sluice.vlm.answers import JsonCheck, TextCheck
from sluice.vlm.backends import BackendOptions
from sluice.vlm.backends.python import PythonBackend
from sluice.vlm.failures import NoAnswer, Reason
from sluice.vlm.pictures import Encoder, Encoding, Picture
from sluice.vlm.queue import StreamQueue
from sluice.vlm.service import Listener, Request, Service
from waiting import PATIENCE, until


class Told(Listener):
    """Keeps what it is told."""

    def __init__(self):
        self.answers, self.losses, self.traces = [], [], []
        self._changed = threading.Condition()

    def answered(self, request, answer):
        with self._changed:
            self.answers.append(answer)
            self._changed.notify_all()

    def lost(self, request, why, trace):
        with self._changed:
            self.losses.append((request.stream, request.segment, why.reason))
            self.traces.append(trace)
            self._changed.notify_all()

    def wait(self, count):
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.answers) + len(self.losses) >= count, PATIENCE)


class Backend:
    """Answers by a function of the question; `gate` holds it back."""

    name = "hand-made"

    def __init__(self, answer=lambda question: "yes", most_at_once=None):
        self._answer = answer
        self.most_at_once = most_at_once
        self.gate = threading.Event()
        self.asked = []
        self.closed = 0

    def open(self):
        pass

    def answer(self, question):
        self.asked.append(question.prompt)
        self.gate.wait()
        return self._answer(question)

    def cancel(self):
        self.gate.set()

    def close(self):
        self.closed += 1


def request(stream=0, segment=0, prompt="?", check=None, pts=(0,)):
    pictures = [Picture(lambda: np.zeros((8, 8, 3), np.uint8), pts=at, utc=at + 10) for at in pts]
    return Request(stream, str(stream), segment, "time", prompt, check or TextCheck(), pictures, model="m")


def service(backend, policy="newest", limit=2, concurrency=1):
    told = Told()
    return Service(backend, StreamQueue(policy, limit), told, concurrency), told


def test_an_answer_says_what_it_is_about() -> None:
    backend = Backend(lambda question: ' {"n": 1} ')
    backend.gate.set()
    asked, told = service(backend)
    asked.put(request(3, 7, "how many?", JsonCheck(), pts=(5, 15, 25)))
    told.wait(1)
    (answer,) = told.answers
    assert (answer.stream, answer.segment, answer.text, answer.value, answer.mode) == (
        3,
        7,
        '{"n": 1}',
        {"n": 1},
        "json",
    )
    assert (answer.start_pts, answer.end_pts, answer.start_utc, answer.end_utc) == (5, 25, 15, 35)
    assert (answer.pictures, answer.model, answer.cause) == (3, "m", "time")
    assert backend.asked == ["how many?\n\nAnswer with one JSON value and nothing else."]
    assert asked.close()
    assert backend.closed == 1


def busy(asked, backend):
    """Have the only thread busy with a request of stream 9."""
    asked.put(request(9, 0, "first"))
    while not backend.asked:
        time.sleep(0.001)


@pytest.mark.parametrize(
    ("policy", "lost", "kept"),
    [("newest", [0, 1], ["2", "3"]), ("oldest", [2, 3], ["0", "1"]), ("wait", [], ["0", "1", "2", "3"])],
)
def test_a_full_queue_drops_by_its_policy(policy, lost, kept) -> None:
    backend = Backend()
    asked, told = service(backend, policy)
    busy(asked, backend)
    for number in range(4):
        asked.put(request(0, number, str(number)))
    assert told.losses == [(0, number, Reason.QUEUE_FULL) for number in lost]
    backend.gate.set()
    told.wait(5)
    assert backend.asked == ["first", *kept]
    assert asked.snapshot() == {"asked": 5, "answered": 5 - len(lost), **({"queue-full": len(lost)} if lost else {})}
    asked.close()


def test_a_stream_with_many_segments_neither_drops_nor_starves_another() -> None:
    backend = Backend()
    asked, told = service(backend, limit=3)
    busy(asked, backend)
    for number in range(6):
        asked.put(request(0, number, f"0:{number}"))
    for number in range(2):
        asked.put(request(1, number, f"1:{number}"))
    assert {stream for stream, *_ in told.losses} == {0}
    backend.gate.set()
    told.wait(9)
    assert backend.asked == ["first", "0:3", "1:0", "0:4", "1:1", "0:5"]
    asked.close()


def test_a_back_end_that_allows_fewer_at_once() -> None:
    backend = Backend(most_at_once=2)
    asked, told = service(backend, "wait", concurrency=8)
    for number in range(6):
        asked.put(request(0, number))
    until(lambda: len(backend.asked) == 2)
    time.sleep(0.1)
    assert len(backend.asked) == 2
    backend.gate.set()
    told.wait(6)
    asked.close()


class Unlucky:
    """Fails in every way, by the prompt."""

    def answer(self, images, prompt):
        if prompt == "raise":
            raise ValueError("broken\ud800")
        if prompt == "exit":
            raise SystemExit(3)
        return {"none": None, "long": "x" * 50_000, "empty": "  ", "sum": str(sum(int(i.sum()) for i in images))}[
            prompt
        ]


def test_a_class_of_ones_own_and_its_faults() -> None:
    asked, told = service(PythonBackend(Unlucky, "file.py:Unlucky", BackendOptions()), "wait")
    encoder = Encoder(Encoding())
    prompts = ["raise", "exit", "none", "long", "empty", "sum"]
    for number, prompt in enumerate(prompts):
        one = request(0, number, prompt)
        encoder.put(one.pictures[0])
        asked.put(one)
    told.wait(6)
    assert [reason for *_, reason in told.losses] == [
        Reason.MODEL_ERROR,
        Reason.MODEL_ERROR,
        Reason.BAD_RESPONSE,
        Reason.TOO_LARGE,
        Reason.INVALID_ANSWER,
    ]
    assert "ValueError: broken" in told.traces[0]
    assert "SystemExit" in told.traces[1]
    assert [answer.text for answer in told.answers] == ["0"]
    asked.close()


def test_close_accounts_for_everything_and_abandons_code_that_hangs() -> None:
    class Hangs(Backend):
        def cancel(self):
            pass

    backend = Hangs()
    asked, told = service(backend, "wait")
    busy(asked, backend)
    for number in range(3):
        asked.put(request(0, number))
    began = time.monotonic()
    assert not asked.close()
    assert time.monotonic() - began < 1.9
    assert [reason for *_, reason in told.losses] == [Reason.STOPPED] * 4
    assert asked.snapshot() == {"asked": 4, "stopped": 4}
    assert asked.pending == 0
    backend.gate.set()
    time.sleep(0.05)
    assert told.answers == []
    asked.put(request(0, 9))
    assert told.losses[-1] == (0, 9, Reason.QUEUE_FULL)


def test_what_is_withdrawn_is_not_asked_and_its_answer_not_told() -> None:
    backend = Backend()
    asked, told = service(backend, "wait")
    first, second = request(0, 0, "first"), request(0, 1, "second")
    asked.put(first)
    while not backend.asked:
        time.sleep(0.001)
    asked.put(second)
    asked.withdraw([first, second], Reason.FLUSHED)
    backend.gate.set()
    asked.put(request(0, 2, "third"))
    told.wait(3)
    assert backend.asked == ["first", "third"]
    assert [answer.segment for answer in told.answers] == [2]
    assert asked.snapshot() == {"asked": 3, "answered": 1, "flushed": 2}
    asked.close()


def test_pictures_are_shrunk_and_encoded_once() -> None:
    calls = []

    def rgb():
        calls.append(1)
        picture = np.zeros((200, 400, 3), np.uint8)
        picture[..., 0] = 200
        return picture

    made = Picture(rgb)
    made.encode(Encoding(size=100))
    made.encode(Encoding(size=100))
    assert calls == [1]
    seen = made.rgb()
    assert seen.shape == (50, 100, 3)
    assert abs(int(seen[..., 0].mean()) - 200) < 4
    assert seen[..., 2].mean() < 4


def test_a_picture_that_cannot_be_made_is_the_loss_of_its_segment_only() -> None:
    def broken():
        raise RuntimeError("no pixels")

    made = Picture(broken)
    made.encode(Encoding())
    with pytest.raises(NoAnswer, match="no pixels") as caught:
        _ = made.jpeg
    assert caught.value.reason is Reason.MODEL_ERROR


def test_copies_that_wait_for_the_encoder_are_bounded() -> None:
    gate = threading.Event()

    def slow():
        gate.wait()
        return np.zeros((8, 8, 3), np.uint8)

    encoder = Encoder(Encoding())
    put = 0
    while encoder.has_room():
        encoder.put(Picture(slow))
        put += 1
        time.sleep(0.001)
    assert put in (Encoder.MOST_WAITING, Encoder.MOST_WAITING + 1)
    threading.Timer(0.05, gate.set).start()
    assert encoder.has_room(wait=True)
    encoder.close()
    assert not encoder.has_room(wait=True)


def test_who_waits_for_a_picture_that_is_never_made_is_told_when_the_encoder_ends() -> None:
    """Else a stop would wait for the thread that asks the model, and say that the model hangs."""
    gate = threading.Event()

    def slow():
        gate.wait()
        return np.zeros((8, 8, 3), np.uint8)

    asked, told = service(PythonBackend(lambda images, prompt: "yes", "yes", BackendOptions()))
    encoder = Encoder(Encoding())
    encoder.put(Picture(slow))
    waits, late = request(), request(segment=1)
    encoder.put(waits.pictures[0])
    asked.put(waits)
    until(lambda: asked.waiting == 0)
    encoder.close()
    encoder.put(late.pictures[0])
    told.wait(1)
    assert [reason for *_, reason in told.losses] == [Reason.STOPPED]
    with pytest.raises(NoAnswer, match="stopped before a picture was encoded"):
        _ = late.pictures[0].jpeg
    assert asked.close()
    gate.set()
