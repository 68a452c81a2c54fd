"""Parts of pictures: which pixels they are, and results of parts as results of the picture."""

import math

import numpy as np
import pytest

from sluice.contract.packed_masks import PackedMasks
from sluice.errors import ModelError
from sluice.models.crops import Region, clipped, merge, region_of, to_picture
from sluice.models.detections import Detections
from sluice.models.whole import WholeFrame

SIZE = (100, 60)


@pytest.mark.parametrize(
    ("box", "expected"),
    [
        ((10, 20, 30, 20), (10, 20, 30, 20)),
        ((9, 19, 31, 21), (10, 20, 30, 20)),  # corners are rounded up to even numbers, sizes down
        ((9.9, 18.2, 30.9, 21.9), (10, 18, 30, 20)),
        ((-10, -4, 30, 20), (0, 0, 20, 16)),
        ((91, 51, 40, 40), (92, 52, 8, 8)),
        ((97, 0, 3, 9), (98, 0, 2, 8)),
        ((0, 0, 100, 60), (0, 0, 100, 60)),
    ],
)
def test_the_pixels_of_a_box_are_those_that_nvinfer_takes(box, expected):
    region = region_of(box, SIZE)
    assert region == expected
    assert region.left + region.width <= SIZE[0]
    assert region.top + region.height <= SIZE[1]


@pytest.mark.parametrize("box", [(0, 0, 1.5, 9), (99, 0, 9, 9), (120, 0, 9, 9), (0, -9, 9, 9), (5, 5, 0, 9)])
def test_a_box_without_pixels_has_none(box):
    assert region_of(box, SIZE) is None


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", range(4))
def test_a_box_that_is_no_box_has_no_pixels_or_some_of_the_surface(bad, place):
    box = [8.0, 8.0, 20.0, 20.0]
    box[place] = bad
    region = region_of(box, SIZE)
    if bad is math.inf and place > 1:
        assert region is not None
        assert region.left + region.width <= SIZE[0]
        assert region.top + region.height <= SIZE[1]
    else:
        assert region is None


def test_every_box_has_even_pixels_inside_the_surface():
    rng = np.random.default_rng(0)
    for size in ((100, 60), (33, 17), (7, 5)):
        for box in rng.uniform(-20, 60, (300, 4)):
            region = region_of(box, size)
            if region is not None:
                assert all(number % 2 == 0 for number in region)
                assert region.left >= 0
                assert region.top >= 0
                assert region.left + region.width <= size[0]
                assert region.top + region.height <= size[1]


def test_results_move_to_where_the_part_lies():
    masks = np.zeros((1, 20, 30), bool)
    masks[0, 5:10, 4:8] = True
    whole = WholeFrame(keypoints=[[1, 2, 0.5]])
    found = Detections(
        [[4, 5, 8, 10]], [0.5], [1], angles=[30], masks=masks, keypoints=[[[1, 2], [3, 4]]], whole=whole
    ).validate((30, 20))
    moved = to_picture(found, Region(10, 20, 30, 20)).validate(SIZE)
    assert moved.xyxy.tolist() == [[14, 25, 18, 30]]
    assert moved.keypoints.tolist() == [[[11, 22], [13, 24]]]
    assert moved.whole.keypoints.tolist() == [[11, 22, 0.5]]
    assert moved.angles.tolist() == [30]
    assert moved.masks is None
    assert moved.box_masks[0].tolist() == np.ones((5, 4)).tolist()
    assert found.xyxy.tolist() == [[4, 5, 8, 10]], "the model's own arrays are not changed"
    assert whole.keypoints.tolist() == [[1, 2, 0.5]]


def test_of_a_classs_boxes_in_two_parts_the_best_is_kept():
    left = Detections([[0, 0, 10, 10], [20, 0, 30, 10]], [0.6, 0.7], [1, 1], embeddings=[[1], [2]])
    right = Detections([[21, 0, 31, 10], [21, 0, 31, 10]], [0.9, 0.8], [1, 2], embeddings=[[3], [4]])
    merged = merge([left, Detections.empty(), right], 0.45)
    assert merged.scores.tolist() == pytest.approx([0.9, 0.8, 0.6])
    assert merged.class_ids.tolist() == [1, 2, 1]
    assert merged.embeddings.tolist() == [[3], [4], [1]]


def test_texts_and_masks_are_merged_row_by_row():
    parts = [
        Detections([[x, 0, x + 9, 9]], [0.5], [0], texts=[f"at {x}"], box_masks=[np.full((1, x + 1), 1.0)])
        for x in (0, 20)
    ]
    merged = merge(parts, 0.5)
    assert sorted(merged.texts) == ["at 0", "at 20"]
    assert sorted(mask.shape for mask in merged.box_masks) == [(1, 1), (1, 21)]


ONE_BY_EIGHT = np.array([0]), np.array([8]), np.array([1])  # starts, columns, lines


def test_packed_masks_are_merged_as_they_are():
    parts = [
        Detections([[x, 0, x + 9, 9]], [0.5], [0], box_masks=PackedMasks(np.array([x], np.uint8), *ONE_BY_EIGHT))
        for x in (0, 20)
    ]
    merged = merge(parts, 0.5)
    assert isinstance(merged.box_masks, PackedMasks)
    wanted = {0.0: [0] * 8, 20.0: [0, 0, 1, 0, 1, 0, 0, 0]}
    for box, mask in zip(merged.xyxy.tolist(), merged.box_masks, strict=True):
        assert mask.tolist() == [wanted[box[0]]]


def test_nothing_in_any_part_is_nothing():
    assert len(merge([Detections.empty(), Detections.empty()], 0.5)) == 0


def test_a_single_part_is_left_as_it_is():
    only = Detections([[0, 0, 9, 9], [0, 0, 9, 9]], [0.5, 0.4], [0, 0], whole=WholeFrame())
    merged = merge([only, Detections.empty()], 0.5)
    assert len(merged) == 2, "what a model lets stand in one part is its own affair"
    assert merged.whole is None


def test_parts_that_differ_in_what_they_have_are_refused_by_name():
    parts = [Detections([[0, 0, 9, 9]], [0.5], [0], angles=[1]), Detections([[0, 0, 9, 9]], [0.5], [0])]
    with pytest.raises(ModelError, match="angles"):
        merge(parts, 0.5)


def test_boxes_and_masks_are_cut_at_an_edge():
    masks = [np.array([[0, 0, 1, 1]], np.float32), np.ones((2, 2), np.float32)]
    found = clipped(Detections([[-10, 0, 10, 9], [40, 0, 50, 9]], [0.5, 0.6], [0, 1], box_masks=masks), (30, 20))
    assert found.xyxy.tolist() == [[0, 0, 10, 9]]
    assert found.box_masks[0].tolist() == [[1, 1]]
    assert found.class_ids.tolist() == [0]
