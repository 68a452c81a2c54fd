"""`Detections`: shapes, validation, filters and conversions."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from sluice.contract.packed_masks import PackedMasks
from sluice.errors import ModelError
from sluice.models.conversions import corners_of_boxes
from sluice.models.detections import Detections
from sluice.models.whole import Classification, Segmentation, WholeFrame


def some(n=3, **extra):
    left = np.arange(n, dtype=np.float32) * 100
    xyxy = np.stack([left, left, left + 50, left + 40], axis=1)
    return Detections(xyxy, np.linspace(0.9, 0.5, n), np.arange(n), **extra)


def test_empty_has_the_right_shapes_and_types():
    for detections in (Detections.empty(), Detections([], [], []), some(0)):
        detections.validate((10, 10))
        assert len(detections) == 0
        assert detections.xyxy.shape == (0, 4)
        assert [a.dtype for a in (detections.xyxy, detections.scores, detections.class_ids)] == [
            np.float32,
            np.float32,
            np.int32,
        ]


def test_an_empty_result_passes_every_filter_and_conversion():
    empty = Detections.empty()
    assert empty.filter(confidence=0.5, classes=[1], iou=0.5, max_detections=3).xyxy.shape == (0, 4)
    assert Detections.from_supervision(empty.to_supervision()).xyxy.shape == (0, 4)


def test_lists_and_other_number_types_are_taken():
    detections = Detections([[0, 0, 1, 1]], [1], np.array([3], np.int64)).validate()
    assert (detections.xyxy.dtype, detections.scores.dtype, detections.class_ids.dtype) == (
        np.float32,
        np.float32,
        np.int32,
    )


def test_arrays_of_the_right_type_are_not_copied():
    xyxy = np.zeros((2, 4), np.float32)
    assert Detections(xyxy, np.zeros(2), np.zeros(2, int)).xyxy is xyxy


WRONG = {
    "xyxy has shape [3, 5]; right is float32 [any, 4]": {"xyxy": np.zeros((3, 5))},
    "xyxy has shape [4]": {"xyxy": np.zeros(4)},
    "xyxy has shape [3, 4, 1]": {"xyxy": np.zeros((3, 4, 1))},
    "xyxy has dtype <U3": {"xyxy": np.full((3, 4), "0.5")},
    "xyxy has dtype complex128": {"xyxy": np.zeros((3, 4), complex)},
    "xyxy has shape [2]; right": {"xyxy": [[1, 2, 3, 4], [1, 2]]},
    "xyxy holds NaN or infinity, first in row 1": {"xyxy": [[0, 0, 1, 1], [0, np.nan, 1, 1], [0, 0, 1, 1]]},
    "xyxy row 2 is [50.0, 50.0, 20.0, 20.0]": {"xyxy": [[0, 0, 1, 1], [0, 0, 1, 1], [50, 50, 20, 20]]},
    "scores has shape [2]; right is float32 [3]": {"scores": np.zeros(2)},
    "scores has shape [3, 1]": {"scores": np.zeros((3, 1))},
    "scores holds NaN or infinity, first in row 0": {"scores": [np.inf, 0, 0]},
    "class_ids has dtype float32; right is int32 [3] (one class id per box); use .astype(np.int32)": {
        "class_ids": np.zeros(3, np.float32)
    },
    "class_ids has dtype int64": {"class_ids": np.full(3, 2**40)},
    "class_ids has dtype bool": {"class_ids": np.zeros(3, bool)},
    "angles has shape [2]": {"angles": np.zeros(2)},
    "masks has shape [3, 20, 10]; right is bool [3, 10, 20]": {"masks": np.zeros((3, 20, 10), bool)},
    "masks has dtype uint8": {"masks": np.zeros((3, 10, 20), np.uint8)},
    "keypoints has shape [3, 17, 4]": {"keypoints": np.zeros((3, 17, 4))},
    "embeddings has shape [3]": {"embeddings": np.zeros(3)},
    "embeddings has shape [3, 0]; right is at least one number per box": {"embeddings": np.zeros((3, 0))},
    "keypoints has shape [3, 0, 3]; right is at least one key point per box": {"keypoints": np.zeros((3, 0, 3))},
    "labels has 2 items; right are 3": {"labels": ["a", "b"]},
    "labels is a str": {"labels": "abc"},
    "labels is a ndarray": {"labels": np.array(0.0)},
    "labels[1] is a int": {"labels": ["a", 1, None]},
    "attributes[0] is a str": {"attributes": ["red", "red", "red"]},
    "texts has 1 items": {"texts": ["x"]},
    "labels[2] is 'a\\x00b'; right is a text without NUL characters": {"labels": ["a", None, "a\0b"]},
    "texts[0] is '\\x00'": {"texts": ["\0", "b", "c"]},
    "attributes[1] has the key 5": {"attributes": [{}, {5: "red"}, {}]},
    "attributes[1]['colour'] is 'r\\x00d'": {"attributes": [{}, {"colour": "r\0d"}, {}]},
}


@pytest.mark.parametrize(("message", "wrong"), WRONG.items(), ids=WRONG)
def test_what_is_wrong_is_named_with_what_would_be_right(message, wrong):
    arrays = {"xyxy": np.zeros((3, 4)), "scores": np.zeros(3), "class_ids": np.zeros(3, int)}
    with pytest.raises(ModelError) as caught:
        Detections(**{**arrays, **wrong}).validate((20, 10))
    assert f"Detections.{message}" in str(caught.value)


def test_boxes_over_the_edge_are_right():
    Detections([[-20, -5, 30, 400]], [0.5], [0]).validate((20, 10))


def test_filters():
    detections = some(labels=["a", None, "c"], angles=[1, 2, 3])
    assert detections.filter(confidence=0.7).class_ids.tolist() == [0, 1]
    kept = detections.filter(classes=[2, 7])
    assert (kept.class_ids.tolist(), kept.labels, kept.angles.tolist()) == ([2], ["c"], [3.0])
    mixed = detections[np.array([2, 0, 1])]
    assert mixed.filter(max_detections=2).class_ids.tolist() == [0, 1]


def brute_force_nms(detections, iou, by_class=True):
    """Greedy suppression, one pair at a time."""
    keep = []
    for i in np.argsort(-detections.scores, kind="stable"):
        for j in keep:
            if by_class and detections.class_ids[i] != detections.class_ids[j]:
                continue
            a, b = detections.xyxy[i].astype(float), detections.xyxy[j].astype(float)
            inter = max(0, min(a[2], b[2]) - max(a[0], b[0])) * max(0, min(a[3], b[3]) - max(a[1], b[1]))
            union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - inter
            if inter / union > iou:
                break
        else:
            keep.append(int(i))
    return keep


@pytest.mark.parametrize("class_agnostic", [False, True])
@pytest.mark.parametrize("offset", [0, -300, 5000])
def test_nms_equals_brute_force(class_agnostic, offset):
    rng = np.random.default_rng(1)
    corner = rng.uniform(0, 150, (120, 2)) + offset
    xyxy = np.concatenate([corner, corner + rng.uniform(20, 90, (120, 2))], axis=1)
    detections = Detections(xyxy, rng.permutation(120) / 120, rng.integers(0, 4, 120))
    expected = brute_force_nms(detections, 0.45, by_class=not class_agnostic)
    result = detections.nms(0.45, class_agnostic=class_agnostic)
    assert np.array_equal(result.xyxy, detections.xyxy[expected])


def test_supervision_round_trip_with_masks_and_names():
    masks = np.zeros((3, 30, 40), bool)
    masks[1, 3:9, 4:8] = True
    back = Detections.from_supervision(some(masks=masks, labels=["a", "b", "c"]).to_supervision()).validate((40, 30))
    assert np.array_equal(back.xyxy, some().xyxy)
    assert np.array_equal(back.scores, some().scores)
    assert np.array_equal(back.class_ids, some().class_ids)
    assert np.array_equal(back.masks, masks)
    assert back.labels == ["a", "b", "c"]


@pytest.mark.parametrize("angle", [0.0, 30.0, 89.9, -90.0, 180.0, -135.0])
def test_supervision_round_trip_of_rotated_boxes(angle):
    detections = Detections([[10, 20, 50, 40]], [0.5], [0], angles=[angle])
    back = Detections.from_supervision(detections.to_supervision()).validate()
    assert np.allclose(back.xyxy, detections.xyxy, atol=1e-4)
    assert (back.angles[0] - angle + 180) % 360 - 180 == pytest.approx(0, abs=1e-3)


def test_angles_turn_clockwise_on_the_picture():
    corners = corners_of_boxes(np.array([[0, 0, 20, 10]], np.float32), np.array([90], np.float32))[0]
    # The left top corner (-10, -5) from the centre (10, 5) goes to the right top one.
    assert np.allclose(corners[0], [15, -5], atol=1e-4)


class Tensor:
    """A tensor that must be brought to the processor before NumPy can read it."""

    def __init__(self, values):
        self.values = np.asarray(values)

    def detach(self):
        return self

    def cpu(self):
        return self.values


def test_ultralytics_boxes_masks_and_keypoints():
    masks = np.zeros((2, 64, 64), np.float32)
    masks[0, 24:40, 16:48] = 1  # the picture fills rows 16..48 of the letterbox
    results = SimpleNamespace(
        boxes=SimpleNamespace(
            xyxy=Tensor([[1, 2, 3, 4], [5, 6, 7, 8]]), conf=Tensor([0.9, 0.8]), cls=Tensor([2.0, 0.0])
        ),
        obb=None,
        masks=SimpleNamespace(data=Tensor(masks)),
        keypoints=SimpleNamespace(data=Tensor(np.ones((2, 5, 3)))),
        names={0: "person", 2: "car"},
        orig_shape=(320, 640),
    )
    detections = Detections.from_ultralytics(results).validate((640, 320))
    assert detections.labels == ["car", "person"]
    assert detections.class_ids.tolist() == [2, 0]
    assert detections.keypoints.shape == (2, 5, 3)
    rows, columns = np.nonzero(detections.masks[0])
    assert abs(rows.min() - 80) <= 5
    assert abs(rows.max() - 239) <= 5
    assert abs(columns.min() - 160) <= 5
    assert abs(columns.max() - 479) <= 5
    assert not detections.masks[1].any()


def test_ultralytics_masks_with_an_odd_row_of_padding():
    """A picture of 64x45 in 64x64 has 9 rows above it and 10 below."""
    masks = np.zeros((1, 64, 64), np.float32)
    masks[0, 9:54] = 1
    results = SimpleNamespace(
        boxes=SimpleNamespace(xyxy=Tensor([[0, 0, 64, 45]]), conf=Tensor([0.9]), cls=Tensor([0.0])),
        obb=None,
        masks=SimpleNamespace(data=Tensor(masks)),
        keypoints=None,
        names={0: "wall"},
        orig_shape=(45, 64),
    )
    assert Detections.from_ultralytics(results).masks.all()


def test_ultralytics_rotated_boxes_become_degrees():
    results = SimpleNamespace(
        boxes=None,
        obb=SimpleNamespace(xywhr=Tensor([[50, 40, 20, 10, np.pi / 6]]), conf=Tensor([0.9]), cls=Tensor([1.0])),
        masks=None,
        keypoints=None,
        names={1: "ship"},
        orig_shape=(100, 100),
    )
    detections = Detections.from_ultralytics(results).validate((100, 100))
    assert detections.xyxy.tolist() == [[40, 35, 60, 45]]
    assert detections.angles[0] == pytest.approx(30, abs=1e-4)


def test_an_ultralytics_classification_is_refused():
    with pytest.raises(ModelError, match="neither boxes nor obb"):
        Detections.from_ultralytics(SimpleNamespace(boxes=None, obb=None, names={}, orig_shape=(1, 1)))


def test_torchvision_dict():
    output = {
        "boxes": Tensor([[1.0, 2, 3, 4]]),
        "labels": Tensor(np.array([7], np.int64)),
        "scores": Tensor([0.5]),
        "masks": Tensor(np.full((1, 1, 8, 9), 0.7)),
        "keypoints": Tensor(np.ones((1, 17, 3))),
    }
    detections = Detections.from_torchvision(output).validate((9, 8))
    assert detections.class_ids.tolist() == [7]
    assert detections.masks.all()


def test_whole_frame_results_stay_with_the_rows_that_are_picked():
    whole = WholeFrame(classification=[Classification(3, 0.7, "red", "colour")], embedding=[1, 2])
    detections = Detections(
        [[0, 0, 4, 4], [1, 1, 3, 3]], [0.5, 0.6], [0, 1], box_masks=[np.ones((2, 2)), np.zeros((1, 3))], whole=whole
    ).validate((10, 10))
    picked = detections.filter(confidence=0.55)
    assert picked.whole is whole
    assert [mask.shape for mask in picked.box_masks] == [(1, 3)]
    assert whole.embedding.dtype == np.float32


def test_packed_masks_stay_packed_with_the_rows_that_are_picked():
    masks = PackedMasks(np.array([0b1, 0b1010], np.uint8), np.array([0, 1]), np.array([2, 2]), np.array([2, 3]))
    detections = Detections([[0, 0, 4, 4], [1, 1, 3, 3]], [0.5, 0.6], [0, 1], box_masks=masks).validate((10, 10))
    picked = detections.filter(confidence=0.55)
    assert isinstance(picked.box_masks, PackedMasks)
    assert [mask.tolist() for mask in picked.box_masks] == [[[0, 1], [0, 1], [0, 0]]]
    assert detections.box_masks[0].dtype == np.float32
    with pytest.raises(ModelError, match="box_masks: masks has one that does not lie within the 2 bytes"):
        replace(detections, box_masks=replace(masks, starts=np.array([0, 2]))).validate()


@pytest.mark.parametrize(
    ("whole", "said"),
    [
        (WholeFrame(classification=["red"]), "classification"),
        (WholeFrame(classification=[Classification(0, label="r\0d")]), r"Classification.label is 'r\\x00d'"),
        (WholeFrame(classification=[Classification(0, name=5)]), "Classification.name is a int"),
        (WholeFrame(text=5), "WholeFrame.text is a int"),
        (WholeFrame(text="\0"), "WholeFrame.text is"),
        (WholeFrame(embedding=[[1.0]]), r"embedding is float32 \[1, 1\]"),
        (WholeFrame(embedding=[np.nan]), "embedding"),
        (WholeFrame(keypoints=[[1.0]]), r"keypoints.*\[K, 2\]"),
        (WholeFrame(segmentation=Segmentation([[0, 4]], classes=3)), "holds 0 to 4"),
        (WholeFrame(segmentation=Segmentation([[-2, 1]])), "holds -2"),
        (WholeFrame(segmentation=Segmentation([0, 1])), "rows, columns"),
        (WholeFrame(segmentation=Segmentation([[0, 1]], np.zeros((2, 2, 2)))), r"right is float32 \[2, 1, 2\]"),
    ],
)
def test_wrong_results_for_the_whole_frame_are_refused_by_name(whole, said):
    with pytest.raises(ModelError, match=said):
        Detections.of_whole(whole).validate()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"box_masks": [np.ones((2, 2))], "masks": np.ones((1, 9, 9), bool)}, "one of the two"),
        ({"box_masks": []}, "0 items"),
        ({"border_colors": [[1, 0, 0]]}, "border_colors has shape"),
        ({"fill_colors": [[1, 0, np.nan, 1]]}, "fill_colors holds NaN"),
        ({"box_masks": [np.ones(3)]}, r"box_masks\[0\]"),
        ({"box_masks": [np.ones((0, 3))]}, "no cells"),
    ],
)
def test_wrong_box_masks_are_refused_by_name(more, said):
    with pytest.raises(ModelError, match=said):
        Detections([[0, 0, 4, 4]], [0.5], [0], **more).validate()
