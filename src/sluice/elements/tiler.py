"""``sluicetiler``: puts the frames of a batch side by side into one picture, in the place of nvmultistreamtiler.

It makes one picture per batch, with the batch's timestamp. A source without a frame in the batch keeps its last picture
and its last metadata. All metadata is mapped into the picture and carried in a single frame, so that sluiceosd behind
it draws on the whole. When sources come or go and the tiles change place, the picture starts black.

The picture is in system memory. Of batches in GPU memory those frames are brought to the host that are shown, and no
others.

Imports gi and the standard library only; numpy, the contract and the pixel code are imported at NULL→READY.
"""

from typing import TYPE_CHECKING, Any

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstVideo", "1.0")
from gi.repository import GObject, Gst, GstVideo

from sluice.elements import events
from sluice.elements.base import InPlaceElement
from sluice.elements.guard import guarded
from sluice.errors import ContractError

if TYPE_CHECKING:
    from sluice.contract.formats import FrameFormat
    from sluice.contract.metadata import BatchMeta, FrameMeta
    from sluice.contract.surface import SurfaceBatch
    from sluice.elements.tiler_grid import Area, Grid, Shares
    from sluice.elements.tiler_metadata import LastMetadata
    from sluice.elements.tiler_picture import TiledPicture

SINK_CAPS = "video/x-raw(memory:SluiceSurface); video/x-raw(memory:NVMM)"
YUV_FORMATS, RGB_FORMATS = "I420, NV12", "RGBA, BGRA, RGBx, BGRx, RGB, BGR"
SRC_CAPS = f"video/x-raw, format={{ {YUV_FORMATS}, {RGB_FORMATS} }}"


def _accepted(name: str, default: int, why: str) -> Any:
    """Return a property that nvmultistreamtiler has and that changes nothing here."""
    blurb = f"Accepted for nvmultistreamtiler's sake, no effect: {why}"
    return GObject.Property(type=GObject.TYPE_UINT, default=default, nick=name, blurb=blurb)


