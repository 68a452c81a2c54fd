"""An annotated MP4 file of a whole stream, or of all streams tiled."""

from __future__ import annotations

from pathlib import Path

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.flow import PadFlow
from sluice.app.gst import add_chain, make_element
from sluice.app.outputs.encoding import Fit, find_encoder
from sluice.errors import ConfigurationError

_QUEUED_FRAMES = 4
_TIMESCALE = 90_000  # ticks per second in the file: exact for the usual rates, fine enough for variable ones


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
        fit = Fit()
        entry = make_element("queue", max_size_buffers=_QUEUED_FRAMES, max_size_bytes=0, max_size_time=0)
        encoding, parsing, muxer = make_element(encoder, **settings), make_element(parser), make_element("mp4mux")
        sink = make_element("filesink", location=str(path), sync=False)
        sink.set_property("async", False)  # a stream that never comes must not keep the others from playing
        self.bin = Gst.Bin.new(name)
        drawing = [entry, make_element("sluiceosd", display_mask=True), make_element("videoconvert")]
        add_chain(self.bin, *drawing, *fit.elements, encoding, parsing)
        add_chain(self.bin, muxer, sink)
        track = muxer.request_pad_simple("video_%u")
        track.set_property("trak-timescale", _TIMESCALE)
        parsing.get_static_pad("src").link(track)
        fit.watch(drawing[-1].get_static_pad("sink"))
        self._written = PadFlow(encoding.get_static_pad("src"))
        self.bin.add_pad(Gst.GhostPad.new("sink", entry.get_static_pad("sink")))

    @property
    def frames_out(self) -> int:
        """Frames that left the encoder."""
        return self._written.read().buffers

    def end(self) -> None:
        """Finish the file with the frames that have arrived, and take no more; waits for room in the branch's queue."""
        self.bin.get_static_pad("sink").send_event(Gst.Event.new_eos())

    def close(self) -> None:
        """Let go of what keeps the branch alive: nothing does."""


def _check_writable(path: Path) -> None:
    try:
        path.open("ab").close()  # an earlier run's file stays whole until this one begins
    except OSError as error:
        raise ConfigurationError(f"out: {str(path)!r} cannot be written: {error.strerror}") from error
