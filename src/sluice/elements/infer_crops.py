"""The parts of frames that a model is given in place of the frames: objects already there, or regions of interest.

A part is a view of its surface's memory: only what the model reads is ever converted. All parts of a buffer, of every
frame and stream in it, form one batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sluice.contract import bulk
from sluice.contract.metadata import UNTRACKED, FrameMeta, ObjectMeta
from sluice.contract.surface import SurfaceBatch
from sluice.elements.infer_frames import OpenBatch, frame_object, frame_of, make_frame, surface_of
from sluice.elements.infer_history import History, Seen
from sluice.elements.infer_scope import Scope
from sluice.errors import ConfigurationError
from sluice.models.attach import attach_detections
from sluice.models.attach_whole import attach_whole
from sluice.models.crops import Region, clipped, merge, region_of, to_picture
from sluice.models.detections import Detections
from sluice.models.frame import Frame
from sluice.models.regions import Box, Regions
from sluice.models.whole import WholeFrame


@dataclass(frozen=True)
class Target:
    """An object that the model is given, or whose last result is attached again.

    Attributes:
        meta: its frame.
        address: its metadata.
        region: the pixels that the model is given.
        size: width and height of the surface.
        area: of its box in square pixels.
        known: its history; None for an object without an id.
    """

    meta: FrameMeta
    address: int
    region: Region
    size: tuple[int, int]
    area: float
    known: Seen | None

    @property
    def view(self) -> ObjectMeta:
        """The object."""
        return ObjectMeta(self.address, self.meta.lease, self.meta.provider)


class ObjectBatch(OpenBatch):
    """The objects of one buffer that a secondary model is given, cut out."""

    def __init__(self, metas: Sequence[FrameMeta], surfaces: SurfaceBatch, scope: Scope, history: History) -> None:
        """Choose the objects.

        Args:
            metas: the buffer's frames.
            surfaces: its surfaces.
            scope: which objects are meant.
            history: what was inferred before.
        """
        self._history = history
        self.targets: list[Target] = []
        self.cached: list[Target] = []
        frames: list[Frame] = []
        for meta in metas:
            if meta.num_objects:
                frames += self._choose(meta, surfaces, scope)
        super().__init__(metas, surfaces, frames)

    def _choose(self, meta: FrameMeta, surfaces: SurfaceBatch, scope: Scope) -> list[Frame]:
        """Sort the objects of a frame into those to infer and those to attach the last result to."""
        surface = surface_of(meta, surfaces)
        size, stream, number = (surface.width, surface.height), meta.pad_index, meta.frame_num
        found = bulk.read_objects(meta)
        chosen = []
        for row, label in zip(found.rows[::-1], reversed(found.labels), strict=True):
            if not wanted(row, scope):
                continue
            region = region_of(row["box"].tolist(), size)
            object_id = int(row["object_id"])
            if region is None or (scope.asynchronous and object_id == UNTRACKED):
                continue
            known, now, area = None, True, float(row["box"][2] * row["box"][3])
            if object_id != UNTRACKED:
                known, now = self._history.look(stream, object_id, area, number)
            target = Target(meta, int(row["address"]), region, size, area, known)
            if not now or scope.asynchronous:
                self.cached.append(target)
            if now:
                self.targets.append(target)
                shown = frame_object(meta, row, label)
                part = surface.crop(*region)
                chosen.append(make_frame(meta, part, origin=(region.left, region.top), parent_object=shown))
        return chosen

    def attach(self, found: Sequence[Detections | None], labels: tuple[str, ...], unique_id: int) -> int:
        objects = 0
        for target, result in zip(self.targets, found, strict=True):
            self.remember(target, result, labels)
            if result is not None:
                moved = to_picture(result, target.region)
                objects += attach_detections(target.meta, moved, labels, unique_id, target.size, parent=target.view)
        self.attach_cached(unique_id)
        return objects

    def remember_all(self, found: Sequence[Detections | None], labels: tuple[str, ...]) -> None:
        """Put results into the objects' history without touching the metadata; for none at all give an empty list."""
        for target, result in zip(self.targets, found or [None] * len(self.targets), strict=True):
            self.remember(target, result, labels)

    def remember(self, target: Target, result: Detections | None, labels: tuple[str, ...]) -> None:
        """Put a result, or that there is none, into the object's history."""
        if target.known is None:
            return
        if result is None:
            self._history.failed(target.known)
        else:
            last = lasting_part(result)
            self._history.store(target.known, last, labels, area=target.area, lasting=lasts(result))

    def attach_cached(self, unique_id: int) -> None:
        """Attach the last results to the objects that are not inferred this time."""
        for target in self.cached:
            known = target.known
            if known is not None and known.result is not None:
                attach_whole(target.meta, known.result, known.labels, unique_id, target.view)


