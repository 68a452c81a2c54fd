"""``sluicemetafile``: records the metadata that pass by into a file, or replays such a file onto the same video.

So a run with a model can be shown, debugged and tested again without it. What a file holds: docs/recording.md.

Imports gi and the standard library only; numpy and the contract are imported at NULL→READY.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GObject, Gst

from sluice.elements import events
from sluice.elements.base import InPlaceElement
from sluice.elements.frame_caps import pad_template
from sluice.errors import ConfigurationError

if TYPE_CHECKING:
    from sluice.elements.metafile_frames import Counters, MetaFile

MISMATCHES = ("error", "skip")


class SluiceMetaFile(InPlaceElement):
    """The element; see ``gst-inspect-1.0 sluicemetafile`` for its properties.

    A recording is whole when the element is back in NULL. A replayed frame is found by its stream and number, and must
    have the timestamp and size that it had.
    """

    __gtype_name__ = "SluiceMetaFile"
    __gstmetadata__ = (
        "Sluice metadata recorder and player",
        "Filter/Metadata",
        "Records metadata into a file, or replays a file onto the same video",
        "The Sluice developers",
    )
    __gsttemplates__ = (pad_template("sink", Gst.PadDirection.SINK), pad_template("src", Gst.PadDirection.SRC))

    record_to = GObject.Property(
        type=str, default="", nick="record-to", blurb="File to write the metadata to; it is replaced"
    )
    replay_from = GObject.Property(
        type=str, default="", nick="replay-from", blurb="File to take metadata from and add them to the frames"
    )
    on_mismatch = GObject.Property(
        type=str,
        default="error",
        nick="on-mismatch",
        blurb="A frame that is not in the file, or has another timestamp or size there: error ends the stream, skip "
        "passes it on as it is",
    )
    max_queued = GObject.Property(
        type=GObject.TYPE_UINT,
        default=1000,
        minimum=1,
        nick="max-queued",
        blurb="Frames that may wait for the disk when recording; those beyond are dropped and counted",
    )

    def __init__(self) -> None:
        super().__init__()
        self._file: MetaFile | None = None
        self._counters: Counters | None = None

    def _stats(self) -> Gst.Structure:
        """Return the counters as a structure of uint64 fields."""
        counted = {} if self._counters is None else vars(self._counters)
        names = ("frames", "dropped", "left_out", "mismatched")
        numbers = {name.replace("_", "-"): counted.get(name, 0) for name in names}
        return events.numbers_structure("sluicemetafile-stats", numbers)

    stats = GObject.Property(
        getter=_stats,
        type=Gst.Structure,
        flags=GObject.ParamFlags.READABLE,
        blurb="Counters since the last start: frames, dropped (frames not recorded as the disk was too slow), left-out "
        "(user metas that cannot be recorded), mismatched (frames that were not the recorded ones)",
    )

    def start(self) -> None:
        from sluice.contract import provider
        from sluice.elements.metafile_frames import Counters, MetaFile
        from sluice.recording import Recording, RecordingWriter

        self._check()
        provider.provider()
        recording = Recording(self.replay_from) if self.replay_from else None
        if recording is not None and recording.cut:
            frames = len(recording)
            self.warn(f"{self.replay_from} was cut off in its last line; its {frames} whole frames are replayed")
        writer = RecordingWriter(self.record_to, self.max_queued) if self.record_to else None
        self._counters = Counters()
        self._file = MetaFile(writer, recording, self._counters, skips=self.on_mismatch == "skip", warn=self._warn)

    def _check(self) -> None:
        if not self.record_to and not self.replay_from:
            raise ConfigurationError("neither record-to nor replay-from is set; sluicemetafile needs one of them")
        if self.record_to and self.replay_from and Path(self.record_to).resolve() == Path(self.replay_from).resolve():
            raise ConfigurationError(f"record-to and replay-from are the same file, {self.record_to}")
        if self.on_mismatch not in MISMATCHES:
            raise ConfigurationError(f"on-mismatch is {self.on_mismatch!r}; there are {', '.join(MISMATCHES)}")

    def stop(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def on_caps(self, caps: Gst.Caps) -> None:
        if self._file is not None:
            self._file.set_caps(caps)

    def process(self, buffer: Gst.Buffer) -> bool:
        assert self._file is not None
        self._file.work(buffer)
        return True

    def _warn(self, text: str) -> None:
        self.warn(text, Gst.StreamError.NOT_IMPLEMENTED)
