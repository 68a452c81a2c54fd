"""``BatchMetadata`` and ``FrameMetadata``."""

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np

from sluice.contract.metadata import UNTRACKED, BatchMeta, DisplayMeta, FrameMeta, ObjectMeta
from sluice.pyservicemaker.base import Reading, Session, Wrapper, Writing, meta_types, of_type, refuse
from sluice.pyservicemaker.display import DisplayMetadata
from sluice.pyservicemaker.event_message import EventMessageUserMetadata, acquire_event_message
from sluice.pyservicemaker.objects import ObjectMetadata
from sluice.pyservicemaker.reid import ObjectReidUserMetadata, acquire_reid
from sluice.pyservicemaker.user import UserMetadata, acquired_user_meta, append_user_meta, check_acquired


class FrameMetadata(Wrapper[FrameMeta]):
    """One frame of a batch."""

    __slots__ = ()
    _shown = ("source_id", "frame_number", "batch_id", "buffer_pts")
    frame_number = Reading[FrameMeta, int](lambda view: view.frame_num, "Number of the frame in its source.")
    pad_index = Reading[FrameMeta, int](lambda view: view.pad_index, "Number of the mux's sink pad.")
    batch_id = Reading[FrameMeta, int](lambda view: view.batch_id, "Index of the frame's surface in the batch.")
    source_id = Reading[FrameMeta, int](lambda view: view.source_id, "Number of the source.")
    source_width = Reading[FrameMeta, int](lambda view: view.source_width, "Width before the mux in pixels.")
    source_height = Reading[FrameMeta, int](lambda view: view.source_height, "Height before the mux in pixels.")
    pipeline_width = Reading[FrameMeta, int](lambda view: view.pipeline_width, "Width the mux scaled to, or 0.")
    pipeline_height = Reading[FrameMeta, int](lambda view: view.pipeline_height, "Height the mux scaled to, or 0.")
    buffer_pts = Reading[FrameMeta, int](lambda view: view.buf_pts, "Timestamp of the source's buffer in ns.")
    ntp_timestamp = Reading[FrameMeta, int](lambda view: view.ntp_timestamp, "Wall-clock time in ns since 1970.")
    infer_done = Writing[FrameMeta, bool](
        "infer_done", bool, "``bInferDone``: whether a detector saw this frame. Only in Sluice."
    )

    @property
    def object_items(self) -> Iterator[ObjectMetadata]:
        """The objects, the last added first."""
        return self._items(ObjectMetadata, self._need().objects)

    @property
    def tensor_items(self) -> Iterator[UserMetadata]:
        """Raw outputs of networks; cast with ``as_tensor_output``."""
        return self._of_type("NVDSINFER_TENSOR_OUTPUT_META")

    @property
    def segmentation_items(self) -> Iterator[UserMetadata]:
        """The class of each pixel; cast with ``as_segmentation``."""
        return self._of_type("NVDSINFER_SEGMENTATION_META")

    @property
    def nvdsanalytics_frame_items(self) -> Iterator[UserMetadata]:
        """Findings of nvdsanalytics; cast with ``as_nvdsanalytics_frame``."""
        return self._of_type("NVDS_FRAME_META_NVDSANALYTICS")

    def user_meta_items(self, meta_type: int) -> Iterator[UserMetadata]:
        """Return the user metas of one type, the last added first."""
        return self._items(UserMetadata, of_type(self._need().user_metas, meta_type))

    def append(self, meta: DisplayMetadata | ObjectMetadata | UserMetadata, /) -> None:
        """Put acquired metadata on this frame, at the front. An object keeps the ``parent`` it was given.

        NVIDIA's package takes no user metas here but event messages.

        Raises:
            TypeError: not such metadata.
            ApiError: it is on a frame already, or not of this batch.
        """
        view, caller = self._need(), "FrameMetadata.append"
        if isinstance(meta, UserMetadata):
            append_user_meta(self, meta, view.provider.add_user_to_frame, caller)
            return
        if not isinstance(meta, DisplayMetadata | ObjectMetadata):
            refuse(caller, meta, "DisplayMetadata, ObjectMetadata or UserMetadata")
        check_acquired(self, meta, caller)
        item = meta._need()
        if isinstance(item, ObjectMeta):
            parent = item.parent
            view.provider.add_object(view.address, item.address, parent.address if parent else 0)
        else:
            view.provider.add_display(view.address, item.address)
        self._owner().appended(item)

    def _of_type(self, name: str) -> Iterator[UserMetadata]:
        return self.user_meta_items(meta_types(self._need())[name])


