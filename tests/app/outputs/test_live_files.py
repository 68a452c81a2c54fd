"""Recordings, clips and HLS: every frame is there, and what is on the disk can be played whatever happens."""

import datetime
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gi
import pytest
from live_stream import Stream, count_frames, files

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.outputs import ClipOptions, HlsOptions, LiveOutputs, OutputOptions, RecordOptions
from sluice.app.outputs.files_live import Clips, Hls, Recorder
from sluice.app.outputs.relay import Relay
from sluice.app.outputs.standing import Standing, utc_name
from sluice.errors import ConfigurationError
from waiting import PATIENCE, until


@pytest.mark.parametrize("container", ["mp4", "mkv"])
def test_the_segments_hold_every_frame_once(tmp_path: Path, container: str) -> None:
    record = RecordOptions(tmp_path, container=container, segment_seconds=2)
    with Stream(OutputOptions(record=record), frames=260, live=False) as stream:
        stream.wait_for_end()
    counts = [count_frames(path) for path in files(tmp_path / "cam_1", container)]
    assert counts == [50] * 5 + [10]
    assert all(path.name.startswith("cam_1_20") and "Z." in path.name for path in files(tmp_path, container))


def test_a_segment_is_named_after_the_moment_its_first_frame_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = 1_900_000_000
    monkeypatch.setattr(Relay, "arrival", lambda _relay, running_time: began + running_time / 1e9)
    record = RecordOptions(tmp_path, segment_seconds=2)
    with Stream(OutputOptions(record=record), frames=120, live=False) as stream:
        stream.wait_for_end()
    moments = [datetime.datetime.fromtimestamp(began + seconds, datetime.timezone.utc) for seconds in (0, 2, 4)]
    assert [path.name for path in files(tmp_path, "mp4")] == [f"cam_1_{utc_name(moment)}.mp4" for moment in moments]


def test_segments_by_size(tmp_path: Path) -> None:
    record = RecordOptions(tmp_path, container="mkv", segment_seconds=None, segment_bytes=20_000)
    with Stream(OutputOptions(record=record, key_seconds=0.5), frames=250, live=False) as stream:
        stream.wait_for_end()
    written = files(tmp_path, "mkv")
    assert len(written) > 1
    assert max(path.stat().st_size for path in written) < 40_000
    assert sum(map(count_frames, written)) == 250


def test_only_the_newest_segments_are_kept(tmp_path: Path) -> None:
    record = RecordOptions(tmp_path, segment_seconds=1, keep_segments=3)
    with Stream(OutputOptions(record=record), frames=200, live=False) as stream:
        stream.wait_for_end()
        until(lambda: stream.stats()["record-segments"] >= 7)
    finished = [text.split(": recorded ")[1] for text in stream.happened("segment-finished")]
    assert len(finished) == 8
    assert [path.name for path in files(tmp_path, "mp4")] == finished[-3:]


def test_only_so_many_bytes_are_kept(tmp_path: Path) -> None:
    record = RecordOptions(tmp_path, segment_seconds=1, keep_bytes=25_000)
    with Stream(OutputOptions(record=record), frames=300, live=False) as stream:
        stream.wait_for_end()
    kept = files(tmp_path, "mp4")
    assert kept
    assert sum(path.stat().st_size for path in kept) <= 25_000


KILLED = """
import sys
import time
from pathlib import Path
sys.path[:0] = {folders!r}
from live_stream import Stream
from sluice.app.outputs import OutputOptions, RecordOptions
record = RecordOptions(Path(sys.argv[1]), container=sys.argv[2], segment_seconds=2)
with Stream(OutputOptions(record=record)) as stream:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        print(stream.dropped(), flush=True)
        time.sleep(0.1)
"""


@pytest.mark.parametrize("container", ["mp4", "mkv"])
def test_a_killed_process_leaves_files_that_play(tmp_path: Path, container: str) -> None:
    code = KILLED.format(folders=[str(Path(__file__).parent), str(Path(__file__).parents[2])])
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path), container], stdout=subprocess.PIPE, text=True
    )
    try:
        # The third segment is more than a second long.
        until(lambda: len(files(tmp_path, container)) >= 3, "a third segment")
        until(lambda: files(tmp_path, container)[2].stat().st_size > 7000, "its content")
    finally:
        process.send_signal(signal.SIGKILL)
        printed, _ = process.communicate()
    dropped = int(printed.split()[-1])  # frames that the machine had no time for, which are counted
    counts = [count_frames(path) for path in files(tmp_path, container)]
    assert all(50 - dropped <= count <= 50 for count in counts[:2])
    assert counts[2] >= 20 - dropped


