"""What the user names as a source, read into one `Source` per stream; nothing here opens anything but folders."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from glob import has_magic, iglob
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from sluice.app.credentials import escape_user_info, redact
from sluice.app.options import LARGEST
from sluice.app.streams.policy import LONGEST_SIDE
from sluice.errors import ConfigurationError

Kind = Literal["uri", "images", "test"]

IMAGE_SUFFIXES = frozenset({".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"})
_NETWORK_SCHEMES = ("rtsp", "rtsps", "rtspt", "rtspu", "rtsph", "http", "https", "udp", "srt", "rtmp", "rtmps")
_LISTENING_SCHEMES = ("udp", "srt")  # may wait for whoever sends, and have no usual port
_URI_SCHEMES = (*_NETWORK_SCHEMES, "file", "v4l2")
_LIVE_SCHEMES = ("rtsp", "udp", "srt", "rtmp", "v4l2")
# Patterns and rates that videotestsrc takes; an unknown pattern is refused here, before a pipeline exists.
TEST_PATTERNS = ("smpte", "snow", "black", "white", "red", "green", "blue", "checkers-1", "checkers-8", "circular",
                 "blink", "smpte75", "zone-plate", "gamut", "chroma-zone-plate", "solid-color", "ball", "smpte100",
                 "bar", "pinwheel", "spokes", "gradient", "colors")  # fmt: skip
_TEST_DEFAULTS = {"frames": "250", "size": "640x480", "fps": "30", "live": "0"}
IMAGE_RATE = 25  # frames per second at which a folder of images is shown


@dataclass(frozen=True)
class TestPattern:
    """A generated stream: the pattern's name, how many frames (0: endless), size in pixels, rate and whether live."""

    __test__ = False  # not a test class for pytest

    pattern: str
    frames: int
    width: int
    height: int
    fps: int


@dataclass(frozen=True)
class Source:
    """One stream to be opened.

    Attributes:
        kind: "uri" (anything uridecodebin3 opens), "images" (still images shown one after another) or "test".
        uri: what is opened, credentials included: never show or log it.
        shown: the same without credentials, for people, logs and summaries.
        name: short name for files and messages, not necessarily unique.
        live: whether frames come at the pace of the outside world and are lost if nobody takes them.
        images: the files of an "images" source, in natural order.
        test: what a "test" source shows.
    """

    kind: Kind
    uri: str
    shown: str
    name: str
    live: bool = False
    images: tuple[Path, ...] = ()
    test: TestPattern | None = None

    @property
    def remote(self) -> bool:
        """Whether it comes over a network."""
        return self.kind == "uri" and self.uri.partition(":")[0].lower() in _NETWORK_SCHEMES

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of this machine that are read; none for a camera, a network or a generated stream."""
        scheme, _, path = self.uri.partition("://")
        if self.kind == "uri" and scheme.lower() == "file":
            return (Path(unquote(path)),)
        return self.images


def natural_key(text: str) -> list[tuple[int, int, str]]:
    """Return a sort key under which frame2 comes before frame10."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part.lower()) for part in re.split(r"(\d+)", text)]


def parse_sources(texts: Iterable[str | Path]) -> list[Source]:
    """Read every source named, in order; a glob gives one stream per file.

    Raises:
        ConfigurationError: a source is not one, with its name (without credentials) and what would be.
    """
    sources = [source for text in texts for source in _parse(str(text))]
    if not sources:
        raise ConfigurationError("no source is named: give a file, a folder of images, rtsp://, v4l2: or test:")
    return sources


def parse_source(text: str | Path) -> Source:
    """Read a source that is exactly one stream.

    Raises:
        ConfigurationError: it is none, or a pattern that names several files.
    """
    sources = parse_sources([text])
    if len(sources) != 1:
        raise ConfigurationError(f"{redact(str(text))!r} names {len(sources)} files; a stream has one source")
    return sources[0]


def _parse(text: str) -> list[Source]:
    scheme, colon, rest = text.partition(":")
    if colon and scheme == "test":
        return [_test(text, rest)]
    if colon and scheme == "v4l2":
        device = rest.removeprefix("//") or "/dev/video0"
        return [Source("uri", f"v4l2://{device}", f"v4l2:{device}", Path(device).name, live=True)]
    if colon and rest.startswith("//"):
        return [_network(text, scheme.lower())]
    return _local(text)