class BatchMetadata(Wrapper[BatchMeta]):
    """The metadata of a batch of frames; without frames where the buffer carries none.

    What is acquired and never appended goes back to its pool when the buffer's wrappers are gone.
    """

    __slots__ = ()
    _shown = ("n_frames",)
    _absent = "the buffer carries no batch metadata; a mux makes it"

    @property
    def n_frames(self) -> int:
        """Number of frames; 0 without metadata."""
        return 0 if self._view is None else self._need().num_frames

    @property
    def is_audio(self) -> bool:
        """Whether it is a batch of audio frames, which have other metadata."""
        return self._view is not None and self._meta_type() == meta_types(self._view)["NVDS_AUDIO_BATCH_META"]

    @property
    def frame_items(self) -> Iterator[FrameMetadata] | list[FrameMetadata]:
        """The frames in batch order; an empty list without metadata and for audio."""
        return [] if self._view is None or self.is_audio else self._items(FrameMetadata, self._need().frames)

    @property
    def preprocess_batch_items(self) -> Iterator[UserMetadata] | list[UserMetadata]:
        """What nvdspreprocess prepared; cast with ``as_preprocess_batch``."""
        if self._view is None:
            return []
        return self.user_meta_items(meta_types(self._view)["NVDS_PREPROCESS_BATCH_META"])

    def user_meta_items(self, meta_type: int) -> Iterator[UserMetadata]:
        """Return the batch's own user metas of one type, in the order they were added."""
        return self._items(UserMetadata, of_type(self._need().user_metas, meta_type))

    def acquire_display_meta(self) -> DisplayMetadata:
        """Return empty display metadata to fill and append to a frame."""
        view, session = self._acquirable()
        element = view.provider.acquire_display(view.address)
        item = DisplayMeta(element, session.lease, view.provider)
        session.acquired(item)
        return DisplayMetadata._wrap(item, session)

    def acquire_object_meta(self) -> ObjectMetadata:
        """Return an object, empty but for an untracked id, to fill and append to a frame."""
        view, session = self._acquirable()
        item = ObjectMeta(view.provider.acquire_object(view.address), session.lease, view.provider)
        item.object_id = UNTRACKED
        session.acquired(item)
        return ObjectMetadata._wrap(item, session)

    def acquire_user_meta(self) -> UserMetadata:
        """Return an empty user meta to fill and append to an object, a frame or this batch."""
        return acquired_user_meta(UserMetadata, self._acquirable()[1])

    def acquire_event_message_meta(self) -> EventMessageUserMetadata:
        """Return an empty event message to `generate` and append to a frame."""
        return acquire_event_message(self._acquirable()[1])

    def acquire_obj_reid_meta(self) -> ObjectReidUserMetadata:
        """Return empty re-identification features to fill and append to an object."""
        return acquire_reid(self._acquirable()[1])

    def append(self, meta: UserMetadata, /) -> None:
        """Put an acquired user meta on the batch, at the end.

        Raises:
            TypeError: not a user meta.
            ApiError: it is on something already, or not of this batch.
        """
        append_user_meta(self, meta, self._need().provider.add_user_to_batch, "BatchMetadata.append")

    def extract(self, max_items: int) -> list[dict[str, Any] | None]:
        """Return the batch as plain values, one dict per source at the place of its ``pad_index``, None without frame.

        Keys: ``shape`` [height, width] of the surface, ``bboxes`` [[left, top, right, bottom]] in its whole pixels,
        ``probs``, ``labels`` (a list per object: its label, then its classifiers'), ``objects`` (ids, narrowed to 32
        bits as in NVIDIA's package), ``seg_maps`` (int32 arrays: objects' masks, then classes of pixels),
        ``timestamp`` in ns. Frames whose ``pad_index`` is `max_items` or more are left out.
        """
        found: list[dict[str, Any] | None] = [None] * max_items
        for frame in self.frame_items:
            if frame.pad_index < max_items:
                found[frame.pad_index] = _extract_frame(frame)
        return found

    def _acquirable(self) -> tuple[BatchMeta, Session]:
        view = self._need()
        if self.is_audio:
            raise TypeError("a batch of audio frames has no such metadata")
        return view, self._owner()

    def _meta_type(self) -> int:
        view = self._need()
        return ctypes.c_int32.from_address(view.address + view.provider.layout.offset("NvDsBaseMeta.meta_type")).value


def _extract_frame(frame: FrameMetadata) -> dict[str, Any]:
    items = frame._need().objects
    maps = [(mask >= item.mask_threshold).astype(np.int32) for item in items if (mask := item.mask) is not None]
    return {
        "shape": [frame.pipeline_height or frame.source_height, frame.pipeline_width or frame.source_width],
        "bboxes": [_corners(item) for item in items],
        "probs": [item.confidence for item in items],
        "labels": [_labels(item) for item in items],
        "objects": [int(np.uint64(item.object_id).astype(np.int32)) for item in items],
        "seg_maps": maps + [user.as_segmentation().class_map for user in frame.segmentation_items],
        "timestamp": frame.buffer_pts,
    }


def _corners(item: ObjectMeta) -> list[int]:
    left, top, width, height = item.box
    return [int(left), int(top), int(left + width), int(top + height)]


def _labels(item: ObjectMeta) -> list[str]:
    return [item.label, *(label.long_label or label.label for c in item.classifiers for label in c.labels)]