def test_a_deleted_folder_is_noticed_and_made_again(tmp_path: Path) -> None:
    with Stream(OutputOptions(record=RecordOptions(tmp_path / "r", segment_seconds=60))) as stream:
        until(lambda: files(tmp_path / "r", "mp4"))
        shutil.rmtree(tmp_path / "r")
        until(lambda: stream.happened("record-lost"), what="the event")
        until(lambda: files(tmp_path / "r", "mp4"), what="a new file")
        arrived = stream.stats()["frames"]
        until(lambda: stream.stats()["frames"] > arrived + 10)
    assert stream.branch.stats()["record-lost"] == 1
    assert count_frames(files(tmp_path / "r", "mp4")[0]) > 5


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_is_an_event_and_other_streams_go_on(tmp_path: Path) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)], capture_output=True)
    if mounted.returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        full = Stream(OutputOptions(record=RecordOptions(small)), size=(640, 480))
        fine = Stream(OutputOptions(record=RecordOptions(large)), name="cam 2")
        with full, fine:
            until(lambda: full.happened("record-failed"), "the event")
            assert "space" in full.happened("record-failed")[0].lower()
            before = full.stats()["frames"], fine.stats()["record-frames"]
            until(lambda: full.stats()["frames"] > before[0] + 25, what="frames of the stream itself")
            until(lambda: fine.stats()["record-frames"] > before[1] + 25, what="frames of the other recording")
            for path in files(small, "mp4"):
                path.unlink()
            until(lambda: files(small, "mp4"), "a recording once there is room")
        assert full.branch.stats()["record-failures"] >= 1
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)
    assert sum(map(count_frames, files(large, "mp4"))) == fine.branch.stats()["record-frames"]


def test_a_disk_that_hangs_holds_no_end_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs, released = threading.Event(), threading.Event()

    def hang(*_: object) -> None:
        hangs.set()
        released.wait(2 * PATIENCE)

    def make_hanging_sink() -> Gst.Element:
        sink = Gst.ElementFactory.make("fakesink")
        sink.set_property("signal-handoffs", True)
        sink.connect("handoff", hang)
        return sink

    monkeypatch.setattr("sluice.app.outputs.files_live.make_file_sink", make_hanging_sink)
    stream = Stream(OutputOptions(record=RecordOptions(tmp_path)), live=False)  # which waits for its recording
    stream.pipeline.set_state(Gst.State.PLAYING)
    try:
        assert hangs.wait(PATIENCE)

        def stands() -> bool:
            before = stream.stats()["frames"]
            time.sleep(0.5)
            return stream.stats()["frames"] == before > 20

        until(stands, what="the source that waits for the disk")
        stream.branch.end()
        stream.pipeline.set_state(Gst.State.NULL)
        stream.outputs.close()
    finally:
        released.set()
    assert "hangs" in stream.happened("record-failed")[0]


def test_a_folder_that_cannot_be_made_is_an_event(tmp_path: Path) -> None:
    (tmp_path / "cam_1").touch()
    with Stream(OutputOptions(record=RecordOptions(tmp_path))) as stream:
        until(lambda: stream.happened("record-failed"))
        arrived = stream.stats()["frames"]
        until(lambda: stream.stats()["frames"] > arrived + 5)


def test_a_folder_that_is_a_file_or_within_one_is_refused_before_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "deep"):
        for options in (
            OutputOptions(record=RecordOptions(folder)),
            OutputOptions(clips=ClipOptions(folder)),
            OutputOptions(hls=HlsOptions(folder)),
        ):
            with pytest.raises(ConfigurationError, match=r"(record|clips|hls): the folder is .*, which is a file"):
                LiveOutputs(options)


