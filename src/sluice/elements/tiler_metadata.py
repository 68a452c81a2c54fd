"""The metadata of a tiled picture: one frame with the objects and display metas of every source's last frame.

The provider's own copy functions carry what belongs to an object (classifiers, user metas, masks). A copy reverses
lists, and loses parents and the names of classifiers; here everything is copied twice, which restores the order, and
the rest is written again.
"""

import ctypes
import math
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract import infer_meta
from sluice.contract.layout import layout
from sluice.contract.metadata import (
    ArrowParams,
    BatchMeta,
    DisplayMeta,
    FrameMeta,
    Lease,
    LineParams,
    ObjectMeta,
    UserMeta,
)
from sluice.contract.provider import Provider, provider
from sluice.elements.tiler_classes import TiledClasses
from sluice.elements.tiler_grid import Area

# NvDsMetaCopyFunc: (user meta, NULL) to the copied data.
_COPY = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class Mapping(NamedTuple):
    """How pixels of a surface become pixels of the tiled picture: x * scale_x + left, y * scale_y + top."""

    scale_x: float
    scale_y: float
    left: float
    top: float
    area: Area

    @classmethod
    def between(cls, width: int, height: int, area: Area) -> "Mapping":
        """From a surface of this size to its area."""
        return cls(area.width / width, area.height / height, area.left, area.top, area)

    def box(self, box: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
        """Map left, top, width, height."""
        left, top, width, height = box
        return (
            left * self.scale_x + self.left,
            top * self.scale_y + self.top,
            width * self.scale_x,
            height * self.scale_y,
        )

    def point(self, x: int, y: int) -> tuple[int, int]:
        """Map a place held in unsigned fields, where places left of or above the picture have wrapped around."""
        signed_x, signed_y = (ctypes.c_int32(value).value for value in (x, y))
        mapped = round(signed_x * self.scale_x + self.left), round(signed_y * self.scale_y + self.top)
        return mapped[0] & 0xFFFFFFFF, mapped[1] & 0xFFFFFFFF


@dataclass
class _Kept:
    """A copy of a source's last frame, in a batch of its own, and what the copy lost."""

    batch: int
    frame: int
    mapping: Mapping
    infer_done: bool
    ntp_timestamp: int
    parents: list[tuple[int, int]] = field(default_factory=list)
    classifier_types: list[tuple[int, list[str | None]]] = field(default_factory=list)


class LastMetadata:
    """Keeps the metadata of each source's last frame, until the source is forgotten or `clear` is called."""

    def __init__(self) -> None:
        self._provider: Provider = provider()
        self._kept: dict[int, _Kept] = {}
        self._frames = 0

    def keep(self, source: int, frame: FrameMeta, mapping: Mapping) -> None:
        """Copy a frame's metadata in the place of what was kept of this source."""
        owner = self._provider
        self.forget(source)
        batch = owner.create_batch(1)
        copy = owner.acquire_frame(batch)
        owner.add_frame(batch, copy)
        owner.copy_frame(frame.address, copy)
        kept = _Kept(batch, copy, mapping, frame.infer_done, frame.ntp_timestamp)
        self._kept[source] = kept
        objects = frame.objects
        places = {item.address: index for index, item in enumerate(objects)}
        for index, item in enumerate(objects):
            parent = item.parent
            if parent is not None and parent.address in places:
                kept.parents.append((index, places[parent.address]))
            classifiers = item.classifiers
            if classifiers:
                kept.classifier_types.append((index, [one.classifier_type for one in classifiers]))

    def forget(self, source: int) -> None:
        """Drop what was kept of a source, if anything."""
        kept = self._kept.pop(source, None)
        if kept is not None:
            self._provider.destroy_batch(kept.batch)

    def clear(self) -> None:
        """Drop everything that was kept."""
        for source in list(self._kept):
            self.forget(source)

    def write(self, batch: BatchMeta, sources: list[int], size: tuple[int, int], pts: int) -> FrameMeta:
        """Add one frame with the mapped metadata of these sources, in this order, to the batch of a tiled picture.

        Its timestamp is `pts`, its NTP time that of the newest frame, its `infer_done` set if any source's is.
        """
        owner = self._provider
        owner.add_frame(batch.address, owner.acquire_frame(batch.address))
        (frame,) = batch.frames
        shown = [self._kept[source] for source in sources if source in self._kept]
        classes = TiledClasses(size)
        for kept in shown:
            self._add(batch, frame, kept, classes)
        classes.write(frame)
        frame.buf_pts, frame.frame_num = pts, self._frames & 0x7FFFFFFF
        frame.source_width, frame.source_height = frame.pipeline_width, frame.pipeline_height = size
        frame.num_surfaces_per_frame = 1
        frame.infer_done = any(kept.infer_done for kept in shown)
        frame.ntp_timestamp = max((kept.ntp_timestamp for kept in shown), default=0)
        self._frames += 1
        return frame

    def _add(self, batch: BatchMeta, frame: FrameMeta, kept: _Kept, classes: TiledClasses) -> None:
        """Copy a kept frame into a frame of its own, map it, and hand its lists over to the frame of the picture."""
        owner = self._provider
        address = owner.acquire_frame(batch.address)
        owner.add_frame(batch.address, address)
        owner.copy_frame(kept.frame, address)
        copy = FrameMeta(address, batch.lease, owner)
        objects = copy.objects
        for item in objects:
            _map_object(item, kept.mapping)
        if copy.user_metas:
            infer_meta.map_keypoints(copy, kept.mapping[:2], kept.mapping[2:4])
            classes.place(infer_meta.take_segmentations(copy), kept.mapping.area)
        for display in copy.display_metas:
            _map_display(display, kept.mapping)
        for child, parent in kept.parents:
            objects[child].parent = objects[parent]
        for index, types in kept.classifier_types:
            for classifier, name in zip(objects[index].classifiers, types, strict=True):
                classifier.classifier_type = name
        for name in ("obj_meta_list", "display_meta_list", "frame_user_meta_list"):
            _hand_over(copy.address, frame.address, layout().offset(f"NvDsFrameMeta.{name}"))
        frame.num_objects += copy.num_objects
        copy.num_objects = 0
        owner.remove_frame(batch.address, copy.address)


def copy_mapped(
    incoming: Gst.Buffer, outgoing: Gst.Buffer, size: tuple[int, int], area: Area, picture: tuple[int, int]
) -> None:
    """Copy the metadata of a buffer's only frame to the buffer of its scaled picture; nothing where it has none.

    Args:
        incoming: a buffer with or without NvDsBatchMeta.
        outgoing: a buffer without.
        size: width and height of the incoming picture.
        area: where that lies in the outgoing one.
        picture: width and height of the outgoing one.
    """
    with Lease() as lease:
        batch = BatchMeta.of(incoming, lease)
        frames = [] if batch is None else batch.frames
        if len(frames) == 1:
            kept = LastMetadata()
            kept.keep(0, frames[0], Mapping.between(*size, area))
            kept.write(BatchMeta.attach(outgoing, 1, lease), [0], picture, outgoing.pts)
            kept.clear()


def copy_batch_users(source: BatchMeta, target: BatchMeta) -> None:
    """Copy the user metas of a batch itself to another batch, in their order; those that cannot be copied stay."""
    owner = target.provider
    for user in source.user_metas:
        if not user.copy_func:
            continue
        copy = UserMeta(owner.acquire_user(target.address), target.lease, owner)
        copy.meta_type, copy.copy_func, copy.release_func = user.meta_type, user.copy_func, user.release_func
        copy.data = _COPY(user.copy_func)(user.address, None) or 0
        owner.add_user_to_batch(target.address, copy.address)


@cache
def _glib() -> ctypes.CDLL:
    library = ctypes.CDLL("libglib-2.0.so.0")
    library.g_list_concat.restype, library.g_list_concat.argtypes = ctypes.c_void_p, [ctypes.c_void_p] * 2
    return library


def _hand_over(source: int, target: int, offset: int) -> None:
    """Append the GList at an offset of one struct to that of another, and leave it empty."""
    first, second = (ctypes.c_size_t.from_address(struct + offset) for struct in (target, source))
    first.value = _glib().g_list_concat(first.value, second.value) or 0
    second.value = 0


def _map_object(item: ObjectMeta, mapping: Mapping) -> None:
    """Map the text, key points and boxes; boxes that are not set, or hold no numbers, stay as they are."""
    for name in ("box", "detector_box", "tracker_box"):
        box = getattr(item, name)
        if any(box) and all(map(math.isfinite, box)):
            setattr(item, name, mapping.box(box))
    text = item.text
    text.x_offset, text.y_offset = mapping.point(text.x_offset, text.y_offset)
    if item.user_metas:
        infer_meta.map_keypoints(item, mapping[:2], mapping[2:4])


def _map_display(display: DisplayMeta, mapping: Mapping) -> None:
    for rect in display.rects:
        rect.box = mapping.box(rect.box)
    for text in display.texts:
        text.x_offset, text.y_offset = mapping.point(text.x_offset, text.y_offset)
    strokes: list[LineParams | ArrowParams] = [*display.lines, *display.arrows]
    for stroke in strokes:
        stroke.x1, stroke.y1 = mapping.point(stroke.x1, stroke.y1)
        stroke.x2, stroke.y2 = mapping.point(stroke.x2, stroke.y2)
    for circle in display.circles:
        circle.xc, circle.yc = mapping.point(circle.xc, circle.yc)
        circle.radius = min(round(circle.radius * min(mapping.scale_x, mapping.scale_y)), 0xFFFFFFFF)
