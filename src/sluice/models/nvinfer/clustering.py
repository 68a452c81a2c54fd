"""How many boxes of one object become one: nvinfer's cluster modes, in the network's coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sluice.errors import ConfigurationError
from sluice.models.arrays import nms_indices
from sluice.models.nvinfer.keys import ClassAttributes, ClusterMode

Float = npt.NDArray[np.float32]

#: Clusters with a larger sqrt(area) / (boxes + 1) are dropped (ATHR_THRESHOLD in nvdsinfer; its DBSCAN starts to count
#: a cluster's boxes at one).
AREA_TO_HIT_RATIO = 60.0


class Boxes(NamedTuple):
    """Boxes, and where they come from.

    Attributes:
        xyxy: float32 [N,4] in pixels of the network's input.
        scores: float32 [N].
        class_ids: int32 [N].
        rows: int [N]; row of the decoder's result each stands for: itself, or the strongest of a cluster.
    """

    xyxy: Float
    scores: Float
    class_ids: npt.NDArray[np.int32]
    rows: npt.NDArray[np.intp]

    def take(self, index: npt.NDArray[Any]) -> Boxes:
        """The boxes that a mask or indices pick, in that order."""
        return Boxes(*(values[index] for values in self))


def cluster(
    xyxy: Float,
    scores: Float,
    class_ids: npt.NDArray[np.int32],
    mode: ClusterMode,
    classes: Sequence[ClassAttributes],
) -> Boxes:
    """The boxes that nvinfer reports, in its order: class by class, and within a class as the mode says.

    Args:
        xyxy, scores, class_ids: what a decoder found, in its order.
        mode: any but group rectangles, which the configuration has replaced already.
        classes: attributes per class; boxes of other classes are dropped.

    Raises:
        ConfigurationError: a mode with DBSCAN, and scikit-learn is not there.
    """
    boxes = Boxes(xyxy, scores, class_ids, np.arange(len(xyxy)))
    thresholds = np.array([c.pre_cluster_threshold for c in classes], np.float32)
    known = (class_ids >= 0) & (class_ids < len(classes))
    boxes = boxes.take(known)
    boxes = boxes.take(boxes.scores >= thresholds[boxes.class_ids])
    if mode is ClusterMode.NONE and all(c.topk < 0 for c in classes):
        return boxes
    parts = [
        _one_class(boxes.take(boxes.class_ids == number), mode, attributes)
        for number, attributes in enumerate(classes)
        if (boxes.class_ids == number).any()
    ]
    if not parts:
        return boxes
    return Boxes(*(np.concatenate(values) for values in zip(*parts, strict=True)))


def require(mode: ClusterMode, classes: Sequence[ClassAttributes]) -> None:
    """Make sure that what a mode needs is installed, before the first frame.

    Raises:
        ConfigurationError: DBSCAN is asked for, and scikit-learn is not there.
    """
    if mode in (ClusterMode.DBSCAN, ClusterMode.HYBRID) and any(item.min_boxes > 0 for item in classes):
        _scikit_learn()


def _one_class(boxes: Boxes, mode: ClusterMode, attributes: ClassAttributes) -> Boxes:
    if mode in (ClusterMode.DBSCAN, ClusterMode.HYBRID) and attributes.min_boxes > 0:
        boxes = dbscan(boxes, attributes, merge=mode is ClusterMode.DBSCAN)
    if mode is ClusterMode.DBSCAN:
        boxes = boxes.take(boxes.scores >= np.float32(attributes.post_cluster_threshold))
    if mode in (ClusterMode.NMS, ClusterMode.HYBRID):
        boxes = boxes.take(nms_indices(boxes.xyxy, boxes.scores, None, attributes.nms_iou_threshold))
        boxes = boxes.take(boxes.scores > np.float32(attributes.post_cluster_threshold))
    if attributes.topk >= 0:
        boxes = boxes.take(np.argsort(-boxes.scores, kind="stable")[: attributes.topk])
    return boxes


def dbscan(boxes: Boxes, attributes: ClassAttributes, *, merge: bool) -> Boxes:
    """Clusters of the boxes of one class, found by DBSCAN with the distance 1 - IoU.

    As in NVIDIA's own code (NvDsInferDBScan, published with Isaac ROS) neighbours are nearer than eps, a box with its
    neighbours must be minBoxes or more, and boxes that are only near such a one belong to no cluster. A difference:
    DBSCAN follows neighbours of neighbours, NVIDIA's code ends at the neighbours of a cluster's first box, so that a
    long chain of boxes is one object here and may be several there.

    Args:
        boxes: the boxes of one class.
        attributes: eps, minBoxes and dbscan-min-score.
        merge: give one box per cluster, the mean weighted by the scores, with the highest score; else give the boxes
            that belong to a cluster, as they are.
    """
    if len(boxes.scores) == 0:
        return boxes
    model = (
        _scikit_learn()
        .DBSCAN(
            eps=np.nextafter(np.float32(attributes.eps), np.float32(0)) if attributes.eps > 0 else np.finfo(float).tiny,
            min_samples=attributes.min_boxes,
            metric="precomputed",
        )
        .fit(_distances(boxes.xyxy))
    )
    core = model.core_sample_indices_
    if not merge:
        return boxes.take(np.sort(core))
    clusters = [core[model.labels_[core] == number] for number in range(model.labels_.max() + 1)]
    merged = [_merge(boxes.take(members)) for members in clusters]
    kept = [one for one, members in zip(merged, clusters, strict=True) if _stands(boxes, members, one, attributes)]
    return Boxes(*(np.concatenate(values) for values in zip(*kept, strict=True))) if kept else boxes.take(core[:0])


def _stands(boxes: Boxes, members: npt.NDArray[Any], merged: Boxes, attributes: ClassAttributes) -> bool:
    """Whether a cluster is confident and dense enough."""
    if boxes.scores[members].sum() < np.float32(attributes.dbscan_min_score):
        return False
    width, height = merged.xyxy[0, 2:] - merged.xyxy[0, :2]
    return bool(np.sqrt(width * height) / (len(members) + 1) <= AREA_TO_HIT_RATIO)


def _merge(members: Boxes) -> Boxes:
    """One box: the members' mean, weighted by their scores."""
    total = members.scores.sum()
    mean = (members.xyxy * members.scores[:, None]).sum(axis=0, keepdims=True) / total
    strongest = members.take(np.array([members.scores.argmax()]))
    return strongest._replace(xyxy=mean.astype(np.float32))


def _distances(xyxy: Float) -> npt.NDArray[np.float64]:
    """1 - IoU of every pair [N,N]; boxes without an area are far from everything else."""
    corners = xyxy.astype(np.float64)
    sizes = np.clip(
        np.minimum(corners[:, None, 2:], corners[None, :, 2:]) - np.maximum(corners[:, None, :2], corners[None, :, :2]),
        0,
        None,
    )
    common = sizes.prod(axis=2)
    areas = (corners[:, 2:] - corners[:, :2]).prod(axis=1)
    union = areas[:, None] + areas[None] - common
    distances: npt.NDArray[np.float64] = 1 - np.divide(common, union, out=np.zeros_like(common), where=union > 0)
    np.fill_diagonal(distances, 0)
    return np.clip(distances, 0, 1)


def _scikit_learn() -> Any:
    try:
        return import_module("sklearn.cluster")
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "cluster-mode 1 and 3 (DBSCAN) need scikit-learn, which is not installed: "
            "pip install 'sluice-video[nvinfer]', or use cluster-mode=2 (NMS)"
        ) from error
