"""`sluice.Pipeline` as a program uses it: iterating, stopping, failing, twice in one process."""

import gc
import json
import threading
import time
import weakref
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
import pytest
from live import Box

import sluice
from sluice.app.frame_queue import MOST_WAITING
from sluice.errors import ConfigurationError, ModelError
from sluice.models.frame import Frame
from waiting import PATIENCE, until


def test_frames_come_in_order_per_stream_with_objects_and_pixels(data: Path) -> None:
    clips = [data / "videos" / name for name in ("vpf_test.mp4", "decord_video_0.mov")]
    seen: dict[int, list[Frame]] = {0: [], 1: []}
    with sluice.Pipeline([*clips, "test:ball?frames=20&size=64x48"], model=Box()) as pipeline:
        for frame in pipeline:
            seen.setdefault(frame.stream, []).append(frame)
    assert [[frame.number for frame in seen[stream]] for stream in range(3)] == [
        list(range(96)),
        list(range(3)),
        list(range(20)),
    ]
    tracked = seen[0][5].objects
    assert [(thing.label, thing.id, thing.xyxy) for thing in tracked] == [("thing", 0, (4, 4, 20, 20))]
    assert seen[0][95].rgb().shape == (464, 848, 3)  # after the pipeline ended
    assert seen[1][0].uri == str(clips[1])
    found, picture = cv2.VideoCapture(str(clips[1])).read()
    assert found
    assert np.abs(seen[1][0].bgr().astype(int) - picture).mean() < 8


def test_a_frame_that_is_held_is_not_drawn_on(tmp_path: Path) -> None:
    with sluice.Pipeline("test:black?frames=5&size=64x48", model=Box(), tracker=None, out=tmp_path) as pipeline:
        frames = list(pipeline)
    assert max(int(frame.rgb().max()) for frame in frames) <= 1
    assert pipeline.summary.streams[0].frames_out == 5


def test_a_slow_program_holds_a_file_back_and_loses_nothing(data: Path) -> None:
    with sluice.Pipeline(data / "videos" / "one-by-one-person_first30s.mp4") as pipeline:
        numbers = []
        for frame in pipeline:
            if not numbers:
                time.sleep(1.0)  # long enough for the whole clip, were it not held back
                waiting = pipeline.summary.streams[0].frames_out
            numbers.append(frame.number)
    assert numbers == list(range(301))
    assert waiting < 4 * MOST_WAITING


def test_a_slow_program_gets_the_newest_frames_of_a_live_source() -> None:
    with sluice.Pipeline("test:ball?live=1&frames=60&fps=60&size=64x48") as pipeline:
        numbers = []
        for frame in pipeline:
            numbers.append(frame.number)
            time.sleep(0.08)
    stream = pipeline.summary.streams[0]
    assert numbers == sorted(numbers)
    # The last that came is given; on a busy machine some are dropped in front of the mux, which numbers them.
    assert numbers[-1] == stream.frames_out - 1
    assert len(numbers) < 60
    assert len(numbers) + stream.dropped == stream.frames_in == 60


def test_a_live_stream_goes_on_while_a_file_waits_for_the_program() -> None:
    with sluice.Pipeline(
        ["test:snow?frames=200&size=64x48", "test:ball?live=1&frames=40&fps=40&size=64x48"]
    ) as pipeline:
        for frame in pipeline:
            if frame.stream == 0 and frame.number == 0:
                until(lambda: pipeline.summary.streams[1].frames_in > 20, "frames of the live one while the file waits")
    assert pipeline.summary.streams[0].frames_out == 200


class Overlapping(Box):
    """Finishes a batch when so many have been under way at once, or a second after it was begun."""

    def __init__(self, enough: int) -> None:
        self.enough, self.under_way, self.most = enough, 0, 0

    def begin(self, frames: list[Frame]) -> "BegunBox":
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        return BegunBox(self, frames)


class BegunBox:
    valid = False

    def __init__(self, model: Overlapping, frames: list[Frame]) -> None:
        self.model, self.frames, self.end = model, frames, time.monotonic() + 1

    def ready(self) -> bool:
        return self.model.most >= self.model.enough or time.monotonic() > self.end

    def finish(self) -> list[sluice.Detections]:
        self.model.under_way -= 1
        return self.model.infer(self.frames)


