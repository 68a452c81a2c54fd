"""What stands at the end of the pipeline: an annotated MP4 file per stream or of all streams, or nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.flow import PadFlow
from sluice.app.gst import add_chain, make_element
from sluice.app.options import Options
from sluice.app.sources import Source
from sluice.contract.structures import required_structure
from sluice.elements.guard import guarded
from sluice.errors import ConfigurationError

# Video encoders by preference, each with its parser and what to set. All make streams without B-frames, whose
# timestamps stay those of the frames. Quality about that of CRF 23, at the speed of the fastest presets.
ENCODERS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("x264enc", "h264parse", {"speed_preset": "superfast", "pass": "qual", "quantizer": 23, "bframes": 0}),
    ("nvh264enc", "h264parse", {}),
    ("openh264enc", "h264parse", {"bitrate": 4_000_000}),
    ("avenc_mpeg4", "mpeg4videoparse", {"bitrate": 4_000_000, "max_bframes": 0}),
)
# Encoders refuse smaller pictures, and 4:2:0 ones with an odd side.
_SMALLEST_SIDE = 16
_QUEUED_FRAMES = 4
_TIMESCALE = 90_000  # ticks per second in the file: exact for the usual rates, fine enough for variable ones


def find_encoder() -> tuple[str, str, dict[str, Any]]:
    """Return the first entry of `ENCODERS` that is installed.

    Raises:
        ConfigurationError: none is, with the command that installs one.
    """
    for entry in ENCODERS:
        if Gst.ElementFactory.find(entry[0]) and Gst.ElementFactory.find(entry[1]):
            return entry
    raise ConfigurationError(
        f"no video encoder is installed (one of {', '.join(name for name, _, _ in ENCODERS)}); "
        "install one with: apt-get install gstreamer1.0-plugins-ugly"
    )


def output_paths(out: str | Path, sources: Iterable[Source], tile: bool) -> list[Path]:
    """Return the file of each stream, or one path for all streams where they are tiled.

    A name that ends in ".mp4" is a file, anything else a folder (made here), with one file per stream named after it.

    Raises:
        ConfigurationError: the path is neither, or cannot be written.
    """
    names = [source.name for source in sources]
    out = Path(out).expanduser()
    is_file = out.suffix.lower() == ".mp4" and not out.is_dir()
    if not is_file and out.suffix and not out.is_dir() and not str(out).endswith("/"):
        raise ConfigurationError(f"out is {str(out)!r}; it is an .mp4 file, or a folder for one .mp4 per stream")
    folder = out.parent if is_file else out
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"out: the folder {str(folder)!r} cannot be made: {error.strerror}") from error
    if is_file:
        return [out]
    if tile:
        return [folder / "tiled.mp4"]
    return [folder / f"{name}.mp4" for name in distinct_names(names)]


def distinct_names(names: Iterable[str]) -> list[str]:
    """Return names that are safe in a file system and differ: a, a-2, a-3, b."""
    taken: set[str] = set()
    result = []
    for name in (re.sub(r"[^\w.()\[\] -]+", "_", name) or "stream" for name in names):
        candidate, number = name, 1
        while candidate.lower() in taken:
            number += 1
            candidate = f"{name}-{number}"
        taken.add(candidate.lower())
        result.append(candidate)
    return result


def check_distinct(sources: Sequence[Source], options: Options, summary: Path | None = None) -> None:
    """Refuse to write into a file that is read, or twice into one file; to be called before any of them is opened.

    Devices and pipes may be named several times.

    Raises:
        ConfigurationError: naming the file and both its uses.
    """
    uses = {file.resolve(): "a source" for source in sources for file in source.files}
    uses |= {Path(name).resolve(): "a file" for name in (options.model, options.labels) if isinstance(name, str | Path)}
    written: list[tuple[str, Path]] = []
    if options.out is not None:
        written += [("out", path) for path in output_paths(options.out, sources, options.tile)]
    if options.messages is not None and str(options.messages) != "-":
        written.append(("messages", Path(options.messages)))
    if summary is not None:
        written.append(("summary", summary))
    for name, path in written:
        file = path.expanduser().resolve()
        if file.exists() and not file.is_file():
            continue
        if file in uses:
            raise ConfigurationError(f"{name}: {str(path)!r} is {uses[file]} of this run too; name another file")
        uses[file] = f"the {name}"


class Mp4Branch:
    """A bin that draws, encodes and writes one video; its ghost pad "sink" takes single frames with metadata.

    The file has the size of the first frame, made even; later frames of another size are scaled to it.

    Attributes:
        bin: the ``Gst.Bin``.
        path: the file written.
    """

    def __init__(self, name: str, path: Path) -> None:
        """Build the branch.

        Raises:
            ConfigurationError: no encoder is installed, or the file cannot be written.
        """
        self.path = path
        _check_writable(path)
        encoder, parser, settings = find_encoder()
        scaled, even = make_element("capsfilter"), make_element("capsfilter")
        border = make_element("videobox", border_alpha=0.0)
        entry = make_element("queue", max_size_buffers=_QUEUED_FRAMES, max_size_bytes=0, max_size_time=0)
        encoding, parsing, muxer = make_element(encoder, **settings), make_element(parser), make_element("mp4mux")
        sink = make_element("filesink", location=str(path), sync=False)
        sink.set_property("async", False)  # a stream that never comes must not keep the others from playing
        self.bin = Gst.Bin.new(name)
        drawing = [entry, make_element("sluiceosd", display_mask=True), make_element("videoconvert")]
        fitting = [make_element("videoscale", add_borders=True), scaled, border, even]
        add_chain(self.bin, *drawing, *fitting, encoding, parsing)
        add_chain(self.bin, muxer, sink)
        track = muxer.request_pad_simple("video_%u")
        track.set_property("trak-timescale", _TIMESCALE)
        parsing.get_static_pad("src").link(track)
        drawing[-1].get_static_pad("sink").add_probe(
            Gst.PadProbeType.EVENT_DOWNSTREAM, _fit_to_first_size, scaled, border, even
        )
        self._written = PadFlow(encoding.get_static_pad("src"))
        self.bin.add_pad(Gst.GhostPad.new("sink", entry.get_static_pad("sink")))

    @property
    def frames_out(self) -> int:
        """Frames that left the encoder."""
        return self._written.read().buffers

    def end(self) -> None:
        """Finish the file with the frames that have arrived, and take no more; waits for room in the branch's queue."""
        self.bin.get_static_pad("sink").send_event(Gst.Event.new_eos())


