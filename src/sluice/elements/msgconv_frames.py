"""What ``sluicemsgconv`` does with a buffer's frames: read their metadata, and attach the messages made of it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gi

gi.require_version("Gst", "1.0")
import numpy as np
import numpy.typing as npt
from gi.repository import Gst

from sluice.contract import bulk, infer_meta, user_meta
from sluice.contract.answer_meta import ANSWER, read_answers
from sluice.contract.capture import capture_time_from
from sluice.contract.metadata import BatchMeta, FrameMeta, Lease, ObjectMeta
from sluice.contract.structures import required_structure
from sluice.elements.surface_sizes import SurfaceSizes
from sluice.errors import ConfigurationError, ContractError
from sluice.messages import Attribute, FrameRecord, Numbers, ObjectRecord, Per, Shares, attach_payloads, messages
from sluice.messages.deepstream import DeepStreamMessages
from sluice.messages.deepstream_config import Configuration
from sluice.messages.deepstream_full import analytics_members, place_members, sensor_members
from sluice.messages.plain import NO_MEMBERS, Outcome, StreamMembers, attach_plain
from sluice.messages.schema import Mask

_COLUMNS = (
    "address",
    "parent",
    "object_id",
    "class_id",
    "unique_component_id",
    "confidence",
    "box",
    "rotation",
    "label",
)
"""Columns of `bulk.read_objects` that messages tell."""


@dataclass
class Counters:
    """What the element did since it was started; see the property ``stats``."""

    frames: int = 0
    messages: int = 0
    skipped: int = 0


Maker = Callable[[FrameMeta, tuple[int, int]], list[bytes]]
"""Makes the messages of a frame, given the size of its surface, in the order in which readers shall find them."""


class Conversion:
    """Makes messages of frames and attaches them; one per start of the element."""

    def __init__(
        self,
        maker: Maker,
        *,
        frame_interval: int,
        component_id: int,
        needs_sizes: bool,
        on_made: Callable[[Sequence[bytes]], None] | None = None,
        plain: bool = False,
        empty_frames: bool = True,
    ) -> None:
        """Convert by the element's properties of the same names.

        Args:
            maker: makes the messages.
            frame_interval: see the property.
            component_id: written to the messages.
            needs_sizes: whether the maker needs the size of a frame's surface; otherwise it is given zeros.
            on_made: told the messages of each frame that has some.
            plain: whether `attach_plain` makes the maker's messages where it can.
            empty_frames: of those, whether frames without objects have one.
        """
        self.counters = Counters()
        self._maker = maker
        self._frame_interval = frame_interval
        self._component_id = component_id
        self._needs_sizes = needs_sizes
        self._on_made = on_made
        self._plain = plain and on_made is None
        self._empty_frames = empty_frames
        self._sizes: SurfaceSizes | None = None
        self._members = NO_MEMBERS

    def set_members(self, members: Mapping[int, Mapping[str, Any]]) -> None:
        """Tell these members of each stream, by its number, from the next frame on; for `attach_plain`."""
        self._members = StreamMembers(members)

    def set_caps(self, caps: Gst.Caps) -> None:
        """Take the caps of the buffers that follow.

        Raises:
            ConfigurationError: they are of lidar data, whose messages are not made.
        """
        structure = required_structure(caps, 0)
        if "ds3d" in structure.get_name():
            raise ConfigurationError(f"sluicemsgconv makes no messages of {structure.get_name()}; nvmsgconv does")
        self._sizes = SurfaceSizes(caps, from_surfaces=self._needs_sizes)

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
            if self._sizes is None:
                raise ContractError("a buffer came before its caps")
            sizes = self._sizes.table(buffer, batch.max_frames)
            if not self._plain:
                left = batch.frames
            elif not (left := self._attach_plain(batch, sizes)):
                return
            common, every = self._sizes.common, sizes.tolist()
            for frame in left:
                self._convert_frame(frame, common or every[frame.batch_id])

    def _attach_plain(self, batch: BatchMeta, sizes: npt.NDArray[np.uint32]) -> list[FrameMeta]:
        """Make the messages that need no Python and return the frames that are left."""
        outcomes = attach_plain(
            batch,
            sizes,
            frame_interval=self._frame_interval,
            empty_frames=self._empty_frames,
            component_id=self._component_id,
            members=self._members,
        )
        counted = np.bincount(outcomes, minlength=len(Outcome)).tolist()
        self.counters.frames += len(outcomes) - counted[Outcome.LEFT]
        self.counters.messages += counted[Outcome.TOLD]
        self.counters.skipped += counted[Outcome.NOT_DUE] + counted[Outcome.EMPTY]
        if not counted[Outcome.LEFT]:
            return []
        return [frame for frame, left in zip(batch.frames, outcomes == Outcome.LEFT, strict=True) if left]

    def _convert_frame(self, frame: FrameMeta, size: Sequence[int]) -> None:
        self.counters.frames += 1
        made: list[bytes] = []
        if frame.frame_num % self._frame_interval == 0:
            width, height = size
            made = self._maker(frame, (width, height))
            attach_payloads(frame, made, self._component_id)
        self.counters.messages += len(made)
        self.counters.skipped += not made
        if made and self._on_made is not None:
            self._on_made(made)


def deepstream_maker(source: DeepStreamMessages) -> Maker:
    """Return the maker of DeepStream's messages.

    nvmsgconv adds each message at the front of the frame's list, where the last one made is then found first.
    """
    return lambda frame, _size: source.messages(frame)[::-1]


class SluiceMessages:
    """Makes messages of Sluice's own schema."""

    def __init__(
        self,
        per: Per,
        *,
        empty_frames: bool,
        embeddings: bool = False,
        masks: bool = False,
        configuration: Configuration | None = None,
    ) -> None:
        """Convert by the element's properties of the same names."""
        self._per = per
        self._empty_frames = empty_frames
        self._embeddings = embeddings
        self._masks = masks
        self._configuration = configuration or Configuration()
        self._members: Mapping[int, Mapping[str, Any]] = {}
        self._about: dict[int, dict[str, Any]] = {}

    def set_members(self, members: Mapping[int, Mapping[str, Any]]) -> None:
        """Tell these members of each stream, by its number, from the next frame on."""
        self._members = members
        self._about = {}

    def messages(self, frame: FrameMeta, size: tuple[int, int]) -> list[bytes]:
        """Return the messages of a frame, whose surface has a size in pixels."""
        record = read_frame(frame, size, embeddings=self._embeddings, masks=self._masks)
        known, source = self._about, frame.source_id
        if source not in known:
            known[source] = {**self._members.get(frame.pad_index, {}), **described(self._configuration, source)}
        return list(messages(record, self._per, empty_frames=self._empty_frames, about=known[source]))


