"""sluiceinfer on single raw streams: what passes, what is written, what happens when a model misbehaves."""

import gc
import subprocess
import sys
import threading
import time
import weakref

import gi
import pytest
from batch_feed import Feed, Given
from infer_pipeline import BUFFER, MODELS, RAW, Driver, collect, launch, model, run, watch
from infer_pipeline import Run as Outcome

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from playing import stats_of
from sluice.contract import counters
from sluice.elements import events, register
from sluice.elements.infer import SluiceInfer
from waiting import until

FORMATS = ["I420", "NV12", "RGB", "BGR", "RGBA", "BGRA", "BGRx", "RGBx", "GRAY8", "YUY2"]


def line(properties: str, n: int = 10, form: str = "I420", tail: str = "fakesink") -> str:
    return f"{RAW.format(n=n, format=form)} ! sluiceinfer name=infer {properties} ! {tail}"


@pytest.mark.parametrize("form", FORMATS)
def test_a_raw_frame_passes_untouched_with_metadata_of_its_own(form):
    done = run(line(model("Whole"), form=form))
    assert done.error is None
    assert [f.number for f in done.frames] == list(range(10))
    assert {f.stream for f in done.frames} == {0}
    assert [f.pts for f in done.frames] == [i * 40_000_000 for i in range(10)]
    assert [f.address for f in done.frames] == done.entered
    assert {f.refcount for f in done.frames} == {1 + 1}  # the probe's own wrapper is one
    assert all(f.infer_done for f in done.frames)
    assert [o.box for f in done.frames for o in f.objects] == [(0, 0, 64, 48)] * 10
    assert [o.label for f in done.frames for o in f.objects] == ["even", "odd"] * 5
    assert {o.component for f in done.frames for o in f.objects} == {15}


def test_what_downstream_wants_is_asked_of_upstream():
    """The element passes buffers on as they are, so a format behind it is negotiated with what is before it."""
    tail = "video/x-raw,format=NV12,width=32 ! fakesink"
    done = run(f"videotestsrc num-buffers=1 ! sluiceinfer name=infer {model('Whole')} ! {tail}")
    assert done.error is None
    assert done.frames[0].objects[0].box[2] == 32


def test_nothing_is_copied():
    gc.collect()
    before = counters.copies(), counters.live_batches()
    run(line(model("Whole")))
    gc.collect()
    assert (counters.copies(), counters.live_batches()) == before


def test_no_model_passes_frames_through():
    done = run(line("model=none"))
    assert [f.infer_done for f in done.frames] == [False] * 10
    assert done.stats["frames"] == done.stats["skipped"] == 10
    assert [f.address for f in done.frames] == done.entered


def test_a_frame_on_which_nothing_was_found_was_seen():
    done = run(line(model("Nothing")))
    assert [f.infer_done for f in done.frames] == [True] * 10
    assert done.stats["inferred"] == 10
    assert done.stats["objects"] == 0


@pytest.mark.parametrize(("interval", "seen"), [(0, "1111111111"), (1, "1010101010"), (3, "1000100010")])
def test_interval_passes_batches_over(interval, seen):
    done = run(line(f"{model('Whole')} interval={interval}"))
    assert "".join(str(int(f.infer_done)) for f in done.frames) == seen
    assert [len(f.objects) for f in done.frames] == [int(s) for s in seen]
    assert done.stats["skipped"] == seen.count("0")


def test_an_empty_batch_passes():
    register("sluiceinfer")
    with Feed(f"sluiceinfer name=infer {model('Whole')} interval=1") as feed:
        for frames in ([], [Given(number=0)], [], [Given(number=1)]):
            feed.push(*frames)
        assert stats_of(feed.get("infer"))["inferred"] == 1


def test_filters_apply():
    assert [len(f.objects) for f in run(line(f"{model('Whole')} confidence-threshold=0.6")).frames] == [0] * 10
    assert [len(f.objects) for f in run(line(f"{model('Whole')} classes=odd")).frames] == [0, 1] * 5
    assert [len(f.objects) for f in run(line(f"{model('Outside')} max-detections=1")).frames] == [1] * 10


