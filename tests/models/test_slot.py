"""The slot of a model: who shares it, and how one model takes the place of another, whatever goes wrong."""

import gc
import logging
import threading
import weakref

import pytest

from sluice.errors import ConfigurationError, ModelError, text_of
from sluice.models import slot as slots
from sluice.models.instance import ModelDefinition
from sluice.models.sharing import acquire, release
from sluice.models.slot import NO_MODEL, ModelSlot
from sluice.models.swap import Calls, SwapRequest, SwapStatus, status_of
from sluice.models.threads import MOST_SPARE
from waiting import until

WAIT = 60  # seconds, on a machine that has much other work


class Frames:
    """What an element lends for a trial."""

    def __init__(self, *frames: int) -> None:
        self.frames = frames
        self.released = False

    def release(self) -> None:
        self.released = True


class Shop:
    """Opens models by name and keeps a diary of what was done with them, in order, over all models.

    Attributes:
        faults: "name step" -> the exception that this step raises, such as ``{"b load": MemoryError()}``.
        gates: "name step" -> an event that this step waits for.
    """

    def __init__(self) -> None:
        self.diary: list[str] = []
        self.threads: dict[str, set[int]] = {}
        self.faults: dict[str, BaseException] = {}
        self.gates: dict[str, threading.Event] = {}
        self.rehearsed: list[tuple[str, Calls]] = []

    def open(self, definition: ModelDefinition) -> "Made":
        model = Made(self, definition.model)
        model.step("open")
        return model

    def hold(self, step: str) -> threading.Event:
        """Let a step of a model wait until the event is set."""
        return self.gates.setdefault(step, threading.Event())


class Made:
    """A model of the shop."""

    def __init__(self, shop: Shop, name: str) -> None:
        self.shop, self.name = shop, name

    def step(self, name: str) -> None:
        step = f"{self.name} {name}"
        self.shop.diary.append(step)
        self.shop.threads.setdefault(self.name, set()).add(threading.get_ident())
        if step in self.shop.gates:
            assert self.shop.gates[step].wait(WAIT)
        if step in self.shop.faults:
            raise self.shop.faults[step]

    def load(self) -> None:
        self.step("load")

    def warm_up(self) -> None:
        self.step("warm_up")

    def infer(self, frames: list) -> list:
        self.step(f"infer {frames}")
        return [f"{self.name} {frame}" for frame in frames]

    def rehearse(self, calls: Calls) -> None:
        self.step("rehearse")
        self.shop.rehearsed.append((self.name, calls))

    def close(self) -> None:
        self.step("close")


class Ear:
    """A listener: keeps the reports and waits for them."""

    def __init__(self) -> None:
        self.reports = []
        self._heard = threading.Semaphore(0)

    def __call__(self, report) -> None:
        self.reports.append(report)
        self._heard.release()

    def next(self):
        assert self._heard.acquire(timeout=WAIT), "no report"
        return self.reports[-1]


def request(name: str, *, in_place: bool = False, values=None) -> SwapRequest:
    return SwapRequest(ModelDefinition(name), name, in_place, values)


@pytest.fixture
def shop():
    return Shop()


@pytest.fixture
def ear():
    return Ear()


@pytest.fixture
def slot(shop, ear):
    slot = acquire(ModelDefinition("a"), shop.open, ear)
    slot.wait_loaded(5)
    yield slot
    release(slot, ear)


def infer(slot: ModelSlot, *frames: int):
    return slot.submit(lambda model: model.infer(list(frames))).result(5)


def lend(slot: ModelSlot, *frames: int) -> Frames:
    """Wait until the new model wants frames and lend it these."""
    until(lambda: slot.wants_sample)
    sample = Frames(*frames)
    slot.offer(sample)
    return sample


# Sharing


