"""sluiceinfer's model is replaced while streams run: every frame keeps its place and shows which model saw it."""

import contextlib
import gc
import queue
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import gi
import pytest

gi.require_version("Gst", "1.0")
from frame_ledger import Ledger
from gi.repository import Gst
from swap_models import Gated, Held, OnceOnly, Rehearsing, Versioned

from playing import reaches_its_end
from sluice.contract import counters
from sluice.contract.metadata import BatchMeta, Lease
from sluice.elements import register
from waiting import PATIENCE, until

SIZES = [("I420", 64, 48), ("NV12", 48, 32), ("GRAY8", 33, 21), ("RGB", 40, 30)]
MODEL = "swap_models:Versioned"
WAIT = PATIENCE


class VersionLedger(Ledger):
    """A ledger that also keeps which model saw each frame; None for a frame that none saw."""

    def __init__(self) -> None:
        super().__init__()
        self.versions = []

    def counted(self) -> tuple[int, int]:
        """How many frames have entered and left."""
        return sum(len(frames) for frames in self.entered.values()), len(self.versions)

    def detection(self, frame):
        objects = list(frame.objects)
        if frame.infer_done != (len(objects) == 2):
            self.faults.append(f"stream {frame.source_id} frame {frame.frame_num}: infer_done {frame.infer_done}")
        if not objects:
            self.versions.append(None)
            return None
        found, label = sorted(objects, key=lambda o: -o.confidence)
        self.versions.append(int(label.label.removeprefix("version ")))
        return found


class Stream:
    """Four endless test streams through a mux and a sluiceinfer, at full speed."""

    def __init__(self, infer: str, streams: int = 4, tail: str = "fakesink") -> None:
        for name in ("sluicemux", "sluiceinfer"):
            register(name)
        branches = " ".join(
            f"videotestsrc pattern=snow ! video/x-raw,format={form},width={w},height={h} ! "
            f"identity name=in{i} ! m.sink_{i}"
            for i, (form, w, h) in enumerate(SIZES[:streams])
        )
        self.pipeline = Gst.parse_launch(
            f"sluicemux name=m batch-size={streams} ! sluiceinfer name=infer {infer} ! {tail} {branches}"
        )
        self.infer = self.pipeline.get_by_name("infer")
        self.ledger = VersionLedger()
        self.ledger.watch(self.pipeline, streams)
        self.updates: queue.Queue[tuple[int, str]] = queue.Queue()
        self.infer.connect("model-updated", lambda _element, status, path: self.updates.put((status, path)))

    def __enter__(self) -> "Stream":
        assert self.pipeline.set_state(Gst.State.PLAYING) != Gst.StateChangeReturn.FAILURE
        assert self.updated() == (0, self.infer.get_property("model"))
        self.flows()
        return self

    def __exit__(self, *_: object) -> None:
        self.pipeline.set_state(Gst.State.NULL)

    def set(self, model: str, name: str = "model") -> None:
        self.infer.set_property(name, model)

    def updated(self) -> tuple[int, str]:
        """The next that ``model-updated`` says."""
        return self.updates.get(timeout=WAIT)

    def swap(self, model: str) -> tuple[int, str]:
        """Set a model and wait for what becomes of it."""
        self.set(model)
        return self.updated()

    def flows(self, frames: int = 16) -> None:
        """Wait until so many more frames have left."""
        end, wanted = time.monotonic() + WAIT, len(self.ledger.versions) + frames
        while len(self.ledger.versions) < wanted:
            assert time.monotonic() < end, f"the stream stands still: {self.message(Gst.MessageType.ERROR, 0)}"
            time.sleep(0.002)

    def message(self, kind: Gst.MessageType, seconds: float = WAIT) -> Gst.Message | None:
        return self.pipeline.get_bus().timed_pop_filtered(int(seconds * Gst.SECOND), kind)

    def end(self) -> None:
        """End the streams, wait until the last frame has left, and check that none is lost, repeated or mixed."""
        self.pipeline.send_event(Gst.Event.new_eos())
        reaches_its_end(self.pipeline)
        assert self.ledger.faults == []
        assert self.ledger.left == self.ledger.entered

    def seen(self) -> list[int]:
        """Numbers of the models that saw frames; all frames must have been seen, by numbers that never go back."""
        versions = self.ledger.versions
        assert None not in versions
        assert versions == sorted(versions)
        return sorted(set(versions))