def test_a_box_over_the_edge_is_clipped_one_outside_is_not_written():
    done = run(line(model("Outside"), n=1))
    assert [o.box for o in done.frames[0].objects] == [(0, 0, 10, 10), (5, 5, 10, 10)]


def test_two_in_a_row_see_each_others_objects():
    two = f"sluiceinfer {model('Whole')} unique-id=1 ! sluiceinfer name=infer {model('Seen')} unique-id=2"
    done = run(f"{RAW.format(n=3, format='NV12')} ! {two} ! fakesink")
    for frame in done.frames:
        assert [(o.component, o.box[0]) for o in frame.objects] == [(1, 0), (2, 1)]


# A model that misbehaves


@pytest.mark.parametrize("in_flight", [1, 4])
def test_an_exception_ends_the_stream_with_its_traceback_stream_and_frame(in_flight):
    done = run(line(f"{model('Raises')} in-flight={in_flight}", n=30))
    text, debug = done.error
    assert text == "stream 0, frame 7: RuntimeError: the seventh frame is cursed"
    assert "infer_models.py" in debug
    assert "in infer" in debug
    assert (done.details.get_int("stream").value, done.details.get_int64("frame").value) == (0, 7)
    assert [f.number for f in done.frames] == list(range(7))


def test_skip_passes_the_frame_on_without_detections():
    done = run(line(f"{model('Raises')} on-error=skip"))
    assert done.error is None
    assert [f.number for f in done.frames] == list(range(10))
    assert [f.infer_done for f in done.frames] == [i != 7 for i in range(10)]
    assert [len(f.objects) for f in done.frames] == [int(i != 7) for i in range(10)]
    assert (done.stats["errors"], done.stats["inferred"]) == (1, 9)
    ((text, debug),) = done.warnings
    assert text == "stream 0, frame 7: passed on without detections: RuntimeError: the seventh frame is cursed"
    assert "in infer" in debug


def test_skip_passes_frames_on_also_where_the_error_cannot_be_printed():
    done = run(line(f"{model('Unprintable')} on-error=skip", n=3))
    assert done.error is None
    assert [f.infer_done for f in done.frames] == [False] * 3
    assert r"ValueError: caf\udce9\x00.jpg" in done.warnings[0][0]


@pytest.mark.parametrize("kind", ["nan", "shape", "dtype", "scores", "class", "order", "type", "number"])
def test_a_wrong_result_is_an_error_that_names_the_frame(kind):
    properties = f"{model('Wrong')} model-options=kind={kind}"
    text, _ = run(line(properties)).error
    assert text.startswith("stream 0, frame 7: ")
    assert "Wrong returned" in text
    assert "right" in text
    skipped = run(line(f"{properties} on-error=skip"))
    assert skipped.error is None
    assert [len(f.objects) for f in skipped.frames] == [int(i != 7) for i in range(10)]
    assert skipped.stats["errors"] == 1


def test_a_kept_frame_is_stale_after_its_call():
    text, _ = run(line(model("Keeps"))).error
    assert text.startswith("stream 0, frame 1: the pixels of frame 0 of stream 0 were asked for after")


def test_what_a_kept_frame_was_converted_to_stays():
    done = run(line(model("Converts"), n=3))
    assert done.error is None
    assert [len(f.objects) for f in done.frames] == [1, 1, 1]


# Threads


def test_the_model_lives_on_one_thread_which_is_not_a_streaming_thread():
    import infer_models

    infer_models.Threads.calls.clear()
    run(line("model=infer_models:Threads"))
    names = [name for name, _, _ in infer_models.Threads.calls]
    assert names == ["load", "warm_up", *["infer"] * 10, "close"]
    assert {thread for _, thread, _ in infer_models.Threads.calls} == {"model infer_models:Threads"}
    assert len({ident for _, _, ident in infer_models.Threads.calls}) == 1
    assert infer_models.Threads.calls[0][2] != threading.get_ident()