@pytest.mark.parametrize(("live", "most"), [(0, 3), (1, 2)])
def test_one_batch_more_is_under_way_where_no_camera_would_wait_for_it(live: int, most: int) -> None:
    model = Overlapping(enough=most + 1)
    with sluice.Pipeline(f"test:ball?frames=9&size=64x48&live={live}", model=model, tracker=None) as pipeline:
        frames = list(pipeline)
    assert model.most == most
    assert live or len(frames) == 9


def test_leaving_the_loop_stops_the_pipeline_and_finishes_the_file(data: Path, tmp_path: Path) -> None:
    begun = 0.0
    with sluice.Pipeline(data / "videos" / "vtest_pets09_h264_b3.mp4", out=tmp_path) as pipeline:
        for frame in pipeline:
            if frame.number == 30:
                time.sleep(0.5)  # the stream is held back now, which must not keep its file from being finished
                begun = time.monotonic()
                break
    assert time.monotonic() - begun < 2.5
    assert pipeline.summary.stopped
    assert pipeline.summary.ok
    (path,) = tmp_path.iterdir()
    video = cv2.VideoCapture(str(path))
    frames = 0
    while video.grab():
        frames += 1
    assert frames == pipeline.summary.streams[0].frames_out
    assert frames >= 30


def test_a_failed_stream_is_named_and_the_others_finish(tmp_path: Path, data: Path) -> None:
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(bytes(range(256)) * 16)
    out = tmp_path / "out"
    summary = sluice.Pipeline([broken, data / "videos" / "vpf_test.mp4"], model=Box(), out=out).run()
    first, second = summary.streams
    assert not summary.ok
    assert first.failed
    assert str(broken) in first.errors[0]
    assert (second.frames_in, second.frames_out, second.errors) == (96, 96, [])


def test_a_file_without_video_says_so(tmp_path: Path) -> None:
    import subprocess

    silent = tmp_path / "sound.wav"
    subprocess.run(
        [
            "gst-launch-1.0",
            "-q",
            "audiotestsrc",
            "num-buffers=10",
            "!",
            "wavenc",
            "!",
            "filesink",
            f"location={silent}",
        ],
        check=True,
    )
    (stream,) = sluice.Pipeline(silent).run().streams
    assert "no video stream" in stream.errors[0]


def test_a_source_that_cannot_be_opened_leaves_the_others_alone(capfd: pytest.CaptureFixture[str]) -> None:
    summary = sluice.Pipeline(["v4l2:/dev/video99", "test:ball?frames=10&size=64x48"]).run()
    gc.collect()
    assert "CRITICAL" not in capfd.readouterr().err  # nothing was left playing
    assert summary.streams[0].failed
    assert (summary.streams[1].frames_out, summary.streams[1].errors) == (10, [])


def test_no_password_is_shown_of_a_camera_that_is_not_there() -> None:
    summary = sluice.Pipeline("rtsp://admin:se@same@127.0.0.1:9/stream").run()
    assert summary.streams[0].failed
    assert summary.streams[0].uri == "rtsp://127.0.0.1:9/stream"
    assert "same" not in str(summary) + str(summary.as_dict())


class Bad:
    """A model that raises on frame 7."""

    def infer(self, frames: list[Frame]) -> list[None]:
        if any(frame.number == 7 for frame in frames):
            raise ValueError("the seventh")
        return [None] * len(frames)


def test_a_model_that_raises_ends_the_run_with_its_traceback() -> None:
    pipeline = sluice.Pipeline("test:ball?frames=50&size=64x48", model=Bad())
    with pytest.raises(sluice.SluiceError) as caught:
        pipeline.run()
    text = str(caught.value)
    assert "stream 0, frame 7" in text
    assert "ValueError: the seventh" in text
    assert "in infer" in text
    assert pipeline.summary.errors == [text]


def test_iteration_raises_what_ended_the_run() -> None:
    pipeline = sluice.Pipeline("test:ball?frames=50&size=64x48", model=Bad())
    numbers: list[int] = []
    with pytest.raises(sluice.SluiceError, match="the seventh"):
        numbers.extend(frame.number for frame in pipeline)
    assert numbers == list(range(len(numbers)))
    assert len(numbers) <= 7


def test_a_model_that_raises_may_cost_its_frames_only() -> None:
    summary = sluice.Pipeline("test:ball?frames=50&size=64x48", model=Bad(), on_error="skip").run()
    assert (summary.streams[0].frames_out, summary.skipped) == (50, 1)
    assert any("the seventh" in warning for warning in summary.warnings)


def test_a_model_that_cannot_be_loaded_is_refused_at_the_start() -> None:
    with pytest.raises(ModelError, match=r"nothere\.onnx"):
        sluice.Pipeline("test:ball", model="nothere.onnx").run()