def test_elements_with_the_same_id_share_one_model(shop):
    ears = [Ear(), Ear(), Ear()]
    first, second = (acquire(ModelDefinition("a"), shop.open, ear, "shared") for ear in ears[:2])
    private = acquire(ModelDefinition("p"), shop.open, ears[2])
    assert first is second
    assert private is not first
    first.wait_loaded(5)
    assert release(second, ears[1])
    assert infer(first, 1) == ["a 1"]
    assert release(first, ears[0])
    assert shop.diary.count("a load") == shop.diary.count("a close") == 1
    reopened = acquire(ModelDefinition("other"), shop.open, ears[0], "shared")
    assert reopened is not first
    release(reopened, ears[0])
    release(private, ears[2])


def test_elements_that_share_must_agree(shop, ear):
    first = acquire(ModelDefinition("a.onnx", device="cpu"), shop.open, ear, "one")
    with pytest.raises(ConfigurationError, match=r"'one'.*model is 'b\.onnx', not 'a\.onnx', confidence is 0\.5"):
        acquire(ModelDefinition("b.onnx", device="cpu", confidence=0.5), shop.open, ear, "one")
    assert release(first, ear)


def test_elements_that_share_swap_together_and_who_comes_later_must_agree_with_the_new_model(shop):
    ears = [Ear(), Ear(), Ear()]
    first, second = (acquire(ModelDefinition("a"), shop.open, ear, "pair") for ear in ears[:2])
    assert first.swap(SwapRequest(ModelDefinition("b", exact=True), "b", values={"model": "b"})) is None
    lend(second, 7)
    assert [ear.next().request.values for ear in ears[:2]] == [{"model": "b"}] * 2
    assert infer(second, 1) == ["b 1"]
    with pytest.raises(ConfigurationError, match="model is 'a', not 'b'"):
        acquire(ModelDefinition("a"), shop.open, ears[2], "pair")
    # Asked for at a start, the same model is the same, though a swap was to have it and no other.
    third = acquire(ModelDefinition("b", exact=False), shop.open, ears[2], "pair")
    assert third is first
    assert first.definition.exact
    for slot, ear in zip((first, second, third), ears, strict=True):
        release(slot, ear)


# Beside


def test_the_new_model_is_loaded_warmed_up_and_tried_before_the_old_one_goes(shop, slot, ear):
    assert infer(slot, 1) == ["a 1"]
    assert slot.swap(request("b")) is None
    sample = lend(slot, 2, 3)
    assert ear.next().status == SwapStatus.SUCCESS
    assert sample.released
    assert infer(slot, 4) == ["b 4"]
    assert slot.definition == ModelDefinition("b")
    assert shop.diary[4:] == ["b open", "b load", "b warm_up", "b rehearse", "b infer [2, 3]", "a close", "b infer [4]"]
    assert {len(threads) for threads in shop.threads.values()} == {1}
    assert shop.threads["a"] != shop.threads["b"]


def test_the_old_model_works_while_the_new_one_loads(shop, slot, ear):
    gate = shop.hold("b load")
    slot.swap(request("b"))
    until(lambda: "b load" in shop.diary)
    assert infer(slot, 1) == ["a 1"]
    assert slot.definition.model == "a"
    gate.set()
    lend(slot, 0)
    ear.next()
    assert infer(slot, 2) == ["b 2"]


def test_calls_queued_before_the_swap_are_made_by_the_old_model(shop, slot, ear):
    gate = shop.hold("a infer [1]")
    queued = [slot.submit(lambda model, i=i: model.infer([i])) for i in (1, 2, 3)]
    slot.swap(request("b"))
    lend(slot, 0)
    until(lambda: slot.definition.model == "b")
    later = slot.submit(lambda model: model.infer([4]))
    assert later.result(5) == ["b 4"]
    assert ear.reports == []  # the old model is not gone yet
    gate.set()
    assert ear.next().status == SwapStatus.SUCCESS
    assert [future.result(0) for future in queued] == [["a 1"], ["a 2"], ["a 3"]]


