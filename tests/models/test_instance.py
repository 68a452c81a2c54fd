"""The model instance's thread: one for life, shared by id, never in the way of a stop or of the process's end."""

import gc
import logging
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import Future

import pytest

from sluice.models.instance import ModelDefinition, ModelInstance, Unfinished


class Recorder:
    """A model that writes down which thread made each of its calls."""

    def __init__(self, definition: ModelDefinition) -> None:
        self.calls: list[tuple[str, int]] = []
        self._record("open")

    def _record(self, name: str) -> None:
        self.calls.append((name, threading.get_ident()))

    def load(self) -> None:
        self._record("load")

    def warm_up(self) -> None:
        self._record("warm_up")

    def infer(self, frames: list) -> list:
        self._record("infer")
        return frames

    def close(self) -> None:
        self._record("close")


def definition(model: str = "m", **changes: object) -> ModelDefinition:
    return ModelDefinition(model, **changes)  # type: ignore[arg-type]


def test_every_call_is_made_on_the_instances_own_thread():
    instance = ModelInstance(definition(), Recorder)
    model = instance.wait_loaded(5)
    results = [instance.submit(lambda m, i=i: m.infer([i])) for i in range(3)]
    assert [r.result(5) for r in results] == [[0], [1], [2]]
    assert instance.close()
    assert [name for name, _ in model.calls] == ["open", "load", "warm_up", "infer", "infer", "infer", "close"]
    assert {ident for _, ident in model.calls} == {model.calls[0][1]}
    assert model.calls[0][1] != threading.get_ident()


def test_the_thread_is_a_daemon():
    instance = ModelInstance(definition("net.onnx"), Recorder)
    instance.wait_loaded(5)
    thread = next(t for t in threading.enumerate() if t.name == "model net.onnx")
    assert thread.daemon
    assert instance.close()
    assert thread.name != "model net.onnx"


def test_an_exception_while_loading_is_raised_where_it_is_waited_for():
    def fail(_: ModelDefinition) -> None:
        raise FileNotFoundError("no such file: net.onnx")

    instance = ModelInstance(definition(), fail)
    with pytest.raises(FileNotFoundError, match=r"net\.onnx"):
        instance.wait_loaded(5)
    assert instance.close()


def test_a_model_that_failed_to_load_is_closed():
    closed = threading.Event()

    class Bad(Recorder):
        def load(self) -> None:
            raise MemoryError

        def close(self) -> None:
            closed.set()

    instance = ModelInstance(definition(), Bad)
    with pytest.raises(MemoryError):
        instance.wait_loaded(5)
    assert closed.wait(5)


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_the_thread_outlives_whatever_a_call_raises(error):
    instance = ModelInstance(definition(), Recorder)

    def fail(_):
        raise error("frame 7")

    with pytest.raises(error, match="frame 7"):
        instance.submit(fail).result(5)
    assert instance.submit(lambda _: "alive").result(5) == "alive"
    assert instance.close()


def test_an_idle_instance_keeps_nothing_of_its_last_call():
    class Frame:
        pass

    instance = ModelInstance(definition(), Recorder)
    frame = Frame()
    alive = weakref.ref(frame)
    instance.submit(lambda m, frame=frame: m.infer([frame])).result(5)
    instance.submit(lambda _: None).result(5)
    del frame
    gc.collect()
    assert alive() is None
    instance.close()


def test_a_call_that_has_not_begun_can_be_taken_back():
    instance = ModelInstance(definition(), Recorder)
    gate = threading.Event()
    first = instance.submit(lambda _: gate.wait(5))
    second: Future[str] = instance.submit(lambda _: "too late")
    assert second.cancel()
    gate.set()
    assert first.result(5)
    assert instance.close()


def test_a_call_that_hangs_is_abandoned_and_reported_once(caplog):
    caplog.set_level(logging.WARNING)
    instance = ModelInstance(definition("sleepy"), Recorder)
    gate = threading.Event()
    begun = threading.Event()
    hanging = instance.submit(lambda _: (begun.set(), gate.wait(60)))
    behind = instance.submit(lambda _: None)
    assert begun.wait(5)
    start = time.monotonic()
    assert not instance.close(timeout=0.1)
    assert time.monotonic() - start < 1
    assert behind.cancelled()
    assert not hanging.done()
    assert not instance.close(timeout=0)
    assert [r.getMessage().split(":")[0] for r in caplog.records] == ["model sleepy"]
    assert instance.submit(lambda _: None).cancelled()
    gate.set()
    assert hanging.result(5)
    assert instance.close(5)


def test_a_hanging_call_does_not_keep_the_process():
    program = """
import threading, time
from sluice.models.instance import ModelDefinition, ModelInstance, Unfinished
class Model:
    load = warm_up = close = lambda self: None
instance = ModelInstance(ModelDefinition("sleepy"), lambda _: Model())
instance.wait_loaded()
begun = threading.Event()
instance.submit(lambda _: (begun.set(), time.sleep(60)))
begun.wait()
instance.close(0.2)
print("end")
"""
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "end\n"
    assert "abandoned" in done.stderr
    assert time.monotonic() - start < 20


def test_a_retired_instance_makes_the_calls_queued_before_and_closes():
    instance = ModelInstance(definition(), Recorder)
    model = instance.wait_loaded(5)
    gate = threading.Event()
    queued = [instance.submit(lambda _: gate.wait(5)), instance.submit(lambda m: m.infer([1]))]
    instance.retire()
    assert instance.submit(lambda m: m.infer([2])).cancelled()
    assert not instance.join(0.01)
    gate.set()
    assert instance.join(5)
    assert queued[1].result() == [1]
    assert [name for name, _ in model.calls][-2:] == ["infer", "close"]


def test_closing_a_retired_instance_takes_back_what_has_not_begun():
    instance = ModelInstance(definition(), Recorder)
    gate, begun = threading.Event(), threading.Event()
    first = instance.submit(lambda _: (begun.set(), gate.wait(5)))
    second = instance.submit(lambda _: None)
    assert begun.wait(5)
    instance.retire()
    assert not instance.close(0.01)
    assert second.cancelled()
    gate.set()
    assert instance.close(5)
    assert first.done()


class Slow(Unfinished):
    """Ready when told so."""

    def __init__(self, value: object) -> None:
        self.value, self.done = value, threading.Event()

    def ready(self) -> bool:
        return self.done.is_set()

    def finish(self) -> object:
        assert self.done.wait(10)
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


def test_calls_that_are_only_begun_are_finished_in_order_while_others_are_made():
    instance = ModelInstance(ModelDefinition("m"), lambda _: SimpleModel())
    begun = [Slow("first"), Slow(ValueError("second"))]
    futures = [instance.submit(lambda _, item=item: item) for item in begun]
    assert instance.submit(lambda _: "made at once").result(10) == "made at once"
    assert not futures[0].done()
    begun[1].done.set()
    time.sleep(0.01)
    assert not futures[1].done(), "the second was completed before the first"
    begun[0].done.set()
    assert futures[0].result(10) == "first"
    with pytest.raises(ValueError, match="second"):
        futures[1].result(10)
    instance.close()


def test_begun_calls_are_finished_before_the_thread_ends():
    instance = ModelInstance(ModelDefinition("m"), lambda _: SimpleModel())
    begun = Slow("value")
    future = instance.submit(lambda _: begun)
    instance.retire()
    begun.done.set()
    assert future.result(10) == "value"
    assert instance.join(10)


class SimpleModel:
    def load(self) -> None: ...

    def warm_up(self) -> None: ...

    def close(self) -> None: ...