@pytest.fixture(autouse=True)
def count_from_zero():
    Versioned.start()
    Gated.gate.clear()
    OnceOnly.loaded = False
    Held.calls.clear()
    for gate in Held.gates:
        gate.clear()
    yield
    for gate in (Gated.gate, *Held.gates):
        gate.set()


def things(stream: Stream) -> Counter:
    """How many objects there are of the types that swaps make.

    Counted while the stream stands still: `gc.get_objects` takes hold of tuples that other threads are still filling,
    which makes CPython fail there.
    """
    names = ("Versioned", "ModelInstance", "ModelSlot", "SwapRequest", "SwapReport", "Thread", "Future", "AdaptedModel")
    stream.pipeline.set_state(Gst.State.PAUSED)
    stream.pipeline.get_state(int(WAIT * Gst.SECOND))

    def stands_still() -> bool:
        before = stream.ledger.counted()
        time.sleep(0.5)
        return stream.ledger.counted() == before

    until(stands_still, "every queue is full and its thread waits")
    gc.collect()
    counted = Counter(name for thing in gc.get_objects() if (name := type(thing).__name__) in names)
    stream.pipeline.set_state(Gst.State.PLAYING)
    return counted


def test_a_hundred_swaps_under_four_streams_at_full_speed():
    with Stream(f"model={MODEL}") as stream:
        before = counters.copies()
        counted = []
        for i in range(100):
            assert stream.swap(MODEL) == (0, MODEL)
            if i in (49, 99):
                counted.append((things(stream), threading.active_count()))
        stream.flows()
        stream.end()
        seen = stream.seen()
        assert (seen[0], seen[-1]) == (0, 100)
        assert len(seen) > 50  # a model may be replaced before a batch came for it
        assert counters.copies() == before
        at_fifty, at_hundred = counted
        assert at_fifty[0]["Versioned"] <= 2
        assert all(at_hundred[0][name] <= at_fifty[0][name] + 2 for name in at_hundred[0])
        assert at_hundred[1] <= at_fifty[1] + 1
    assert Versioned.alive() == 0


@pytest.mark.parametrize("in_flight", [1, 8])
def test_what_is_in_flight_belongs_to_the_model_it_was_given_to(in_flight):
    Versioned.start(pause=0.003)
    with Stream(f"model={MODEL} in-flight={in_flight}") as stream:
        for _ in range(20):
            assert stream.swap(MODEL) == (0, MODEL)
        stream.end()
        assert stream.seen()[-1] == 20


def test_calls_of_fewer_frames_than_the_batch_has():
    with Stream(f"model={MODEL} batch-size=3") as stream:
        for _ in range(5):
            assert stream.swap(MODEL) == (0, MODEL)
        stream.end()
        assert stream.seen()[-1] == 5


@pytest.mark.parametrize(
    ("model", "status", "why"),
    [
        ("/nowhere/net.onnx", 1, "there is no model file '/nowhere/net.onnx'"),
        ("swap_models:Missing", 1, "has no 'Missing'"),
        ("swap_modls:Versioned", 1, "there is no Python module 'swap_modls'"),
        ("", 1, "model is not set"),
        ("swap_models:Unloadable", 1, "FileNotFoundError: weights.bin"),
        ("swap_models:Cold", 10, "RuntimeError: the card is on fire"),
        ("swap_models:TooBig", 9, "MemoryError: no room for 8000 bytes"),
        ("swap_models:TooBigOnTheCard", 9, "CUDA out of memory"),
        ("swap_models:OtherSize", 10, "the input is 1x1, the frame is 64x48"),
        ("swap_models:Wordy", 4, "it is a str; right is Detections"),
    ],
)
@pytest.mark.parametrize("policy", ["beside", "in-place"])
def test_a_model_that_fails_leaves_the_old_one_running(model, status, why, policy):
    with Stream(f"model={MODEL} swap-policy={policy}") as stream:
        assert stream.swap(model) == (status, model)
        warning, _ = stream.message(Gst.MessageType.WARNING).parse_warning()
        assert warning.message.startswith(f"{model} did not replace the model: ")
        assert why in warning.message
        assert warning.message.endswith(f"; {MODEL} goes on")
        assert stream.infer.get_property("model") == MODEL
        stream.flows()
        assert stream.swap(MODEL) == (0, MODEL)
        stream.flows()
        stream.end()
        if policy == "beside":
            assert stream.seen()[0] == 0
        assert stream.ledger.versions[-1] is not None
        assert stream.message(Gst.MessageType.ERROR, 0) is None