def test_no_frames_no_swap_until_there_are(shop, slot, ear):
    slot.swap(request("b"))
    until(lambda: slot.wants_sample)
    assert slot.definition.model == "a"
    lend(slot, 5)
    assert ear.next().status == SwapStatus.SUCCESS
    assert not slot.wants_sample


def test_the_new_model_is_made_ready_for_the_calls_of_the_old_one(shop, slot, ear):
    """Whoever made them, and however many models there were since."""
    for name in ("b", "c"):
        slot.note_call(2, 3, on_gpu=name == "c")
        slot.note_call(4 if name == "b" else 2, 1, on_gpu=False)
        slot.swap(request(name))
        lend(slot, 0)
        assert ear.next().status == SwapStatus.SUCCESS
    sizes = frozenset({2, 4})
    assert shop.rehearsed == [("b", Calls(sizes, 3)), ("c", Calls(sizes, 3, on_gpu=True))]


def test_frames_that_nobody_waits_for_are_given_back(slot):
    sample = Frames(1)
    slot.offer(sample)
    assert sample.released


@pytest.mark.parametrize("step", ["open", "load", "warm_up", "rehearse", "infer [9]"])
@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ModelError("of another shape"), None),
        (MemoryError(), SwapStatus.OUT_OF_MEMORY),
        (RuntimeError("CUDA error: out of memory"), SwapStatus.OUT_OF_MEMORY),
        (ValueError("odd"), SwapStatus.UNKNOWN),
        (SystemExit("away"), SwapStatus.UNKNOWN),
    ],
)
@pytest.mark.parametrize("in_place", [False, True])
def test_a_model_that_fails_leaves_the_old_one_running(shop, slot, ear, step, error, status, in_place):
    shop.faults[f"b {step}"] = error
    slot.swap(request("b", in_place=in_place))
    sample = lend(slot, 9) if step == "infer [9]" else None
    report = ear.next()
    if status is None:
        status = SwapStatus.OUTPUT_PARSING_FAILED if sample else SwapStatus.CONFIG_FAILED
    assert report.status == status
    assert not report.lost
    steps = {"infer [9]": "calling it with frames of the stream", "rehearse": "preparing it for the stream's batches"}
    assert report.reason.startswith(f"{steps.get(step, 'loading it')} failed: {text_of(error)}")
    assert "in step" in report.trace
    assert sample is None or sample.released
    assert slot.definition.model == "a"
    assert infer(slot, 1) == ["a 1"]
    assert ("b close" in shop.diary) is (step != "open")
    assert slot.swap(request("c")) is None  # and another may be tried
    lend(slot, 8)
    assert ear.next().status == SwapStatus.SUCCESS


def test_what_a_failed_model_allocated_is_free_when_its_failure_is_reported():
    """The traceback would keep the locals of load(), and with them the memory that was too much."""

    class Weights:
        pass

    alive = []

    class Big(Made):
        def load(self) -> None:
            weights = Weights()
            alive.append(weakref.ref(weights))
            self.weights = weights
            raise MemoryError

    shop = Shop()
    reported = Ear()
    dead = []

    def listener(report) -> None:
        gc.collect()
        dead.append(alive[0]() is None)
        reported(report)

    slot = acquire(ModelDefinition("a"), lambda d: (Big if d.model == "big" else Made)(shop, d.model), listener)
    slot.swap(request("big"))
    assert reported.next().status == SwapStatus.OUT_OF_MEMORY
    assert dead == [True]
    release(slot, listener)


def test_an_object_that_runs_cannot_replace_itself():
    """It would be loaded while it works, and closed while it is in its own place."""

    class Adapted(Made):
        def __init__(self, shop, name, target) -> None:
            super().__init__(shop, name)
            self.target = target

    shop, reported = Shop(), Ear()
    only = Made(shop, "only")
    slot = acquire(ModelDefinition("m:only"), lambda d: Adapted(shop, d.model, only), reported)
    slot.swap(request("m:only"))
    report = reported.next()
    assert report.status == SwapStatus.CONFIG_FAILED
    assert "m:only is the same object as the model that runs" in report.reason
    assert shop.diary == ["m:only load", "m:only warm_up"]
    assert infer(slot, 1) == ["m:only 1"]
    slot.swap(request("m:only", in_place=True))  # where it is closed first
    lend(slot, 2)
    assert reported.next().status == SwapStatus.SUCCESS
    release(slot, reported)


