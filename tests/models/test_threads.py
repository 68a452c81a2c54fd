"""Threads for models: used again, but not where a model left them otherwise than a new one is."""

import contextvars
import gc
import sys
import threading
import time
import weakref

import pytest

from sluice.models import threads
from sluice.models.threads import MOST_SPARE, ModelThread

PATIENCE = 10


@pytest.fixture(autouse=True)
def no_spare_threads(monkeypatch):
    """Those of other tests stay out of it."""
    monkeypatch.setattr(threads, "_spare", {})


def ran(body=lambda: None, device="auto") -> threading.Thread:
    """The thread on which a function ran to its end."""
    on: list[threading.Thread] = []

    def noting() -> None:
        on.append(threading.current_thread())
        body()

    one = ModelThread(noting, "one", device)
    one.join(PATIENCE)
    assert not one.is_alive()
    return on[0]


def test_the_thread_of_one_that_has_ended_is_used_again():
    first = ran()
    assert [ran() for _ in range(5)] == [first] * 5


def test_a_device_has_threads_of_its_own():
    first, second = ran(device="cuda:0"), ran(device="cuda:1")
    assert first is not second
    assert [ran(device="cuda:1"), ran(device="cuda:0")] == [second, first]


def test_two_at_once_have_a_thread_each():
    gate = threading.Event()
    slow = ModelThread(lambda: gate.wait(PATIENCE), "slow")
    others = {ran() for _ in range(5)}
    assert len(others) == 1
    assert slow.is_alive()
    slow.join(0.01)
    assert slow.is_alive()
    gate.set()
    slow.join(PATIENCE)
    assert not slow.is_alive()


def test_no_more_are_kept_than_a_change_needs():
    before = threading.active_count()
    gate = threading.Event()
    many = [ModelThread(lambda: gate.wait(PATIENCE), f"many {i}") for i in range(8)]
    assert threading.active_count() >= before + 8
    gate.set()
    for one in many:
        one.join(PATIENCE)
    end = time.monotonic() + PATIENCE
    while threading.active_count() > before + MOST_SPARE and time.monotonic() < end:
        time.sleep(0.01)
    assert threading.active_count() <= before + MOST_SPARE


def test_the_thread_has_the_name_while_the_function_runs_and_is_a_daemon():
    seen: list[threading.Thread] = []
    names: list[str] = []

    def look() -> None:
        seen.append(threading.current_thread())
        names.append(seen[0].name)

    ran(look)
    ran(lambda: names.append(threading.current_thread().name))
    assert names == ["one", "one"]
    assert seen[0].daemon


def test_what_a_function_held_is_let_go_before_the_next_one_comes():
    class Held:
        def body(self) -> None:
            pass

    held = Held()
    gone = weakref.ref(held)
    one = ModelThread(held.body, "one")
    one.join(PATIENCE)
    del held
    gc.collect()
    assert gone() is None


def test_context_variables_of_one_are_not_those_of_the_next():
    variable = contextvars.ContextVar("variable", default="new")
    found: list[str] = []
    ran(lambda: variable.set("changed") and None)
    ran(lambda: found.append(variable.get()))
    assert found == ["new"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_function_that_raises_all_the_same_ends_the_thread_and_is_over():
    def fail() -> None:
        raise SystemExit(3)

    thread = ran(fail)
    assert ran() is not thread
    thread.join(PATIENCE)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    "change",
    [
        lambda torch: torch.set_grad_enabled(False),
        lambda torch: torch.set_default_device("meta"),
        lambda torch: torch.set_autocast_enabled("cpu", True),
    ],
    ids=["grad", "device", "autocast"],
)
def test_a_thread_that_a_model_left_changed_is_not_used_again(change):
    torch = pytest.importorskip("torch", reason="looks at PyTorch's state of threads")
    assert ran(lambda: change(torch)) is not ran()


def test_a_gpu_that_has_failed_ends_the_thread_and_nothing_else(monkeypatch):
    """As after an illegal access, when every call of PyTorch's raises."""

    class Failed:
        def __getattr__(self, name):
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setitem(sys.modules, "torch", Failed())
    raised: list[object] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    thread = ran()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert ran() is not thread
    assert raised == []


def test_a_thread_that_pytorch_was_only_used_on_is_used_again():
    torch = pytest.importorskip("torch", reason="looks at PyTorch's state of threads")

    def body() -> None:
        with torch.inference_mode(), torch.autocast("cpu"):
            torch.ones(2, 2) @ torch.ones(2, 2)

    assert ran(body) is ran()