class SluiceTiler(InPlaceElement):
    """The element; see ``gst-inspect-1.0 sluicetiler`` for its properties.

    It has the life cycle and the events of `InPlaceElement`, but makes a buffer of its own for each batch.
    """

    __gtype_name__ = "SluiceTiler"
    __gstmetadata__ = (
        "Sluice tiler",
        "Filter/Editor/Video",
        "Shows the frames of a batch side by side in one picture, with their metadata",
        "The Sluice developers",
    )
    __gsttemplates__ = (
        Gst.PadTemplate.new("sink", Gst.PadDirection.SINK, Gst.PadPresence.ALWAYS, Gst.Caps.from_string(SINK_CAPS)),
        Gst.PadTemplate.new("src", Gst.PadDirection.SRC, Gst.PadPresence.ALWAYS, Gst.Caps.from_string(SRC_CAPS)),
    )

    rows = GObject.Property(
        type=GObject.TYPE_UINT, default=0, maximum=1024, blurb="Rows of tiles; 0: as many as the sources need"
    )
    columns = GObject.Property(
        type=GObject.TYPE_UINT,
        default=0,
        maximum=1024,
        blurb="Columns of tiles; 0: as many as the sources need. With both set, tile i is that of source i; else "
        "the sources fill the tiles without gaps",
    )
    width = GObject.Property(
        type=GObject.TYPE_UINT,
        default=1920,
        minimum=16,
        maximum=16384,
        blurb="Width of the picture in pixels, rounded up to a multiple of 4; read when caps are negotiated",
    )
    height = GObject.Property(
        type=GObject.TYPE_UINT,
        default=1080,
        minimum=16,
        maximum=16384,
        blurb="Height of the picture in pixels, rounded up to a multiple of 4; read when caps are negotiated",
    )
    show_source = GObject.Property(
        type=int,
        default=-1,
        minimum=-1,
        nick="show-source",
        blurb="Number of the only source to show, over the whole picture; -1: all",
    )
    square_seq_grid = GObject.Property(
        type=bool,
        default=False,
        nick="square-seq-grid",
        blurb="Give the tiles to the sources that live, in the order of their numbers and without gaps, also where "
        "rows and columns are set; then both grow by one when there is no tile left. An ended source has no tile",
    )
    keep_aspect_ratio = GObject.Property(
        type=bool,
        default=True,
        nick="keep-aspect-ratio",
        blurb="Keep the frames' shape, with black beside them; false: stretch them over the tile as nvmultistreamtiler",
    )
    tiles = GObject.Property(
        type=str,
        default="",
        blurb="Tiles of single sources, in parts of the picture: source:left,top,width,height;…, as 0:0,0,0.75,1; the "
        "other sources have theirs in the grid",
    )
    custom_tile_config = GObject.Property(
        setter=lambda self, address: self.set_custom_tiles(address),
        type=GObject.TYPE_UINT64,
        default=0,
        nick="custom-tile-config",
        flags=GObject.ParamFlags.WRITABLE,
        blurb="nvmultistreamtiler's: the address of a C struct with tiles of single sources, copied at once; wins "
        "over tiles; 0: none",
    )
    gpu_id = _accepted("gpu-id", 0, "tiling is done on the processor")
    buffer_pool_size = _accepted("buffer-pool-size", 5, "pictures are allocated as downstream proposes")
    nvbuf_memory_type = _accepted("nvbuf-memory-type", 0, "pictures are in system memory")
    compute_hw = _accepted("compute-hw", 0, "tiling is done on the processor")
    interpolation_method = _accepted("interpolation-method", 0, "linear, and averages where frames shrink by half")

    def __init__(self) -> None:
        super().__init__()
        self._format: FrameFormat | None = None
        self._picture: TiledPicture | None = None
        self._metadata: LastMetadata | None = None
        self._grid: Grid | None = None
        self._sources: set[int] = set()
        self._areas: dict[int, Area] = {}
        self._size = (0, 0)
        self._laid_out: tuple[Any, ...] | None = None
        self._custom: dict[int, Shares] = {}
        self._told: set[str] = set()
        self.srcpad.add_probe(Gst.PadProbeType.QUERY_UPSTREAM | Gst.PadProbeType.PUSH, _answer_batch_size)

    def set_custom_tiles(self, address: int) -> None:
        """Copy the tiles that a C program tells."""
        from sluice.elements.tiler_grid import read_tiles

        self._custom = read_tiles(address) if address else {}

    def start(self) -> None:
        from sluice.elements.tiler_grid import parse_tiles
        from sluice.elements.tiler_metadata import LastMetadata

        parse_tiles(self.tiles)
        self._told = set()

        # The pixel code is slow to import, which the first batch should not wait for.
        import sluice.elements.tiler_picture  # noqa: F401  # isort: skip

        self._metadata = LastMetadata()
        # Not in __init__, where GObject does not see this class's do_transform yet and refuses.
        self.set_in_place(False)
        self.set_passthrough(False)

    def stop(self) -> None:
        if self._metadata is not None:
            self._metadata.clear()
        self._metadata = self._picture = self._format = self._grid = None
        self._sources.clear()
        self._areas.clear()

    @guarded(failure=Gst.Caps.new_empty())
    def do_transform_caps(self, direction: Gst.PadDirection, caps: Gst.Caps, restriction: Gst.Caps | None) -> Gst.Caps:
        """Any batch becomes a picture of the properties' size, at the batches' rate."""
        if direction == Gst.PadDirection.SRC:
            result = Gst.Caps.from_string(SINK_CAPS)
        else:
            width, height = ((value + 3) // 4 * 4 for value in (self.width, self.height))
            rest = f"width={width}, height={height}, pixel-aspect-ratio=1/1"
            found, numerator, denominator = caps[0].get_fraction("framerate") if caps.get_size() else (0,) * 3
            if found:
                rest += f", framerate={numerator}/{denominator}"
            result = Gst.Caps.from_string(
                f"video/x-raw, format={{ {YUV_FORMATS} }}, {rest}, colorimetry=bt709; "
                f"video/x-raw, format={{ {RGB_FORMATS} }}, {rest}"
            )
        return result if restriction is None else restriction.intersect_full(result, Gst.CapsIntersectMode.FIRST)

    @guarded(failure=(False, 0))
    def do_transform_size(
        self, _direction: Gst.PadDirection, _caps: Gst.Caps, _size: int, othercaps: Gst.Caps
    ) -> tuple[bool, int]:
        """The bytes of one picture."""
        return True, GstVideo.VideoInfo.new_from_caps(othercaps).size

    @guarded(failure=False)
    def do_set_caps(self, _incoming: Gst.Caps, outgoing: Gst.Caps) -> bool:
        """Begin a picture of the size and format that downstream takes; the tiles are laid out with the next batch."""
        from sluice.contract.formats import FrameFormat
        from sluice.elements.tiler_picture import TiledPicture

        self._format = FrameFormat.from_caps(outgoing)
        self._size = self._format.width, self._format.height
        self._picture = TiledPicture(self._format.name, *self._size)
        self._laid_out = None
        return True

    def on_event(self, event: Gst.Event) -> None:
        if event.type == Gst.EventType.FLUSH_STOP:
            self._laid_out = None
            return
        said = events.parse_stream_event(event)
        if said is None:
            return
        if said.kind == events.PAD_ADDED:
            self._add_source(said.source_id)
        elif said.kind in (events.PAD_DELETED, events.STREAM_EOS):
            self._end_source(said.source_id)
            if said.kind == events.PAD_DELETED or self.square_seq_grid:
                self._sources.discard(said.source_id)
                if self._grid is not None and self._grid.remove(said.source_id):
                    self._start_over()

    @guarded(failure=False)
    def do_copy_metadata(self, incoming: Gst.Buffer, outgoing: Gst.Buffer) -> bool:
        """The picture has the batch's times; its metadata is written by `do_transform`."""
        outgoing.pts, outgoing.dts, outgoing.duration = incoming.pts, incoming.dts, incoming.duration
        return True

    @guarded(Gst.FlowReturn.ERROR)
    def do_transform(self, incoming: Gst.Buffer, outgoing: Gst.Buffer) -> Gst.FlowReturn:
        """Copy each frame's pixels to its tile and write the picture's metadata."""
        from sluice.contract.metadata import BatchMeta, Lease
        from sluice.contract.surface import SurfaceBatch, writable_raw

        if self._format is None or self._picture is None or self._metadata is None:
            raise ContractError("a batch came before the caps that describe it")
        self._lay_out()
        with Lease() as lease:
            batch = BatchMeta.of(incoming, lease)
            if batch is None:
                raise ContractError("a batch carries no metadata; put sluicemux before this element")
            frames = batch.frames
            for frame in frames:
                self._add_source(frame.pad_index)
            self._tell_growth()
            if self.show_source >= 0 and self.show_source not in self._sources:
                known = ", ".join(map(str, sorted(self._sources)))
                self._tell_once(f"show-source={self.show_source}: there is no such source, but {known or 'none'}")
            surfaces = SurfaceBatch.of(incoming)
            for frame in frames:
                self._show(frame, surfaces)
            surfaces.close()
            with writable_raw(outgoing, self._format) as surface:
                self._picture.copy_to(surface)
            self._write_metadata(outgoing, incoming.pts, batch)
        return Gst.FlowReturn.OK

    def _show(self, frame: "FrameMeta", surfaces: "SurfaceBatch") -> None:
        """Place a frame's pixels and keep its metadata, unless another source is shown alone."""
        from sluice.contract.host import on_host
        from sluice.elements.tiler_grid import fit
        from sluice.elements.tiler_metadata import Mapping

        area = self._area(frame.pad_index)
        if area is None or self._picture is None or self._metadata is None:
            return
        surface = on_host(surfaces[frame.batch_id])
        if self.keep_aspect_ratio:
            tile, area = area, fit(area, surface.width, surface.height)
            if self._areas.get(frame.pad_index) != area:
                self._picture.clear(tile)
        self._areas[frame.pad_index] = area
        self._picture.place(surface, area)
        mapping = Mapping.between(surface.width, surface.height, area)
        self._metadata.keep(frame.pad_index, frame, mapping)

    def _write_metadata(self, outgoing: Gst.Buffer, pts: int, incoming: "BatchMeta") -> None:
        from sluice.contract.metadata import BatchMeta
        from sluice.elements.tiler_metadata import copy_batch_users

        if self._metadata is not None and self._grid is not None:
            sources = self._grid.sources
            batch = BatchMeta.attach(outgoing, len(sources) + 1, incoming.lease)
            self._metadata.write(batch, sources, self._size, pts)
            copy_batch_users(incoming, batch)

    def _area(self, source: int) -> "Area | None":
        """Where a source is shown; None for one that is not."""
        from sluice.elements.tiler_grid import Area

        if self.show_source >= 0:
            return Area(0, 0, *self._size) if source == self.show_source else None
        return None if self._grid is None else self._grid.tile(source)

    def _lay_out(self) -> None:
        """Lay the tiles out anew when a property has changed since the last batch, or after a flush or new caps."""
        from sluice.elements.tiler_grid import Grid, parse_tiles

        custom = self._custom or parse_tiles(self.tiles)
        shown = (self.show_source, self.keep_aspect_ratio)
        wanted = (self.rows, self.columns, self.square_seq_grid, *shown, *sorted(custom.items()))
        if wanted != self._laid_out:
            self._laid_out = wanted
            self._grid = Grid(
                *self._size,
                self.rows,
                self.columns,
                sequential=self.square_seq_grid,
                custom={source: place for source, place in custom.items() if self._is_usable(source, place)},
            )
            for source in self._sources:
                self._grid.add(source)
            self._start_over()

    def _is_usable(self, source: int, place: "Shares") -> bool:
        """Whether a source's own tile lies in the picture; as with nvmultistreamtiler it lies in the grid otherwise."""
        from sluice.elements.tiler_grid import reason_against

        reason = reason_against(place)
        if reason is not None:
            self._tell_once(f"the tile {tuple(place)} of source {source} is not taken: {reason}; it lies in the grid")
        return reason is None

    def _tell_growth(self) -> None:
        if self._grid is not None and self._grid.outgrown:
            rows, columns = self._grid.shape
            self._tell_once(
                f"rows={self.rows} columns={self.columns} have no tile for source {max(self._grid.sources)}; the tiles "
                f"are {rows} rows of {columns} now, as nvmultistreamtiler would have them"
            )

    def _tell_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self.warn(text)

    def _add_source(self, source: int) -> None:
        self._sources.add(source)
        if self._grid is not None and self._grid.add(source):
            self._start_over()

    def _end_source(self, source: int) -> None:
        """Make a source's tile black and forget its metadata; its tile stays its own."""
        self._areas.pop(source, None)
        if self._metadata is not None:
            self._metadata.forget(source)
        area = self._area(source) if self._grid is not None and source in self._grid.sources else None
        if area is not None and self._picture is not None:
            self._picture.clear(area)

    def _start_over(self) -> None:
        """Black everywhere and no metadata: the tiles have changed place."""
        from sluice.elements.tiler_grid import Area

        self._areas.clear()
        if self._picture is not None and self._metadata is not None:
            self._picture.clear(Area(0, 0, *self._size))
            self._metadata.clear()


@guarded(Gst.PadProbeReturn.OK)
def _answer_batch_size(_pad: Gst.Pad, info: Gst.PadProbeInfo) -> Gst.PadProbeReturn:
    """There is one picture in a buffer from here on, however many frames the muxer batches."""
    from sluice.contract import gstref

    query = info.get_query()
    if events.query_name(query) != "nv-batch-size":
        return Gst.PadProbeReturn.OK
    address = gstref.address(query)
    del query
    events.answer_address(address, batch_size=1)
    return Gst.PadProbeReturn.HANDLED
