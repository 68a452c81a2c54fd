"""What counts as a source, and that no credential is ever shown."""

import os
from pathlib import Path

import pytest

from sluice.app.sources import parse_sources
from sluice.errors import ConfigurationError


def test_glob_gives_one_stream_per_file_in_natural_order(tmp_path: Path) -> None:
    for name in ("cam10.mp4", "cam2.mp4", "cam1.mp4"):
        (tmp_path / name).touch()
    assert [s.name for s in parse_sources([f"{tmp_path}/cam*.mp4"])] == ["cam1", "cam2", "cam10"]


def test_file_whose_name_looks_like_a_glob_is_that_file(tmp_path: Path) -> None:
    (tmp_path / "a[1].mp4").touch()
    (source,) = parse_sources([tmp_path / "a[1].mp4"])
    assert source.name == "a[1]"
    assert source.uri.endswith("a%5B1%5D.mp4")


def test_folder_is_one_stream_of_its_images_in_natural_order(tmp_path: Path) -> None:
    for name in ("10.png", "9.JPG", "notes.txt"):
        (tmp_path / name).touch()
    (source,) = parse_sources([tmp_path])
    assert source.kind == "images"
    assert [p.name for p in source.images] == ["9.JPG", "10.png"]


def test_single_image_is_a_stream_of_one_frame(tmp_path: Path) -> None:
    (tmp_path / "bus.jpeg").touch()
    (source,) = parse_sources([tmp_path / "bus.jpeg"])
    assert (source.kind, len(source.images)) == ("images", 1)


@pytest.mark.parametrize(
    ("given", "live", "shown"),
    [
        ("rtsp://u:p@cam-1/s", True, "rtsp://cam-1/s"),
        ("http://host/clip.mp4", False, "http://host/clip.mp4"),
        ("v4l2:/dev/video3", True, "v4l2:/dev/video3"),
        ("test:ball?live=1&fps=10", True, "test:ball?live=1&fps=10"),
        ("test:", False, "test:"),
    ],
)
def test_live_and_shown(given: str, live: bool, shown: str) -> None:
    (source,) = parse_sources([given])
    assert (source.live, source.shown) == (live, shown)


def test_test_source_options() -> None:
    (source,) = parse_sources(["test:snow?frames=7&size=64x48&fps=5"])
    assert source.test is not None
    assert (source.test.pattern, source.test.frames) == ("snow", 7)
    assert (source.test.width, source.test.height, source.test.fps) == (64, 48, 5)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("nothere.mp4", "nothere.mp4"),
        ("nothere-*.mp4", "nothere-*.mp4"),
        ("gopher://u:secret@host/x", "gopher"),
        ("test:nopattern", "nopattern"),
        ("test:ball?colour=red", "colour"),
        ("test:ball?size=big", "big"),
        ("test:ball?fps=0", "fps"),
        ("test:ball?live=yes", "yes"),
        ("test:ball?frames=99999999999999999999", "frames"),
        ("test:ball?frames=1e3", "1e3"),
        ("test:ball?fps=4294967296", "fps"),
        ("/dev/null", "/dev/null"),
    ],
)
def test_what_is_no_source_is_refused_by_name(given: str, named: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        parse_sources([given])
    assert named in str(error.value)
    assert "secret" not in str(error.value)


def test_a_pipe_is_refused_rather_than_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.mp4")
    with pytest.raises(ConfigurationError, match=r"pipe\.mp4' is a device or pipe"):
        parse_sources([tmp_path / "pipe.mp4"])


def test_folder_without_images_says_how_to_name_videos(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").touch()
    with pytest.raises(ConfigurationError, match=r"\*\.mp4"):
        parse_sources([tmp_path])


def test_no_source_at_all() -> None:
    with pytest.raises(ConfigurationError, match="no source"):
        parse_sources([])


def test_a_picture_larger_than_can_be_converted_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"99999x16.*at most 32767"):
        parse_sources(["test:ball?size=99999x16"])


def test_files_that_are_read(tmp_path: Path) -> None:
    clip = tmp_path / "100% ü.mp4"
    clip.touch()
    (tmp_path / "1.png").touch()
    sources = parse_sources([clip, clip.as_uri(), tmp_path, "rtsp://host/s", "test:"])
    assert [source.files for source in sources] == [(clip,), (clip,), (tmp_path / "1.png",), (), ()]


@pytest.mark.parametrize(
    ("address", "mistake"),
    [
        ("rtsp://user:hunter22@[::1/s", "brackets"),
        ("rtsp://user:hunter22@host:99999/s", "port"),
        ("rtsp://user:hunter22@host:-1/s", "port"),
        ("rtsp://", "no host"),
        ("http:///clip.mp4", "no host"),
        ("srt://camera", "no port"),
        ("udp://", "no port"),
    ],
)
def test_an_address_that_can_never_be_opened_is_refused_without_its_password(address: str, mistake: str) -> None:
    with pytest.raises(ConfigurationError, match=f"is no address: .*{mistake}") as refusal:
        parse_sources([address])
    assert "hunter22" not in str(refusal.value)


@pytest.mark.parametrize(
    "address", ["srt://:9000?mode=listener", "udp://@:5000", "udp://239.1.1.1:5000", "rtmp://host/a/b"]
)
def test_addresses_without_what_others_need(address: str) -> None:
    assert parse_sources([address])[0].uri == address


def test_what_cannot_be_looked_at_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match=r"'~nobody-of-that-name/a\.mp4' cannot be looked at"):
        parse_sources(["~nobody-of-that-name/a.mp4"])

    def refuse(_path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(ConfigurationError, match=f"{tmp_path}' cannot be looked at: Permission denied"):
        parse_sources([tmp_path])
