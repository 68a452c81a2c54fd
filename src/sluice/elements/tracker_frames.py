"""What ``sluicetracker`` does with a buffer's frames: read the objects, track them, write what the tracker says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import gi

gi.require_version("Gst", "1.0")
import numpy as np
import numpy.typing as npt
from gi.repository import Gst

from sluice.contract import bulk, infer_meta
from sluice.contract._rows import all_or
from sluice.contract.batching import NVMM_FEATURE, SURFACE_FEATURE, memory_feature
from sluice.contract.bulk_objects import read_batch, remove_from_frames, update_frames
from sluice.contract.formats import FrameFormat
from sluice.contract.metadata import BatchMeta, FrameMeta, Lease, ObjectMeta
from sluice.contract.surface import SurfaceBatch
from sluice.elements.tracker_lists import TargetLists
from sluice.errors import ContractError
from sluice.models.frame import Frame
from sluice.tracking import UNTRACKED, Detected, Predicted, Settings, StreamTracker, StreamTrackers, reads_pixels
from sluice.tracking.motion import take

if TYPE_CHECKING:
    from sluice.elements.tracker import Counters

FloatArray = npt.NDArray[np.float32]


_FARTHEST = 1e6
"""Pixels; no picture reaches so far, and the areas and squares of longer numbers leave the range of a float32."""


@dataclass(frozen=True)
class Policy:
    """Which objects are tracked and what becomes of the others.

    Attributes:
        classes: class ids to track; empty for all. Objects of other classes are left alone.
        keep_unconfirmed: keep tracked classes' objects that belong to no confirmed track, without an id.
        show_ids: append the id to the object's text.
        max_targets: objects of a frame that are tracked at most; the rest counts as unconfirmed.
        surface_type: frames of another of nvdewarper's surface types are left alone; those without a type never are.
        reid_component: the component whose embeddings count; 0 for the first on each object.
    """

    classes: frozenset[int]
    keep_unconfirmed: bool
    show_ids: bool
    max_targets: int | None = None
    surface_type: int = 0
    reid_component: int = 0


@dataclass(frozen=True, slots=True)
class _Seen:
    """A frame that the model saw."""

    frame: FrameMeta
    tracker: StreamTracker
    rows: Detected
    image: npt.NDArray[np.uint8] | None


@dataclass(frozen=True, slots=True)
class _Group:
    """Frames of which no two are of one stream, and the objects to track on them, frame by frame.

    Attributes:
        frames: `FRAME_INFO` records [F].
        sizes: [F, 2], width and height of each frame's surface.
        counts: [F], how many of the objects each frame has.
        objects: those of all frames, each frame's in the order in which the detector wrote them.
    """

    frames: npt.NDArray[np.void]
    sizes: npt.NDArray[np.uint32]
    counts: npt.NDArray[np.intp]
    objects: bulk.Objects


class FrameTracking:
    """The trackers of an element at work on its buffers."""

    def __init__(
        self,
        streams: StreamTrackers,
        settings: Settings,
        policy: Policy,
        counters: Counters,
        lists: TargetLists | None = None,
    ) -> None:
        """Work with these trackers; ``counters`` is added to, ``lists`` are written where given."""
        self.streams = streams
        self.policy = policy
        self.lists = lists
        self._counters = counters
        self._pixels = reads_pixels(settings.algorithm, settings.options)
        self._uses_features = settings.algorithm == "deepsort"
        self._raw_format: FrameFormat | None = None

    def set_caps(self, caps: Gst.Caps) -> None:
        """Take the caps of the buffers that follow."""
        batched = memory_feature(caps) in (SURFACE_FEATURE, NVMM_FEATURE)
        self._raw_format = None if batched else FrameFormat.from_caps(caps)

    def end(self, stream: int) -> None:
        """A stream has ended."""
        self.streams.end(stream)
        if self.lists is not None:
            self.lists.end(stream)

    def forget(self, stream: int) -> None:
        """A stream is gone."""
        self.streams.forget(stream)
        if self.lists is not None:
            self.lists.end(stream)

    def end_all(self) -> None:
        """All tracks of all streams end."""
        self.streams.clear()
        if self.lists is not None:
            self.lists.end_all()

    def track(self, buffer: Gst.Buffer) -> None:
        """Track the objects of every frame of a buffer; frames of one stream in their order.

        Raises:
            ContractError: the buffer carries no batch metadata, or its surfaces do not fit its frames.
        """
        raw = self._raw_format
        surfaces = SurfaceBatch.of(buffer, lent=True) if raw is None else SurfaceBatch.of_raw(buffer, raw, lent=True)
        try:
            with Lease() as lease:
                batch = BatchMeta.of(buffer, lease)
                if batch is None:
                    raise ContractError(
                        "the buffer carries no batch metadata; sluicemux or sluiceinfer must stand before sluicetracker"
                    )
                for group in self._groups(*read_batch(batch), surfaces.sizes()):
                    self._track_group(batch, group, surfaces)
                if self.lists is not None:
                    self.lists.attach(batch)
        finally:
            # The memory must not be shared any more when the buffer goes downstream.
            surfaces.close()

    def _groups(
        self, frames: npt.NDArray[np.void], objects: bulk.Objects, sizes: npt.NDArray[np.uint32]
    ) -> Iterator[_Group]:
        """Yield what is to be tracked: the first frame of each stream, then the second of each, ..."""
        if len(frames) and int(frames["batch_id"].max()) >= len(sizes):
            raise ContractError(f"a frame has batch_id {frames['batch_id'].max()}, the batch {len(sizes)} surfaces")
        ends = np.cumsum(frames["objects"], dtype=np.intp)
        wanted = np.flatnonzero((frames["surface_type"] == 0) | (frames["surface_type"] == self.policy.surface_type))
        for chosen in _steps(frames["pad_index"], wanted):
            counts = frames["objects"][chosen].astype(np.intp)
            # Objects are added at the front of the list: backwards is the order in which the detector wrote them.
            places = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            rows = take(objects.rows, np.repeat(ends[chosen], counts) - 1 - places)
            if self.policy.classes:
                kept = np.isin(rows["class_id"], list(self.policy.classes))
                counts = np.bincount(np.repeat(np.arange(len(chosen)), counts)[kept], minlength=len(chosen))
                rows = rows[kept]
            yield _Group(take(frames, chosen), sizes[frames["batch_id"][chosen]], counts, bulk.Objects(rows))

    def _track_group(self, batch: BatchMeta, group: _Group, surfaces: SurfaceBatch) -> None:
        """Track the frames of a group in one pass."""
        objects, counts = group.objects, group.counts.tolist()
        boxes, confidences = np.ascontiguousarray(objects.boxes), self._confidences(objects, group.counts)
        seen: list[_Seen | None] = []
        first = 0
        for place, (info, count) in enumerate(zip(group.frames.tolist(), counts, strict=True)):
            frame = FrameMeta(info[0], batch.lease, batch.provider)
            part = slice(first, first + count)
            with _Blame(frame):
                rows = Detected(
                    boxes[part],
                    confidences[part],
                    objects.class_id[part],
                    objects.unique_component_id[part],
                    bulk.LabelRows(objects.rows["label"][part]),
                    self._features(frame, bulk.Objects(objects.rows[part])) if self._uses_features else None,
                )
                seen.append(self._see(frame, info, group.sizes[place], rows, surfaces))
            first += count
        self._write(batch, group, seen, self._update(seen, counts), boxes)

    def _update(self, seen: Sequence[_Seen | None], counts: list[int]) -> list[npt.NDArray[np.int64]]:
        """Return the ids of every frame's rows, of frames that the model did not see none."""
        given = iter(self.streams.update([(one.tracker, one.rows, one.image) for one in seen if one is not None]))
        return [
            next(given) if one is not None else np.full(count, UNTRACKED, np.int64)
            for one, count in zip(seen, counts, strict=True)
        ]

    def _see(
        self,
        frame: FrameMeta,
        info: tuple[int, ...],
        size: npt.NDArray[np.uint32],
        rows: Detected,
        surfaces: SurfaceBatch,
    ) -> _Seen | None:
        """Return what is to be tracked on a frame; one that the model did not see is dealt with here."""
        _, pts, stream, batch_id, _, objects, _, infer_done = info
        tracker = self.streams.of(stream)
        self._counters.frames += 1
        self._counters.jumps += tracker.begin_frame(pts)
        # A detector that is not Sluice's or NVIDIA's may leave bInferDone 0; objects tell that there was one.
        if not infer_done and not objects:
            self._predict(frame, tracker, size.astype(np.float32))
            return None
        return _Seen(frame, tracker, rows, self._image(frame, surfaces, batch_id))

    def _confidences(self, objects: bulk.Objects, counts: npt.NDArray[np.intp]) -> FloatArray:
        """Return the objects' confidences; NaN, which is below every threshold, for those that take no part."""
        confidences = objects.confidence.copy()
        with np.errstate(invalid="ignore"):
            hopeless = ~np.isfinite(confidences) | ~(np.abs(objects.boxes) <= _FARTHEST).all(axis=1)
        confidences[hopeless] = np.nan
        most = self.policy.max_targets
        if most is not None and int(counts.max(initial=0)) > most:
            # nvtracker takes the first of the list, which are the last here.
            left = np.repeat(np.cumsum(counts), counts) - np.arange(len(confidences))
            confidences[left > most] = np.nan
        return confidences

    def _features(self, frame: FrameMeta, objects: bulk.Objects) -> FloatArray | None:
        """Return the objects' embeddings, 0 where an object has none; None where no object has one."""
        wanted = self.policy.reid_component
        found: list[tuple[int, FloatArray]] = []
        for row, address in enumerate(objects.address.tolist()):
            given = infer_meta.embeddings(ObjectMeta(address, frame.lease, frame.provider))
            fitting = [one.features for one in given if wanted in (0, one.component)]
            if fitting:
                found.append((row, fitting[0]))
        if not found:
            return None
        size = len(found[0][1])
        features = np.zeros((len(objects), size), np.float32)
        for row, values in found:
            if len(values) != size:
                raise ContractError(
                    f"objects carry embeddings of {size} and of {len(values)} values; reid-component-id chooses a model"
                )
            features[row] = values
        self._counters.embeddings += len(found)
        return features

    def _image(self, frame: FrameMeta, surfaces: SurfaceBatch, place: int) -> npt.NDArray[np.uint8] | None:
        """Return the picture for an algorithm that reads pixels."""
        if self._pixels is None:
            return None
        frame_of = Frame(surfaces[place], stream=frame.pad_index, number=frame.frame_num, pts=frame.buf_pts)
        picture = frame_of.bgr() if self._pixels == "bgr" else frame_of.rgb()
        # A surface that is in this order already comes as a view; trackers may keep the picture until the next one.
        return picture if picture.flags.owndata else picture.copy()

    def _write(
        self,
        batch: BatchMeta,
        group: _Group,
        seen: Sequence[_Seen | None],
        given: Sequence[npt.NDArray[np.int64]],
        boxes: FloatArray,
    ) -> None:
        """Write the ids that the tracker gave, and remove what has none."""
        objects, frames = group.objects, group.frames["address"]
        sizes = np.repeat(group.sizes.astype(np.float32), group.counts, axis=0)
        clipped, visible = clip(boxes, sizes, objects.rotation)
        of_frame = np.repeat(np.arange(len(frames)), group.counts)
        ids = np.concatenate(given) if given else np.empty(0, np.int64)
        tracked = ids != UNTRACKED
        shown = tracked & visible
        some = all_or(shown)
        update_frames(
            batch.provider,
            frames,
            np.bincount(of_frame[some], minlength=len(frames)).astype(np.uint32),
            objects.address[some],
            ids[some].astype(np.uint64),
            clipped[some],
            boxes[some],
            objects.confidence[some],
            show_ids=self.policy.show_ids,
        )
        gone = ~visible & tracked if self.policy.keep_unconfirmed else ~shown
        count = int(gone.sum())
        if count:
            removed = np.bincount(of_frame[gone], minlength=len(frames)).astype(np.uint32)
            remove_from_frames(batch.provider, frames, removed, objects.address[gone])
        self._counters.tracked += int(shown.sum())
        self._counters.removed += count
        if self.lists is not None:
            for one, of_rows in zip(seen, given, strict=True):
                if one is not None:
                    self.lists.observe(one.frame, one.tracker, one.rows, of_rows)

    def _predict(self, frame: FrameMeta, tracker: StreamTracker, size: FloatArray) -> None:
        """Write an object for each track of the last seen frame, where the tracker expects it."""
        predicted = tracker.predict()
        boxes = np.array([track.box for track in predicted], dtype=np.float32).reshape(-1, 4)
        clipped, visible = clip(boxes, size, np.zeros(len(boxes), dtype=np.float32))
        for unique_id in sorted({track.unique_id for track in predicted}):
            rows = [i for i, track in enumerate(predicted) if visible[i] and track.unique_id == unique_id]
            self._add(frame, [predicted[row] for row in rows], clipped[rows], boxes[rows], unique_id)
        self._counters.predicted += int(visible.sum())

    def _add(
        self, frame: FrameMeta, tracks: list[Predicted], clipped: FloatArray, boxes: FloatArray, unique_id: int
    ) -> None:
        """Write tracks of one detector as objects; unlike nvtracker's, each has its own label and text."""
        labels = [track.label for track in tracks]
        shown = [f"{track.label} {track.id}".lstrip() for track in tracks]
        bulk.add_tracked(
            frame,
            clipped,
            boxes,
            np.array([track.confidence for track in tracks], dtype=np.float32),
            np.array([track.class_id for track in tracks], dtype=np.int32),
            np.array([track.id for track in tracks], dtype=np.uint64),
            labels,
            unique_id=unique_id,
            texts=shown if self.policy.show_ids else None,
        )


