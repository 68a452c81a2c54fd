"""Streams that come and go while others play: added, removed, restarted, slowed down, cut; nothing is left behind."""

from __future__ import annotations

import gc
import json
import socket
import sys
import threading
import time
import weakref
from collections import defaultdict
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from live import Box, Colours, happened, plays, quick, status

import sluice
from sluice.app.roster import UnknownStream
from sluice.app.source_bin import SourceBin
from sluice.app.streams import StreamPolicy, StreamState
from sluice.app.streams.stream import Stream
from sluice.errors import ConfigurationError
from sluice.models.frame import Frame
from waiting import PATIENCE, until

LIVE = "test:ball?live=1&size=64x48&fps=30"


def test_streams_come_and_go_and_numbers_are_never_given_twice(service: sluice.Pipeline) -> None:
    assert service.streams == []
    assert [service.add(LIVE), service.add(LIVE), service.add(LIVE, name="door")] == [
        "test_ball",
        "test_ball-2",
        "door",
    ]
    for name in ("test_ball", "test_ball-2", "door"):
        plays(service, name)
    service.remove("test_ball-2")
    assert [(stream.name, stream.number) for stream in service.streams] == [("test_ball", 0), ("door", 2)]
    assert service.add(LIVE) == "test_ball-2"
    plays(service, "test_ball-2")
    assert status(service, "test_ball-2").number == 3
    for name in ("test_ball", "door", "test_ball-2"):
        service.remove(name)
    assert service.streams == []
    service.add(LIVE, name="again")
    plays(service, "again")
    until(lambda: happened(service, "stream-playing", "again"), "it is told")
    kinds = [event.kind for event in service.events.since() if event.stream == "again"]
    assert kinds == ["stream-added", "stream-playing"]


def test_wrong_names_and_sources_are_refused_by_name(service: sluice.Pipeline) -> None:
    service.add(LIVE, name="door")
    with pytest.raises(ConfigurationError, match="a stream 'Door' already"):
        service.add(LIVE, name="Door")
    with pytest.raises(ConfigurationError, match="'a/b'"):
        service.add(LIVE, name="a/b")
    with pytest.raises(ConfigurationError, match=r"no file 'nothere\.mp4'"):
        service.add("nothere.mp4")
    for change in (service.remove, service.restart, lambda name: service.update(name, StreamPolicy())):
        with pytest.raises(UnknownStream, match="no stream 'window'; there are: door"):
            change("window")


def test_streams_named_before_the_start_are_there_after_it() -> None:
    with sluice.Pipeline([], service=True) as pipeline:
        with pytest.raises(ConfigurationError, match="not started"):
            pipeline.remove("early")
        assert pipeline.add(LIVE, name="early") == "early"
        pipeline.start()
        plays(pipeline, "early")


def test_a_removed_stream_has_a_whole_file_and_the_others_go_on(tmp_path: Path) -> None:
    with sluice.Pipeline([LIVE], service=True, out=tmp_path) as pipeline:
        pipeline.start()
        pipeline.add(LIVE, name="second")
        plays(pipeline, "second", 10)
        pipeline.remove("second")
        video, frames = cv2.VideoCapture(str(tmp_path / "second.mp4")), 0
        while video.grab():
            frames += 1
        assert frames >= 10
        plays(pipeline, "test_ball", 5)
    assert cv2.VideoCapture(str(tmp_path / "test_ball.mp4")).read()[0]
    assert [stream.name for stream in pipeline.summary.streams] == ["test_ball"]


def test_a_run_ends_when_the_streams_that_are_left_have_ended() -> None:
    with sluice.Pipeline(["test:ball?frames=20&size=64x48", LIVE]) as pipeline:
        job = pipeline.start()
        plays(pipeline, "test_ball-2")
        pipeline.add("test:snow?frames=30&size=64x48", name="late")
        pipeline.remove("test_ball-2")
        job.wait()
    summary = pipeline.summary
    assert {stream.name: stream.frames_out for stream in summary.streams if stream.name != "test_ball-2"} == {
        "test_ball": 20,
        "late": 30,
    }
    assert summary.ok
    with pytest.raises(ConfigurationError, match="the run is over"):
        pipeline.add(LIVE)


