"""Sluice's own message format: one JSON object per frame or per object, on one line.

A frame's message (``Per.FRAME``)::

    {"version":"sluice/1","stream":0,"frame":12,"pts":480000000,"utc":"2026-01-31T09:30:00.480Z",
     "width":1920,"height":1080,"source_width":1920,"source_height":1080,"inferred":true,"name":"gate",
     "sensor":{"id":"CAM_0",...},"place":{...},"analytics":{...},
     "objects":[{"id":7,"label":"person","class_id":0,"confidence":0.91,"component":1,
                 "box":[100.0,50.0,40.0,120.5],"angle":12.5,"predicted":true,"parent":0,
                 "mask":{"size":[28,28],"counts":[33,4,24,...]},
                 "attributes":[{"type":"color","label":"red","class_id":3,"confidence":0.8}],
                 "keypoints":[{"component":1,"points":[[110.5,60.0,0.9]]}],
                 "embeddings":[{"component":2,"vector":[0.25,-1.5]}],"user":[...]}],
     "answers":[{"text":"{\\"people\\": 2}","mode":"json","value":{"people":2},"segment":3,"cause":"time","pictures":4,
                 "model":"smolvlm","seconds":1.8,"start_pts":470000000,"end_pts":478000000,
                 "start_utc":"2026-01-31T09:29:50.480Z","end_utc":"2026-01-31T09:29:58.480Z"}],
     "user":[...]}

A message per object (``Per.OBJECT``) has the same members, with ``object`` in place of ``objects``.

==============  =====================================================================================================
member          meaning
==============  =====================================================================================================
version         name and version of this format
stream          the stream's number: the muxer's pad index
name            the stream's name, where a pipeline of Sluice's own made the message; after it come the members that the
                program gave the stream, such as the ``epoch`` of a fleet's placements
frame           the frame's number within its stream, from 0
pts             the frame's time in its stream (presentation time) in nanoseconds; null when it has none
utc             wall-clock time of the frame (RFC 3339, UTC, nanoseconds cut to milliseconds); absent when not known
width, height   size of the surface that the boxes are in; absent when not known
source_width …  size of the source before the muxer scaled it, if it did
inferred        whether the model saw this frame; false: passed by interval, error or timeout, so that an empty list
                does not mean that nothing is there
sensor, place,  what nvmsgconv's configuration file tells of the stream's source, in the words of DeepStream's full
analytics       schema; absent without
id              the track's id as a 64-bit whole number, exact (never text, never rounded; a reader that keeps numbers
                as doubles, as JavaScript does, is exact up to 2^53); absent for an object that no tracker follows
label, class_id the object's class; label is "" when the model has no labels
confidence      of the detector, 0 to 1; absent for a predicted object
component       unique id of the element that detected it
box             left, top, width, height in pixels of the surface
angle           degrees, clockwise, about the box's centre; absent when 0
predicted       true: the tracker placed the object where it expects it, no detection says so; absent otherwise
parent          place in ``objects`` of the object that this one is part of; absent without one (and per object)
mask            which part of the box belongs to the object: ``counts`` are the lengths of runs of pixels outside,
                inside, outside … of it, column by column, on a grid of ``size`` (rows, columns) that covers the box:
                COCO's uncompressed run-length encoding; only where masks were asked for
attributes      results of classifiers; absent without any. An object of class -1 stands for the whole frame, or for a
                region of it, that a classifier was given
keypoints       x, y in pixels of the surface and, where the model tells, confidence of each key point, per element
                that found some; absent without any
embeddings      features for comparing objects, per element that made some; only where they were asked for. Without
                ``component`` when another library made them. Key points and embeddings of the frame as a whole are
                members of the message itself (per object: of the first)
segmentations   of each class map, on the frame or an object: its ``size`` (rows, columns), and the share of its cells
                that each class has, the largest first; cells of no class count in none. Absent without any
answers         what a slow model (sluicevlm) said, on the frame that passed when it arrived; absent without any. It
                speaks of the time from start to end, not of this frame. ``mode`` is text, json or labels; ``value`` is
                the JSON value or the label, absent for a text; ``cause`` is why the segment was selected; ``seconds``
                went by from its end to the answer. Times are absent when not known. Per object: in the first message
user            JSON values that the program attached to the frame or the object; absent without any
==============  =====================================================================================================

Numbers that were 32-bit floats are written in the shortest form that reads back as the same float; a value that is not
finite is null. Members may be added within version 1, none is taken away or changes its meaning.
"""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from sluice.contract.answer_meta import Answer

VERSION = "sluice/1"

UNTRACKED_OBJECT_ID = 0xFFFFFFFFFFFFFFFF
"""The id that DeepStream gives to an object that no tracker follows."""

