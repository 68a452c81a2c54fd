"""Work in order on a thread that lives only while there is some."""

from __future__ import annotations

import threading

import pytest

from sluice.app.streams.worker import Worker


def test_work_is_done_in_order_and_the_thread_ends() -> None:
    worker, done, gate = Worker("test-worker"), list[int](), threading.Event()
    worker.submit(lambda: (gate.wait(5), None)[1])
    for number in range(100):
        worker.submit(lambda number=number: done.append(number))
    assert not worker.join(0.01)
    assert done == []
    gate.set()
    assert worker.join(5)
    assert done == list(range(100))
    assert not [thread for thread in threading.enumerate() if thread.name == "test-worker" and thread.is_alive()]


def test_work_that_fails_is_logged_and_the_next_is_done(caplog: pytest.LogCaptureFixture) -> None:
    worker, done = Worker("test-worker"), threading.Event()

    def fail() -> None:
        raise ValueError("no")

    worker.submit(fail)
    worker.submit(done.set)
    assert done.wait(5)
    assert "ValueError: no" in caplog.text
