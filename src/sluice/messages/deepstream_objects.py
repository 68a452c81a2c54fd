"""What DeepStream's schemas tell of a frame and its objects when messages are made of them (``msg2p-newapi=1``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sluice.contract import bulk
from sluice.contract.metadata import FrameMeta, ObjectMeta


@dataclass(frozen=True)
class SeenClassifier:
    """A classifier's result: its type, perhaps none, and the labels in list order, the last added first."""

    type: str | None
    labels: Sequence[str]


@dataclass(frozen=True)
class SeenObject:
    """An object; left, top, right, bottom in pixels of the surface, computed in 32-bit floats as nvmsgconv does."""

    id: int
    label: str
    confidence: float
    corners: tuple[float, float, float, float]
    classifiers: Sequence[SeenClassifier]


def read_objects(frame: FrameMeta, *, classifiers: bool = True) -> list[SeenObject]:
    """Return the objects of a frame in list order, the last added first.

    nvmsgconv means to scale the boxes to the source's size, but its factor is 1; only where neither the source's size
    nor that of the mux is known it is 0, and so are the boxes. Both are kept.

    Args:
        frame: the frame, under a valid lease.
        classifiers: whether to read the classifiers' results.
    """
    rows = bulk.read_objects(frame).rows
    corners = rows["box"].copy()
    with np.errstate(invalid="ignore"):  # a box of another's element may have no place
        corners[:, 2:] += corners[:, :2]
    if not frame.source_width and not frame.pipeline_width:
        corners[:, ::2] = 0
    if not frame.source_height and not frame.pipeline_height:
        corners[:, 1::2] = 0
    columns = [rows[name].tolist() for name in ("address", "object_id", "label", "confidence")]
    return [
        SeenObject(
            object_id,
            label.decode("utf-8", "replace"),
            confidence,
            tuple(box),
            _classifiers(frame, address) if classifiers else (),
        )
        for address, object_id, label, confidence, box in zip(*columns, corners.tolist(), strict=True)
    ]


def _classifiers(frame: FrameMeta, address: int) -> list[SeenClassifier]:
    view = ObjectMeta(address, frame.lease, frame.provider)
    return [
        SeenClassifier(found.classifier_type, [label.label for label in found.labels]) for found in view.classifiers
    ]