def test_stop_returns_though_the_model_hangs() -> None:
    hanging = threading.Event()

    def hang(frames: list[Frame]) -> list[None]:
        hanging.set()
        time.sleep(60)
        return [None] * len(frames)

    pipeline = sluice.Pipeline("test:ball?size=64x48", model=hang)
    pipeline.start()
    assert hanging.wait(PATIENCE)
    begun = time.monotonic()
    pipeline.stop()
    assert time.monotonic() - begun < 2.5
    assert pipeline.summary.stopped


@pytest.mark.parametrize("moment", ["graph", "model"])
def test_a_stop_during_the_start_is_not_lost(moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from sluice.app import graph, job

    class Stopper:
        def load(self) -> None:
            if moment == "model":
                pipeline.stop()

        def infer(self, frames: list[Frame]) -> list[None]:
            return [None for _ in frames]

    class Stopping(graph.Graph):
        """A graph during whose building another thread stops the pipeline."""

        def __init__(self, *arguments: object) -> None:
            if moment == "graph":
                pipeline.stop()
            super().__init__(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(job, "Graph", Stopping)
    pipeline = sluice.Pipeline("test:ball?frames=0&size=64x48", model=Stopper())
    assert pipeline.run().stopped


def test_a_stop_before_the_start_has_no_effect() -> None:
    pipeline = sluice.Pipeline("test:ball?frames=3&size=64x48")
    pipeline.stop()
    assert [stream.frames_out for stream in pipeline.run().streams] == [3]


def test_two_pipelines_interleaved_again_and_again() -> None:
    for _ in range(50):
        first = sluice.Pipeline("test:ball?size=64x48&frames=0", model=Box())
        second = sluice.Pipeline("test:snow?size=64x48&frames=12", model=Box())
        first.start()
        assert second.run().streams[0].frames_out == 12
        first.stop()
        assert first.summary.stopped


def test_nothing_stays_alive_after_a_run() -> None:
    pipeline = sluice.Pipeline("test:ball?size=64x48&frames=5", model=Box())
    job = pipeline.start(iterate=True)
    for _ in iter(job.queue.get, None):  # type: ignore[union-attr]
        pass
    job.wait()
    elements = [weakref.ref(job._graph.mux), weakref.ref(job._graph.infer), weakref.ref(job._graph.pipeline)]
    job._thread.join(PATIENCE)
    del pipeline, job
    until(lambda: gc.collect() >= 0 and not any(element() for element in elements), "the end of the elements")


def test_images_of_a_folder_are_frames_in_natural_order(tmp_path: Path) -> None:
    for number in (2, 10, 1):
        cv2.imwrite(str(tmp_path / f"{number}.png"), np.full((20 + number, 33, 3), number * 20, np.uint8))
    (tmp_path / "3.png").write_bytes(b"not an image")
    with sluice.Pipeline(tmp_path) as pipeline:
        frames = list(pipeline)
    assert [(frame.height, int(frame.rgb()[0, 0, 0])) for frame in frames] == [(21, 20), (22, 40), (30, 200)]
    stream = pipeline.summary.streams[0]
    assert stream.damaged
    assert "3.png" in stream.warnings[0]


def test_a_single_image_is_one_frame(data: Path) -> None:
    (frame,) = sluice.Pipeline(data / "models" / "images" / "bus.jpg")
    assert (frame.width, frame.height) == (810, 1080)


def times_of(video: Path) -> list[float]:
    """When each picture of a video is shown, in milliseconds."""
    reader, times = cv2.VideoCapture(str(video)), []
    while reader.read()[0]:
        times.append(reader.get(cv2.CAP_PROP_POS_MSEC))
    return times


@pytest.mark.parametrize("batch_size", [2, 1], ids=["together", "one by one, at the same times"])
def test_all_streams_in_one_tiled_file(tmp_path: Path, batch_size: int) -> None:
    out = tmp_path / "all.mp4"
    sources = ["test:ball?frames=15&size=64x48", "test:snow?frames=15&size=128x96"]
    summary = sluice.Pipeline(sources, model=Box(), out=out, tile=True, batch_size=batch_size).run()
    assert summary.ok, summary.errors
    assert summary.outputs == [str(out)]
    assert [stream.frames_out for stream in summary.streams] == [15, 15]
    times = times_of(out)
    assert len(times) >= 15 if batch_size == 2 else len(times) == 30
    assert times == sorted(set(times))


def test_messages_tell_the_streams_name_and_what_the_program_says_of_it(tmp_path: Path) -> None:
    messages = tmp_path / "all.jsonl"
    pipeline = sluice.Pipeline("test:snow?frames=5&size=64x48", messages=messages)
    pipeline.add("test:ball?frames=5&size=64x48", name="gate", members={"epoch": 3})
    pipeline.run()
    told = [json.loads(line) for line in messages.read_text().splitlines()]
    assert {(m["stream"], m["name"], m.get("epoch")) for m in told} == {(0, "test_snow", None), (1, "gate", 3)}


def test_messages_name_every_frame(tmp_path: Path) -> None:
    messages = tmp_path / "all.jsonl"
    sluice.Pipeline("test:ball?frames=15&size=64x48", model=Box(), tracker=None, messages=messages).run()
    assert len([json.loads(line) for line in messages.read_text().splitlines()]) == 15


def test_a_frame_limit_ends_each_stream_there(data: Path) -> None:
    summary = sluice.Pipeline([data / "videos" / "vpf_test.mp4", "test:ball?size=64x48"], frames=12).run()
    assert [(stream.frames_in, stream.frames_out) for stream in summary.streams] == [(12, 12), (12, 12)]
    assert summary.ok
    assert not any(stream.damaged for stream in summary.streams)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"sources": []}, "no source"),
        ({"sources": "nothere.mp4"}, "nothere.mp4"),
        ({"sources": "test:ball", "frames": 0}, "frames"),
        ({"sources": "test:ball", "frames": 2**31}, "frames"),
        ({"sources": "test:ball", "interval": 1.5}, "interval"),
        ({"sources": "test:ball", "confidence": 1.5}, "confidence"),
        ({"sources": "test:ball", "on_error": "ignore"}, "ignore"),
        ({"sources": "test:ball", "tile": True}, "tile"),
    ],
)
def test_wrong_arguments_are_refused_by_name(arguments: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        sluice.Pipeline(**arguments)  # type: ignore[arg-type]


def test_an_output_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="file"):
        sluice.Pipeline("test:ball", out=tmp_path / "file" / "x.mp4").run()
    with pytest.raises(ConfigurationError, match=r"\.mp4"):
        sluice.Pipeline("test:ball", out=tmp_path / "x.avi").run()