def test_a_function_may_replace_itself():
    def function(frames):
        return frames

    class Adapted(Made):
        target = staticmethod(function)

    shop, reported = Shop(), Ear()
    slot = acquire(ModelDefinition("m:f"), lambda d: Adapted(shop, d.model), reported)
    slot.swap(request("m:f"))
    lend(slot, 1)
    assert reported.next().status == SwapStatus.SUCCESS
    release(slot, reported)


def test_a_swap_for_which_there_is_no_thread_is_refused_and_the_next_one_begins(shop, slot, ear, monkeypatch):
    def start(_thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        report = slot.swap(request("b"))
    assert (report.status, report.reason) == (
        SwapStatus.UNKNOWN,
        "no thread could be started for the change: can't start new thread",
    )
    assert infer(slot, 1) == ["a 1"]
    assert slot.swap(request("c")) is None
    lend(slot, 2)
    assert ear.next().status == SwapStatus.SUCCESS


def test_a_second_swap_is_refused_while_one_is_in_progress(shop, slot, ear):
    slot.swap(request("b"))
    refusal = slot.swap(request("c"))
    assert refusal.status == SwapStatus.UNKNOWN
    assert refusal.reason.startswith("the change to b is still in progress")
    lend(slot, 0)
    ear.next()
    assert slot.definition.model == "b"
    assert ear.reports == [ear.reports[0]]


def test_a_listener_may_ask_for_the_next_model(shop):
    done = Ear()

    def listener(report) -> None:
        if report.request.path == "b":
            assert slot.swap(request("c")) is None
        done(report)

    slot = acquire(ModelDefinition("a"), shop.open, listener)
    slot.swap(request("b"))
    lend(slot, 0)
    done.next()
    lend(slot, 0)
    assert done.next().request.path == "c"
    release(slot, listener)


def test_an_old_model_that_hangs_does_not_hold_up_the_new_one(shop, slot, ear, monkeypatch, caplog):
    monkeypatch.setattr(slots, "RETIRE_GRACE", 0.05)
    caplog.set_level(logging.WARNING)
    gate = shop.hold("a infer [1]")
    slot.submit(lambda model: model.infer([1]))
    slot.swap(request("b"))
    lend(slot, 0)
    assert ear.next().status == SwapStatus.SUCCESS
    assert [record.getMessage().split(":")[0] for record in caplog.records] == ["model a"]
    assert infer(slot, 2) == ["b 2"]
    gate.set()


# No model


def test_none_is_a_model_that_can_be_swapped_both_ways(shop, slot, ear):
    slot.swap(request(NO_MODEL))
    assert ear.next().status == SwapStatus.SUCCESS
    assert not slot.running
    assert slot.submit(lambda model: model.infer([1])) is None
    slot.swap(request("b"))
    lend(slot, 0)
    ear.next()
    assert slot.running
    assert infer(slot, 1) == ["b 1"]


# In place


def test_in_place_the_old_model_is_gone_before_the_new_one_is_opened(shop, slot, ear):
    gate = shop.hold("a infer [1]")
    load = shop.hold("b load")
    queued = slot.submit(lambda model: model.infer([1]))
    slot.swap(request("b", in_place=True))
    until(lambda: not slot.running)
    assert slot.submit(lambda model: model.infer([2])) is None
    gate.set()
    assert queued.result(5) == ["a 1"]
    load.set()
    lend(slot, 3)
    assert ear.next().status == SwapStatus.SUCCESS
    assert shop.diary.index("a close") < shop.diary.index("b open")
    assert infer(slot, 4) == ["b 4"]


def test_in_place_the_new_model_is_gone_before_the_old_one_is_opened_again(shop, slot, ear):
    shop.faults["b warm_up"] = MemoryError()
    slot.swap(request("b", in_place=True))
    assert ear.next().status == SwapStatus.OUT_OF_MEMORY
    opened_again = len(shop.diary) - 1 - shop.diary[::-1].index("a open")
    assert shop.diary.index("b close") < opened_again
    assert shop.diary.count("a load") == 2


def test_in_place_an_old_model_that_cannot_come_back_is_lost(shop, slot, ear):
    shop.faults["b load"] = ValueError("odd")
    shop.faults["a open"] = OSError("the disk is gone")
    slot.swap(request("b", in_place=True))
    report = ear.next()
    assert report.lost
    assert "ValueError: odd" in report.reason
    assert "a, which ran before, could not be loaded again: OSError: the disk is gone" in report.reason
    assert not slot.running


# Stop


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("step", ["b open", "b warm_up", "b infer [0]"])
def test_a_stop_in_the_middle_of_a_swap_leaves_no_thread(shop, ear, step, in_place):
    slot = acquire(ModelDefinition("a"), shop.open, ear)
    gate = shop.hold(step)
    slot.swap(request("b", in_place=in_place))
    if step == "b infer [0]":
        lend(slot, 0)
    until(lambda: step in shop.diary)
    release(slot, ear, timeout=0.05)
    assert slot.swap(request("c")).reason == "the element has stopped"
    gate.set()
    until(lambda: not [t for t in threading.enumerate() if t.name in ("model a", "model b", "swap b")])
    assert ear.reports == []
    assert shop.diary.count("b open") == shop.diary.count("b close") == 1


def test_a_stop_as_a_swap_begins_is_said_of_no_model(shop, ear, caplog, monkeypatch):
    slot = acquire(ModelDefinition("a"), shop.open, ear)
    open_another = slot._open

    def stopped_then(*given):
        instance = open_another(*given)
        release(slot, ear)
        return instance

    monkeypatch.setattr(slot, "_open", stopped_then)
    slot.swap(request("b"))
    until(lambda: not [t for t in threading.enumerate() if t.name in ("model a", "model b", "swap b")])
    assert shop.diary.count("b open") == shop.diary.count("b close") == 1
    assert caplog.messages == []


@pytest.mark.parametrize("in_place", [False, True])
def test_a_stop_while_the_new_model_waits_for_frames(shop, ear, in_place):
    slot = acquire(ModelDefinition("a"), shop.open, ear)
    slot.swap(request("b", in_place=in_place))
    until(lambda: slot.wants_sample)
    assert release(slot, ear)
    until(lambda: not [t for t in threading.enumerate() if t.name in ("model a", "model b", "swap b")])
    assert shop.diary.count("a open") == shop.diary.count("a close")


def test_no_thread_and_no_model_is_left_after_many_swaps(shop, slot, ear):
    threads = threading.active_count()
    for i in range(30):
        slot.swap(request(f"m{i}"))
        lend(slot, 0)
        assert ear.next().status == SwapStatus.SUCCESS
    until(lambda: threading.active_count() <= threads + MOST_SPARE)
    gc.collect()
    assert len([thing for thing in gc.get_objects() if type(thing) is Made and thing.shop is shop]) == 1


@pytest.mark.parametrize(
    ("error", "tried", "status"),
    [
        (FileNotFoundError("no net.onnx"), False, 1),
        (ImportError("no module"), False, 1),
        (ConfigurationError("no such device"), False, 1),
        (ModelError("3 results for 4 frames"), True, 4),
        (RuntimeError("std::bad_alloc"), True, 9),
        (KeyError("x"), True, 10),
    ],
)
def test_statuses_are_nvinfers(error, tried, status):
    assert status_of(error, tried=tried) == status
