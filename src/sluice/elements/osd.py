"""``sluiceosd``: draws boxes, texts, masks, lines, arrows and circles from the metadata, in the place of nvdsosd.

Besides what nvdsosd draws: the ways of tracks, key points, class maps of segmentation networks.

It takes single frames (behind sluicedemux, or a tiler) and batches, whose frames are drawn on one by one, each in its
own pixel format. Pixels that nobody else sees are written in place. Others (a tee, a decoder's reference picture, a
tensor) are copied first, which `sluice.contract.counters` counts; a buffer with nothing to draw is never copied.

Frames in GPU memory (NVMM, CUDAMemory) leave in system memory, each brought to the host once, drawn on or not. With
every display property off they pass through as they are, where downstream takes them so.

Imports gi and the standard library only; numpy, the contract and drawing are imported at NULL→READY.
"""

import time
from typing import TYPE_CHECKING

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GObject, Gst

from sluice.elements import events
from sluice.elements.frame_caps import pad_template
from sluice.elements.guard import guarded
from sluice.elements.host_element import SINK_CAPS, HostElement
from sluice.errors import ContractError

if TYPE_CHECKING:
    from sluice.contract.formats import FrameFormat
    from sluice.contract.metadata import FrameMeta
    from sluice.contract.surface import Surface
    from sluice.drawing.answers import ShownAnswers
    from sluice.drawing.collect import Blur
    from sluice.drawing.painter import Painter
    from sluice.drawing.shapes import Overlay
    from sluice.drawing.trails import Trails