def test_the_hubs_thread_asks_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def noted(name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def call(*arguments: Any, **named: Any) -> Any:
            asked.append((threading.current_thread().name, name))
            return real(*arguments, **named)

        return call

    (tmp_path / "h" / "cam_1").mkdir(parents=True)
    (tmp_path / "h" / "cam_1" / "segment00007.ts").touch()
    for name in ("stat", "mkdir", "unlink", "scandir", "listdir"):
        monkeypatch.setattr(os, name, noted(name))
    record = RecordOptions(tmp_path / "r", segment_seconds=1, keep_segments=2)
    options = OutputOptions(
        record=record,
        hls=HlsOptions(tmp_path / "h", segment_seconds=1),
        clips=ClipOptions(tmp_path / "c", before=1, after=0.5, keep_clips=1),
    )
    with Stream(options) as stream:
        until(lambda: stream.stats()["record-deleted"] > 0)
        for number in (1, 2):
            stream.outputs.clip("cam 1")
            until(lambda number=number: stream.stats()["clips-clips"] == number)
        until(lambda: stream.stats()["clips-deleted"] == 1)
        stream.outputs.enable("cam 1", "hls", False)
        until(lambda: (tmp_path / "h" / "cam_1" / "index.m3u8").exists())
        stream.outputs.enable("cam 1", "hls", True)
        until(lambda: stream.stats()["hls-frames"] > 0)
    assert not (tmp_path / "h" / "cam_1" / "segment00007.ts").exists()
    assert {"stat", "mkdir", "unlink"} <= {name for _, name in asked}
    assert not [name for thread, name in asked if thread == "sluice-outputs"]


@pytest.mark.parametrize("kind", [Hls, Recorder])
def test_a_disk_that_does_not_answer_holds_up_no_other_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Standing]
) -> None:
    answers = threading.Event()
    make_room = kind.make_room
    monkeypatch.setattr(kind, "make_room", lambda output: answers.wait(PATIENCE) and make_room(output))
    monkeypatch.setattr("sluice.app.outputs.live._PREPARING", 0.1)
    options = OutputOptions(record=RecordOptions(tmp_path / "r"), hls=HlsOptions(tmp_path / "h", segment_seconds=1))
    other, held = ("record", "hls") if kind is Hls else ("hls", "record")
    with Stream(options) as stream:
        until(lambda: stream.stats()[f"{other}-frames"] > 10)
        assert stream.stats()[f"{held}-frames"] == 0
        answers.set()
        until(lambda: stream.stats()[f"{held}-frames"] > 10)


def test_what_triggers_a_clip_while_its_place_is_looked_for_makes_it_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()
    with Stream(OutputOptions(clips=ClipOptions(tmp_path, before=1, after=1))) as stream:
        make_room = Clips.make_room
        monkeypatch.setattr(Clips, "make_room", lambda clips: answers.wait(PATIENCE) and make_room(clips))
        until(lambda: stream.stats()["encoded"] > 50)
        stream.outputs.clip("cam 1", "first")
        until(lambda: stream.stats()["clips-triggers"] == 1)
        begun = stream.stats()["frames"]
        until(lambda: stream.stats()["frames"] > begun + 20)
        stream.outputs.clip("cam 1", "second")
        until(lambda: stream.stats()["clips-triggers"] == 2)
        answers.set()
        until(lambda: stream.stats()["clips-clips"] == 1)
    (details,) = [details for kind, _, _, details in stream.events if kind == "clip-finished"]
    assert details["reasons"] == ["first", "second"]
    # A second in front of the first trigger, 20 frames up to the second one, and a second behind that.
    assert count_frames(Path(details["file"])) >= 20 + 25


def test_a_recording_is_switched_off_and_on(tmp_path: Path) -> None:
    with Stream(OutputOptions(record=RecordOptions(tmp_path))) as stream:
        until(lambda: stream.stats()["record-frames"] > 10)
        stream.outputs.enable("cam 1", "record", False)
        until(lambda: stream.stats()["record-segments"] == 1)
        until(lambda: not stream.stats()["encode-active"], what="the end of encoding")
        stream.outputs.enable("cam 1", "record", True)
        until(lambda: stream.stats()["record-frames"] > 40)
    written = files(tmp_path, "mp4")
    assert len(written) == 2
    assert sum(map(count_frames, written)) == stream.branch.stats()["record-frames"]


def test_a_clip_begins_before_its_trigger_and_ends_after_it(tmp_path: Path) -> None:
    clips = ClipOptions(tmp_path, before=1, after=1)
    with Stream(OutputOptions(clips=clips, key_seconds=0.4), fps=25) as stream:
        until(lambda: stream.stats()["encoded"] > 60)
        stream.outputs.clip("cam 1", "door opened")
        until(lambda: stream.happened("clip-finished"))
        dropped = stream.dropped()
    (path,) = files(tmp_path, "mp4")
    assert path.name.endswith("_door_opened.mp4")
    # 25 frames before, up to a group of 10 more, the frame itself, 25 after; some may not have been encoded yet.
    assert 46 - dropped <= count_frames(path) <= 64