def broken_files(folder: Path, network: bytes) -> list[str]:
    """What somebody may set by mistake: nothing there, half a network, other things under a network's name."""
    contents = {
        "empty.onnx": b"",
        "half.onnx": network[: len(network) // 2],
        "text.onnx": b"404: Not Found\n" * 50,
        "empty.py": b"",
        "syntax.py": b"class Model:\n    def infer(self, frames:\n",
        "raises.py": b"raise OSError('no card')\n",
        "config.txt": b"[property]\nonnx-file=half.onnx\nnum-detected-classes=1\ncluster-mode=2\n",
        "broken.yml": b"property: [\n",
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder / "folder.onnx").mkdir()
    return [*(str(folder / name) for name in (*contents, "folder.onnx", "missing.onnx"))]


@pytest.mark.timeout(300)
def test_fifty_broken_files_under_load(data, tmp_path):
    network = (data / "models/nanodet_m_320.onnx").read_bytes()
    with Stream(f"model={MODEL}") as stream:
        for path in broken_files(tmp_path, network) * 5:
            name = "config-file-path" if path.endswith((".txt", ".yml")) else "model"
            stream.set(path, name=name)
            status, said = stream.updated()
            assert status != 0
            assert said == path
        assert stream.swap(MODEL) == (0, MODEL)
        stream.flows()
        stream.end()
        assert stream.seen() == [0, 1]


def test_changes_asked_for_by_several_threads_at_once(tmp_path):
    """Each is answered once, and one at a time is carried out."""
    asked = [MODEL, str(tmp_path / "missing.onnx")] * 10
    with Stream(f"model={MODEL}") as stream:
        start = threading.Barrier(4)

        def ask(models: list[str]) -> None:
            start.wait()
            for model in models:
                stream.set(model)

        threads = [threading.Thread(target=ask, args=(asked[i::4],)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT)
        answers = [stream.updated() for _ in asked]
        assert Counter(path for _, path in answers) == Counter(asked)
        assert stream.swap(MODEL) == (0, MODEL)
        assert stream.updates.empty()
        stream.end()
        assert stream.seen()[-1] == sum(status == 0 for status, _ in answers) + 1


def test_the_new_model_is_told_how_the_old_one_is_called():
    Rehearsing.rehearsed.clear()
    with Stream(f"model={MODEL} in-flight=3 batch-size=3") as stream:
        assert stream.swap("swap_models:Rehearsing") == (0, "swap_models:Rehearsing")
        stream.flows()
        stream.end()
    ((version, calls),) = Rehearsing.rehearsed
    assert (version, calls.at_once, calls.on_gpu) == (1, 3, False)
    assert calls.sizes <= {1, 2, 3}
    assert 3 in calls.sizes


def test_the_bus_hears_of_every_change():
    with Stream(f"model={MODEL}") as stream:
        stream.swap("swap_models:Wordy")
        heard = []
        while (message := stream.message(Gst.MessageType.ELEMENT, 0)) is not None:
            structure = message.get_structure()
            if structure.get_name() == "model-updated":
                heard.append(tuple(structure.get_value(field) for field in ("status", "path", "reason")))
    assert heard[0] == (0, MODEL, "")
    assert heard[1][:2] == (4, "swap_models:Wordy")
    assert "right is Detections" in heard[1][2]


def test_the_properties_name_the_model_that_runs():
    with Stream(f"model={MODEL}") as stream:
        told = []
        stream.infer.connect("notify::model-engine-file", lambda e, _: told.append(e.get_property("model-engine-file")))
        stream.set("swap_models:Gated", name="model-engine-file")
        assert stream.infer.get_property("model") == stream.infer.get_property("model-engine-file") == MODEL
        Gated.gate.set()
        assert stream.updated() == (0, "swap_models:Gated")
        names = ("model", "model-engine", "model-path", "model-engine-file")
        assert {stream.infer.get_property(name) for name in names} == {"swap_models:Gated"}
        assert told[-1] == "swap_models:Gated"
        assert stream.infer.get_property("stats").get_string("model") == "swap_models:Gated"


def test_a_second_change_while_one_is_in_progress_is_refused():
    with Stream(f"model={MODEL}") as stream:
        stream.set("swap_models:Gated")
        assert stream.swap("swap_models:Other") == (10, "swap_models:Other")
        warning, _ = stream.message(Gst.MessageType.WARNING).parse_warning()
        assert "the change to swap_models:Gated is still in progress" in warning.message
        Gated.gate.set()
        assert stream.updated() == (0, "swap_models:Gated")


def test_labels_and_options_set_before_go_with_the_new_model(tmp_path):
    names = tmp_path / "labels.txt"
    names.write_text("version 77\n")
    with Stream(f"model={MODEL}") as stream:
        stream.infer.set_property("labels", str(names))
        warning, _ = stream.message(Gst.MessageType.WARNING).parse_warning()
        assert (
            "labels was set while the element runs; it takes effect after the next change of model" in warning.message
        )
        stream.flows()
        assert stream.swap(MODEL) == (0, MODEL)
        stream.flows()
        stream.end()
        assert stream.seen() == [0, 77]


def test_the_next_start_begins_with_the_model_that_ran():
    stream = Stream(f"model={MODEL}")
    with stream:
        stream.swap("swap_models:Wordy")
        Gated.gate.set()
        assert stream.swap("swap_models:Gated") == (0, "swap_models:Gated")
    stream.updates = queue.Queue()
    assert stream.pipeline.set_state(Gst.State.READY) == Gst.StateChangeReturn.SUCCESS
    assert stream.updated() == (0, "swap_models:Gated")
    stream.pipeline.set_state(Gst.State.NULL)


def test_frames_that_wait_for_the_old_model_outlive_a_change_of_size():
    """The new model works on frames of the next size while the old one has some of the size before."""
    old, new = Held.gates
    register("sluiceinfer")
    pipeline = Gst.parse_launch(
        "appsrc name=source format=time ! sluiceinfer name=infer model=swap_models:Held in-flight=8 ! "
        "fakesink name=sink signal-handoffs=true"
    )
    source, infer, left, pushed = pipeline.get_by_name("source"), pipeline.get_by_name("infer"), [], []
    pipeline.get_by_name("sink").connect("handoff", lambda _sink, buffer, _pad: left.append(buffer.pts))

    def push(width: int = 16) -> None:
        source.set_property("caps", Gst.Caps.from_string(f"video/x-raw,format=GRAY8,width={width},height=8"))
        buffer = Gst.Buffer.new_allocate(None, width * 8, None)
        buffer.pts = len(pushed)
        pushed.append(buffer.pts)
        source.emit("push-buffer", buffer)

    old.set()
    pipeline.set_state(Gst.State.PLAYING)
    push()
    infer.set_property("model", "swap_models:Held")
    while 1 not in Held.calls:  # which is tried on the frames that come by
        push()
        until(lambda: len(left) == len(pushed))
    old.clear()
    seen = Held.calls.count(0)
    for _ in range(3):
        push()
    until(lambda: Held.calls.count(0) > seen, "the old model's last call")
    new.set()
    while Held.calls.count(1) < 2:  # frames go to the old model's queue until the new one is in its place
        push()
        time.sleep(0.3)
    called = Held.calls.count(1)
    push(32)
    until(lambda: Held.calls.count(1) > called, "a call with the new size")
    old.set()
    source.emit("end-of-stream")
    reaches_its_end(pipeline)
    pipeline.set_state(Gst.State.NULL)
    assert left == pushed


# Without a model in between


def test_in_place_frames_pass_unseen_while_there_is_no_model():
    with Stream(f"model={MODEL} swap-policy=in-place") as stream:
        stream.set("swap_models:Gated")
        stream.flows(80)
        Gated.gate.set()
        assert stream.updated() == (0, "swap_models:Gated")
        stream.flows()
        stream.end()
        counted = stream.infer.get_property("stats")
        seen = [version for version in stream.ledger.versions if version is not None]
        skipped = len(stream.ledger.versions) - len(seen)
        assert counted.get_uint64("skipped").value == skipped >= 16
        assert counted.get_uint64("inferred").value == len(seen)
        assert (seen[0], seen[-1]) == (0, 1)
        assert seen == sorted(seen)


def test_in_place_an_old_model_that_cannot_come_back_ends_the_stream():
    with Stream("model=swap_models:OnceOnly swap-policy=in-place") as stream:
        assert stream.swap("swap_models:Cold") == (10, "swap_models:Cold")
        error, _ = stream.message(Gst.MessageType.ERROR).parse_error()
        assert (
            "there is no model any more: RuntimeError: the card is on fire; and swap_models:OnceOnly" in error.message
        )
        assert "could not be loaded again: OSError: the weights were deleted" in error.message


def test_from_none_to_a_model_and_back():
    with Stream("model=none") as stream:
        assert stream.swap(MODEL) == (0, MODEL)
        stream.flows()
        assert stream.swap("none") == (0, "none")
        stream.flows()
        stream.end()
        versions = stream.ledger.versions
        assert versions[0] is versions[-1] is None
        assert set(versions) == {None, 0}


def test_a_wrong_policy_is_refused_by_name():
    stream = Stream(f"model={MODEL} swap-policy=sideways")
    assert stream.pipeline.set_state(Gst.State.READY) == Gst.StateChangeReturn.FAILURE
    error, _ = stream.message(Gst.MessageType.ERROR).parse_error()
    assert "swap-policy is 'sideways'; it can be 'beside' or 'in-place'" in error.message
    stream.pipeline.set_state(Gst.State.NULL)


# Ends


@pytest.mark.parametrize("policy", ["beside", "in-place"])
def test_a_stop_overtakes_a_change_and_says_so(policy):
    with Stream(f"model={MODEL} swap-policy={policy}") as stream:
        stream.set("swap_models:Gated")
        stream.flows()
        began = time.monotonic()
        stream.pipeline.set_state(Gst.State.NULL)
        assert time.monotonic() - began < 2
        assert stream.updated() == (10, "swap_models:Gated")
        assert stream.infer.get_property("model") == MODEL
        Gated.gate.set()
        with contextlib.suppress(queue.Empty):
            pytest.fail(f"another report: {stream.updates.get(timeout=0.2)}")


def test_a_change_asked_for_at_the_end_of_the_stream():
    with Stream(f"model={MODEL}") as stream:
        stream.set("swap_models:Gated")
        stream.end()
        assert stream.seen() == [0]
        Gated.gate.set()
        stream.pipeline.set_state(Gst.State.NULL)
        assert stream.updated() == (10, "swap_models:Gated")  # no frame came that it could have been tried on


@pytest.mark.parametrize("seconds", [0, 0.001, 0.005, 0.02])
def test_stops_at_any_moment_of_a_change_leave_no_thread(seconds):
    for policy in ("beside", "in-place"):
        with Stream(f"model={MODEL} swap-policy={policy}") as stream:
            stream.set(MODEL)
            time.sleep(seconds)
        status, path = stream.updated()
        assert status in (0, 10)
        assert path == MODEL
    end = time.monotonic() + WAIT
    while names := [t.name for t in threading.enumerate() if t.name.startswith(("model ", "swap "))]:
        assert time.monotonic() < end, names
        time.sleep(0.01)


def test_the_element_is_finalised_after_swaps():
    stream = Stream(f"model={MODEL}")
    with stream:
        stream.swap(MODEL)
    gone = []
    stream.infer.weak_ref(lambda: gone.append(True))
    stream.pipeline = stream.infer = None
    del stream
    until(lambda: gc.collect() >= 0 and gone == [True], "the end of the element")


# Shared


def test_elements_that_share_a_model_swap_together():
    shared = f"sluiceinfer name=second model={MODEL} model-instance-id=twins"
    tail = f"fakesink videotestsrc ! video/x-raw,width=32,height=32 ! {shared} ! fakesink"
    with Stream(f"model={MODEL} model-instance-id=twins", tail=tail) as stream:
        second = stream.pipeline.get_by_name("second")
        heard: queue.Queue[tuple[int, str]] = queue.Queue()
        second.connect("model-updated", lambda _element, status, path: heard.put((status, path)))
        Gated.gate.set()
        assert stream.swap("swap_models:Wordy")[0] == 4
        assert stream.swap("swap_models:Gated") == (0, "swap_models:Gated")
        assert heard.get(timeout=WAIT) == (0, "swap_models:Gated")
        assert heard.empty()  # a failed change is reported by the element that asked for it
        assert second.get_property("model") == stream.infer.get_property("model") == "swap_models:Gated"
        second.set_property("model", MODEL)
        assert stream.updated() == heard.get(timeout=WAIT) == (0, MODEL)
        stream.flows()


def test_elements_that_share_a_model_and_are_both_asked_at_once():
    """One of the two changes comes about, or one after the other; both elements then name the model that runs."""
    shared = f"sluiceinfer name=second model={MODEL} model-instance-id=rivals"
    tail = f"fakesink videotestsrc ! video/x-raw,width=32,height=32 ! {shared} ! fakesink"
    with Stream(f"model={MODEL} model-instance-id=rivals", tail=tail) as stream:
        second = stream.pipeline.get_by_name("second")
        heard: queue.Queue[tuple[int, str]] = queue.Queue()
        second.connect("model-updated", lambda _element, status, path: heard.put((status, path)))
        Gated.gate.set()
        for wanted in (("swap_models:Gated", MODEL), (MODEL, "swap_models:Gated")) * 5:
            threads = [
                threading.Thread(target=element.set_property, args=("model", name))
                for element, name in zip((stream.infer, second), wanted, strict=True)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(WAIT)
            said = []
            for ear in (stream.updates, heard):  # a refusal comes before the other's success
                said.append(ear.get(timeout=WAIT)[0])
                while said[-1] != 0:
                    said.append(ear.get(timeout=WAIT)[0])
            assert set(said) <= {0, 10}
            if 10 not in said:  # both came about, one after the other
                assert [ear.get(timeout=WAIT)[0] for ear in (stream.updates, heard)] == [0, 0]
            assert stream.updates.empty()
            assert heard.empty()
            names = {stream.infer.get_property("model"), second.get_property("model")}
            assert len(names) == 1
            assert names <= set(wanted)
        stream.end()


def test_a_file_is_read_again(tmp_path):
    """Setting the same path once more loads what the file holds by then."""
    path = tmp_path / "mine.py"
    text = (Path(__file__).with_name("swap_models.py")).read_text()
    path.write_text(text)
    with Stream(f"model={path}:Versioned") as stream:
        path.write_text(text.replace('f"version {self.version}"', '"version 5"'))
        sys.dont_write_bytecode = True
        assert stream.swap(f"{path}:Versioned") == (0, f"{path}:Versioned")
        stream.flows()
        stream.end()
        assert stream.seen() == [0, 5]


def test_networks_of_other_sizes_and_labels(data):
    networks = [str(data / "models" / name) for name in ("nanodet_m_320.onnx", "yolox_nano_416x416.onnx")]
    Gst.init(None)
    register("sluiceinfer")
    clip = data / "videos" / "asl_walk.mkv"
    pipeline = Gst.parse_launch(
        f"filesrc location={clip} ! decodebin ! sluiceinfer name=infer model={networks[0]} ! fakesink name=end"
    )
    infer, updates, found, swapped = pipeline.get_by_name("infer"), queue.Queue(), [], threading.Event()

    def dawdle(_pad, _info):
        swapped.wait(0.2)  # or the clip may be over before the second network is loaded
        return Gst.PadProbeReturn.OK

    def look(_pad, info):
        with Lease() as lease:
            (frame,) = BatchMeta.of(info.get_buffer(), lease).frames
            found.append((frame.frame_num, frame.infer_done, {o.label for o in frame.objects}))
        return Gst.PadProbeReturn.OK

    infer.get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, dawdle)
    pipeline.get_by_name("end").get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, look)
    infer.connect("model-updated", lambda _element, *update: updates.put(update))
    pipeline.set_state(Gst.State.PLAYING)
    try:
        assert updates.get(timeout=WAIT) == (0, networks[0])
        infer.set_property("model", networks[1])
        assert updates.get(timeout=WAIT) == (0, networks[1])
        swapped.set()
        reaches_its_end(pipeline)
    finally:
        pipeline.set_state(Gst.State.NULL)
    assert [number for number, _, _ in found] == list(range(89))
    assert all(done for _, done, _ in found)
    assert "person" in found[-1][2]
