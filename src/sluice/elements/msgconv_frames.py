"""What ``sluicemsgconv`` does with a buffer's frames: read their metadata, and attach the messages made of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract import bulk, infer_meta, user_meta
from sluice.contract.batching import NVMM_FEATURE, SURFACE_FEATURE, memory_feature
from sluice.contract.metadata import BatchMeta, FrameMeta, Lease, ObjectMeta
from sluice.contract.structures import required_structure
from sluice.contract.surface import SurfaceBatch
from sluice.errors import ContractError
from sluice.messages import Attribute, FrameRecord, Numbers, ObjectRecord, Per, attach_payloads, messages


@dataclass
class Counters:
    """What the element did since it was started; see the property ``stats``."""

    frames: int = 0
    messages: int = 0
    skipped: int = 0


class Conversion:
    """Makes messages of frames; one per start of the element."""

    def __init__(
        self, per: Per, *, empty_frames: bool, frame_interval: int, component_id: int, embeddings: bool = False
    ) -> None:
        """Convert by the element's properties of the same names."""
        self.counters = Counters()
        self._per = per
        self._empty_frames = empty_frames
        self._frame_interval = frame_interval
        self._component_id = component_id
        self._embeddings = embeddings
        # Size of all frames, where the caps and not the surfaces tell it.
        self._size: tuple[int, int] | None = None

    def set_caps(self, caps: Gst.Caps) -> None:
        """Take the caps of the buffers that follow."""
        structure = required_structure(caps, 0)
        batched = structure.get_name() == "video/x-raw" and memory_feature(caps) in (SURFACE_FEATURE, NVMM_FEATURE)
        _, width = structure.get_int("width")
        _, height = structure.get_int("height")
        self._size = None if batched else (width, height)

    def convert(self, buffer: Gst.Buffer) -> None:
        """Attach messages to the frames of a buffer.

        Raises:
            ContractError: the buffer carries no batch metadata.
        """
        with Lease() as lease:
            batch = BatchMeta.of(buffer, lease)
            if batch is None:
                raise ContractError(
                    "the buffer carries no batch metadata; sluicemux or sluiceinfer must stand before sluicemsgconv"
                )
            sizes = self._sizes(buffer)
            for frame in batch.frames:
                self._convert_frame(frame, sizes)

    def _sizes(self, buffer: Gst.Buffer) -> list[tuple[int, int]] | None:
        """Return the size of each surface, or None when the caps tell the size."""
        if self._size is not None:
            return None
        surfaces = SurfaceBatch.of(buffer)
        sizes = [(surface.width, surface.height) for surface in surfaces]
        surfaces.close()
        return sizes

    def _convert_frame(self, frame: FrameMeta, sizes: list[tuple[int, int]] | None) -> None:
        self.counters.frames += 1
        made: list[bytes] = []
        if frame.frame_num % self._frame_interval == 0:
            size = sizes[frame.batch_id] if sizes is not None else self._size or (0, 0)
            made = list(messages(self._read(frame, size), self._per, empty_frames=self._empty_frames))
            attach_payloads(frame, made, self._component_id)
        self.counters.messages += len(made)
        self.counters.skipped += not made

    def _read(self, frame: FrameMeta, size: tuple[int, int]) -> FrameRecord:
        return read_frame(frame, size, embeddings=self._embeddings)


def read_frame(frame: FrameMeta, size: tuple[int, int], *, embeddings: bool = False) -> FrameRecord:
    """Return what a message tells of a frame; its objects in the order in which they were added.

    Args:
        frame: the frame, under a valid lease.
        size: width and height of its surface in pixels.
        embeddings: whether to tell the objects' embeddings.
    """
    # Objects are added at the front of the list: backwards is the order in which the detector wrote them.
    rows = bulk.read_objects(frame).rows[::-1]
    places = {int(address): place for place, address in enumerate(rows["address"])}
    return FrameRecord(
        stream=frame.pad_index,
        number=frame.frame_num,
        pts=frame.buf_pts,
        ntp=frame.ntp_timestamp,
        width=size[0],
        height=size[1],
        source_width=frame.source_width,
        source_height=frame.source_height,
        inferred=frame.infer_done,
        objects=[_object(row, frame, places, embeddings) for row in rows],
        user=_user_values(frame),
    )


def _object(row: Any, frame: FrameMeta, places: dict[int, int], embeddings: bool) -> ObjectRecord:
    view = ObjectMeta(int(row["address"]), frame.lease, frame.provider)
    told = bool(view.user_metas)
    return ObjectRecord(
        id=int(row["object_id"]),
        label=row["label"].decode("utf-8", "replace"),
        class_id=int(row["class_id"]),
        confidence=float(row["confidence"]),
        component=int(row["unique_component_id"]),
        box=row["box"],
        angle=float(row["rotation"]),
        parent=places.get(int(row["parent"])),
        attributes=[
            Attribute(
                classifier.classifier_type or "",
                label.long_label or label.label,
                label.class_id,
                label.probability,
            )
            for classifier in reversed(view.classifiers)
            for label in reversed(classifier.labels)
        ],
        keypoints=[Numbers(found.component, found.points) for found in infer_meta.keypoints(view)] if told else (),
        embeddings=[Numbers(found.component, found.features) for found in infer_meta.embeddings(view)]
        if told and embeddings
        else (),
        user=_user_values(view) if told else (),
    )


def _user_values(owner: FrameMeta | ObjectMeta) -> list[Any]:
    """Return the texts that the program attached, in the order of attaching; JSON texts as their values."""
    texts = [
        user_meta.payload(user) for user in reversed(owner.user_metas) if user_meta.kind_of(user) is user_meta.Kind.TEXT
    ]
    return [_json_or_text(text) for text in texts]


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_number)
    except ValueError:
        return text


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
