"""What is written: never into a file that the run reads, and never twice into one."""

from pathlib import Path

import pytest

from sluice.app.options import Options
from sluice.app.outputs import check_distinct, output_paths
from sluice.app.sources import parse_sources
from sluice.errors import ConfigurationError


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    path = tmp_path / "clip.mp4"
    path.write_bytes(b"a video")
    return path


@pytest.mark.parametrize("by_uri", [False, True])
@pytest.mark.parametrize("through_link", [False, True])
@pytest.mark.parametrize("use", ["out", "folder", "messages", "summary"])
def test_a_source_is_never_written_to(clip: Path, use: str, by_uri: bool, through_link: bool) -> None:
    named = clip
    if through_link:
        (clip.parent / "other").mkdir()
        named = clip.parent / "other" / clip.name
        named.symlink_to(clip)
    sources = parse_sources([clip.as_uri() if by_uri else str(clip)])
    options = Options(
        out={"out": named, "folder": named.parent}.get(use),
        messages=named if use == "messages" else None,
    )
    with pytest.raises(ConfigurationError, match=r"clip\.mp4.*source"):
        check_distinct(sources, options, named if use == "summary" else None)
    assert clip.read_bytes() == b"a video"


def test_a_source_named_by_an_escaped_uri_is_known_again(tmp_path: Path) -> None:
    clip = tmp_path / "100% \u00fc #1?.mp4"
    clip.touch()
    with pytest.raises(ConfigurationError, match="source"):
        check_distinct(parse_sources([clip.as_uri()]), Options(messages=clip))


def test_an_image_of_a_folder_is_never_written_to(tmp_path: Path) -> None:
    (tmp_path / "1.png").touch()
    with pytest.raises(ConfigurationError, match=r"1\.png"):
        check_distinct(parse_sources([tmp_path]), Options(messages=tmp_path / "1.png"))


@pytest.mark.parametrize("name", ["model", "labels"])
def test_the_model_and_its_labels_are_never_written_to(tmp_path: Path, name: str) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ConfigurationError, match=r"'.*file' is a file of this run"):
        check_distinct(parse_sources(["test:"]), Options(**{name: str(file)}), file)


def test_one_file_is_not_written_twice(tmp_path: Path) -> None:
    sources, one, other = parse_sources(["test:"]), tmp_path / "x.mp4", tmp_path / "y"
    with pytest.raises(ConfigurationError, match=r"messages: .* the out "):
        check_distinct(sources, Options(out=one, messages=one))
    with pytest.raises(ConfigurationError, match=r"summary: .* the messages "):
        check_distinct(sources, Options(out=one, messages=other), other)
    check_distinct(sources, Options(out=one, messages=other), tmp_path / "z")


def test_devices_may_be_named_several_times() -> None:
    check_distinct(parse_sources(["test:"]), Options(messages="/dev/null"), Path("/dev/null"))


def test_sources_of_one_name_have_files_of_their_own(tmp_path: Path) -> None:
    sources = parse_sources(["test:ball", "test:ball", "test:snow"])
    names = [path.name for path in output_paths(tmp_path, sources, tile=False)]
    assert names == ["test_ball.mp4", "test_ball-2.mp4", "test_snow.mp4"]