def test_the_ring_holds_no_more_than_is_needed(tmp_path: Path) -> None:
    clips = ClipOptions(tmp_path, before=1, after=1)
    # With a recording no frame of a file is left out.
    options = OutputOptions(clips=clips, record=RecordOptions(tmp_path / "r"), key_seconds=0.4)
    with Stream(options, frames=1000, live=False, size=(64, 48)) as stream:
        stream.wait_for_end()
        relay = until(lambda: stream.branch._encoding.relay)
        until(lambda: relay.read().buffers == 1000)
        assert 25 <= relay.read().ring_buffers <= 25 + 2 * 10 + 1


def test_a_trigger_during_a_clip_makes_it_longer(tmp_path: Path) -> None:
    clips = ClipOptions(tmp_path, before=0.4, after=5)
    with Stream(OutputOptions(clips=clips, key_seconds=0.4)) as stream:
        until(lambda: stream.stats()["encoded"] > 20)
        stream.outputs.clip("cam 1", "one")
        until(lambda: stream.stats()["clips-frames"] > 25)
        stream.outputs.clip("cam 1", "two")
        until(lambda: stream.happened("clip-finished"))
        details = next(details for kind, _, _, details in stream.events if kind == "clip-finished")
        assert details["reasons"] == ["one", "two"]
        dropped = stream.dropped()
    (path,) = files(tmp_path, "mp4")
    assert count_frames(path) >= 25 + 125 - dropped


def test_a_clip_is_no_longer_than_the_longest(tmp_path: Path) -> None:
    clips = ClipOptions(tmp_path, before=0, after=5, longest=1)
    with Stream(OutputOptions(clips=clips, key_seconds=0.2)) as stream:
        until(lambda: stream.stats()["encoded"] > 10)
        stream.outputs.clip("cam 1")
        until(lambda: stream.happened("clip-finished"))
        dropped = stream.dropped()
    assert 20 - dropped <= count_frames(files(tmp_path, "mp4")[0]) <= 40


def test_a_clip_of_a_stream_that_ends_is_finished(tmp_path: Path) -> None:
    with Stream(OutputOptions(clips=ClipOptions(tmp_path, after=60))) as stream:
        until(lambda: stream.stats()["encoded"] > 10)
        stream.outputs.clip("cam 1")
        until(lambda: stream.stats()["clips-frames"] > 10)
    assert count_frames(files(tmp_path, "mp4")[0]) == stream.branch.stats()["clips-frames"]


def test_no_clips_are_refused_by_name(tmp_path: Path) -> None:
    with Stream(OutputOptions()) as stream:
        with pytest.raises(ConfigurationError, match="clips are not among the outputs"):
            stream.outputs.clip("cam 1")
        with pytest.raises(ConfigurationError, match=r"no stream 'cam 2'; there are cam 1"):
            stream.outputs.clip("cam 2")


def test_hls_has_a_playlist_that_plays(tmp_path: Path) -> None:
    hls = HlsOptions(tmp_path, segment_seconds=1, playlist_length=3, keep_segments=5)
    with Stream(OutputOptions(hls=hls), frames=250, live=False) as stream:
        stream.wait_for_end()
        until(lambda: stream.stats()["hls-frames"] == 250)
    folder = tmp_path / "cam_1"
    lines = (folder / "index.m3u8").read_text().splitlines()
    assert lines[0] == "#EXTM3U"
    assert lines[-1] == "#EXT-X-ENDLIST"
    named = [line for line in lines if line and not line.startswith("#")]
    assert len(named) == 3
    assert len(files(folder, ".ts")) == 5
    assert count_frames(folder / "index.m3u8") == 75


def test_outputs_that_never_got_a_frame_are_no_failures(tmp_path: Path) -> None:
    stream = Stream(OutputOptions(record=RecordOptions(tmp_path / "r"), hls=HlsOptions(tmp_path / "h")))
    stream.branch.end()
    stream.outputs.close()
    assert [event for event in stream.events if event[0].endswith("failed")] == []
