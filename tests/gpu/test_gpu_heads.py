"""Boxes chosen on the GPU are those that the decoders choose on the processor."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the GPU path needs torch")
pytest.importorskip("triton", reason="the GPU path needs triton")

from head_tables import letterbox_table

from sluice.errors import ModelError
from sluice.models.arrays import nms_indices
from sluice.models.decoders import DECODERS
from sluice.models.gpu.heads import Choice, chooser_for, suppress
from sluice.models.letterbox import Letterbox
from sluice.models.postprocess import to_detections
from sluice.runtimes.base import NetworkInfo, TensorInfo

WIDTH, HEIGHT = 128, 96
CELLS = sum((WIDTH // s) * (HEIGHT // s) for s in (8, 16, 32))
BOXES = [Letterbox.fit((200, 100), (WIDTH, HEIGHT)), Letterbox.fit((64, 90), (WIDTH, HEIGHT))]


def described(*outputs):
    """The description of a network with outputs of these names and arrays."""
    return NetworkInfo(
        (TensorInfo("images", (None, 3, HEIGHT, WIDTH), "float32"),),
        tuple(TensorInfo(name, (None, *array.shape[1:]), "float32") for name, array in outputs),
    )


def both(decoder, outputs, device, **changes):
    """What the GPU and what the processor finds in the same outputs, an array or arrays by name."""
    named = outputs if isinstance(outputs, dict) else {"out": outputs}
    about = described(*named.items())
    values = {"confidence": 0.3, "iou": 0.5, "class_agnostic": False, "most": 40, **changes}
    chooser = chooser_for(decoder, about, Choice(WIDTH, HEIGHT, **values))
    tensors = [torch.from_numpy(array).to(device) for array in named.values()]
    chosen = chooser.choose(tensors, letterbox_table(BOXES, device)).cpu().numpy()
    decode = DECODERS[decoder](about, WIDTH, HEIGHT)
    expected = [
        to_detections(
            decode.decode(list(named.values()), i, values["confidence"]),
            box,
            (WIDTH, HEIGHT),
            iou=values["iou"] if decode.needs_nms else None,
            class_agnostic=values["class_agnostic"],
            max_detections=values["most"],
        )
        for i, box in enumerate(BOXES)
    ]
    return chooser.read(chosen[: len(BOXES)], BOXES), expected


def check(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert len(other) > 3
        np.testing.assert_array_equal(one.class_ids, other.class_ids)
        np.testing.assert_array_equal(one.scores, other.scores)
        np.testing.assert_allclose(one.xyxy, other.xyxy, atol=1e-3)
        one.validate()


def dense_rows(seed, classes=5, few=True):
    """[2, 4 + classes, cells] of boxes in heaps, so that many overlap."""
    rng = np.random.default_rng(seed)
    centres = rng.integers(1, 8, (2, 2, CELLS)) * np.array([[[16], [12]]]) + rng.normal(0, 2, (2, 2, CELLS))
    sizes = rng.uniform(10, 30, (2, 2, CELLS))
    scores = rng.random((2, classes, CELLS)) ** (6 if few else 1)
    return np.concatenate([centres, sizes, scores], axis=1).astype(np.float32)


@pytest.mark.parametrize("agnostic", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_dense_heads_with_suppression(device, seed, agnostic):
    check(*both("yolov8", dense_rows(seed), device, class_agnostic=agnostic))


def test_a_dense_head_with_its_cells_first(device):
    check(*both("yolov8", np.ascontiguousarray(dense_rows(2).transpose(0, 2, 1)), device))


def test_a_dense_head_of_fractions(device):
    rows = dense_rows(3)
    rows[:, 0:4:2] /= WIDTH
    rows[:, 1:4:2] /= HEIGHT
    check(*both("yolov8", rows, device))


def end_to_end_rows(seed):
    rng = np.random.default_rng(seed)
    corner = rng.uniform(0, 60, (2, 50, 2))
    scores = -np.sort(-rng.random((2, 50, 1)), axis=1)
    classes = rng.integers(0, 80, (2, 50, 1))
    return np.concatenate([corner, corner + rng.uniform(1, 30, (2, 50, 2)), scores, classes], -1).astype(np.float32)


@pytest.mark.parametrize("most", [10, 300])
def test_end_to_end_heads(device, most):
    check(*both("yolo-end2end", end_to_end_rows(0), device, most=most))


def test_end_to_end_heads_of_fractions(device):
    rows = end_to_end_rows(1)
    rows[..., 0:4:2] /= WIDTH
    rows[..., 1:4:2] /= HEIGHT
    check(*both("yolo-end2end", rows, device))


def query_rows(seed, classes):
    """[2, 30, 4 + classes] of centres and sizes in fractions, and scores."""
    rng = np.random.default_rng(seed)
    boxes = np.concatenate([rng.uniform(0.2, 0.8, (2, 30, 2)), rng.uniform(0.05, 0.3, (2, 30, 2))], -1)
    return np.concatenate([boxes, rng.random((2, 30, classes)) ** 3], -1).astype(np.float32)


@pytest.mark.parametrize("most", [10, 300])
def test_queries_with_scores(device, most):
    check(*both("rtdetr", query_rows(0, 7), device, most=most))


def finished_query_rows(seed):
    """[2, 30, 6] of centres and sizes in fractions, scores and classes."""
    rows = query_rows(seed, 2)
    rows[..., 5] = np.random.default_rng(seed).integers(0, 7, rows.shape[:2])
    return rows


@pytest.mark.parametrize("most", [10, 300])
def test_finished_queries(device, most):
    check(*both("rtdetr-end2end", finished_query_rows(2), device, most=most))


@pytest.mark.parametrize("most", [10, 300])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_queries_with_logits_may_be_several_classes(device, most, order):
    rows = query_rows(1, 5)
    given = {"logits": logits_of(rows[..., 4:]), "pred_boxes": np.ascontiguousarray(rows[..., :4])}
    names = [("logits", "pred_boxes")[index] for index in order]
    found, expected = both("rtdetr-logits", {name: given[name] for name in names}, device, most=most)
    assert len(expected[0]) > 3
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.scores, other.scores, atol=1e-6)
        np.testing.assert_array_equal(one.class_ids, other.class_ids)
        np.testing.assert_allclose(one.xyxy, other.xyxy, atol=1e-3)


def logits_of(scores):
    return np.log(scores / (1 - scores + 1e-6)).astype(np.float32)


@pytest.mark.parametrize("decoder", ["yolov8", "yolo-end2end"])
def test_a_box_whose_right_lies_left_of_its_left_is_none(device, decoder):
    """It neither suppresses another nor takes its place."""
    if decoder == "yolov8":
        rows = dense_rows(4)
        rows[:, 2, ::3] *= -1
    else:
        rows = end_to_end_rows(4)
        rows[:, ::3, 2] = rows[:, ::3, 0] - 5
    check(*both(decoder, rows, device, most=12))


@pytest.mark.parametrize("decoder", ["yolov8", "yolo-end2end", "rtdetr", "rtdetr-end2end"])
@pytest.mark.parametrize("column", ["box", "score"])
def test_what_is_no_number_is_refused(device, decoder, column):
    rows = {
        "yolov8": dense_rows(0),
        "yolo-end2end": end_to_end_rows(0),
        "rtdetr": query_rows(0, 7),
        "rtdetr-end2end": finished_query_rows(0),
    }[decoder]
    cells = rows.transpose(0, 2, 1) if decoder == "yolov8" else rows
    place = 4 if column == "score" else 0
    best = int(cells[0, :, 4].argmax())
    cells[0, best, place] = np.nan
    given = {"confidence": 0.3, "iou": 0.5, "class_agnostic": False, "most": 40}
    chooser = chooser_for(decoder, described(("out", rows)), Choice(WIDTH, HEIGHT, **given))
    chosen = chooser.choose([torch.from_numpy(rows).to(device)], letterbox_table(BOXES, device)).cpu().numpy()
    with pytest.raises(ModelError, match="NaN"):
        chooser.read(chosen, BOXES)


def test_a_box_of_too_low_a_score_may_be_anything(device):
    rows = end_to_end_rows(0)
    rows[:, -1, :6] = [np.nan, 0, np.inf, 0, 0.01, 3]
    check(*both("yolo-end2end", rows, device, most=300))


def test_nothing_of_enough_score_is_nothing(device):
    found, expected = both("yolov8", dense_rows(0), device, confidence=1.0)
    assert [len(one) for one in found] == [len(one) for one in expected] == [0, 0]
    found, _ = both("yolo-end2end", end_to_end_rows(0), device, confidence=1.0)
    assert [len(one) for one in found] == [0, 0]


def test_suppression_is_greedy_like_the_processors(device):
    rng = np.random.default_rng(5)
    corner = rng.uniform(0, 40, (1, 300, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(5, 30, (1, 300, 2))], -1).astype(np.float32)
    scores = -np.sort(-rng.random((1, 300)).astype(np.float32), axis=1)
    classes = rng.integers(0, 3, (1, 300)).astype(np.float32)
    tensors = (torch.from_numpy(a).to(device) for a in (boxes, scores, classes))
    kept = suppress(*tensors, 0.4, False).cpu().numpy()[0]
    expected = nms_indices(boxes[0], scores[0], classes[0].astype(np.int32), 0.4)
    np.testing.assert_array_equal(np.flatnonzero(kept >= 0), np.sort(expected))
    np.testing.assert_array_equal(kept[expected], scores[0][expected])


def test_other_heads_are_left_to_the_processor():
    choice = Choice(WIDTH, HEIGHT, 0.3, 0.5, False, 40)
    assert chooser_for("yolo-end2end", described(("out", np.zeros((1, 300, 38)))), choice) is None
    assert chooser_for("detr", described(("out", np.zeros((1, 300, 84)))), choice) is None
    assert chooser_for("rtdetr-logits", described(("out", np.zeros((1, 300, 84)))), choice) is None
