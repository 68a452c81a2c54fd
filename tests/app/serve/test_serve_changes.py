"""A change of the model of several processes: all have the new one at the end, or all the old."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from sluice.app.model_control import BusyModel
from sluice.app.serve.processes.changes import ModelChanges, Order
from sluice.app.serve.processes.task import Setup
from sluice.app.streams import Event, EventLog
from sluice.errors import ConfigurationError, ModelError
from waiting import until

NOTHING = {"confidence": None, "iou": None, "classes": None}
OLD = Setup("old", NOTHING)


class FakeProcess:
    """A process with a model; those whose names are in `bad` it refuses, and of those in `deadly` it dies.

    It is told once the event `go` is set.
    """

    def __init__(
        self, number: int, *, fed: bool = True, bad: tuple[str, ...] = (), deadly: tuple[str, ...] = ()
    ) -> None:
        self.name = f"process {number}"
        self.has: Setup | None = OLD
        self.anew: list[Setup] = []
        self.orders: list[Order] = []
        self.go = threading.Event()
        self.go.set()
        self._fed, self._bad, self._deadly = fed, bad, deadly

    def runs(self) -> bool:
        return self.has is not None

    def fed(self) -> bool:
        return self._fed

    def order(self, order: Order) -> queue.SimpleQueue[Event | None]:
        assert self.has is not None
        self.orders.append(order)
        outcomes: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        after = self.has
        if order.method == "swap_model":
            after = Setup(order.arguments[0], self.has.thresholds)
        else:
            after = Setup(self.has.model, {**self.has.thresholds, **order.named})
        threading.Thread(target=self._change, args=(after, outcomes), daemon=True).start()
        return outcomes

    def begin_anew(self, setup: Setup) -> None:
        self.anew.append(setup)
        if setup.model in self._bad:
            self.has = None
            raise ModelError(f"{setup.model} is bad")
        self.has = setup

    def restore(self, setup: Setup) -> None:
        self.begin_anew(setup)

    def runtime(self) -> str:
        return "python" if self.has == OLD else "other"

    def _change(self, after: Setup, outcomes: queue.SimpleQueue[Event | None]) -> None:
        self.go.wait(60)
        if after.model in self._deadly:
            self.has = None
            outcomes.put(None)
        elif after.model in self._bad or after.thresholds["classes"] == ["unicorn"]:
            outcomes.put(Event(0, "model-refused", None, "refused", {"reason": "it is bad", "status": 3}))
        else:
            self.has = after
            outcomes.put(Event(0, "model-swapped", None, "runs"))


class Site:
    """Changes of some processes, and what came of them."""

    def __init__(self, *processes: FakeProcess) -> None:
        self.processes = processes
        self.events = EventLog(time.time)
        self.kept: list[Setup] = []
        self.changes = ModelChanges(lambda: list(processes), self.events, OLD, self.kept.append, threading.Lock())
        self.changes.started("python")

    def kinds(self) -> list[str]:
        return [event.kind for event in self.events.since()]

    def ended(self) -> Event:
        """Wait for the end; return the last event, which says how it was."""
        until(lambda: self.changes.status["state"] == "running" and self.kinds()[-1] != "model-loading")
        return self.events.since()[-1]

    def have(self) -> list[str | None]:
        return [None if process.has is None else process.has.model for process in self.processes]


def test_all_follow_the_first() -> None:
    site = Site(FakeProcess(0), FakeProcess(1), FakeProcess(2))
    begun = site.changes.swap("new", "beside")
    ended = site.ended()
    assert (ended.kind, ended.number, ended.text) == ("model-swapped", begun + 1, "the model new runs")
    assert ended.details == {"model": "new", "thresholds": NOTHING}
    assert site.have() == ["new"] * 3
    assert site.kept == [Setup("new", NOTHING)]
    assert site.changes.status == {"name": "new", "runtime": "other", "state": "running", "reason": ""}


def test_what_the_first_refuses_no_other_tries() -> None:
    site = Site(FakeProcess(0, bad=("new",)), FakeProcess(1))
    site.changes.swap("new", "beside")
    ended = site.ended()
    assert site.kinds() == ["model-loading", "model-refused"]
    assert ended.text == "the model new was refused: it is bad"
    assert ended.details == {"model": "new", "status": 3, "reason": "it is bad"}
    assert (site.have(), site.processes[1].orders, site.kept) == (["old", "old"], [], [])
    assert site.changes.status["reason"] == "it is bad"


def test_what_a_later_one_refuses_all_give_back() -> None:
    site = Site(FakeProcess(0), FakeProcess(1), FakeProcess(2, bad=("new",)))
    site.changes.swap("new", "in-place")
    assert site.ended().text == "the model new was refused: process 2: it is bad"
    assert site.kinds() == ["model-loading", "model-refused"]
    assert (site.have(), site.kept) == (["old"] * 3, [])
    assert site.processes[0].orders[1] == Order("swap_model", ("old", "in-place"))
    assert not any(process.anew for process in site.processes)
    assert site.changes.status["name"] == "old"


def test_one_that_does_not_take_the_old_one_back_is_started_anew_with_it() -> None:
    first = FakeProcess(0)
    site = Site(first, FakeProcess(1, bad=("new",)))
    first._deadly = ("old",)
    site.changes.swap("new", "beside")
    assert site.ended().kind == "model-refused"
    assert (site.have(), first.anew) == (["old", "old"], [OLD])


def test_one_without_frames_is_started_anew_behind_those_with_frames() -> None:
    idle, busy = FakeProcess(0, fed=False), FakeProcess(1, bad=("bad",))
    site = Site(idle, busy)
    site.changes.swap("bad", "beside")
    assert site.ended().kind == "model-refused"
    assert idle.anew == []
    site.changes.swap("new", "beside")
    assert site.ended().kind == "model-swapped"
    assert (site.have(), idle.anew, idle.orders) == (["new", "new"], [Setup("new", NOTHING)], [])


def test_one_without_frames_that_cannot_start_so_gets_the_old_one_back() -> None:
    idle, busy = FakeProcess(0, fed=False, bad=("new",)), FakeProcess(1)
    site = Site(idle, busy)
    site.changes.swap("new", "beside")
    assert site.ended().text == "the model new was refused: process 0: new is bad"
    assert (site.have(), idle.anew) == (["old", "old"], [Setup("new", NOTHING), OLD])


def test_a_model_that_kills_is_refused() -> None:
    site = Site(FakeProcess(0, deadly=("new",)), FakeProcess(1))
    site.changes.swap("new", "beside")
    assert "process 0 ended while" in site.ended().text
    assert site.have() == ["old", "old"]


def test_one_that_does_not_run_is_left_out() -> None:
    down = FakeProcess(0)
    down.has = None
    site = Site(down, FakeProcess(1))
    site.changes.swap("new", "beside")
    assert site.ended().kind == "model-swapped"
    assert site.have() == [None, "new"]  # whoever starts it again starts it with what was kept
    assert site.kept == [Setup("new", NOTHING)]


def test_thresholds_follow_the_change_that_is_under_way() -> None:
    first = FakeProcess(0)
    site = Site(first, FakeProcess(1))
    first.go.clear()
    site.changes.swap("new", "beside")
    with pytest.raises(BusyModel):
        site.changes.swap("newer", "beside")
    site.changes.set_thresholds({"confidence": 0.3})
    site.changes.set_thresholds({"confidence": 0.5, "iou": 0.7})
    assert site.changes.status["state"] == "loading"
    first.go.set()
    ended = until(lambda: (event := site.ended()).details["thresholds"]["iou"] and event)
    assert ended.details["thresholds"] == {"confidence": 0.5, "iou": 0.7, "classes": None}
    assert site.kinds() == ["model-loading", "model-swapped"] * 2
    assert [process.has for process in site.processes] == [Setup("new", {**NOTHING, "confidence": 0.5, "iou": 0.7})] * 2


def test_thresholds_that_are_refused_change_nothing() -> None:
    site = Site(FakeProcess(0), FakeProcess(1))
    site.changes.set_thresholds({"iou": 0.7})
    until(lambda: site.ended().kind == "model-swapped")
    site.changes.set_thresholds({"classes": ["unicorn"]})
    until(lambda: site.ended().kind == "model-refused")
    site.changes.set_thresholds({"confidence": 0.5})
    ended = until(lambda: (event := site.ended()).kind == "model-swapped" and event)
    assert ended.details["thresholds"] == {"confidence": 0.5, "iou": 0.7, "classes": None}


@pytest.mark.parametrize(
    "ask",
    [lambda changes: changes.swap("new", "sideways"), lambda changes: changes.set_thresholds({"confidence": 2})],
)
def test_what_cannot_be_is_refused_at_once(ask: Callable[[ModelChanges], Any]) -> None:
    site = Site(FakeProcess(0))
    with pytest.raises(ConfigurationError):
        ask(site.changes)
    assert (site.kinds(), site.changes.status["state"]) == ([], "running")


def test_a_fault_of_ours_keeps_no_later_change_from_being_made(caplog: pytest.LogCaptureFixture) -> None:
    class Faulty(FakeProcess):
        def fed(self) -> bool:
            raise LookupError("no such thing")

    site = Site(Faulty(0))
    site.changes.swap("new", "beside")
    assert "no such thing" in site.ended().text
    assert "could not be changed" in caplog.text
    assert isinstance(site.changes.swap("newer", "beside"), int)
