"""What a tracker tells of targets beside the objects of a frame: past frames, shadow tracks and terminated tracks.

User metas of a batch with NVIDIA's types and struct (``NvDsTargetMiscDataBatch``), so that readers made for nvtracker
read them: ``NVDS_TRACKER_PAST_FRAME_META`` (15), ``NVDS_TRACKER_TERMINATED_LIST_META`` (18),
``NVDS_TRACKER_SHADOW_LIST_META`` (19). They are copied and released by C functions without the GIL.
"""

import ctypes
import enum
from collections.abc import Sequence
from dataclasses import dataclass

from sluice.contract._locked import call
from sluice.contract._views import cut_label
from sluice.contract.metadata import BatchMeta
from sluice.contract.user_meta import find
from sluice.errors import ContractError

_MAX_LABEL = 128
_MOST = 0xFFFFFFFF


class TargetList(enum.Enum):
    """Which list; the value is the name of its meta type."""

    PAST_FRAMES = "NVDS_TRACKER_PAST_FRAME_META"
    TERMINATED = "NVDS_TRACKER_TERMINATED_LIST_META"
    SHADOW = "NVDS_TRACKER_SHADOW_LIST_META"


class TrackerState(enum.IntEnum):
    """TRACKER_STATE of nvds_tracker_meta.h."""

    EMPTY = 0
    ACTIVE = 1
    INACTIVE = 2
    TENTATIVE = 3
    PROJECTED = 4
    QUASIACTIVE = 5


@dataclass(frozen=True, slots=True)
class TargetFrame:
    """A target on one frame.

    Attributes:
        number: the frame's number.
        box: left, top, width, height in pixels of the surface, not clipped.
        confidence: of the detection, or of the last one before.
        age: frames since the target's first detection.
        state: what it was on that frame.
    """

    number: int
    box: tuple[float, float, float, float]
    confidence: float
    age: int
    state: TrackerState


@dataclass(frozen=True, slots=True)
class Target:
    """A tracked object: its id, class (-1 becomes 65535), label (127 bytes of it) and frames."""

    id: int
    class_id: int
    label: str
    frames: Sequence[TargetFrame]


@dataclass(frozen=True, slots=True)
class TargetStream:
    """The targets of one stream, by its ``pad_index``."""

    stream: int
    targets: Sequence[Target]


class _Frame(ctypes.Structure):
    """NvDsTargetMiscDataFrame; the box is an NvOSD_RectParams, which begins with left, top, width, height."""

    _fields_ = (
        ("number", ctypes.c_uint32),
        ("padding", ctypes.c_uint32),
        ("box", ctypes.c_float * 4),
        ("rest_of_box", ctypes.c_uint8 * 96),
        ("confidence", ctypes.c_float),
        ("age", ctypes.c_uint32),
        ("state", ctypes.c_int32),
        ("visibility", ctypes.c_float),
        ("world_feet", ctypes.c_float * 2),
    )


class _Object(ctypes.Structure):
    """NvDsTargetMiscDataObject."""

    _fields_ = (
        ("list", ctypes.POINTER(_Frame)),
        ("count", ctypes.c_uint32),
        ("allocated", ctypes.c_uint32),
        ("id", ctypes.c_uint64),
        ("class_id", ctypes.c_uint16),
        ("label", ctypes.c_char * _MAX_LABEL),
    )


class _Stream(ctypes.Structure):
    """NvDsTargetMiscDataStream."""

    _fields_ = (
        ("list", ctypes.POINTER(_Object)),
        ("stream", ctypes.c_uint32),
        ("surface_stream", ctypes.c_uint64),
        ("allocated", ctypes.c_uint32),
        ("count", ctypes.c_uint32),
    )


class _Batch(ctypes.Structure):
    """NvDsTargetMiscDataBatch."""

    _fields_ = (
        ("list", ctypes.POINTER(_Stream)),
        ("allocated", ctypes.c_uint32),
        ("count", ctypes.c_uint32),
        ("private", ctypes.c_void_p),
    )


def attach_targets(batch: BatchMeta, kind: TargetList, streams: Sequence[TargetStream]) -> None:
    """Put a list of targets on a batch.

    Args:
        batch: the batch.
        kind: which list.
        streams: its contents, perhaps none; copied.

    Raises:
        ContractError: a number has no place in its field; nothing was written.
        StaleBufferError: the batch's lease has ended.
    """
    table = (_Stream * max(1, len(streams)))()
    for entry, stream in zip(table, streams, strict=False):
        objects = (_Object * max(1, len(stream.targets)))()
        for place, target in zip(objects, stream.targets, strict=False):
            _fill(place, target)
        entry.list, entry.stream, entry.count = (
            objects,
            _fitting("a stream's number", stream.stream),
            len(stream.targets),
        )
        # nvtracker's key of a stream is its pad and its surface, of which there is one here.
        entry.surface_stream = stream.stream << 32
    lists = _Batch(list=table, count=len(streams))
    number = batch.provider.layout.enum("NvDsMetaType")[kind.value]
    call("sluice_attach_target_lists", True, batch.provider.block, batch.address, number, ctypes.byref(lists))


def read_targets(batch: BatchMeta, kind: TargetList) -> list[TargetStream]:
    """Copy all lists of a kind on a batch, whoever wrote them.

    Raises:
        StaleBufferError: the batch's lease has ended.
    """
    number = batch.provider.layout.enum("NvDsMetaType")[kind.value]
    found: list[TargetStream] = []
    for user in find(batch, number):
        lists = _Batch.from_address(user.data)
        for stream in lists.list[: lists.count]:
            found.append(TargetStream(stream.stream, [_target(item) for item in stream.list[: stream.count]]))
    return found


def _fill(place: _Object, target: Target) -> None:
    frames = (_Frame * max(1, len(target.frames)))()
    for entry, frame in zip(frames, target.frames, strict=False):
        entry.number, entry.age = _fitting("a frame's number", frame.number), _fitting("an age", frame.age)
        entry.box[:] = frame.box
        entry.confidence, entry.state = frame.confidence, frame.state
    place.list, place.count = frames, len(target.frames)
    place.id, place.class_id = target.id, target.class_id & 0xFFFF
    place.label = cut_label(target.label, _MAX_LABEL - 1)


def _target(item: _Object) -> Target:
    frames = [
        TargetFrame(frame.number, tuple(frame.box), frame.confidence, frame.age, TrackerState(frame.state))
        for frame in item.list[: item.count]
    ]
    return Target(item.id, item.class_id, item.label.decode("utf-8", "replace"), frames)


def _fitting(what: str, number: int) -> int:
    if not 0 <= number <= _MOST:
        raise ContractError(f"{what} is {number}; the field holds 0 to {_MOST}")
    return number
