"""A buffer as a batch of frames: their pixels and their metadata side by side, whoever batched them, or nobody did.

`BatchReader` takes what a pad receives: a batch of ``nvstreammux`` or ``sluicemux``, with the metadata that the mux
made, or a single raw frame, which gets metadata of its own, written into the very buffer.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import gi
import numpy as np

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract import bulk, infer_meta
from sluice.contract.answer_meta import read_answers
from sluice.contract.batching import NVMM_FEATURE, SURFACE_FEATURE, memory_feature
from sluice.contract.formats import FrameFormat
from sluice.contract.metadata import UNTRACKED, BatchMeta, FrameMeta, Lease, ObjectMeta
from sluice.contract.surface import Surface, SurfaceBatch
from sluice.errors import ContractError
from sluice.models.attach import attach_batch
from sluice.models.detections import Detections
from sluice.models.frame import Frame, FrameObject

NO_TIME = Gst.CLOCK_TIME_NONE


class BatchReader:
    """Opens the buffers of one stream of buffers; made anew for every CAPS event.

    Args:
        caps: the caps of the buffers.
        gpu: the GPU that surfaces in GPU memory must be on; None for any.

    Raises:
        ContractError: caps that cannot be read, with what can.
    """

    def __init__(self, caps: Gst.Caps, gpu: int | None = None) -> None:
        self._caps = caps
        self._gpu = gpu
        self._raw = None if memory_feature(caps) in (NVMM_FEATURE, SURFACE_FEATURE) else FrameFormat.from_caps(caps)
        self._compared = False

    def metadata(self, buffer: Gst.Buffer, number: int, lease: Lease) -> list[FrameMeta]:
        """Return the metadata of the buffer's frames; a single raw frame without any gets a batch of one.

        Args:
            buffer: the buffer; it may be shared.
            number: the frame's number, used for a raw frame.
            lease: for how long the metadata may be used; the caller keeps the buffer alive until its end.

        Raises:
            ContractError: a batch came without metadata.
        """
        batch = BatchMeta.of(buffer, lease)
        if batch is None:
            if self._raw is None:
                raise ContractError(
                    f"a buffer with caps {self._caps.to_string()} carries no batch metadata; "
                    "put nvstreammux or sluicemux before this element"
                )
            batch = _attach_single(buffer, self._raw, number, lease)
        return batch.frames

    def open(self, buffer: Gst.Buffer, metas: Sequence[FrameMeta]) -> "Batch":
        """Open the frames of a buffer whose metadata `metadata` returned.

        Raises:
            ContractError: the surfaces do not fit the caps or the metadata, by name.
        """
        return Batch(metas, self.surfaces(buffer))

    def surfaces(self, buffer: Gst.Buffer) -> SurfaceBatch:
        """Return the surfaces of a buffer; raises as `open`, and for surfaces on another GPU."""
        if self._raw is not None:
            surfaces = SurfaceBatch.of_raw(buffer, self._raw)
        else:
            surfaces = SurfaceBatch.of(buffer, None if self._compared else self._caps)
            self._compared = True
        if self._gpu is not None and surfaces.mem_type.on_cuda and surfaces.gpu_id != self._gpu:
            raise ContractError(
                f"the surfaces are on GPU {surfaces.gpu_id}, and gpu-id is {self._gpu}; right is "
                f"gpu-id={surfaces.gpu_id}, or gpu-id={self._gpu} on the elements before this one"
            )
        return surfaces

    @contextmanager
    def lend(self, buffer: Gst.Buffer, number: int) -> "Iterator[Batch]":
        """Open the frames of a buffer for as long as a ``with`` block lasts; what is kept of them is stale afterwards.

        Args:
            buffer: the buffer; it may be shared.
            number: the frame's number, used for a raw frame that nobody gave metadata.

        Raises:
            ContractError: as `metadata` and `open`.
        """
        with Lease() as lease:
            batch = self.open(buffer, self.metadata(buffer, number, lease))
            try:
                yield batch
            finally:
                batch.release()


def _attach_single(buffer: Gst.Buffer, format: FrameFormat, number: int, lease: Lease) -> BatchMeta:
    """Attach a batch of one frame to a buffer that nobody batched."""
    row = np.zeros(1, bulk.FRAME_ROW)
    row["buf_pts"], row["frame_num"] = buffer.pts, number
    row["source_width"], row["source_height"] = format.width, format.height
    batch = BatchMeta.attach(buffer, 1, lease)
    bulk.fill_frames(batch, row)
    return batch


class OpenBatch:
    """What a model is to see of one buffer, while it is in the element; abstract.

    Attributes:
        metas: metadata of the buffer's frames.
        frames: what the model is given: the frames, or parts of them.
    """

    def __init__(self, metas: Sequence[FrameMeta], surfaces: SurfaceBatch, frames: list[Frame]) -> None:
        self._surfaces = surfaces
        self.metas = metas
        self.frames = frames

    def __len__(self) -> int:
        return len(self.frames)

    def attach(self, found: Sequence[Detections | None], labels: tuple[str, ...], unique_id: int) -> int:
        """Write what the model found, None where it failed, into the metadata; return the number of objects."""
        raise NotImplementedError

    def release(self) -> None:
        """End the hold on the pixels: their memory must not be shared when the buffer goes downstream."""
        for frame in self.frames:
            frame.release()
        self._surfaces.close()


class Batch(OpenBatch):
    """The frames of one buffer, in the order of `metas`."""

    def __init__(self, metas: Sequence[FrameMeta], surfaces: SurfaceBatch) -> None:
        super().__init__(metas, surfaces, [frame_of(meta, surfaces) for meta in metas])

    def attach(self, found: Sequence[Detections | None], labels: tuple[str, ...], unique_id: int) -> int:
        rows = [
            (meta, result, (frame.width, frame.height))
            for meta, frame, result in zip(self.metas, self.frames, found, strict=True)
            if result is not None
        ]
        return attach_batch(
            [meta for meta, _, _ in rows],
            [result for _, result, _ in rows],
            labels,
            unique_id,
            [size for *_, size in rows],
        )


def surface_of(meta: FrameMeta, surfaces: SurfaceBatch) -> Surface:
    """Return the surface of a frame: number ``batch_id`` of the batch.

    Raises:
        ContractError: there is no such surface.
    """
    index = meta.batch_id
    if index >= len(surfaces):
        raise ContractError(
            f"frame {meta.frame_num} of stream {meta.source_id} has batch_id {index}, "
            f"and the batch has {len(surfaces)} surfaces"
        )
    return surfaces[index]


def make_frame(meta: FrameMeta, surface: Surface, **more: Any) -> Frame:
    """Make a frame of a surface, or of a part of one, and its metadata; `more` goes to `Frame`."""
    pts = meta.buf_pts
    return Frame(
        surface,
        stream=meta.source_id,
        number=meta.frame_num,
        pts=None if pts == NO_TIME else pts,
        ntp_timestamp=meta.ntp_timestamp,
        **more,
    )


def frame_of(meta: FrameMeta, surfaces: SurfaceBatch) -> Frame:
    """Make the whole frame of one metadata, with the objects already on it.

    Raises:
        ContractError: the batch has no surface of that number.
    """
    objects = _objects(meta) if meta.num_objects else ()
    return make_frame(meta, surface_of(meta, surfaces), objects=objects, answers=read_answers(meta))


def _objects(meta: FrameMeta) -> Iterator[FrameObject]:
    """Yield the objects already on a frame, in the order in which they were added."""
    found = bulk.read_objects(meta)
    return (frame_object(meta, row, label) for row, label in zip(found.rows[::-1], reversed(found.labels), strict=True))


def frame_object(meta: FrameMeta, row: Any, label: str) -> FrameObject:
    """Return an object of `bulk.read_objects`, which is on this frame, as models see it."""
    left, top, width, height = row["box"].tolist()
    view = ObjectMeta(int(row["address"]), meta.lease, meta.provider)
    told = bool(view.user_metas)
    embeddings = infer_meta.embeddings(view) if told else ()
    keypoints = infer_meta.keypoints(view) if told else ()
    return FrameObject(
        id=None if (number := int(row["object_id"])) == UNTRACKED else number,
        label=label,
        class_id=int(row["class_id"]),
        score=float(row["confidence"]),
        xyxy=(left, top, left + width, top + height),
        angle=float(row["rotation"]),
        attributes={
            classifier.classifier_type or "": info.long_label or info.label
            for classifier in reversed(view.classifiers)
            for info in classifier.labels[:1]
        },
        embedding=embeddings[0].features if embeddings else None,
        keypoints=keypoints[0].points if keypoints else None,
    )
