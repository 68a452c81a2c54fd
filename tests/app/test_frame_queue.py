"""The queue between a pipeline and a program: what is kept, what is dropped, what is held back."""

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluice.app.frame_queue import MOST_PIXELS, MOST_WAITING, FrameQueue, Gate


class FakeGate:
    def __init__(self) -> None:
        self.is_shut = False

    def shut(self) -> None:
        self.is_shut = True

    def open(self) -> None:
        self.is_shut = False


FEW_WAITING = MOST_WAITING // 2


def frame(number: int, width: int = 64, height: int = 48) -> Any:
    return SimpleNamespace(number=number, width=width, height=height, answers=[])


@pytest.fixture
def gates() -> list[FakeGate]:
    return [FakeGate(), FakeGate()]


@pytest.fixture
def queue(gates: list[FakeGate]) -> FrameQueue:
    """Stream 0 is a file, stream 1 is live."""
    queue = FrameQueue()
    for stream, gate in enumerate(cast("list[Gate]", gates)):
        queue.join(stream, gate, held_back=stream == 0)
    return queue


def test_a_file_is_held_back_when_crowded_and_let_go_when_calm(queue: FrameQueue, gates: list[FakeGate]) -> None:
    for number in range(MOST_WAITING):
        queue.put(0, frame(number))
    assert not gates[0].is_shut
    queue.put(0, frame(MOST_WAITING))  # was on its way already, and is not lost
    assert gates[0].is_shut
    taken = []
    while gates[0].is_shut:
        taken.append(cast(Any, queue.get()).number)
    assert taken == list(range(MOST_WAITING + 1 - FEW_WAITING))
    assert queue.dropped(0) == 0


def test_a_live_stream_loses_its_own_oldest(queue: FrameQueue, gates: list[FakeGate]) -> None:
    queue.put(0, frame(100))
    for number in range(MOST_WAITING + 3):
        queue.put(1, frame(number))
    assert (queue.dropped(0), queue.dropped(1)) == (0, 3)
    assert not gates[1].is_shut
    queue.close()
    taken = [item.number for item in iter(queue.get, None)]
    assert taken == [100, *range(3, MOST_WAITING + 3)]


def test_closing_wakes_who_waits(queue: FrameQueue) -> None:
    got: list[Any] = []
    thread = threading.Thread(target=lambda: got.append(queue.get()))
    thread.start()
    queue.close()
    thread.join(5)
    assert got == [None]


def test_closing_opens_every_gate_and_may_discard(queue: FrameQueue, gates: list[FakeGate]) -> None:
    for number in range(MOST_WAITING + 1):
        queue.put(0, frame(number))
    assert gates[0].is_shut
    queue.close(discard=True)
    assert not gates[0].is_shut
    assert queue.get() is None
    queue.put(0, frame(99))
    assert queue.get() is None


def test_of_large_frames_fewer_wait(queue: FrameQueue, gates: list[FakeGate]) -> None:
    assert MOST_PIXELS // (1920 * 1080) == 3
    for number in range(3):
        queue.put(0, frame(number, 1920, 1080))
    assert not gates[0].is_shut
    queue.put(0, frame(3, 1920, 1080))
    assert gates[0].is_shut
    for _ in range(3):
        queue.get()
    assert not gates[0].is_shut
    for number in range(2):
        queue.put(0, frame(number, 7680, 4320))
    assert gates[0].is_shut


def test_answers_of_frames_that_are_dropped_go_on_with_the_next(queue: FrameQueue) -> None:
    for number in range(MOST_WAITING + 3):
        given = frame(number)
        given.answers = [f"answer {number}"] if number < 2 or number == 4 else []
        queue.put(1, given)
    taken = [cast(Any, queue.get()) for _ in range(MOST_WAITING)]
    told = {one.number: one.answers for one in taken if one.answers}
    assert told == {3: ["answer 0", "answer 1"], 4: ["answer 4"]}
