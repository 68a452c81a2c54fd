"""Pads that many threads ask for and give back at the same time, while statistics are read."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import gi
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

Gst.init(None)

from sluice.elements import register
from sluice.elements.pad_numbers import PadNumbers

THREADS, ROUNDS = 8, 60


@pytest.fixture(autouse=True)
def quick_changes() -> Iterator[None]:
    """Threads that change as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_a_number_is_given_once_and_again_when_it_came_back() -> None:
    numbers = PadNumbers("sink_")
    assert [numbers.take(None), numbers.take("sink_2"), numbers.take(None), numbers.take(None)] == [0, 2, 1, 3]
    assert numbers.take("sink_2") is None
    assert numbers.take("sink_two") is None
    numbers.give_back(1)
    assert numbers.take(None) == 1


@pytest.mark.parametrize("name", ["sluicemux", "sluicedemux"])
@pytest.mark.parametrize("numbered", [True, False])
def test_pads_may_be_asked_for_by_many_threads_at_once(name: str, numbered: bool) -> None:
    register(name)
    element = Gst.ElementFactory.make(name)
    bus = Gst.Bus()
    element.set_bus(bus)
    template = element.get_pad_template("sink_%u") or element.get_pad_template("src_%u")
    prefix = template.name_template.removesuffix("%u")
    most: list[str] = []
    lacking: list[int] = []
    begin = threading.Barrier(THREADS + 1)
    done = threading.Event()

    def ask(thread: int) -> None:
        begin.wait()
        for turn in range(ROUNDS):
            asked = [
                element.request_pad(template, f"{prefix}{1000 * thread + turn * 4 + n}" if numbered else None, None)
                for n in range(4)
            ]
            lacking.extend(thread for pad in asked if pad is None)
            most.extend(pad.get_name() for pad in asked[1:] if pad is not None)
            for pad in asked[:1]:
                if pad is not None:
                    element.release_request_pad(pad)

    def look() -> None:
        begin.wait()
        while not done.is_set():
            element.get_property("stats")

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(THREADS)]
    watcher = threading.Thread(target=look)
    for thread in (*threads, watcher):
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    watcher.join()
    assert lacking == []
    refused = bus.pop_filtered(Gst.MessageType.ERROR)
    assert refused is None, refused.parse_error()
    kept = sorted(pad.get_name() for pad in element.pads if pad.get_name().startswith(prefix))
    assert kept == sorted(most)
