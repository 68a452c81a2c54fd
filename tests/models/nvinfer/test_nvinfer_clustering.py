"""Cluster modes: which boxes stay, in which order, and what DBSCAN makes of them."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from sluice.errors import ConfigurationError
from sluice.models.nvinfer.clustering import cluster, require
from sluice.models.nvinfer.keys import ClassAttributes, ClusterMode


def boxes_of(*rows):
    """Rows of left, top, right, bottom, score, class as arrays."""
    values = np.array(rows, np.float32).reshape(-1, 6)
    return values[:, :4], values[:, 4], values[:, 5].astype(np.int32)


def attributes(**values):
    return replace(ClassAttributes(), **values)


def reference_nms(xyxy, scores, limit):
    """Greedy suppression in plain words: best first, kept if no kept one overlaps more than the limit."""
    kept = []
    for i in sorted(range(len(scores)), key=lambda i: -scores[i]):
        overlaps = []
        for j in kept:
            left, top = np.maximum(xyxy[i, :2], xyxy[j, :2])
            right, bottom = np.minimum(xyxy[i, 2:], xyxy[j, 2:])
            common = max(0.0, right - left) * max(0.0, bottom - top)
            areas = [(b[2] - b[0]) * (b[3] - b[1]) for b in (xyxy[i], xyxy[j])]
            overlaps.append(common / (sum(areas) - common))
        if all(overlap <= limit for overlap in overlaps):
            kept.append(i)
    return kept


def test_thresholds_are_per_class_and_inclusive():
    found = cluster(
        *boxes_of([0, 0, 9, 9, 0.5, 0], [20, 0, 29, 9, 0.5, 1], [40, 0, 49, 9, 0.25, 0], [0, 0, 9, 9, 0.9, 2]),
        ClusterMode.NONE,
        [attributes(pre_cluster_threshold=0.25), attributes(pre_cluster_threshold=0.6)],
    )
    assert found.rows.tolist() == [0, 2]  # class 2 has no attributes


def test_none_keeps_the_order_without_topk():
    rows = boxes_of([0, 0, 9, 9, 0.5, 1], [0, 0, 9, 9, 0.9, 0], [0, 0, 9, 9, 0.7, 1])
    assert cluster(*rows, ClusterMode.NONE, [attributes(post_cluster_threshold=0.8)] * 2).rows.tolist() == [0, 1, 2]
    assert cluster(*rows, ClusterMode.NONE, [attributes(), attributes(topk=1)]).rows.tolist() == [1, 2]
    assert cluster(*rows, ClusterMode.NONE, [attributes(topk=0)] * 2).rows.tolist() == []


def test_nms_is_class_by_class_best_first():
    rows = boxes_of(
        [0, 0, 10, 10, 0.6, 1],
        [0, 0, 10, 10, 0.8, 1],
        [1, 0, 11, 10, 0.9, 0],
        [0, 0, 10, 10, 0.7, 0],
        [50, 0, 60, 10, 0.3, 0],
    )
    found = cluster(*rows, ClusterMode.NMS, [attributes(nms_iou_threshold=0.5)] * 2)
    assert found.rows.tolist() == [2, 4, 1]
    assert found.class_ids.tolist() == [0, 0, 1]


def test_nms_equals_the_plain_algorithm():
    rng = np.random.default_rng(3)
    corners = rng.uniform(0, 90, (80, 2))
    xyxy = np.concatenate([corners, corners + rng.uniform(5, 40, (80, 2))], axis=1).astype(np.float32)
    scores = rng.permutation(np.linspace(0.3, 0.99, 80)).astype(np.float32)
    found = cluster(xyxy, scores, np.zeros(80, np.int32), ClusterMode.NMS, [attributes(nms_iou_threshold=0.3)])
    assert found.rows.tolist() == reference_nms(xyxy, scores, 0.3)


def test_after_nms_the_threshold_is_strict_and_topk_last():
    rows = boxes_of([0, 0, 9, 9, 0.5, 0], [20, 0, 29, 9, 0.75, 0], [40, 0, 49, 9, 0.25, 0])
    found = cluster(*rows, ClusterMode.NMS, [attributes(post_cluster_threshold=0.5)])
    assert found.rows.tolist() == [1]
    assert cluster(*rows, ClusterMode.NMS, [attributes(topk=2)]).rows.tolist() == [1, 0]


CLUSTERED = (
    [0, 0, 20, 20, 0.4, 0],
    [1, 0, 21, 20, 0.8, 0],
    [0, 1, 20, 21, 0.8, 0],
    [100, 100, 120, 120, 0.9, 0],
)


def test_dbscan_gives_the_weighted_mean_and_the_best_score():
    pytest.importorskip("sklearn")
    limits = attributes(eps=0.3, min_boxes=3)
    found = cluster(*boxes_of(*CLUSTERED), ClusterMode.DBSCAN, [limits])
    assert found.xyxy[0] == pytest.approx([0.4, 0.4, 20.4, 20.4])
    assert (found.scores.tolist(), found.rows.tolist()) == ([pytest.approx(0.8)], [1])


@pytest.mark.parametrize(
    ("change", "left"),
    [
        ({}, 1),
        ({"min_boxes": 4}, 0),
        ({"min_boxes": 1}, 2),
        ({"min_boxes": 0}, 4),
        ({"eps": 0.02}, 0),
        ({"dbscan_min_score": 1.9}, 1),
        ({"dbscan_min_score": 2.1}, 0),
        ({"post_cluster_threshold": 0.85}, 0),
        ({"min_boxes": 1, "topk": 1}, 1),
    ],
)
def test_dbscan_limits(change, left):
    pytest.importorskip("sklearn")
    limits = attributes(**{"eps": 0.3, "min_boxes": 3, **change})
    assert len(cluster(*boxes_of(*CLUSTERED), ClusterMode.DBSCAN, [limits]).rows) == left


def test_a_box_near_a_cluster_that_is_no_core_of_it_is_left_out():
    """In a row, each 0.2 from the next, only the middle one has two neighbours."""
    pytest.importorskip("sklearn")
    rows = boxes_of([0, 0, 9, 10, 0.5, 0], [1, 0, 10, 10, 0.6, 0], [2, 0, 11, 10, 0.7, 0])
    found = cluster(*rows, ClusterMode.DBSCAN, [attributes(eps=0.25, min_boxes=3)])
    assert found.xyxy.tolist() == [[1, 0, 10, 10]]


def test_large_clusters_of_few_boxes_are_no_objects():
    """sqrt(area) / (boxes + 1) is at most 60."""
    pytest.importorskip("sklearn")
    for side, left in ((119, 1), (121, 0)):
        rows = boxes_of([0, 0, side, side, 0.9, 0])
        assert len(cluster(*rows, ClusterMode.DBSCAN, [attributes(eps=0.3, min_boxes=1)]).rows) == left


def test_hybrid_suppresses_within_the_clusters():
    pytest.importorskip("sklearn")
    limits = attributes(eps=0.3, min_boxes=3, nms_iou_threshold=0.3)
    found = cluster(*boxes_of(*CLUSTERED), ClusterMode.HYBRID, [limits])
    assert (found.rows.tolist(), found.xyxy.tolist()) == ([1], [[1, 0, 21, 20]])


@pytest.mark.parametrize("mode", [ClusterMode.DBSCAN, ClusterMode.NMS, ClusterMode.HYBRID, ClusterMode.NONE])
def test_nothing_gives_nothing(mode):
    pytest.importorskip("sklearn")
    found = cluster(*boxes_of(), mode, [attributes(eps=0.3, min_boxes=3, topk=5)])
    assert len(found.rows) == 0


def test_without_scikit_learn_the_mode_is_refused_with_the_way_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.cluster", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'sluice-video\[nvinfer\]'"):
        require(ClusterMode.HYBRID, [attributes(min_boxes=1)])
    require(ClusterMode.HYBRID, [attributes(min_boxes=0)])
    require(ClusterMode.NMS, [attributes(min_boxes=1)])