def test_a_run_whose_last_stream_is_removed_ends() -> None:
    pipeline = sluice.Pipeline(LIVE)
    job = pipeline.start()
    plays(pipeline, "test_ball")
    pipeline.remove("test_ball")
    job.wait()


def streams_in_memory() -> list[Stream | SourceBin]:
    return [thing for thing in gc.get_objects() if isinstance(thing, Stream | SourceBin)]


def test_nothing_is_left_of_streams_that_were_removed(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    earlier = {id(thing): weakref.ref(thing) for thing in streams_in_memory()}  # of other tests in this process

    def is_earlier(thing: object) -> bool:
        return id(thing) in earlier and earlier[id(thing)]() is thing

    with sluice.Pipeline([LIVE], service=True, model=Box(), out=tmp_path, messages=tmp_path / "m.jsonl") as pipeline:
        job: Any = pipeline.start()
        graph = job._graph
        plays(pipeline, "test_ball")
        alive: list[Any] = []

        def cycle() -> None:
            name = pipeline.add(LIVE)
            plays(pipeline, name, 3)
            stream = job._roster.get(name)
            alive.extend(weakref.ref(thing) for thing in (stream, stream.session, stream.branch, stream.mux_pad))
            del stream
            pipeline.remove(name)

        def kept() -> dict[str, int]:
            gc.collect()
            demux = graph.endings._splitter
            return {
                "elements": len(graph.pipeline.children),
                "mux pads": len(graph.mux.sinkpads),
                "mux streams": len(graph.mux._streams),
                "demux pads": len(demux.srcpads),
                "demux streams": len(demux._streams),
                "branches": len(graph.endings.branches),
                "ends": len(graph.endings.elements),
                "counts": len(graph.collector.counts),
                "tracked": len(graph.tracker._tracking.streams._active),
                "objects": sum(not is_earlier(thing) for thing in streams_in_memory()),
                "summaries": len(pipeline.summary.streams),
                "threads": len({thread for thread in threading.enumerate() if thread not in before}),
            }

        for _ in range(3):
            cycle()
        until(lambda: kept()["objects"] == 2, "the first streams are freed")
        first = kept()  # perhaps with a thread that is about to end
        for _ in range(12):
            cycle()
        until(
            lambda: all(now <= first[what] for what, now in kept().items()),
            f"no more is kept than before: {first}, now {kept()}",
        )
        gc.collect()
        assert [reference() for reference in alive if reference() is not None] == []


def test_after_twenty_restarts_every_frame_is_its_own_stream_s_and_times_go_on() -> None:
    colours = Colours()
    with sluice.Pipeline([], service=True, model=colours, tracker=None) as pipeline:
        job = pipeline.start(iterate=True)
        assert job.queue is not None
        names = [pipeline.add(f"test:{colour}?live=1&size=64x48&fps=60") for colour in ("red", "green", "blue")]
        times: dict[int, list[int]] = defaultdict(list)

        def collect() -> None:
            assert job.queue is not None
            for frame in iter(job.queue.get, None):
                times[frame.stream].append(frame.pts or 0)

        thread = threading.Thread(target=collect)
        thread.start()
        for _ in range(20):
            for name in names[:2]:
                pipeline.restart(name)
                plays(pipeline, name, 2)
        # The last frames may be those of the source before, which is closed by another thread.
        until(lambda: [status(pipeline, name).reconnects for name in names] == [20, 20, 0], "all restarts")
        pipeline.stop()
        thread.join(PATIENCE)
    assert colours.seen == {0: {0}, 1: {1}, 2: {2}}
    for stream in range(3):
        assert np.all(np.diff(times[stream]) > 0)
        assert len(times[stream]) >= 40


def test_a_restarted_stream_has_new_objects() -> None:
    with sluice.Pipeline([], service=True, model=Box()) as pipeline:
        job = pipeline.start(iterate=True)
        assert job.queue is not None
        pipeline.add(LIVE, name="a")
        ids: list[int] = []

        def next_id() -> int:
            while True:
                frame = job.queue.get()  # type: ignore[union-attr]
                if frame is not None and frame.objects and frame.objects[0].id is not None:
                    return frame.objects[0].id

        ids.append(next_id())
        for _ in range(3):
            pipeline.restart("a")
            deadline = time.monotonic() + PATIENCE
            while (found := next_id()) == ids[-1]:
                assert time.monotonic() < deadline
            ids.append(found)
    assert len(set(ids)) == 4


def test_a_looped_file_goes_on_with_its_times_continued(data: Path) -> None:
    clip = data / "videos" / "decord_video_0.mov"  # three frames
    with sluice.Pipeline([], service=True) as pipeline:
        job = pipeline.start(iterate=True)
        assert job.queue is not None
        pipeline.add(clip, name="looped", policy=StreamPolicy(loop=True))
        frames = [job.queue.get() for _ in range(12)]
    times = [frame.pts for frame in frames if frame is not None and frame.pts is not None]
    assert len(times) == 12
    assert np.all(np.diff(times) > 0)


@pytest.mark.parametrize("delivery", ["every", "freshest"])
def test_a_looped_file_plays_at_its_own_rate(service: sluice.Pipeline, delivery: Any) -> None:
    begun = time.monotonic()
    policy = StreamPolicy(loop=True, delivery=delivery)
    service.add("test:ball?frames=20&fps=20&size=64x48", name="looped", policy=policy)
    until(lambda: status(service, "looped").frames_out >= 30, "it plays one and a half times")
    found = status(service, "looped")
    # The last frame of a turn need not be over, and the next ones wait in queues.
    assert time.monotonic() - begun >= 1.2
    assert found.frames_in <= 20 * (time.monotonic() - begun) + 6
    assert delivery == "freshest" or found.dropped == 0


def test_a_file_that_ended_in_a_service_can_be_restarted(service: sluice.Pipeline) -> None:
    service.add("test:ball?frames=10&size=64x48", name="clip")
    until(lambda: status(service, "clip").state == StreamState.ENDED, "it ends")
    until(lambda: status(service, "clip").frames_out == 10, "all frames come out")
    service.restart("clip")
    until(lambda: status(service, "clip").frames_out == 20, "it plays again")


def test_a_target_rate_drops_and_counts(service: sluice.Pipeline) -> None:
    service.add("test:ball?frames=300&fps=30&size=64x48", name="clip", policy=StreamPolicy(fps=10))
    until(lambda: status(service, "clip").state == StreamState.ENDED, "it ends")
    until(lambda: status(service, "clip").frames_out == 100, "a third comes out")
    found = status(service, "clip")
    assert (found.frames_in, found.dropped) == (300, 200)


def test_a_region_is_what_the_model_is_given_and_results_are_in_the_whole_picture() -> None:
    class Corner:
        sizes: set[tuple[int, int]] = set()  # noqa: RUF012 - one for all

        def infer(self, frames: list[Frame]) -> list[sluice.Detections]:
            self.sizes.update((frame.width, frame.height) for frame in frames)
            return [sluice.Detections(xyxy=[[1, 2, 5, 6]], scores=[0.9], class_ids=[0]) for _ in frames]

    with sluice.Pipeline([], service=True, model=Corner(), tracker=None) as pipeline:
        job = pipeline.start(iterate=True)
        assert job.queue is not None
        pipeline.add(LIVE, name="a", policy=StreamPolicy(region=(10, 20, 30, 24)))
        frame = job.queue.get()
        assert frame is not None
        assert [thing.xyxy for thing in frame.objects] == [(11, 22, 15, 26)]
        assert (frame.width, frame.height) == (64, 48)
        assert Corner.sizes == {(30, 24)}
        pipeline.update("a", StreamPolicy())
        until(lambda: (64, 48) in Corner.sizes or job.queue.get() is None, "the whole picture is given")  # type: ignore[union-attr]
        assert status(pipeline, "a").reconnects == 0


class Slow:
    """A model that takes long, and writes down how old each frame is when it sees it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.numbers: list[int] = []

    def infer(self, frames: list[Frame]) -> list[None]:
        self.numbers += [frame.number for frame in frames]
        time.sleep(self.seconds)
        return [None] * len(frames)


def test_a_slow_model_sees_the_freshest_frames_of_a_camera_and_the_rest_are_counted() -> None:
    model = Slow(0.2)
    with sluice.Pipeline([], service=True, model=model) as pipeline:
        pipeline.start()
        pipeline.add(LIVE, name="a")
        plays(pipeline, "a", 10)

        def on_their_way() -> int:
            found = status(pipeline, "a")  # whose numbers are read one after another
            return found.frames_in - found.frames_out - found.dropped

        until(lambda: on_their_way() <= 8, "nothing piles up: what is not out is dropped, but for a few frames")
        assert status(pipeline, "a").dropped > 20
    assert model.numbers == sorted(set(model.numbers))


def test_what_gives_way_to_newer_frames_in_the_mux_is_overtaken_also_once_the_stream_is_gone() -> None:
    with sluice.Pipeline([], model=Slow(0.2), tracker=None, service=True) as pipeline:
        pipeline.start()
        for name in ("first", "second"):
            pipeline.add(LIVE, name=name)
        until(lambda: status(pipeline, "first").overtaken > 20, "frames give way")
        summaries = list(pipeline.summary.streams)
        before = status(pipeline, "first").overtaken
        pipeline.remove("first")
        until(lambda: [stream.name for stream in pipeline.streams] == ["second"], "it is gone")
    for stream in summaries:
        assert stream.overtaken == stream.dropped, "nothing else drops frames here"
        assert stream.frames_in - stream.frames_out - stream.dropped <= 8, "the rest was on its way"
    assert summaries[0].overtaken >= before


def test_a_camera_named_before_the_start_has_its_capture_time_explained(tmp_path: Path) -> None:
    with sluice.Pipeline([LIVE], frames=5, messages=tmp_path / "told.jsonl") as pipeline:
        pipeline.run()
    told = [json.loads(line) for line in (tmp_path / "told.jsonl").read_text().splitlines()]
    assert [message.get("utc_from") for message in told] == ["arrival"] * 5


def test_a_stream_that_is_added_while_the_model_is_loaded_plays() -> None:
    class Loads(Slow):
        begun, ready = threading.Event(), threading.Event()

        def load(self) -> None:
            self.begun.set()
            self.ready.wait(PATIENCE)

    with sluice.Pipeline([LIVE], service=True, model=Loads(0)) as pipeline:
        starting = threading.Thread(target=pipeline.start)
        starting.start()
        assert Loads.begun.wait(PATIENCE)
        assert not pipeline.started
        pipeline.add(LIVE, name="late")
        Loads.ready.set()
        starting.join()
        plays(pipeline, "late")


def test_every_frame_of_a_camera_where_that_is_asked_for() -> None:
    model = Slow(0.06)
    with sluice.Pipeline([], service=True, model=model) as pipeline:
        pipeline.start()
        pipeline.add("test:ball?live=1&frames=40&fps=30&size=64x48", name="a", policy=StreamPolicy(delivery="every"))
        until(lambda: status(pipeline, "a").frames_out == 40, "all frames come out")
        assert status(pipeline, "a").dropped == 0
    assert model.numbers == list(range(40))


def test_stopping_while_cameras_hang_in_connecting_takes_two_seconds_at_most() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and never answers
        silent.listen(64)
        pipeline = sluice.Pipeline([], service=True)
        pipeline.start()
        for number in range(8):
            pipeline.add(f"rtsp://127.0.0.1:{silent.getsockname()[1]}/{number}", policy=quick())
        pipeline.add(LIVE, name="alive")
        plays(pipeline, "alive")
        begun = time.monotonic()
        pipeline.stop()
        assert time.monotonic() - begun < 2.5
    assert pipeline.summary.stopped


def test_adding_and_removing_a_source_that_hangs_blocks_nobody(service: sluice.Pipeline) -> None:
    service.add(LIVE, name="alive")
    plays(service, "alive")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for _ in range(3):
            service.add(f"rtsp://127.0.0.1:{silent.getsockname()[1]}/", name="hangs", policy=quick())
            until(lambda: status(service, "hangs").state == StreamState.CONNECTING, "it tries")
            plays(service, "alive")
            service.remove("hangs")
            assert [stream.name for stream in service.streams] == ["alive"]


def test_a_dead_camera_does_not_keep_a_run_from_ending(data: Path) -> None:
    summary = sluice.Pipeline(["rtsp://127.0.0.1:9/dead", data / "videos" / "vpf_test.mp4"]).run()
    dead, clip = summary.streams
    assert dead.errors[0].startswith(
        "rtsp://127.0.0.1:9/dead: refused: nothing answers at the host '127.0.0.1', port 9; "
    )
    assert str(summary).count("rtsp://127.0.0.1:9/dead") == 1
    assert (clip.frames_out, clip.failed) == (96, False)


def test_sources_that_cannot_be_opened_have_states_that_say_why(service: sluice.Pipeline, tmp_path: Path) -> None:
    (tmp_path / "noise.mp4").write_bytes(bytes(range(256)) * 64)
    sources = {
        "refused": "rtsp://127.0.0.1:9/",
        "unknown-host": "rtsp://nowhere.invalid/cam",
        "not-found": "v4l2:/dev/video99",
    }
    for state, source in sources.items():
        service.add(source, name=state, policy=quick())
    service.add("http://127.0.0.1:9/clip.mp4", name="http", policy=quick())
    service.add(str(tmp_path / "noise.mp4"), name="noise")
    service.add(LIVE, name="vaapi", policy=quick(decoder="vaapi"))
    for state in sources:
        until(lambda state=state: happened(service, f"stream-{state}", state), state)  # type: ignore[misc]
    until(lambda: happened(service, "stream-refused", "http"), "http refused")
    for name, words in {
        "refused": "nothing answers at the host '127.0.0.1', port 9; ",
        "unknown-host": "the host 'nowhere.invalid' is not known; ",
        "not-found": "there is no such device; ",
        "http": "nothing answers at the host '127.0.0.1', port 9; ",
    }.items():
        assert status(service, name).reason.startswith(words)
    until(lambda: happened(service, "stream-failed", "noise"), "a file fails for good")
    assert "CRITICAL" not in json.dumps([event.text for event in service.events.since()])


def test_a_decoder_that_is_not_here_is_refused_with_what_to_install(service: sluice.Pipeline, data: Path) -> None:
    from sluice.app.decoders import installed

    missing = next((name for name in ("nvdec", "vaapi") if name not in installed()), None)
    if missing is None:
        pytest.skip("this machine has both VA-API and NVDEC")
    clip = data / "videos" / "vpf_test.mp4"
    service.add(clip, name="a", policy=StreamPolicy(decoder=missing))  # type: ignore[arg-type]
    until(lambda: status(service, "a").state == StreamState.FAILED, "it is refused")
    assert f"decoder={missing}" in status(service, "a").reason
    service.add(clip, name="b", policy=StreamPolicy(decoder="software"))
    until(lambda: status(service, "b").frames_out == 96, "it is decoded in software")
    assert status(service, "b").decoder == "avdec_h264"


def test_the_model_is_swapped_and_refused_by_event(service: sluice.Pipeline) -> None:
    with pytest.raises(ConfigurationError, match="started without a model"):
        service.swap_model("people")
    with sluice.Pipeline([LIVE], service=True, model=Box()) as pipeline:
        with pytest.raises(ConfigurationError, match="not started"):
            pipeline.model  # noqa: B018
        pipeline.start()
        plays(pipeline, "test_ball")
        assert pipeline.model["name"] == "Box"
        with pytest.raises(ConfigurationError, match="'soon'"):
            pipeline.swap_model("people", "soon")
        pipeline.swap_model("nothere.onnx")
        until(lambda: happened(pipeline, "model-refused"), "the wrong one is refused")
        assert "nothere.onnx" in next(e.text for e in pipeline.events.since() if e.kind == "model-refused")
        pipeline.set_thresholds(confidence=0.95)
        until(lambda: happened(pipeline, "model-swapped"), "it is loaded anew")
        pipeline.swap_model("people")
        until(lambda: pipeline.model["name"] == "people", "the other model runs")


def test_the_model_is_told_also_when_its_configuration_file_is_gone(tmp_path: Path) -> None:
    sys.path.append(str(Path(__file__).parent.parent / "models"))
    from tiny_networks import brightness_detector

    brightness_detector(tmp_path / "network.onnx")
    config = tmp_path / "config_infer.txt"
    config.write_text("[property]\nonnx-file=network.onnx\nnetwork-type=100\n")
    with sluice.Pipeline([LIVE], service=True, model=Box()) as pipeline:
        pipeline.start()
        plays(pipeline, "test_ball")
        pipeline.swap_model(str(config))
        until(lambda: happened(pipeline, "model-swapped"), "the network runs")
        config.unlink()
        assert (pipeline.model["name"], pipeline.model["runtime"]) == (str(config), "onnxruntime")


def test_thresholds_go_back_to_the_model_s_own_and_what_is_refused_leaves_nothing() -> None:
    def infer(pipeline: sluice.Pipeline, name: str) -> Any:
        return next(e for e in pipeline.elements if e.get_factory().get_name() == "sluiceinfer").get_property(name)

    def changed(pipeline: sluice.Pipeline, times: int) -> None:
        swaps = lambda: [e for e in pipeline.events.since() if e.kind == "model-swapped"]  # noqa: E731
        until(lambda: len(swaps()) == times, f"it is loaded anew {times} times")

    with sluice.Pipeline([LIVE], service=True, model=Box(), tracker=None) as pipeline:
        pipeline.start()
        plays(pipeline, "test_ball")
        pipeline.set_thresholds(confidence=0.95, classes=["thing"])
        changed(pipeline, 1)
        assert (infer(pipeline, "confidence-threshold"), infer(pipeline, "classes")) == (pytest.approx(0.95), "thing")
        with pytest.raises(ConfigurationError, match="classes is 'thing'; it is a list"):
            pipeline.set_thresholds(classes="thing")
        pipeline.set_thresholds(classes=["unicorn"])
        pipeline.set_thresholds(iou=0.4)  # waits for its turn
        until(lambda: happened(pipeline, "model-refused"), "no such class")
        changed(pipeline, 2)
        assert (infer(pipeline, "iou-threshold"), infer(pipeline, "classes")) == (pytest.approx(0.4), "thing")
        told = [event for event in pipeline.events.since() if event.kind == "model-swapped"][-1].details["thresholds"]
        assert told == {"confidence": 0.95, "iou": 0.4, "classes": ["thing"]}
        pipeline.set_thresholds(confidence=None, classes=None)
        changed(pipeline, 3)
        assert (infer(pipeline, "confidence-threshold"), infer(pipeline, "classes")) == (-1, None)
        assert infer(pipeline, "iou-threshold") == pytest.approx(0.4)


def test_one_model_is_loaded_at_a_time(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import time\n\nclass Slow:\n    def __init__(self):\n        time.sleep(3)\n"
        "    def infer(self, frames):\n        raise NotImplementedError\n"
    )
    with sluice.Pipeline([], service=True, model=Box()) as pipeline:
        pipeline.start()
        pipeline.swap_model(f"{tmp_path / 'slow.py'}:Slow")
        with pytest.raises(ConfigurationError, match="another model is being loaded"):
            pipeline.swap_model("people")


def test_subscribers_may_change_streams_from_their_own_thread(service: sluice.Pipeline) -> None:
    done = threading.Event()

    def replace(event: Any) -> None:
        if event.kind == "stream-ended":
            service.remove(event.stream)
            service.add(LIVE, name="next")
            done.set()

    service.events.subscribe(replace)
    service.add("test:ball?frames=5&size=64x48", name="first")
    assert done.wait(PATIENCE)
    plays(service, "next")
    assert [stream.name for stream in service.streams] == ["next"]


class Sizes:
    """A model that writes down the sizes of what it is given."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []

    def infer(self, frames: list[Frame]) -> list[None]:
        self.seen += [(frame.width, frame.height) for frame in frames]
        return [None for _ in frames]


def test_a_region_outside_the_picture_is_refused_by_name_and_the_one_before_goes_on() -> None:
    model = Sizes()
    with sluice.Pipeline([], service=True, model=model, tracker=None) as pipeline:
        pipeline.start()
        pipeline.add(LIVE, name="a", policy=StreamPolicy(region=(10, 20, 30, 24)))
        plays(pipeline, "a", 5)
        with pytest.raises(ConfigurationError, match="'a': the region 64, 0, 10, 10 lies outside its picture of 64x48"):
            pipeline.update("a", StreamPolicy(region=(64, 0, 10, 10)))
        plays(pipeline, "a", 10)
        assert set(model.seen) == {(30, 24)}
        pipeline.update("a", StreamPolicy(region=(40, 20, 1000, 1000)))  # up to the picture's edge
        until(lambda: (24, 28) in model.seen, "the part of it that the picture has")


def test_a_stream_whose_picture_has_nothing_of_its_region_is_told_and_hurts_no_other() -> None:
    model = Sizes()
    with sluice.Pipeline([], service=True, model=model, tracker=None) as pipeline:
        job = pipeline.start()
        pipeline.add(LIVE, name="a", policy=StreamPolicy(region=(200, 0, 100, 100)))
        pipeline.add(LIVE, name="b")
        until(lambda: happened(pipeline, "stream-region-refused", "a"), "the event")
        plays(pipeline, "a", 10)
        plays(pipeline, "b", 10)
        assert set(model.seen) == {(64, 48)}
        assert job.started
    assert "lies outside its picture of 64x48; the model is given the whole" in pipeline.summary.streams[0].warnings[0]


def test_a_camera_that_comes_back_with_a_smaller_picture_than_its_region_ends_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    cv2.imwrite(str(folder / "0.png"), np.zeros((240, 320, 3), np.uint8))
    model = Sizes()
    with sluice.Pipeline([], service=True, model=model, tracker=None) as pipeline:
        pipeline.start()
        pipeline.add(folder, name="a", policy=StreamPolicy(region=(200, 100, 50, 50)))
        until(lambda: model.seen == [(50, 50)], "it is given the region")
        cv2.imwrite(str(folder / "0.png"), np.zeros((48, 64, 3), np.uint8))
        pipeline.restart("a")
        until(lambda: model.seen[1:] == [(64, 48)], "it is given the whole picture")
        until(lambda: happened(pipeline, "stream-region-refused", "a"), "the event")