def test_a_pipeline_runs_once() -> None:
    pipeline = sluice.Pipeline("test:ball?frames=2&size=64x48")
    pipeline.run()
    with pytest.raises(ConfigurationError, match="once"):
        pipeline.run()


def test_pictures_of_any_size_share_one_file(tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number, (width, height) in enumerate([(64, 48), (1, 1), (333, 201), (3000, 3), (20, 40), (51, 50)]):
        cv2.imwrite(str(folder / f"{number}.png"), np.full((height, width, 3), 200, np.uint8))
    cv2.imwrite(str(folder / "6.png"), np.zeros((3, 40_000, 3), np.uint8))  # more than can be converted: left out
    (stream,) = sluice.Pipeline(folder, out=tmp_path / "x.mp4").run().streams
    assert (stream.frames_in, stream.frames_out, stream.errors) == (6, 6, [])
    assert "6.png is larger" in stream.warnings[0]
    video, pictures = cv2.VideoCapture(str(tmp_path / "x.mp4")), []
    while (read := video.read())[0]:
        pictures.append(read[1])
    assert {picture.shape for picture in pictures} == {(48, 64, 3)}
    assert len(pictures) == 6
    # Borders, rather than another shape: the tall picture stays a narrow column.
    assert pictures[4][24, 32].min() > 150
    assert pictures[4][24, :12].max() < 60


def test_a_stream_whose_format_no_file_takes_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gi.repository import Gst

    from sluice.app import endings

    class Picky(endings.Mp4Branch):
        """Takes no frame when it is the second one."""

        def __init__(self, name: str, path: Path) -> None:
            super().__init__(name, path)
            if name == "out_1":
                refusing = endings.make_element("capsfilter", caps=Gst.Caps.from_string("video/x-raw, width=63"))
                self.bin.add(refusing)
                entry = self.bin.get_static_pad("sink")
                queue = entry.get_target()
                entry.set_target(refusing.get_static_pad("sink"))
                refusing.get_static_pad("src").link(queue)

    monkeypatch.setattr(endings, "Mp4Branch", Picky)
    sources = ["test:ball?frames=30&size=64x48", "test:snow?frames=9&size=64x48"]
    first, second = sluice.Pipeline(sources, model=Box(), out=tmp_path).run().streams
    assert (first.frames_out, first.errors) == (30, [])
    assert "downstream does not take" in second.errors[0]


def test_stop_finishes_the_files_with_what_has_arrived(tmp_path: Path) -> None:
    """A model so slow that the frames on their way cannot come out before the stop ends."""

    class Slow:
        def infer(self, frames: list[Frame]) -> list[None]:
            time.sleep(0.3)
            return [None for _ in frames]

    pipeline = sluice.Pipeline("test:ball?size=64x48", model=Slow(), out=tmp_path / "x.mp4")
    pipeline.start()
    until(lambda: pipeline.progress[0].frames >= 4)
    pipeline.stop()
    (stream,) = pipeline.summary.streams
    video, frames = cv2.VideoCapture(str(tmp_path / "x.mp4")), 0
    while video.grab():
        frames += 1
    assert frames == stream.frames_out >= 4
    assert stream.output == str(tmp_path / "x.mp4")


@pytest.mark.parametrize("source", ["test:ball?frames=96&size=64x48", "videos/vpf_test.mp4"])
def test_the_share_that_is_done_leaves_out_what_waits_in_front_of_the_model(source: str, data: Path) -> None:
    held, seen = threading.Event(), []

    class Held:
        def infer(self, frames: list[Frame]) -> list[None]:
            seen.extend(frames)
            if len(seen) > 9:
                held.wait(PATIENCE)
            return [None for _ in frames]

    pipeline = sluice.Pipeline(source if source.startswith("test:") else data / source, model=Held(), batch_size=1)
    job = pipeline.start()
    try:
        until(lambda: pipeline.progress[0].frames == 9 and pipeline.summary.streams[0].frames_in > 10, "frames wait")
        (progress,) = pipeline.progress
        assert progress.fraction == pytest.approx(9 / 96, abs=1 / 96)
    finally:
        held.set()
        job.stop()


def test_a_tiled_file_that_cannot_be_finished_is_not_told_as_an_output(tmp_path: Path) -> None:
    (tmp_path / "x.mp4").symlink_to("/dev/full")
    sources = ["test:ball?frames=300&size=640x480", "test:snow?frames=30&size=64x48"]
    pipeline = sluice.Pipeline(sources, out=tmp_path / "x.mp4", tile=True)
    with pytest.raises(sluice.SluiceError):
        pipeline.run()
    assert pipeline.summary.outputs == []


def test_a_file_without_a_frame_is_not_told_as_an_output(tmp_path: Path) -> None:
    text = tmp_path / "text.mp4"
    text.write_text("no video")
    failed, good = sluice.Pipeline([text, "test:ball?frames=3&size=64x48"], out=tmp_path / "out").run().streams
    assert failed.output is None
    assert good.output == str(tmp_path / "out" / "test_ball.mp4")


def test_a_file_that_cannot_be_finished_fails_its_own_stream(tmp_path: Path) -> None:
    """A full disk under one of two files."""
    (tmp_path / "test_ball.mp4").symlink_to("/dev/full")
    sources = ["test:ball?frames=300&size=640x480", "test:snow?frames=30&size=64x48"]
    first, second = sluice.Pipeline(sources, model=Box(), out=tmp_path).run().streams
    assert "No space left" in first.errors[0]
    assert (second.frames_out, second.errors) == (30, [])


def test_files_of_different_rates_are_tiled_at_their_own_speeds(tmp_path: Path) -> None:
    sources = ["test:ball?frames=10&fps=10&size=64x48", "test:snow?frames=30&fps=30&size=64x48"]
    seen: list[dict[int, int]] = []

    class Sees:
        def infer(self, frames: list[Frame]) -> list[None]:
            seen.append({frame.stream: frame.pts or 0 for frame in frames})
            return [None for _ in frames]

    summary = sluice.Pipeline(sources, model=Sees(), out=tmp_path / "x.mp4", tile=True).run()
    assert [stream.frames_out for stream in summary.streams] == [10, 30]
    newest: dict[int, int] = {}
    for batch in seen:  # what the picture shows of each, a frame or so apart
        newest |= batch
        assert max(newest.values()) - min(newest.values()) <= 100_000_000
    video, times = cv2.VideoCapture(str(tmp_path / "x.mp4")), []
    while video.grab():
        times.append(video.get(cv2.CAP_PROP_POS_MSEC))
    assert len(times) == len(seen)
    assert max(b - a for a, b in pairwise(times)) < 50
