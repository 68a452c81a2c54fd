"""A buffer as a batch of frames: their pixels and their metadata side by side, whoever batched them, or nobody did.

`BatchReader` takes what a pad receives: a batch of ``nvstreammux`` or ``sluicemux``, with the metadata that the mux
made, or a single raw frame, which gets metadata of its own, written into the very buffer.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract import bulk, gstref, infer_meta
from sluice.contract.answer_meta import read_answers
from sluice.contract.batching import NVMM_FEATURE, SURFACE_FEATURE, memory_feature
from sluice.contract.formats import FrameFormat
from sluice.contract.frame_rows import FrameRow, open_frames, read_frames
from sluice.contract.metadata import UNTRACKED, FrameMeta, Lease, ObjectMeta
from sluice.contract.surface import Surface, SurfaceBatch
from sluice.errors import ContractError
from sluice.models.attach import attach_batch
from sluice.models.detections import Detections
from sluice.models.frame import Frame, FrameObject, SurfaceAt

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
        return self.read(gstref.buffer_address(buffer), number, lease)[0]

    def read(self, buffer: int, number: int, lease: Lease) -> tuple[list[FrameMeta], list[FrameRow]]:
        """As `metadata` for the buffer at an address, with the frames' rows besides."""
        single = None if self._raw is None else (number, self._raw.width, self._raw.height)
        found = open_frames(buffer, lease, single)
        if found is None:
            raise ContractError(
                f"a buffer with caps {self._caps.to_string()} carries no batch metadata; "
                "put nvstreammux or sluicemux before this element"
            )
        return found

    def open(self, buffer: Gst.Buffer, metas: Sequence[FrameMeta]) -> "Batch":
        """Open the frames of a buffer whose metadata `metadata` returned.

        Raises:
            ContractError: the surfaces do not fit the caps or the metadata, by name.
        """
        return Batch(metas, self.surfaces(buffer))

    def surfaces(self, buffer: Gst.Buffer) -> SurfaceBatch:
        """Return the surfaces of a buffer; raises as `open`, and for surfaces on another GPU."""
        return self.surfaces_at(gstref.buffer_address(buffer))

    def surfaces_at(self, buffer: int, *, lent: bool = False) -> SurfaceBatch:
        """`surfaces` for the buffer at an address.

        With `lent` the caller keeps the buffer alive until the surfaces are closed, which costs less.
        """
        if self._raw is not None:
            surfaces = SurfaceBatch.at_raw(buffer, self._raw, lent=lent)
        else:
            surfaces = SurfaceBatch.at(buffer, None if self._compared else self._caps, lent=lent)
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

    def __init__(
        self, metas: Sequence[FrameMeta], surfaces: SurfaceBatch, rows: Sequence[FrameRow] | None = None
    ) -> None:
        super().__init__(metas, surfaces, frames_of(metas, surfaces, rows))

    def attach(self, found: Sequence[Detections | None], labels: tuple[str, ...], unique_id: int) -> int:
        rows = [
            (meta, result, (frame.width, frame.height))
            for meta, frame, result in zip(self.metas, self.frames, found, strict=True)
            if result is not None
        ]
        if not rows:
            return 0
        metas, results, sizes = zip(*rows, strict=True)
        return attach_batch(metas, results, labels, unique_id, sizes)


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
    """Make the whole frame of one metadata, see `frames_of`."""
    return frames_of([meta], surfaces)[0]


def frames_of(
    metas: Sequence[FrameMeta], surfaces: SurfaceBatch, rows: Sequence[FrameRow] | None = None
) -> list[Frame]:
    """Make the whole frames of a batch, with the objects and answers already on them.

    Args:
        metas: the frames' metadata.
        surfaces: the batch's surfaces.
        rows: what was read of the metadata; None: it is read now.

    Raises:
        ContractError: the batch has no surface of a frame's number.
    """
    frames = []
    for meta, row in zip(metas, read_frames(metas) if rows is None else rows, strict=True):
        if row.batch_id >= len(surfaces):
            surface_of(meta, surfaces)  # which says so
        frames.append(
            Frame(
                SurfaceAt(surfaces, row.batch_id),
                stream=row.source_id,
                number=row.number,
                pts=None if row.pts == NO_TIME else row.pts,
                ntp_timestamp=row.ntp,
                objects=_objects(meta) if row.has_objects else (),
                answers=read_answers(meta) if row.has_user_metas else (),
            )
        )
    return frames


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