CLOCK_TIME_NONE = 0xFFFFFFFFFFFFFFFF

# DeepStream's tracker gives its own predictions the detector confidence -0.1.
_NO_DETECTION = 0.0


class Per(enum.Enum):
    """What one message is about."""

    FRAME = "frame"
    OBJECT = "object"


@dataclass(frozen=True)
class Attribute:
    """One result of a classifier on an object."""

    type: str
    label: str
    class_id: int
    confidence: float


@dataclass(frozen=True)
class Numbers:
    """Key points ``[K, 2 or 3]`` or an embedding ``[D]`` of an object, float32, and the element that made them."""

    component: int | None
    values: npt.NDArray[np.float32]


@dataclass(frozen=True)
class Mask:
    """Which pixels of a grid of ``height`` by ``width`` over an object's box belong to it.

    ``counts`` are the lengths of runs of pixels outside, inside, outside … of it, column by column from the top left:
    COCO's run-length encoding, which ``pycocotools.mask.frPyObjects`` reads.
    """

    height: int
    width: int
    counts: Sequence[int]

    @classmethod
    def of(cls, inside: npt.NDArray[np.bool_]) -> Mask:
        """Encode a mask, bool ``[height, width]``."""
        pixels = np.concatenate(([False], inside.T.ravel(), [True]))
        changes = np.flatnonzero(pixels[1:] != pixels[:-1])
        lengths = np.diff(changes, prepend=0).tolist()
        rest = inside.size - sum(lengths)
        return cls(inside.shape[0], inside.shape[1], [*lengths, rest] if rest else lengths)


@dataclass(frozen=True)
class Shares:
    """How much of a class map of ``rows`` by ``columns`` each class has: pairs of class id and share, 0..1."""

    component: int
    rows: int
    columns: int
    classes: Sequence[tuple[int, float]]

    @classmethod
    def of(cls, component: int, class_map: npt.NDArray[np.int32]) -> Shares:
        """Count a class map ``[rows, columns]``; -1 is no class."""
        counts = np.bincount(class_map[class_map >= 0])
        order = [int(number) for number in np.argsort(-counts, kind="stable") if counts[number]]
        shares = [(number, round(int(counts[number]) / class_map.size, 6)) for number in order]
        rows, columns = class_map.shape
        return cls(component, rows, columns, shares)


@dataclass(frozen=True)
class ObjectRecord:
    """One object of a frame; see the table above for what the fields mean. ``box`` holds float32 values."""

    id: int
    label: str
    class_id: int
    confidence: float
    component: int
    box: Sequence[float]
    angle: float = 0.0
    parent: int | None = None
    mask: Mask | None = None
    attributes: Sequence[Attribute] = ()
    keypoints: Sequence[Numbers] = ()
    embeddings: Sequence[Numbers] = ()
    segmentations: Sequence[Shares] = ()
    user: Sequence[Any] = ()


@dataclass(frozen=True)
class FrameRecord:
    """One frame; see the table above.

    ``ntp`` is nanoseconds since 1970 or 0, ``ntp_from`` "rtcp", "arrival" or None where nobody says, ``width`` and
    ``height`` 0 if unknown.
    """

    stream: int
    number: int
    pts: int
    ntp: int
    width: int
    height: int
    source_width: int
    source_height: int
    inferred: bool
    objects: Sequence[ObjectRecord] = field(default_factory=list)
    answers: Sequence[Answer] = ()
    keypoints: Sequence[Numbers] = ()
    embeddings: Sequence[Numbers] = ()
    segmentations: Sequence[Shares] = ()
    user: Sequence[Any] = ()
    ntp_from: str | None = None


def messages(
    frame: FrameRecord, per: Per, *, empty_frames: bool = True, about: Mapping[str, Any] | None = None
) -> Iterator[bytes]:
    """Yield the frame's messages as UTF-8 JSON without line ends, in the order of its objects.

    Args:
        frame: the frame and its objects.
        per: one message for the frame, or one for each object.
        empty_frames: whether a frame without objects gives a message (per object: one whose ``object`` is null). One
            with an answer always does.
        about: the members ``sensor``, ``place`` and ``analytics``, as far as they are known.
    """
    head = {**_head(frame), **(about or {})}
    once = {"answers": [_answer(answer) for answer in frame.answers]} if frame.answers else {}
    once |= _of_picture(frame)
    tail = once | ({"user": list(frame.user)} if frame.user else {})
    empty_frames = empty_frames or bool(frame.answers)
    if per is Per.FRAME:
        if frame.objects or empty_frames:
            yield encode({**head, "objects": [_object(record) for record in frame.objects], **tail})
        return
    for record in frame.objects:
        members = _object(record)
        members.pop("parent", None)
        yield encode({**head, "object": members, **tail})
        tail = {name: value for name, value in tail.items() if name not in once}
    if not frame.objects and empty_frames:
        yield encode({**head, "object": None, **tail})


