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
from sluice.contract.batching import NVMM_FEATURE, SURFACE_FEATURE, memory_feature
from sluice.contract.formats import FrameFormat
from sluice.contract.metadata import BatchMeta, FrameMeta, Lease, ObjectMeta
from sluice.contract.surface import Surface, SurfaceBatch
from sluice.elements.tracker_lists import TargetLists
from sluice.errors import ContractError
from sluice.models.frame import Frame
from sluice.tracking import UNTRACKED, Detected, Predicted, Settings, StreamTracker, StreamTrackers, reads_pixels

if TYPE_CHECKING:
    from sluice.elements.tracker import Counters

FloatArray = npt.NDArray[np.float32]
BoolArray = npt.NDArray[np.bool_]


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


@dataclass(frozen=True)
class _Seen:
    """A frame that the model saw: its objects, in the order in which the detector wrote them."""

    frame: FrameMeta
    tracker: StreamTracker
    surface: Surface
    objects: bulk.Objects
    rows: Detected
    image: npt.NDArray[np.uint8] | None


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
        surfaces = SurfaceBatch.of(buffer) if raw is None else SurfaceBatch.of_raw(buffer, raw)
        try:
            with Lease() as lease:
                batch = BatchMeta.of(buffer, lease)
                if batch is None:
                    raise ContractError(
                        "the buffer carries no batch metadata; sluicemux or sluiceinfer must stand before sluicetracker"
                    )
                wanted = (0, self.policy.surface_type)
                for step in _steps([frame for frame in batch.frames if frame.surface_type in wanted]):
                    self._track_step(step, surfaces)
                if self.lists is not None:
                    self.lists.attach(batch)
        finally:
            # The memory must not be shared any more when the buffer goes downstream.
            surfaces.close()

    def _track_step(self, frames: Sequence[FrameMeta], surfaces: SurfaceBatch) -> None:
        """Track one frame of each of some streams, all in one pass."""
        seen = []
        for frame in frames:
            with _Blame(frame):
                found = self._read(frame, surfaces[frame.batch_id])
                if found is not None:
                    seen.append(found)
        if not seen:
            return
        given = self.streams.update([(one.tracker, one.rows, one.image) for one in seen])
        boxes = np.concatenate([one.rows.boxes for one in seen])
        counts = [len(one.rows.boxes) for one in seen]
        sizes = np.repeat([(one.surface.width, one.surface.height) for one in seen], counts, axis=0)
        rotation = np.concatenate([one.objects.rotation for one in seen])
        clipped, visible = clip(boxes, sizes.astype(np.float32), rotation)
        first = 0
        for one, ids, count in zip(seen, given, counts, strict=True):
            part = slice(first, first + count)
            with _Blame(one.frame):
                self._write(one, ids, clipped[part], visible[part])
                if self.lists is not None:
                    self.lists.observe(one.frame, one.tracker, one.rows, ids)
            first += count

    def _read(self, frame: FrameMeta, surface: Surface) -> _Seen | None:
        """Return what is to be tracked on a frame; one that the model did not see is dealt with here."""
        tracker = self.streams.of(frame.pad_index)
        self._counters.frames += 1
        self._counters.jumps += tracker.begin_frame(frame.buf_pts)
        objects = bulk.read_objects(frame)
        # A detector that is not Sluice's or NVIDIA's may leave bInferDone 0; objects tell that there was one.
        if not frame.infer_done and not len(objects):
            self._predict(frame, tracker, np.array([surface.width, surface.height], dtype=np.float32))
            return None
        # Objects are added at the front of the list: backwards is the order in which the detector wrote them.
        chosen = objects.rows[::-1]
        if self.policy.classes:
            chosen = chosen[np.isin(chosen["class_id"], list(self.policy.classes))]
        objects = bulk.Objects(chosen)
        return _Seen(frame, tracker, surface, objects, self._rows(frame, objects), self._image(frame, surface))

    def _rows(self, frame: FrameMeta, objects: bulk.Objects) -> Detected:
        confidences = objects.confidence
        with np.errstate(invalid="ignore"):
            hopeless = ~np.isfinite(confidences) | ~(np.abs(objects.boxes) <= _FARTHEST).all(axis=1)
        if hopeless.any():
            # They take part as nothing, since NaN is below every threshold.
            confidences = confidences.copy()
            confidences[hopeless] = np.nan
        most = self.policy.max_targets
        if most is not None and len(objects) > most:
            # nvtracker takes the first of the list, which are the last here; the others take part as nothing, since
            # NaN is below every threshold.
            confidences = confidences.copy()
            confidences[: len(objects) - most] = np.nan
        features = self._features(frame, objects) if self._uses_features else None
        return Detected(
            objects.boxes, confidences, objects.class_id, objects.unique_component_id, objects.labels, features
        )

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

    def _image(self, frame: FrameMeta, surface: Surface) -> npt.NDArray[np.uint8] | None:
        """Return the picture for an algorithm that reads pixels."""
        if self._pixels is None:
            return None
        frame_of = Frame(surface, stream=frame.pad_index, number=frame.frame_num, pts=frame.buf_pts)
        picture = frame_of.bgr() if self._pixels == "bgr" else frame_of.rgb()
        # A surface that is in this order already comes as a view; trackers may keep the picture until the next one.
        return picture if picture.flags.owndata else picture.copy()

    def _write(self, one: _Seen, ids: npt.NDArray[np.int64], clipped: FloatArray, visible: BoolArray) -> None:
        """Write the ids that the tracker gave, and remove what has none."""
        tracked = ids != UNTRACKED
        shown = tracked & visible
        addresses, boxes, confidences = one.objects.address, one.rows.boxes, one.objects.confidence
        bulk.update_tracked(
            one.frame,
            addresses[shown],
            ids[shown].astype(np.uint64),
            clipped[shown],
            boxes[shown],
            confidences[shown],
            show_ids=self.policy.show_ids,
        )
        gone = ~visible & tracked if self.policy.keep_unconfirmed else ~shown
        count = int(gone.sum())
        if count:
            bulk.remove_objects(one.frame, addresses[gone])
        self._counters.tracked += int(shown.sum())
        self._counters.removed += count

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
    clipped = np.concatenate([start, end - start], axis=1)
    # What is inside stays exactly as it was: left + width - left is not always width in floating point.
    clipped[rotated | inside] = boxes[rotated | inside]
    return clipped, rotated | (clipped[:, 2:] > 0).all(axis=1)


def _steps(frames: Sequence[FrameMeta]) -> Iterator[list[FrameMeta]]:
    """Yield the frames in groups with one frame of a stream at most: the first of each stream, the second ..."""
    groups: list[list[FrameMeta]] = []
    counted: dict[int, int] = {}
    for frame in frames:
        place = counted.get(frame.pad_index, 0)
        counted[frame.pad_index] = place + 1
        if place == len(groups):
            groups.append([])
        groups[place].append(frame)
    yield from groups


class _Blame:
    """Tells in an exception which stream and frame it is about."""

    def __init__(self, frame: FrameMeta) -> None:
        self._frame = frame

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            error.stream, error.frame = self._frame.pad_index, self._frame.frame_num  # type: ignore[attr-defined]