def _network(text: str, scheme: str) -> Source:
    if scheme not in _URI_SCHEMES:
        raise ConfigurationError(
            f"source {redact(text)!r} has the unknown scheme {scheme!r}; known are {', '.join(_URI_SCHEMES)} and test"
        )
    shown, uri = redact(text), escape_user_info(text)
    if (mistake := _mistake_in(uri, scheme)) is not None:
        raise ConfigurationError(f"source {shown!r} is no address: {mistake}")
    name = re.sub(r"[^\w.-]+", "_", shown.split("://", 1)[1].split("?", 1)[0]).strip("_") or scheme
    if scheme == "file":
        name = Path(shown).stem
    return Source("uri", uri, shown, name, live=scheme.startswith(_LIVE_SCHEMES))


def _mistake_in(uri: str, scheme: str) -> str | None:
    """Return what is wrong with a network address, without words of its own; None where it can be read."""
    if scheme not in _NETWORK_SCHEMES:
        return None
    try:
        parts = urlsplit(uri)
    except ValueError:
        return "the brackets of an IPv6 address do not match, or hold none"
    try:
        port = parts.port
    except ValueError:
        return "the port is no number from 0 to 65535"
    if not parts.hostname and scheme not in _LISTENING_SCHEMES:
        return "it names no host"
    return None if port or scheme not in _LISTENING_SCHEMES else "it names no port"


def _local(text: str) -> list[Source]:
    try:
        return _on_disk(text)
    except (OSError, RuntimeError) as error:  # a folder that may not be read, a name too long, a user that is not there
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"source {text!r} cannot be looked at: {reason}") from error


def _on_disk(text: str) -> list[Source]:
    path = Path(text).expanduser()
    if path.is_dir():
        return [_folder(path)]
    if not path.exists() and has_magic(text):
        found = sorted(filter(os.path.isfile, iglob(str(path), recursive=True)), key=natural_key)  # noqa: PTH207
        if not found:
            raise ConfigurationError(f"no file matches {text!r}")
        return [_file(Path(p)) for p in found]
    if not path.exists():
        raise ConfigurationError(f"there is no file {text!r}")
    if not path.is_file():  # opening a pipe would wait for who writes it, and nothing could interrupt that
        raise ConfigurationError(f"{text!r} is a device or pipe, not a file; a camera is named v4l2:/dev/video0")
    return [_file(path)]


def _file(path: Path) -> Source:
    uri = path.resolve().as_uri()
    if path.suffix.lower() in IMAGE_SUFFIXES:
        return Source("images", uri, str(path), path.stem, images=(path,))
    return Source("uri", uri, str(path), path.stem)


def _folder(path: Path) -> Source:
    images = sorted(
        (p for p in path.iterdir() if p.suffix.lower() in IMAGE_SUFFIXES), key=lambda image: natural_key(image.name)
    )
    if not images:
        raise ConfigurationError(
            f"folder {str(path)!r} holds no images ({', '.join(sorted(IMAGE_SUFFIXES))}); "
            f"for the videos in it name them with a glob: '{path}/*.mp4'"
        )
    return Source("images", path.resolve().as_uri(), str(path), path.resolve().name, images=tuple(images))


def _test(text: str, rest: str) -> Source:
    pattern, _, query = rest.partition("?")
    pattern = pattern or "smpte"
    given = dict(parse_qsl(query, keep_blank_values=True))
    if pattern not in TEST_PATTERNS:
        raise ConfigurationError(f"source {text!r}: no pattern {pattern!r}; there are {', '.join(TEST_PATTERNS)}")
    if unknown := sorted(given.keys() - _TEST_DEFAULTS):
        raise ConfigurationError(f"source {text!r}: no option {unknown[0]!r}; there are {', '.join(_TEST_DEFAULTS)}")
    live = given.get("live", "0") == "1"
    values = {**_TEST_DEFAULTS, **({"frames": "0"} if live else {}), **given}
    size = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})", values["size"])
    if size is None or max(int(size[1]), int(size[2])) > LONGEST_SIDE:
        raise ConfigurationError(
            f"source {text!r}: size is {values['size']!r}, not WIDTHxHEIGHT as in 640x480, each at most {LONGEST_SIDE}"
        )
    if values["live"] not in ("0", "1"):
        raise ConfigurationError(f"source {text!r}: live is {values['live']!r}, not 0 or 1")
    for name, least in (("frames", 0), ("fps", 1)):
        if not re.fullmatch(r"[0-9]{1,10}", values[name]) or not least <= int(values[name]) <= LARGEST:
            raise ConfigurationError(
                f"source {text!r}: {name} is {values[name]!r}, not a whole number from {least} to {LARGEST}"
            )
    test = TestPattern(pattern, int(values["frames"]), int(size[1]), int(size[2]), int(values["fps"]))
    return Source("test", text, text, f"test_{pattern}", live=live, test=test)