def slow_model_frames(data) -> int:
    """Number of frames of a 30 fps clip that come out behind a model of 80 ms and a sink that asks for less."""
    source = f"filesrc location={data / 'videos' / 'asl_walk.mkv'} ! decodebin"
    return len(run(f"{source} ! sluiceinfer name=infer {model('Slow')} ! fakesink sync=true qos=true").frames)


def test_a_slow_model_sees_every_frame_of_a_file(data, monkeypatch):
    """A late sink asks upstream to drop frames; a decoder that heard it would."""
    assert slow_model_frames(data) == 89
    monkeypatch.setattr(SluiceInfer, "passes_qos", lambda _: True)
    assert slow_model_frames(data) < 80


def test_stop_and_exit_do_not_wait_for_a_call_that_hangs():
    program = f"""
import sys, threading, time
sys.path[:0] = {[str(MODELS.parent), str(MODELS.parent.parent)]!r}
from infer_pipeline import launch
from gi.repository import Gst
called = threading.Event()
class Hanging:
    def infer(self, frames):
        called.set()
        time.sleep(60)
pipeline = launch({line("model=__main__:Hanging", n=100)!r})
pipeline.set_state(Gst.State.PLAYING)
called.wait()
began = time.monotonic()
pipeline.set_state(Gst.State.NULL)
print(time.monotonic() - began)
"""
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=True)
    assert time.monotonic() - began < 40  # the model sleeps for 60 s
    assert float(done.stdout) < 2
    assert done.stderr.count("was abandoned") == 1


def test_two_pipelines_started_and_stopped_interleaved_share_a_model():
    source = f"{RAW.format(n=-1, format='I420')} ! sluiceinfer name=infer {model('Whole')} model-instance-id=pair"
    pair, before = [launch(f"{source} in-flight={i} ! fakesink") for i in (1, 2)], set(threading.enumerate())
    for i in range(50):
        for pipeline in pair:
            assert pipeline.set_state(Gst.State.PLAYING) != Gst.StateChangeReturn.FAILURE
        time.sleep(0.005)
        pair[i % 2].set_state(Gst.State.NULL)
        time.sleep(0.002)
        pair[1 - i % 2].set_state(Gst.State.NULL)
    assert [pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR) for pipeline in pair] == [None, None]
    until(lambda: not [t for t in set(threading.enumerate()) - before if t.name.startswith("model ")])


def test_flushing_seeks_abandon_what_is_in_flight():
    line = (
        f"{RAW.format(n=-1, format='I420')} ! sluiceinfer name=infer {model('Slow')} in-flight=4 ! fakesink sync=true"
    )
    pipeline, done = launch(line), Outcome()
    watch(pipeline.get_by_name("infer"), done)
    pipeline.set_state(Gst.State.PLAYING)
    try:
        pipeline.get_state(10 * Gst.SECOND)
        for second in range(1, 11):
            assert pipeline.seek_simple(Gst.Format.TIME, Gst.SeekFlags.FLUSH, second * Gst.SECOND)
            pipeline.get_state(10 * Gst.SECOND)
        assert done.frames[-1].pts >= 10 * Gst.SECOND
        assert pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR) is None
    finally:
        pipeline.set_state(Gst.State.NULL)


@pytest.mark.parametrize("in_flight", [1, 8])
def test_the_last_frame_of_a_stalled_stream_comes_out(in_flight):
    with Driver(f"{model('Whole')} in-flight={in_flight}") as driver:
        driver.push()
        until(lambda: len(driver.run.frames) == 1)


@pytest.mark.parametrize("in_flight", range(1, 9))
def test_a_pool_of_four_buffers_is_enough(in_flight):
    """Completion never waits for another buffer: with fewer buffers than in-flight allows, all still come out."""
    pool = Gst.BufferPool.new()
    config = pool.get_config()
    Gst.BufferPool.config_set_params(config, Gst.Caps.from_string(Driver.CAPS), 64 * 48, 4, 4)
    pool.set_config(config)
    pool.set_active(True)
    with Driver(f"{model('Whole')} in-flight={in_flight}") as driver:
        for _ in range(40):
            assert driver.push_from(pool) == Gst.FlowReturn.OK
        done = driver.end()
    pool.set_active(False)
    assert [f.number for f in done.frames] == list(range(40))
    assert len({f.address for f in done.frames}) <= 4


