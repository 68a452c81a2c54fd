"""What ``sluicetracker`` does with a buffer's frames: read the objects, track them, write what the tracker says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import gi

gi.require_version("Gst", "1.0")
import numpy as np
import numpy.typing as npt
from gi.repository import Gst

from sluice.contract import bulk
from sluice.contract.batching import NVMM_FEATURE, SURFACE_FEATURE, memory_feature
from sluice.contract.formats import FrameFormat
from sluice.contract.metadata import BatchMeta, FrameMeta, Lease
from sluice.contract.surface import Surface, SurfaceBatch
from sluice.errors import ContractError
from sluice.models.frame import Frame
from sluice.tracking import UNTRACKED, Detected, Predicted, Settings, StreamTracker, StreamTrackers, reads_pixels

if TYPE_CHECKING:
    from sluice.elements.tracker import Counters

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Policy:
    """Which objects are tracked and what becomes of the others.

    Attributes:
        classes: class ids to track; empty for all. Objects of other classes are left alone.
        keep_unconfirmed: keep tracked classes' objects that belong to no confirmed track, without an id.
        show_ids: append the id to the object's text.
    """

    classes: frozenset[int]
    keep_unconfirmed: bool
    show_ids: bool


class FrameTracking:
    """The trackers of an element at work on its buffers."""

    def __init__(self, streams: StreamTrackers, settings: Settings, policy: Policy, counters: Counters) -> None:
        """Work with these trackers; ``counters`` is added to."""
        self.streams = streams
        self._policy = policy
        self._counters = counters
        self._pixels = reads_pixels(settings.algorithm, settings.options)
        self._raw_format: FrameFormat | None = None

    def set_caps(self, caps: Gst.Caps) -> None:
        """Take the caps of the buffers that follow."""
        batched = memory_feature(caps) in (SURFACE_FEATURE, NVMM_FEATURE)
        self._raw_format = None if batched else FrameFormat.from_caps(caps)

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
                for frame in batch.frames:
                    self._track_frame(frame, surfaces)
        finally:
            # The memory must not be shared any more when the buffer goes downstream.
            surfaces.close()

    def _track_frame(self, frame: FrameMeta, surfaces: SurfaceBatch) -> None:
        try:
            self._track_on(frame, surfaces[frame.batch_id])
        except Exception as error:
            error.stream, error.frame = frame.pad_index, frame.frame_num  # type: ignore[attr-defined]
            raise

    def _track_on(self, frame: FrameMeta, surface: Surface) -> None:
        tracker = self.streams.of(frame.pad_index)
        self._counters.frames += 1
        self._counters.jumps += tracker.begin_frame(frame.buf_pts)
        objects = bulk.read_objects(frame)
        size = np.array([surface.width, surface.height], dtype=np.float32)
        # A detector that is not Sluice's or NVIDIA's may leave bInferDone 0; objects tell that there was one.
        if frame.infer_done or len(objects):
            self._update(frame, tracker, objects, size, self._image(frame, surface))
        else:
            self._predict(frame, tracker, size)

    def _image(self, frame: FrameMeta, surface: Surface) -> npt.NDArray[np.uint8] | None:
        """Return the picture for an algorithm that reads pixels."""
        if self._pixels is None:
            return None
        frame_of = Frame(surface, stream=frame.pad_index, number=frame.frame_num, pts=frame.buf_pts)
        picture = frame_of.bgr() if self._pixels == "bgr" else frame_of.rgb()
        # A surface that is in this order already comes as a view; trackers may keep the picture until the next one.
        return picture if picture.flags.owndata else picture.copy()

    def _update(
        self,
        frame: FrameMeta,
        tracker: StreamTracker,
        objects: bulk.Objects,
        size: FloatArray,
        image: npt.NDArray[np.uint8] | None,
    ) -> None:
        """Give the tracker the frame's objects, and write the ids it gives or remove the object."""
        # Objects are added at the front of the list: backwards is the order in which the detector wrote them.
        objects = bulk.Objects(objects.rows[::-1])
        if self._policy.classes:
            objects = bulk.Objects(objects.rows[np.isin(objects.class_id, list(self._policy.classes))])
        boxes, confidences, addresses = objects.boxes, objects.confidence, objects.address
        rows = Detected(boxes, confidences, objects.class_id, objects.unique_component_id, objects.labels)
        ids = tracker.update(rows, image)
        clipped, visible = clip(boxes, size, objects.rotation)
        tracked = ids != UNTRACKED
        shown = tracked & visible
        bulk.update_tracked(
            frame,
            addresses[shown],
            ids[shown].astype(np.uint64),
            clipped[shown],
            boxes[shown],
            confidences[shown],
            show_ids=self._policy.show_ids,
        )
        gone = ~visible & tracked if self._policy.keep_unconfirmed else ~shown
        bulk.remove_objects(frame, addresses[gone])
        self._counters.tracked += int(shown.sum())
        self._counters.removed += int(gone.sum())

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
            texts=shown if self._policy.show_ids else None,
        )


def clip(
    boxes: FloatArray, size: FloatArray, rotation: npt.NDArray[np.float32]
) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Cut boxes at the surface's edges, as nvtracker does.

    A rotated box is left as it is: cutting it before rotation would turn it into another shape.

    Args:
        boxes: float32 [N, 4], left, top, width, height in pixels of the surface.
        size: the surface's width and height.
        rotation: float32 [N], degrees.

    Returns:
        The boxes that downstream uses, float32 [N, 4], and bool [N]: whether anything of the box is on the surface.
    """
    start = np.clip(boxes[:, :2], 0, size)
    end = np.clip(boxes[:, :2] + boxes[:, 2:], 0, size)
    rotated = rotation != 0
    inside = (boxes[:, :2] >= 0).all(axis=1) & (boxes[:, :2] + boxes[:, 2:] <= size).all(axis=1)
    clipped = np.concatenate([start, end - start], axis=1)
    # What is inside stays exactly as it was: left + width - left is not always width in floating point.
    clipped[rotated | inside] = boxes[rotated | inside]
    return clipped, rotated | (clipped[:, 2:] > 0).all(axis=1)