class SluiceOsd(HostElement):
    """The element; see ``gst-inspect-1.0 sluiceosd`` for its properties.

    The kinds are drawn in nvdsosd's order: blur, rectangles, masks, texts and the clock, lines, arrows, circles. Unlike
    nvdsosd it draws the objects of each frame on that frame, a background also where the border is transparent, both
    heads of an arrow that has two, and the clock also when display-text is off.
    """

    __gtype_name__ = "SluiceOsd"
    __gstmetadata__ = (
        "Sluice on-screen display",
        "Filter/Editor/Video",
        "Draws boxes, labels and shapes from the metadata onto the picture",
        "The Sluice developers",
    )
    __gsttemplates__ = (
        pad_template("sink", Gst.PadDirection.SINK, SINK_CAPS),
        pad_template("src", Gst.PadDirection.SRC, SINK_CAPS),
    )

    display_bbox = GObject.Property(
        type=bool, default=True, nick="display-bbox", blurb="Draw boxes: objects' and display metas' rectangles"
    )
    display_text = GObject.Property(
        type=bool, default=True, nick="display-text", blurb="Draw texts: objects' labels and display metas' texts"
    )
    display_mask = GObject.Property(
        type=bool,
        default=False,
        nick="display-mask",
        blurb="Tint objects by their masks, in the border's colour, "
        "and the classes of segmentation networks, each in its own",
    )
    mask_background_class = GObject.Property(
        type=int,
        default=0,
        minimum=-1,
        nick="mask-background-class",
        blurb="Class of segmentation networks that is not tinted, with display-mask; -1: all are",
    )
    blur_bbox = GObject.Property(
        type=GObject.TYPE_UINT,
        default=0,
        maximum=2,
        nick="blur-bbox",
        blurb="Make objects unrecognisable by a mosaic: 0 none, 1 in their boxes, 2 in their masks (boxes without one)",
    )
    blur_on_gie_class_ids = GObject.Property(
        type=str,
        default="",
        nick="blur-on-gie-class-ids",
        blurb="Objects that blur-bbox hides, by component and class: gie,class;gie,class. With none named here nor in "
        "blur-class-ids: all",
    )
    blur_class_ids = GObject.Property(
        type=str, default="", nick="blur-class-ids", blurb="Classes that blur-bbox hides, of any component: class;class"
    )
    trail_length = GObject.Property(
        type=GObject.TYPE_UINT,
        default=0,
        maximum=1000,
        nick="trail-length",
        blurb="Draw where each track's centre was in its last frames, this one included; 0 or 1: no trails",
    )
    display_keypoints = GObject.Property(
        type=bool,
        default=True,
        nick="display-keypoints",
        blurb="Draw objects' key points as dots, and a person's as a skeleton, in the border's colour",
    )
    display_answers = GObject.Property(
        type=bool,
        default=True,
        nick="display-answers",
        blurb="Draw what a slow model (sluicevlm) said last of the stream as a panel across the bottom",
    )
    answer_seconds = GObject.Property(
        type=GObject.TYPE_UINT,
        default=10,
        minimum=1,
        maximum=86_400,
        nick="answer-seconds",
        blurb="For how many seconds of the stream an answer is shown; a newer one takes its place",
    )
    answer_font_size = GObject.Property(
        type=GObject.TYPE_UINT,
        default=0,
        maximum=200,
        nick="answer-font-size",
        blurb="Font size of answers in points, drawn at 10 or more; 0: by the height of the picture",
    )
    display_clock = GObject.Property(
        type=bool, default=False, nick="display-clock", blurb="Draw the local time on every frame"
    )
    clock_font = GObject.Property(type=str, default="Serif", nick="clock-font", blurb="Font of the clock")
    clock_font_size = GObject.Property(
        type=GObject.TYPE_UINT,
        default=12,
        minimum=0,
        maximum=60,
        nick="clock-font-size",
        blurb="Font size of the clock in points, drawn at 10 or more; 0 draws none",
    )
    x_clock_offset = GObject.Property(
        type=GObject.TYPE_UINT, default=0, nick="x-clock-offset", blurb="Left edge of the clock in pixels"
    )
    y_clock_offset = GObject.Property(
        type=GObject.TYPE_UINT, default=0, nick="y-clock-offset", blurb="Top edge of the clock in pixels"
    )
    clock_color = GObject.Property(
        type=GObject.TYPE_UINT, default=0xFF0000FF, nick="clock-color", blurb="Colour of the clock, 0xRRGGBBAA"
    )
    process_mode = GObject.Property(
        type=GObject.TYPE_UINT,
        default=0,
        minimum=0,
        maximum=1,
        nick="process-mode",
        blurb="Accepted for nvdsosd's sake (0 CPU, 1 GPU), no effect: drawing is done on the processor",
    )
    gpu_id = GObject.Property(
        type=GObject.TYPE_UINT,
        default=0,
        nick="gpu-id",
        blurb="Accepted for nvdsosd's sake, no effect: drawing is done on the processor",
    )

    def __init__(self) -> None:
        super().__init__()
        self._painter: Painter | None = None
        self._format: FrameFormat | None = None
        self._overlays: dict[int, Overlay] = {}
        self._trails: Trails | None = None
        self._answers: ShownAnswers | None = None
        self._failure: Exception | None = None
        self._told_of_shapes = False

    def start(self) -> None:
        from sluice.contract import provider
        from sluice.drawing.answers import ShownAnswers
        from sluice.drawing.painter import Painter
        from sluice.drawing.text import render
        from sluice.drawing.trails import Trails

        provider.provider()
        self._blur()
        self._trails, self._answers = Trails(), ShownAnswers()
        # Finding the system's fonts takes a moment, which the first frame should not wait for.
        render("0", "Serif", 12)
        self._painter = Painter()

    def stop(self) -> None:
        super().stop()
        self._painter = self._trails = self._answers = None
        self._format = None
        self._overlays, self._failure, self._told_of_shapes = {}, None, False

    def on_caps(self, caps: Gst.Caps) -> None:
        from sluice.contract.formats import FrameFormat
        from sluice.elements.host_caps import is_batch, on_gpu

        self._format = None if is_batch(caps) or on_gpu(caps) else FrameFormat.from_caps(caps)

    def stays(self) -> bool:
        """Nothing is drawn: every display property is off."""
        shown = self.display_bbox, self.display_text, self.display_mask, self.display_keypoints, self.display_answers
        return not (any(shown) or self.display_clock or self.blur_bbox or self.trail_length > 1)

    def on_event(self, event: Gst.Event) -> None:
        """Forget the tracks and answers of streams that end, and take nv-osd-process-mode-update."""
        kept = [state for state in (self._trails, self._answers) if state is not None]
        if event.type == Gst.EventType.FLUSH_STOP:
            for state in kept:
                state.clear()
        said = events.parse_stream_event(event)
        if said is not None:
            if said.kind in (events.PAD_DELETED, events.STREAM_EOS, events.STREAM_RESET):
                for state in kept:
                    state.forget(said.source_id)
        elif events.event_type(event) == events.OSD_PROCESS_MODE_UPDATE:
            mode = (events.parse_control_event(event) or {}).get("process_mode")
            if mode not in (0, 1):
                Gst.warning(f"{self.get_name()}: nv-osd-process-mode-update with process_mode {mode}; 0 and 1 exist")
                return
            self.set_property("process-mode", mode)

    @guarded(failure=None)
    def do_before_transform(self, buffer: Gst.Buffer) -> None:
        """Read what is to be drawn before the base class may copy the buffer: a copy reverses the lists of objects.

        With nothing to draw the buffer passes through untouched, even when it is shared. This function cannot fail the
        stream; `process` raises what went wrong here.
        """
        self._overlays, self._failure = {}, None
        try:
            changed = self.review()
            self._overlays = self._collect(buffer)
            if self._overlays and self.stays() and self.leaves_on_gpu(buffer):
                self._leave_out_shapes()
            bring = self.brings(buffer)
            if bring or changed:
                self.keep_apart(buffer)
        except Exception as error:
            self._failure, bring = error, True
        self.set_passthrough(not self._overlays and not bring)

    def process(self, buffer: Gst.Buffer) -> bool:
        from sluice.contract.surface import writable_batch, writable_raw

        if self._failure is not None:
            raise self._failure
        self.to_host(buffer)
        if not self._overlays or self.leaves_on_gpu(buffer):
            return True
        if self._format is not None:
            with writable_raw(buffer, self._format) as surface:
                self._draw(surface, self._overlays[0])
            return True
        with writable_batch(buffer, list(self._overlays)) as batch:
            for index, overlay in self._overlays.items():
                self._draw(batch[index], overlay)
        return True

    def _leave_out_shapes(self) -> None:
        """Draw nothing on frames that stay in GPU memory, and say so once: on others shapes are always drawn."""
        self._overlays = {}
        if not self._told_of_shapes:
            self._told_of_shapes = True
            self.warn(
                "lines, arrows or circles of display metas are not drawn: every display property is off, and the "
                "frames stay in GPU memory; put sluicehost before this element to have them drawn"
            )

    def _draw(self, surface: "Surface", overlay: "Overlay") -> None:
        from sluice.drawing.canvas import Canvas

        if self._painter is None:
            raise ContractError("a buffer came before the element was started")
        self._painter.draw(Canvas.of(surface), overlay)

    def _collect(self, buffer: Gst.Buffer) -> "dict[int, Overlay]":
        """What to draw on each surface, by its index; a single frame is surface 0."""
        from sluice.contract.metadata import BatchMeta, Lease
        from sluice.contract.surface import SurfaceBatch
        from sluice.drawing.collect import Selection, collect

        selection = Selection(
            self.display_bbox,
            self.display_text,
            self.display_mask,
            self.display_keypoints,
            self._blur(),
            self.mask_background_class,
        )
        overlays: dict[int, Overlay] = {}
        with Lease() as lease:
            batch = BatchMeta.of(buffer, lease)
            for frame in batch.frames if batch is not None else []:
                overlay = overlays[frame.batch_id if self._format is None else 0] = collect(frame, selection)
                self._add_trails(overlay, frame)
                self._add_answers(overlay, frame)
        if self.display_clock:
            for index in range(len(SurfaceBatch.of(buffer)) if self._format is None else 1):
                self._add_clock(overlays, index)
        return {index: overlay for index, overlay in overlays.items() if overlay}

    def _blur(self) -> "Blur | None":
        """Which objects are hidden; raises ConfigurationError for a property that is no list of numbers."""
        from sluice.drawing.collect import Blur, numbers

        if not self.blur_bbox:
            return None
        pairs = numbers("blur-on-gie-class-ids", self.blur_on_gie_class_ids or "", 2)
        classes = numbers("blur-class-ids", self.blur_class_ids or "", 1)
        return Blur(
            self.blur_bbox == 2,
            frozenset((component, number) for component, number in pairs),
            frozenset(number for (number,) in classes),
        )

    def _add_trails(self, overlay: "Overlay", frame: "FrameMeta") -> None:
        from sluice.contract.bulk import read_objects

        if self.trail_length > 1 and self._trails is not None:
            objects = read_objects(frame)
            overlay.trails = self._trails.update(frame.pad_index, objects.object_id, objects.boxes, self.trail_length)

    def _add_answers(self, overlay: "Overlay", frame: "FrameMeta") -> None:
        from sluice.contract.answer_meta import read_answers

        if self.display_answers and self._answers is not None:
            overlay.panels = self._answers.update(
                frame.source_id, frame.buf_pts, read_answers(frame), self.answer_seconds, self.answer_font_size
            )

    def _add_clock(self, overlays: "dict[int, Overlay]", index: int) -> None:
        from sluice.drawing.shapes import Overlay, Text

        red, green, blue, alpha = (component / 255.0 for component in int(self.clock_color).to_bytes(4, "big"))
        text = time.strftime("%Y-%m-%d %H:%M:%S")
        clock = Text(
            text,
            self.x_clock_offset,
            self.y_clock_offset,
            self.clock_font or "Serif",
            self.clock_font_size,
            (red, green, blue, alpha),
        )
        overlays.setdefault(index, Overlay()).texts.append(clock)