def events_of(in_flight: int) -> list[int]:
    """Run with GAP and sticky events between the frames and return the types of what left, in order."""
    with Driver(f"{model('Slow')} in-flight={in_flight}") as driver:
        for i in range(12):
            driver.push(i)
            if i % 3 == 2:
                driver.event(Gst.Event.new_gap(i, 1))
                driver.event(events.pad_added(i))
        done = driver.end()
    assert [f.number for f in done.frames] == list(range(12))
    return done.events


def test_events_leave_in_their_place_however_many_batches_are_in_flight():
    expected = events_of(1)
    assert expected.count(Gst.EventType.GAP) == 4
    assert expected.count(events.PAD_ADDED) == 4
    assert expected.count(BUFFER) == 12
    assert expected[-1] == Gst.EventType.EOS
    for in_flight in (2, 8):
        assert events_of(in_flight) == expected


# Properties


@pytest.mark.parametrize("alias", ["model-engine", "model-path", "model-engine-file"])
def test_an_alias_sets_the_model(alias):
    element = launch(f"sluiceinfer name=infer {alias}=net.onnx ! fakesink").get_by_name("infer")
    assert element.get_property("model") == element.get_property(alias) == "net.onnx"


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ("", "model is not set"),
        ("model=/nowhere/net.onnx", "/nowhere/net.onnx"),
        (
            "model=none model-options=size=3;x=y",
            "model-options has size, x, and model is 'none', which takes no options",
        ),
        ("model=none on-error=ignore", "on-error is 'ignore'; it can be 'fail' or 'skip'"),
        (f"{model('Whole')} classes=cat", "has no class 'cat'"),
        (f"{model('Missing')}", "Missing"),
        (f"{model('Wrong')} model-options=sort=nan", "sort"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name_before_anything_flows(properties, text):
    pipeline = launch(line(properties))
    assert pipeline.set_state(Gst.State.PLAYING) == Gst.StateChangeReturn.FAILURE
    done = Outcome()
    collect(pipeline, done, 5)
    pipeline.set_state(Gst.State.NULL)
    assert text in done.error[0]


def test_a_property_that_cannot_change_now_says_so():
    pipeline = launch(line(model("Whole")))
    infer = pipeline.get_by_name("infer")
    infer.set_state(Gst.State.READY)
    bus = pipeline.get_bus()
    for name, value, when in (
        ("unique-id", 3, "the next change to NULL"),
        ("labels", "l.txt", "the next change of model or of state to NULL"),
    ):
        infer.set_property(name, value)
        warning = bus.timed_pop_filtered(Gst.SECOND, Gst.MessageType.WARNING)
        assert (
            f"{name} was set while the element runs; it takes effect after {when}" in warning.parse_warning()[0].message
        )
    infer.set_property("on-error", "ignore")
    warning = bus.timed_pop_filtered(Gst.SECOND, Gst.MessageType.WARNING)
    assert "on-error is 'ignore'; it can be 'fail' or 'skip'; it stays 'fail'" in warning.parse_warning()[0].message
    assert infer.get_property("on-error") == "fail"
    infer.set_property("interval", 3)
    assert bus.timed_pop_filtered(0, Gst.MessageType.WARNING) is None
    infer.set_state(Gst.State.NULL)


def test_the_interval_event_changes_the_interval_in_its_place():
    with Driver(model("Whole")) as driver:
        changed = []
        driver.infer.connect("notify::interval", lambda element, _: changed.append(element.get_property("interval")))
        for i in range(6):
            if i == 2:
                driver.event(events.control_event(events.INFER_INTERVAL_UPDATE, stream_id="0", interval=2))
            driver.push(i)
        done = driver.end()
    assert changed == [2]
    assert [f.infer_done for f in done.frames] == [True, True, False, True, False, False]


def test_eos_lets_the_next_batch_have_inference():
    with Driver(f"{model('Whole')} interval=2") as driver:
        for _ in range(2):
            driver.push()
        driver.end()
        for event in (Gst.Event.new_flush_start(), Gst.Event.new_flush_stop(True)):
            driver.event(event)
        segment = Gst.Segment()
        segment.init(Gst.Format.TIME)
        driver.event(Gst.Event.new_segment(segment))
        driver.push()
        done = driver.end()
    assert [f.infer_done for f in done.frames] == [True, False, True]


def test_elements_with_one_instance_id_share_the_model():
    import infer_models

    infer_models.Threads.calls.clear()
    shared = "sluiceinfer model=infer_models:Threads model-instance-id=one"
    both = " ".join(f"{RAW.format(n=5, format='I420')} ! {shared} {name} ! fakesink" for name in ("name=infer", ""))
    run(both)
    names = [name for name, _, _ in infer_models.Threads.calls]
    assert names == ["load", "warm_up", *["infer"] * 10, "close"]


def test_elements_that_share_an_instance_must_agree():
    first, second = (
        f"{RAW.format(n=5, format='I420')} ! sluiceinfer model-instance-id=one {model('Whole')} {more} ! fakesink"
        for more in ("", "device=cpu")
    )
    pipeline = launch(f"{first} {second}")
    assert pipeline.set_state(Gst.State.PLAYING) == Gst.StateChangeReturn.FAILURE
    done = Outcome()
    collect(pipeline, done, 5)
    pipeline.set_state(Gst.State.NULL)
    assert "model-instance-id 'one'" in done.error[0]
    assert "device is" in done.error[0]


def test_stats_count():
    done = run(line(f"{model('Slow')} interval=1"))
    assert {k: done.stats[k] for k in ("batches", "frames", "inferred", "skipped", "errors", "objects")} == {
        "batches": 10,
        "frames": 10,
        "inferred": 5,
        "skipped": 5,
        "errors": 0,
        "objects": 5,
    }
    assert 80 <= done.stats["model-ms-mean"] <= done.stats["model-ms-max"]
    assert done.stats["model"].endswith("infer_models.py:Slow")


def test_what_need_not_end_a_stream_is_told_once():
    done = run(line(model("Hinting")))
    assert [frame.infer_done for frame in done.frames] == [True] * 10
    texts = [text for text, _ in done.warnings]
    assert len(texts) == 2
    assert "begin() raised RuntimeError: no queue; infer() is called in its place" in texts[0]
    assert "in begin" in done.warnings[0][1]
    assert "the model found class 7, which has no label: there are 2, for the classes 0 to 1" in texts[1]


def test_a_flood_of_detections_is_cut_named_and_counted():
    done = run(line(model("Flood"), n=2))
    assert [len(frame.objects) for frame in done.frames] == [10_000] * 2
    assert {found.class_id for found in done.frames[0].objects} == {1}  # the better half
    assert done.stats["cut"] == 2 * 10_000
    [(text, _)] = done.warnings
    assert "the model gave 20000 detections for one frame; the 10000 best are attached" in text


def test_a_flood_that_was_asked_for_is_not_cut():
    done = run(line(f"{model('Flood')} max-detections=20000", n=1))
    assert (len(done.frames[0].objects), done.stats["cut"], done.warnings) == (20_000, 0, [])


def test_stats_begin_anew_with_each_start():
    pipeline = launch(line(model("Whole"), n=3))
    for _ in range(2):
        pipeline.set_state(Gst.State.PLAYING)
        collect(pipeline, Outcome(), 10)
        assert stats_of(pipeline.get_by_name("infer"))["frames"] == 3
        pipeline.set_state(Gst.State.NULL)


def test_the_element_is_finalised_after_use():
    pipeline = launch(line(model("Whole"), n=3))
    alive = weakref.ref(pipeline.get_by_name("infer"))
    pipeline.set_state(Gst.State.PLAYING)
    collect(pipeline, Outcome(), 10)
    pipeline.set_state(Gst.State.NULL)
    del pipeline
    until(lambda: gc.collect() >= 0 and alive() is None)
