"""Options of the live outputs: what is wrong is named with what would be right."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sluice.app.outputs import (
    ClipOptions,
    HlsOptions,
    OutputOptions,
    PictureOptions,
    RecordOptions,
    RtspOptions,
    WebRtcOptions,
)
from sluice.app.outputs.hub import Hub
from sluice.app.outputs.standing import Tidying, free_path, prune, safe_name
from sluice.errors import ConfigurationError
from waiting import until

HERE = Path()


@pytest.mark.parametrize(
    ("kind", "values", "named"),
    [
        (RecordOptions, {"folder": HERE, "container": "avi"}, "container is 'avi'.*'mp4'"),
        (RecordOptions, {"folder": HERE, "segment_seconds": 0}, "segment_seconds is 0"),
        (RecordOptions, {"folder": HERE, "segment_seconds": float("nan")}, "segment_seconds is nan"),
        (RecordOptions, {"folder": HERE, "keep_segments": 0}, "keep_segments is 0"),
        (RecordOptions, {"folder": HERE, "delivery": "some"}, "delivery is 'some'"),
        (ClipOptions, {"folder": HERE, "before": -1}, "before is -1"),
        (ClipOptions, {"folder": HERE, "classes": "person"}, "not one text"),
        (HlsOptions, {"folder": HERE, "playlist_length": 5, "keep_segments": 3}, "keep_segments is 3"),
        (RtspOptions, {"user": "me"}, "user and password"),
        (RtspOptions, {"port": 65_536}, "port is 65536"),
        (PictureOptions, {"quality": 101}, "quality is 101"),
        (WebRtcOptions, {"stun": "http://x"}, "stun is 'http://x'"),
        (OutputOptions, {"tiled_size": (1281, 720)}, "tiled_size"),
        (OutputOptions, {"key_seconds": 0}, "key_seconds is 0"),
        (OutputOptions, {"bitrate": True}, "bitrate is True"),
    ],
)
def test_wrong_values_are_named(kind: Any, values: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        kind(**values)


def test_a_password_is_in_no_text() -> None:
    options = OutputOptions(rtsp=RtspOptions(user="me", password="s3cret"))
    assert "s3cret" not in repr(options)


@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        (OutputOptions(), 2),
        (OutputOptions(record=RecordOptions(HERE, segment_seconds=60)), 2),
        (OutputOptions(record=RecordOptions(HERE, segment_seconds=5)), 5 / 3),
        (OutputOptions(record=RecordOptions(HERE, segment_seconds=5), hls=HlsOptions(HERE, segment_seconds=1)), 1),
        (OutputOptions(record=RecordOptions(HERE, segment_seconds=None), key_seconds=4), 4),
    ],
)
def test_whole_groups_of_pictures_fill_a_segment(options: OutputOptions, seconds: float) -> None:
    assert options.key_interval == pytest.approx(seconds)


def test_names_of_streams_stay_in_the_folder() -> None:
    assert safe_name("../../etc/passwd") == "_.._etc_passwd"
    assert safe_name("..") == "stream"
    assert "/" not in safe_name("rtsp://cam/1?x=y")


def test_no_file_is_overwritten(tmp_path: Path) -> None:
    first = free_path(tmp_path / "a.mp4")
    first.touch()
    second = free_path(tmp_path / "a.mp4")
    second.touch()
    assert [path.name for path in (first, second, free_path(tmp_path / "a.mp4"))] == ["a.mp4", "a-2.mp4", "a-3.mp4"]


def test_the_oldest_go_first_and_the_current_one_stays(tmp_path: Path) -> None:
    paths = [tmp_path / f"cam_2026010{day}.mp4" for day in range(1, 6)]
    for path in paths:
        path.write_bytes(bytes(100))
    (tmp_path / "other.txt").touch()
    assert prune(tmp_path, ".mp4", 3, None, paths[-1]) == paths[:1]
    assert prune(tmp_path, ".mp4", None, 150, paths[-1]) == paths[1:3]
    assert prune(tmp_path, ".mp4", None, None, None) == []
    assert sorted(tmp_path.iterdir()) == [*paths[3:], tmp_path / "other.txt"]


def test_a_clock_that_was_set_back_does_not_cost_the_newest_file(tmp_path: Path) -> None:
    names = ("a_2026.mp4", "a_2039.mp4", "a_2027.mp4", "a_2028.mp4")
    paths = [tmp_path / name for name in names]
    for path in paths:
        path.write_bytes(b"x")
    written = paths[1:]  # in this order, the clock having been set back behind the first
    assert prune(tmp_path, ".mp4", 2, None, None, written) == paths[:2]


def test_a_file_that_is_begun_meanwhile_is_not_taken_for_an_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = [tmp_path / f"a_{number}.mp4" for number in range(4)]
    for path in written:
        path.write_bytes(b"x")
    begun, glob = tmp_path / "a_9.mp4", Path.glob

    def glob_when_one_is_begun(folder: Path, pattern: str) -> Iterator[Path]:
        written.append(begun)
        begun.write_bytes(b"")
        return glob(folder, pattern)

    monkeypatch.setattr(Path, "glob", glob_when_one_is_begun)
    assert prune(tmp_path, ".mp4", 3, None, None, written) == written[:2]


def test_the_hub_does_not_wait_for_a_disk_on_which_old_files_are_deleted(caplog: pytest.LogCaptureFixture) -> None:
    hub, begun, go_on, calls = Hub("test-hub"), threading.Event(), threading.Event(), list[str]()

    def work() -> None:
        calls.append(threading.current_thread().name)
        begun.set()
        assert go_on.wait(30)
        raise OSError("the disk is away")

    tidying = Tidying(hub, work)
    hub.call(tidying.ask)
    assert begun.wait(30)
    for _ in range(3):  # while the first is at it: they are one
        hub.call(tidying.ask)
    assert calls == ["test-hub-aside"]
    go_on.set()
    until(lambda: len(calls) == 2 and "the disk is away" in caplog.text, "it is done once more")
    until(lambda: not any(thread.name == "test-hub-aside" for thread in threading.enumerate()), "the thread ends")
    hub.call(tidying.ask)
    until(lambda: len(calls) == 3, "it can be asked again")
    hub.stop()
