"""From network pixels to frame pixels: rotated suppression, angles, key points, masks in letterboxes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sluice.models.decoders.base import Raw
from sluice.models.decoders.masks import MOST_CELLS, Masks
from sluice.models.letterbox import Letterbox
from sluice.models.postprocess import rotated_nms_indices, rotated_to_frame, to_detections

FRAME, NETWORK = (200, 100), (96, 96)
BOX = Letterbox.fit(FRAME, NETWORK, "centre")  # 96 x 48, 24 lines down


def raw(*rows, **more):
    array = np.array(rows, np.float32).reshape(-1, 6)
    return Raw(array[:, :4], array[:, 4], array[:, 5].astype(np.int32), **more)


def frames(value, box=BOX, **options):
    given = {"iou": 0.5, "class_agnostic": False, "max_detections": 100, **options}
    return to_detections(value, box, NETWORK, **given).validate(FRAME)


def test_boxes_and_key_points_come_back_to_the_frame():
    points = np.array([[[48, 48, 0.7], [0, 24, 0.3]]], np.float32)
    found = frames(raw((0, 24, 48, 72, 0.9, 1), keypoints=points))
    scale = 200 / 96
    assert found.xyxy.tolist() == [pytest.approx([0, 0, 48 * scale, 100])]
    assert np.allclose(found.keypoints, [[[100, 50, 0.7], [0, 0, 0.3]]], atol=1e-4)
    assert points[0, 0, 0] == 48  # what the decoder gave is left as it is


def test_rows_of_everything_are_suppressed_and_cut_together():
    points = np.arange(6, dtype=np.float32).reshape(3, 1, 2) + 30
    masks = Masks(np.stack([np.full((4, 4), value, np.float32) for value in (-9, 9, -9)]))
    rows = (10, 30, 40, 60, 0.5, 0), (11, 30, 40, 60, 0.9, 0), (60, 30, 90, 60, 0.7, 0)
    found = frames(raw(*rows, keypoints=points, masks=masks))
    assert found.scores.tolist() == pytest.approx([0.9, 0.7])
    assert [bool((mask > 0.5).all()) for mask in found.box_masks] == [True, False]
    assert np.allclose(found.keypoints[:, 0], BOX.to_frame(points[[1, 2], 0]))
    assert len(frames(raw(*rows, keypoints=points, masks=masks), max_detections=1).box_masks) == 1
    assert len(frames(raw(*rows), iou=None)) == 3


def test_a_mask_covers_the_box_as_it_is_after_clipping():
    """The box reaches into the padding above the frame; the mask's edge at y = 48 is the frame's middle."""
    plane = np.full((1, 96, 96), -6, np.float32)
    plane[0, :48] = 6
    found = frames(raw((20, 0, 40, 72, 0.9, 0), masks=Masks(plane)))
    [mask] = found.box_masks
    assert found.xyxy[0, 1] == 0
    assert mask.shape == (48, 20)
    assert (mask[:23] > 0.5).all()
    assert (mask[25:] < 0.5).all()


def test_an_object_whose_mask_of_prototypes_is_empty_is_left_out():
    """Ultralytics leaves it out; torchvision and RF-DETR, whose masks are finished, do not."""
    prototypes = np.stack([np.full((24, 24), 3, np.float32), np.full((24, 24), -3, np.float32)])
    rows = (10, 30, 40, 60, 0.9, 0), (60, 30, 90, 60, 0.7, 1)
    found = frames(raw(*rows, masks=Masks(np.eye(2, dtype=np.float32), prototypes)))
    assert (found.class_ids.tolist(), len(found.box_masks)) == ([0], 1)
    assert len(frames(raw(*rows, masks=Masks(prototypes)))) == 2


def test_a_mask_of_a_pixel_is_seen_as_ultralytics_sees_it():
    """Enlarged to the input's size, the mask begins at column 36: a box that ends at 36 has none of it."""
    prototypes = np.full((1, 24, 24), -3, np.float32)
    prototypes[0, :, 9:] = 4
    rows = (20, 28, 36, 32, 0.9, 0), (20, 28, 36.5, 32, 0.8, 1)
    found = frames(raw(*rows, masks=Masks(np.ones((2, 1), np.float32), prototypes)))
    assert found.class_ids.tolist() == [1]


@pytest.mark.parametrize("iou", [0.5, None])
def test_a_box_turned_inside_out_is_left_out(iou):
    rows = (20, 30, 10, 60, 0.95, 0), (10, 30, 40, 60, 0.9, 0), (50, 40, 60, 30, 0.7, 1)
    assert frames(raw(*rows), iou=iou, class_agnostic=True).scores.tolist() == [pytest.approx(0.9)]