def encode(value: Any) -> bytes:
    """Return a JSON value as compact UTF-8 on one line.

    Text that is not valid Unicode (a lone surrogate) is written with its escape.
    """
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace")


def utc_text(ntp: int) -> str:
    """Return nanoseconds since 1970 as RFC 3339 in UTC with milliseconds: ``2026-01-31T09:30:00.480Z``."""
    seconds, nanoseconds = divmod(ntp, 1_000_000_000)
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{nanoseconds // 1_000_000:03}Z"


def _head(frame: FrameRecord) -> dict[str, Any]:
    head: dict[str, Any] = {
        "version": VERSION,
        "stream": frame.stream,
        "frame": frame.number,
        "pts": None if frame.pts == CLOCK_TIME_NONE else frame.pts,
    }
    if frame.ntp not in (0, CLOCK_TIME_NONE):
        head["utc"] = utc_text(frame.ntp)
        if frame.ntp_from:
            head["utc_from"] = frame.ntp_from
    if frame.width and frame.height:
        head |= {"width": frame.width, "height": frame.height}
    if frame.source_width and frame.source_height:
        head |= {"source_width": frame.source_width, "source_height": frame.source_height}
    head["inferred"] = frame.inferred
    return head


def _answer(answer: Answer) -> dict[str, Any]:
    members: dict[str, Any] = {"text": answer.text, "mode": answer.mode}
    if answer.mode != "text":
        members["value"] = answer.value
    members |= {"segment": answer.segment, "cause": answer.cause, "pictures": answer.pictures}
    members |= {"model": answer.model, "seconds": answer.seconds}
    members |= {name: pts for name in ("start_pts", "end_pts") if (pts := getattr(answer, name)) is not None}
    return members | {name: utc_text(utc) for name in ("start_utc", "end_utc") if (utc := getattr(answer, name))}


def _object(record: ObjectRecord) -> dict[str, Any]:
    members: dict[str, Any] = {} if record.id == UNTRACKED_OBJECT_ID else {"id": int(record.id)}
    members |= {"label": record.label, "class_id": int(record.class_id)}
    predicted = record.confidence < _NO_DETECTION
    if not predicted:
        members["confidence"] = _number(record.confidence)
    members |= {"component": int(record.component), "box": [_number(value) for value in record.box]}
    if record.angle:
        members["angle"] = _number(record.angle)
    if predicted:
        members["predicted"] = True
    if record.parent is not None:
        members["parent"] = record.parent
    if record.mask is not None:
        members["mask"] = {"size": [record.mask.height, record.mask.width], "counts": list(record.mask.counts)}
    if record.attributes:
        members["attributes"] = [
            {"type": a.type, "label": a.label, "class_id": a.class_id, "confidence": _number(a.confidence)}
            for a in record.attributes
        ]
    members |= _of_picture(record)
    if record.user:
        members["user"] = list(record.user)
    return members


def _of_picture(record: FrameRecord | ObjectRecord) -> dict[str, Any]:
    """Key points, embeddings and shares of class maps, as far as there are any."""
    members: dict[str, Any] = {}
    for name, member, found in (("keypoints", "points", record.keypoints), ("embeddings", "vector", record.embeddings)):
        if found:
            members[name] = [_numbers(member, item) for item in found]
    if record.segmentations:
        members["segmentations"] = [
            {
                "component": item.component,
                "size": [item.rows, item.columns],
                "classes": [{"class_id": number, "share": share} for number, share in item.classes],
            }
            for item in record.segmentations
        ]
    return members


def _numbers(member: str, found: Numbers) -> dict[str, Any]:
    component = {} if found.component is None else {"component": found.component}
    return {**component, member: _nested(found.values)}


def _nested(values: npt.NDArray[np.float32]) -> Any:
    """Numbers in lists as `_number` writes each; there may be 100,000 of them in a frame."""
    if not np.isfinite(values).all():
        return [_nested(row) for row in values] if values.ndim > 1 else [_number(value) for value in values.tolist()]
    told = list(map(float, map(str, values.ravel())))
    if values.ndim == 1:
        return told
    width = values.shape[1]
    return [told[first : first + width] for first in range(0, len(told), width)]


def _number(value: float) -> float | None:
    """Return the shortest decimal that reads back as the same 32-bit float, or None (null) when it is not finite."""
    return float(str(np.float32(value))) if math.isfinite(value) else None