def clip(
    boxes: FloatArray, size: FloatArray, rotation: npt.NDArray[np.float32]
) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Cut boxes at the surface's edges, as nvtracker does.

    A rotated box is left as it is: cutting it before rotation would turn it into another shape.

    Args:
        boxes: float32 [N, 4], left, top, width, height in pixels of the surface.
        size: the surface's width and height, float32 [2], or [N, 2] for a surface each.
        rotation: float32 [N], degrees.

    Returns:
        The boxes that downstream uses, float32 [N, 4], and bool [N]: whether anything of the box is on the surface.
    """
    start = np.clip(boxes[:, :2], 0, size)
    with np.errstate(invalid="ignore", over="ignore"):  # boxes that are not finite are on no surface
        far = boxes[:, :2] + boxes[:, 2:]
    end = np.clip(far, 0, size)
    rotated = rotation != 0
    inside = (boxes[:, :2] >= 0).all(axis=1) & (far <= size).all(axis=1)
    # What is inside stays exactly as it was: left + width - left is not always width in floating point.
    clipped = np.where((rotated | inside)[:, None], boxes, np.concatenate([start, end - start], axis=1))
    return clipped, rotated | (clipped[:, 2:] > 0).all(axis=1)


def _steps(streams: npt.NDArray[np.uint32], chosen: npt.NDArray[np.intp]) -> Iterator[npt.NDArray[np.intp]]:
    """Yield the chosen places in groups with one frame of a stream at most: the first of each stream, the second ..."""
    of_frame = streams[chosen].tolist()
    if len(set(of_frame)) == len(of_frame):
        yield chosen
        return
    groups: list[list[int]] = []
    counted: dict[int, int] = {}
    for place, stream in zip(chosen.tolist(), of_frame, strict=True):
        group = counted.get(stream, 0)
        counted[stream] = group + 1
        if group == len(groups):
            groups.append([])
        groups[group].append(place)
    yield from (np.array(group) for group in groups)


class _Blame:
    """Tells in an exception which stream and frame it is about."""

    def __init__(self, frame: FrameMeta) -> None:
        self._frame = frame

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            error.stream, error.frame = self._frame.pad_index, self._frame.frame_num  # type: ignore[attr-defined]
