"""``sluiceindex``: keeps the embeddings that pass by in an archive, for ``sluice search``.

It stands behind whatever makes embeddings: a ``sluiceinfer`` with a CLIP or SigLIP image encoder for each object
(``process-mode=secondary``) or each frame. Pixels are not touched.

Imports gi and the standard library only; numpy, the contract and the archive are imported at NULL→READY.
"""

from typing import TYPE_CHECKING

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GObject, Gst

from sluice.elements import events
from sluice.elements.base import InPlaceElement
from sluice.elements.frame_caps import ANY_FRAMES, pad_template
from sluice.errors import ConfigurationError

if TYPE_CHECKING:
    from sluice.elements.index_frames import Indexing


class SluiceIndex(InPlaceElement):
    """The element; see ``gst-inspect-1.0 sluiceindex`` for its properties. The archive is whole when it is in NULL."""

    __gtype_name__ = "SluiceIndex"
    __gstmetadata__ = (
        "Sluice index of embeddings",
        "Filter/Metadata",
        "Keeps the embeddings of objects and frames in an archive that can be searched",
        "The Sluice developers",
    )
    __gsttemplates__ = (
        pad_template("sink", Gst.PadDirection.SINK, ANY_FRAMES),
        pad_template("src", Gst.PadDirection.SRC, ANY_FRAMES),
    )

    location = GObject.Property(type=str, default="", blurb="Folder of the archive, made where there is none; needed")
    every = GObject.Property(
        type=float,
        default=1.0,
        minimum=0.0,
        maximum=1e6,
        blurb="Seconds between two entries of one track, of a stream's untracked objects, or of its frames; 0: all",
    )
    component_id = GObject.Property(
        type=GObject.TYPE_UINT,
        default=0,
        nick="component-id",
        blurb="Only embeddings that the sluiceinfer with this unique-id made; 0: any",
    )
    max_entries = GObject.Property(
        type=GObject.TYPE_UINT,
        default=1_000_000,
        minimum=1,
        nick="max-entries",
        blurb="The oldest entries beyond so many are deleted",
    )
    names = GObject.Property(type=str, default="", blurb="Names of the streams, as in 0=gate;1=yard; default: numbers")

    def __init__(self) -> None:
        super().__init__()
        self._indexing: Indexing | None = None
        self._open = False
        self._warned = False

    def _stats(self) -> Gst.Structure:
        """Return the counters as a structure of uint64 fields."""
        numbers = dict.fromkeys(("entries", "written", "dropped", "refused", "expired"), 0)
        return events.numbers_structure(
            "sluiceindex-stats", numbers if self._indexing is None else self._indexing.counts()
        )

    stats = GObject.Property(
        getter=_stats,
        type=Gst.Structure,
        flags=GObject.ParamFlags.READABLE,
        blurb="Counters since the last start: entries (taken from frames), written, dropped (the disk was too slow), "
        "refused (vectors without direction, or of another length than the archive's), expired (beyond max-entries)",
    )

    def start(self) -> None:
        from sluice.contract import provider
        from sluice.elements.index_frames import Indexing
        from sluice.elements.stream_names import read_names
        from sluice.search import Recorder

        if not self.location:
            raise ConfigurationError("location is not set; sluiceindex needs the folder of an archive")
        read_names(self.names)
        provider.provider()
        self._warned = False
        self._indexing = Indexing(Recorder(self.location, self.max_entries), self.every, self.component_id)
        self._open = True

    def stop(self) -> None:
        if self._open and self._indexing is not None:
            self._open = False
            self._indexing.close()

    def on_event(self, event: Gst.Event) -> None:
        """Forget the tracks of streams that end or begin anew."""
        said = events.parse_stream_event(event)
        if self._indexing is None:
            return
        if said is not None and said.kind in (events.PAD_DELETED, events.STREAM_EOS, events.STREAM_RESET):
            self._indexing.forget(said.source_id)
        elif event.type == Gst.EventType.FLUSH_STOP:
            self._indexing.forget(None)

    def process(self, buffer: Gst.Buffer) -> bool:
        from sluice.elements.stream_names import read_names

        assert self._indexing is not None
        self._indexing.work(buffer, read_names(self.names))
        if not self._warned and self._indexing.refused:
            self._warned = True
            text = (
                "an embedding is refused: it has no direction, or another length than those in the archive "
                f"{self.location}; an archive holds those of one model (component-id chooses it); more are only counted"
            )
            self.warn(text, Gst.StreamError.FORMAT)
        return True