def test_masks_of_large_boxes_have_few_cells():
    masks = Masks(np.zeros((1, 160, 160), np.float32))
    [mask] = masks.cut(np.array([0]), np.array([[0, 0, 640, 320]], np.float32), (640, 640))
    assert mask.shape == (MOST_CELLS, MOST_CELLS)


def test_no_rows_keep_their_shapes():
    empty = Raw(
        np.empty((0, 4), np.float32),
        np.empty(0, np.float32),
        np.empty(0, np.int32),
        angles=np.empty(0, np.float32),
        keypoints=np.empty((0, 17, 3), np.float32),
        masks=Masks(np.empty((0, 32), np.float32), np.zeros((32, 8, 8), np.float32)),
    )
    found = frames(empty)
    assert (found.xyxy.shape, found.angles.shape, found.keypoints.shape) == ((0, 4), (0,), (0, 17, 3))
    assert found.box_masks == []


def test_rotated_boxes_keep_their_angle_where_the_aspect_is_kept_and_are_not_clipped():
    found = frames(raw((-10, 40, 30, 50, 0.9, 0), angles=np.array([30], np.float32)))
    scale = 200 / 96
    assert found.angles.tolist() == [30]
    assert found.xyxy.tolist() == [pytest.approx([-10 * scale, 16 * scale, 30 * scale, 26 * scale], abs=1e-4)]


def test_rotated_boxes_in_a_stretched_frame_follow_the_direction_of_their_width():
    """96 x 96 stretched to 200 x 100: a width of 20 at 45 degrees ends at (dx, dy) = (14.1 x 2.08, 14.1 x 1.04)."""
    box = Letterbox.fit(FRAME, NETWORK, "stretch")
    xyxy, angles = rotated_to_frame(np.array([[38, 43, 58, 53]], np.float32), np.array([45], np.float32), box)
    dx, dy = 20 * math.cos(math.pi / 4) * 200 / 96, 20 * math.sin(math.pi / 4) * 100 / 96
    assert angles.tolist() == [pytest.approx(math.degrees(math.atan2(dy, dx)), abs=1e-4)]
    assert float(xyxy[0, 2] - xyxy[0, 0]) == pytest.approx(math.hypot(dx, dy), rel=1e-5)


def probabilistic_overlap(one, other):
    """1 - Hellinger distance of two boxes (x, y, w, h, degrees) as Gaussians, by determinants of matrices."""

    def gaussian(box):
        x, y, w, h, degrees = box
        turn = math.radians(degrees)
        rotation = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
        return np.array([x, y]), rotation @ np.diag([w * w / 12, h * h / 12]) @ rotation.T

    (m1, c1), (m2, c2) = gaussian(one), gaussian(other)
    mean = (c1 + c2) / 2
    distance = (m1 - m2) @ np.linalg.inv(mean) @ (m1 - m2) / 8
    distance += 0.5 * math.log(np.linalg.det(mean) / math.sqrt(np.linalg.det(c1) * np.linalg.det(c2)))
    return 1 - math.sqrt(1 - math.exp(-distance))


@pytest.mark.parametrize("agnostic", [False, True])
def test_rotated_suppression_against_a_loop(agnostic):
    rng = np.random.default_rng(1)
    count = 700  # more than a block
    boxes = np.column_stack(
        [rng.uniform(0, 200, (count, 2)), rng.uniform(5, 40, (count, 2)), rng.uniform(0, 90, count)]
    ).astype(np.float32)
    scores, classes = rng.permutation(count).astype(np.float32), rng.integers(0, 2, count).astype(np.int32)
    order = sorted(range(count), key=lambda i: -scores[i])
    expected = []
    for place, i in enumerate(order):
        rivals = [j for j in order[:place] if agnostic or classes[j] == classes[i]]
        near = [j for j in rivals if np.abs(boxes[i, :2] - boxes[j, :2]).max() < 40]
        if all(probabilistic_overlap(boxes[i].astype(float), boxes[j].astype(float)) < 0.45 for j in near):
            expected.append(i)
    xyxy = np.concatenate([boxes[:, :2] - boxes[:, 2:4] / 2, boxes[:, :2] + boxes[:, 2:4] / 2], axis=1)
    kept = rotated_nms_indices(xyxy, boxes[:, 4], scores, None if agnostic else classes, 0.45)
    assert 50 < len(expected) < count
    assert kept.tolist() == expected