def described(configuration: Configuration, source: int) -> dict[str, Any]:
    """Return what a configuration tells of a source, in the words of DeepStream's full schema."""
    about: dict[str, Any] = {}
    if source in configuration.sensors:
        about["sensor"] = sensor_members(configuration.sensors[source])
    if source in configuration.places:
        about["place"] = place_members(configuration.places[source], "place-sub-field")
    if source in configuration.analytics:
        about["analytics"] = analytics_members(configuration.analytics[source])
    return about


def read_frame(
    frame: FrameMeta, size: tuple[int, int], *, embeddings: bool = False, masks: bool = False
) -> FrameRecord:
    """Return what a message tells of a frame; its objects in the order in which they were added.

    Args:
        frame: the frame, under a valid lease.
        size: width and height of its surface in pixels.
        embeddings: whether to tell the objects' embeddings.
        masks: whether to tell the objects' masks.
    """
    # Objects are added at the front of the list: backwards is the order in which the detector wrote them.
    rows = bulk.read_objects(frame).rows[::-1]
    places = {address: place for place, address in enumerate(rows["address"].tolist())}
    columns = [rows[name].tolist() for name in _COLUMNS]
    return FrameRecord(
        stream=frame.pad_index,
        number=frame.frame_num,
        pts=frame.buf_pts,
        ntp=frame.ntp_timestamp,
        ntp_from=capture_time_from(frame),
        width=size[0],
        height=size[1],
        source_width=frame.source_width,
        source_height=frame.source_height,
        inferred=frame.infer_done,
        objects=[_object(row, frame, places, embeddings, masks) for row in zip(*columns, strict=True)],
        answers=read_answers(frame),
        user=_user_values(frame),
        **_of_picture(frame, embeddings),
    )


def _object(row: Any, frame: FrameMeta, places: dict[int, int], embeddings: bool, masks: bool) -> ObjectRecord:
    address, parent, object_id, class_id, component, confidence, box, rotation, label = row
    view = ObjectMeta(address, frame.lease, frame.provider)
    told = bool(view.user_metas)
    return ObjectRecord(
        id=object_id,
        label=label.decode("utf-8", "replace"),
        class_id=class_id,
        confidence=confidence,
        component=component,
        box=box,
        angle=rotation,
        parent=places.get(parent) if parent else None,
        attributes=_attributes(view),
        mask=_mask(view) if masks else None,
        user=_user_values(view) if told else (),
        **(_of_picture(view, embeddings) if told else {}),
    )


def _of_picture(owner: FrameMeta | ObjectMeta, embeddings: bool) -> dict[str, Any]:
    """Key points, embeddings where they are asked for, and shares of class maps of a frame or an object."""
    maps = infer_meta.segmentations(owner, probabilities=False)
    return {
        "keypoints": [Numbers(found.component, found.points) for found in infer_meta.keypoints(owner)],
        "embeddings": [Numbers(found.component, found.features) for found in infer_meta.embeddings(owner)]
        if embeddings
        else (),
        "segmentations": [Shares.of(found.component, found.class_map) for found in maps],
    }


def _attributes(view: ObjectMeta) -> Sequence[Attribute]:
    return [
        Attribute(classifier.classifier_type or "", label.long_label or label.label, label.class_id, label.probability)
        for classifier in reversed(view.classifiers)
        for label in reversed(classifier.labels)
    ]


def _mask(view: ObjectMeta) -> Mask | None:
    values = view.mask
    return None if values is None else Mask.of(values > view.mask_threshold)


def _user_values(owner: FrameMeta | ObjectMeta) -> list[Any]:
    """Return the texts that the program attached, in the order of attaching; JSON texts as their values."""
    answer = owner.provider.user_meta_type(ANSWER)
    texts = [
        user_meta.payload(user)
        for user in reversed(owner.user_metas)
        if user_meta.kind_of(user) is user_meta.Kind.TEXT and user.meta_type != answer
    ]
    return [_json_or_text(text) for text in texts]


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except (ValueError, RecursionError):
        return text


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    """Read a number; one beyond a double's range, such as 1e999, could not be written again."""
    value = float(text)
    return value if math.isfinite(value) else _no_number(text)