class CachedBatch(OpenBatch):
    """A batch whose objects only get their last results: buffers do not wait for the model."""

    def __init__(self, batch: ObjectBatch) -> None:
        """Take the objects to attach to from `batch`."""
        self.metas, self.frames = batch.metas, []
        self._batch = batch

    def release(self) -> None:
        """There is nothing to release: the frames belong to the batch that the model is given."""

    def attach(self, _found: Sequence[Detections | None], _labels: tuple[str, ...], unique_id: int) -> int:
        self._batch.attach_cached(unique_id)
        return 0


def wanted(row: Any, scope: Scope) -> bool:
    """Whether an object of `bulk.read_objects` is one that a secondary model is meant to see."""
    if scope.component is not None and int(row["unique_component_id"]) != scope.component:
        return False
    if scope.class_ids is not None and int(row["class_id"]) not in scope.class_ids:
        return False
    return all(
        side >= least and (most == 0 or side <= most)
        for side, least, most in zip(row["box"][2:].tolist(), scope.least, scope.most, strict=True)
    )


def lasts(result: Detections) -> bool:
    """Whether a result holds for the object, however it moves, rather than for this picture of it.

    Raw outputs alone say nothing of that: who reads them wants those of every frame, and nvinfer gives them.
    """
    whole = result.whole
    if len(result) or whole is None or whole.keypoints is not None or whole.segmentation is not None:
        return False
    return whole.outputs is None or _says_something(whole)


def lasting_part(result: Detections) -> WholeFrame | None:
    """What of a result is attached to the object again on frames on which it is not inferred."""
    whole = result.whole
    if whole is None or not _says_something(whole):
        return None
    return replace(whole, keypoints=None, segmentation=None, outputs=None)


def _says_something(whole: WholeFrame) -> bool:
    """Whether there is anything that holds for the object."""
    return bool(whole.classification or whole.text) or whole.embedding is not None


class RegionError(ConfigurationError):
    """A region lies outside the picture of its stream.

    Attributes:
        stream: the stream's ``source_id``.
        size: width and height of the picture.
    """

    def __init__(self, box: Box, stream: int, size: tuple[int, int]) -> None:
        super().__init__(f"the region {box} of stream {stream} lies outside its picture of {size[0]}x{size[1]}")
        self.stream = stream
        self.size = size


@dataclass(frozen=True)
class _Part:
    """One region of a frame: whose it is, and where; None for the whole frame."""

    meta: FrameMeta
    size: tuple[int, int]
    region: Region | None


class RegionBatch(OpenBatch):
    """The regions of interest of one buffer's frames; a frame of a stream without any is given whole."""

    def __init__(
        self, metas: Sequence[FrameMeta], surfaces: SurfaceBatch, regions: Regions, iou: float, *, clip: bool = True
    ) -> None:
        """Cut the regions out.

        Args:
            metas: the buffer's frames.
            surfaces: its surfaces.
            regions: left, top, width, height of the regions of each stream.
            iou: overlap above which the weaker of two boxes of a class, of two regions, is dropped.
            clip: whether boxes are cut at the edge of their region.

        Raises:
            RegionError: a region lies outside the stream's picture.
        """
        self._iou, self._clip = iou, clip
        self._parts: list[_Part] = []
        frames: list[Frame] = []
        for meta in metas:
            surface = surface_of(meta, surfaces)
            size = surface.width, surface.height
            boxes = regions.get(meta.source_id, ())
            if not boxes:
                self._parts.append(_Part(meta, size, None))
                frames.append(frame_of(meta, surfaces))
            for box in boxes:
                region = region_of(box, size)
                if region is None:
                    raise RegionError(box, meta.source_id, size)
                self._parts.append(_Part(meta, size, region))
                frames.append(make_frame(meta, surface.crop(*region), origin=(region.left, region.top)))
        super().__init__(metas, surfaces, frames)

    def attach(self, found: Sequence[Detections | None], labels: tuple[str, ...], unique_id: int) -> int:
        objects = 0
        start = 0
        for meta in self.metas:
            end = start
            while end < len(self._parts) and self._parts[end].meta is meta:
                end += 1
            objects += self._attach_frame(self._parts[start:end], found[start:end], labels, unique_id)
            start = end
        return objects

    def _attach_frame(
        self, parts: Sequence[_Part], found: Sequence[Detections | None], labels: tuple[str, ...], unique_id: int
    ) -> int:
        """Write what was found in the regions of one frame; nothing where the model failed on all of them."""
        given = [(part, result) for part, result in zip(parts, found, strict=True) if result is not None]
        if not given:
            return 0
        meta, size = parts[0].meta, parts[0].size
        if parts[0].region is None:
            return attach_detections(meta, given[0][1], labels, unique_id, size)
        moved = [(part.region, self._moved(result, part.region)) for part, result in given if part.region is not None]
        objects = attach_detections(meta, merge([result for _, result in moved], self._iou), labels, unique_id, size)
        for region, result in moved:
            if result.whole is not None:
                left, top, width, height = map(float, region)
                objects += attach_whole(meta, result.whole, labels, unique_id, (left, top, width, height))
        return objects

    def _moved(self, result: Detections, region: Region) -> Detections:
        return to_picture(clipped(result, region[2:]) if self._clip else result, region)