def _check_writable(path: Path) -> None:
    try:
        path.open("ab").close()  # an earlier run's file stays whole until this one begins
    except OSError as error:
        raise ConfigurationError(f"out: {str(path)!r} cannot be written: {error.strerror}") from error


@guarded(failure=Gst.PadProbeReturn.OK)
def _fit_to_first_size(
    _pad: Gst.Pad, info: Gst.PadProbeInfo, scaled: Gst.Element, border: Gst.Element, even: Gst.Element
) -> Gst.PadProbeReturn:
    """Fix the file's size at the first CAPS event; a probe function."""
    event = info.get_event()
    if event.type != Gst.EventType.CAPS or not scaled.get_property("caps").is_any():
        return Gst.PadProbeReturn.OK
    picture = required_structure(event.parse_caps(), 0)
    width, height = picture.get_value("width"), picture.get_value("height")
    given, numerator, denominator = picture.get_fraction("pixel-aspect-ratio")
    # Named even where the caps leave it out: the scaler would change it rather than add borders, and a file has one.
    shape = f"pixel-aspect-ratio={numerator}/{denominator}" if given else "pixel-aspect-ratio=1/1"
    scaled.set_property("caps", Gst.Caps.from_string(f"video/x-raw, width={width}, height={height}, {shape}"))
    out_width, out_height = (max(side + side % 2, _SMALLEST_SIDE) for side in (width, height))
    border.set_property("right", width - out_width)
    border.set_property("bottom", height - out_height)
    size = f"width={out_width}, height={out_height}"
    even.set_property("caps", Gst.Caps.from_string(f"video/x-raw, format=I420, {size}"))
    return Gst.PadProbeReturn.OK
