"""nvinfer's own parsers, the filters on the frame, label files, and what objects look like."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sluice.errors import ModelError
from sluice.models.letterbox import Letterbox
from sluice.models.nvinfer.boxes import PARSERS, cut
from sluice.models.nvinfer.keys import ClassAttributes, Properties
from sluice.models.nvinfer.labels import as_lines, classifier_labels, detector_labels, read_label_lines
from sluice.models.nvinfer.parsers import DetectNetParser, class_map, classify, segment
from sluice.models.nvinfer.writing import colours_of, on_frame
from sluice.runtimes import NetworkInfo, TensorInfo

PICTURE = (TensorInfo("input", (None, 3, 64, 96), "float32"),)


def info_of(**outputs):
    return NetworkInfo(PICTURE, tuple(TensorInfo(name, (None, *shape), "float32") for name, shape in outputs.items()))


def detectnet_by_hand(cov, bbox, thresholds, width, height):
    """The loop in nvinfer's words: class, row, column."""
    rows, columns = cov.shape[1:]
    strides = int(np.ceil(width / columns)), int(np.ceil(height / rows))
    found = []
    for c in range(min(len(cov), len(thresholds))):
        for j in range(rows):
            for i in range(columns):
                if cov[c, j, i] < thresholds[c]:
                    continue
                gx, gy = (i * strides[0] + 0.5) / 35, (j * strides[1] + 0.5) / 35
                b = bbox[4 * c : 4 * c + 4, j, i]
                corners = [(gx - b[0]) * 35, (gy - b[1]) * 35, (gx + b[2]) * 35, (gy + b[3]) * 35]
                limits = [width, height, width, height]
                corners = [limit - 1 if x >= limit else max(x, 0) for x, limit in zip(corners, limits, strict=True)]
                if corners[2] >= corners[0] and corners[3] >= corners[1]:
                    found.append((*corners, cov[c, j, i], c))
    return np.array(found)


def test_detectnet_equals_the_loop():
    rng = np.random.default_rng(5)
    cov = rng.uniform(0, 1, (2, 3, 4, 6)).astype(np.float32)
    bbox = rng.normal(0.3, 0.7, (2, 12, 4, 6)).astype(np.float32)
    info = info_of(**{"output_cov/Sigmoid": (3, 4, 6), "output_bbox/BiasAdd": (12, 4, 6)})
    parser = DetectNetParser(info, 96, 64, [0.5, 0.7])  # the third class is not configured
    for index in range(2):
        raw = parser.parse([cov, bbox], index)
        expected = detectnet_by_hand(cov[index], bbox[index], [0.5, 0.7], 96, 64)
        assert len(expected) > 5
        np.testing.assert_allclose(raw.xyxy, expected[:, :4], rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(raw.scores, expected[:, 4], rtol=1e-6)
        assert raw.class_ids.tolist() == expected[:, 5].astype(int).tolist()


def test_detectnet_takes_the_last_output_of_a_name():
    info = info_of(bbox_old=(8, 4, 6), bbox=(4, 4, 6), cov=(1, 4, 6))
    cov = np.ones((1, 1, 4, 6), np.float32)
    bbox = np.full((1, 4, 4, 6), 0.1, np.float32)
    assert len(DetectNetParser(info, 96, 64, [0.5]).parse([bbox * 50, bbox, cov], 0).xyxy) == 24


def test_detectnet_names_what_is_missing():
    with pytest.raises(
        ModelError, match="whose outputs have 'cov' and 'bbox' in their names; this network has output0"
    ):
        DetectNetParser(info_of(output0=(84, 100)), 96, 64, [0.5])
    with pytest.raises(ModelError, match=r"boxes \[4 C, h, w\]"):
        DetectNetParser(info_of(cov=(3, 4, 6), bbox=(8, 4, 6)), 96, 64, [0.5])


def parsed(name, outputs, confidence=0.25):
    """What a form of outputs, given as {name: array of one picture}, is read as."""
    info = info_of(**{key: value.shape for key, value in outputs.items()})
    assert PARSERS[name].why_not(info) is None
    return PARSERS[name](info, 96, 64, confidence).parse([value[None] for value in outputs.values()], 0)


def test_older_exports_of_deepstream_yolo():
    raw = parsed(
        "deepstream-layers",
        {
            "scores": np.array([[0.9], [0.1]], np.float32),
            "boxes": np.array([[1, 2, 30, 40], [5, 6, 7, 8]], np.float32),
            "classes": np.array([[3], [0]], np.float32),
        },
    )
    assert raw.xyxy.tolist() == [[1, 2, 30, 40]]
    assert (raw.class_ids.tolist(), raw.scores.tolist()) == ([3], [pytest.approx(0.9)])


@pytest.mark.parametrize(
    ("name", "box"),
    [
        ("batched-nms", [0.25, 0.5, 0.5, 0.75]),
        ("batched-nms-pixels", [24, 32, 48, 48]),
        ("tf-ssd", [0.5, 0.25, 0.75, 0.5]),
        ("efficientdet-tao", [32, 24, 48, 48]),
    ],
)
@pytest.mark.parametrize(
    "names", [("a", "b", "c", "d"), ("num_detections", "nmsed_boxes", "nmsed_scores", "nmsed_classes")]
)
def test_suppressed_outputs(name, box, names):
    arrays = (
        np.array([2], np.int32),
        np.array([box, [0, 0, 1, 1], box], np.float32),
        np.array([0.9, 0.2, 0.8], np.float32),
        np.array([1, 0, 2], np.float32),
    )
    raw = parsed(name, dict(zip(names, arrays, strict=True)))  # the third lies behind the count
    assert raw.xyxy.tolist() == [[24, 32, 48, 48]]
    assert (raw.class_ids.tolist(), raw.scores.tolist()) == ([1], [pytest.approx(0.9)])


def test_tao_deformable_detr_leaves_the_background_out():
    logits = np.full((3, 3), -9, np.float32)
    logits[0, 0], logits[1, 2], logits[2, 1] = 3, 1, 2
    boxes = np.array([[0.5, 0.5, 0.5, 0.5], [0.5, 0.5, 0.5, 0.25], [0.25, 0.25, 0.25, 0.5]], np.float32)
    raw = parsed("deformable-detr-tao", {"pred_boxes": boxes, "pred_logits": logits})
    assert raw.class_ids.tolist() == [1, 2]
    assert raw.scores.tolist() == pytest.approx([1 / (1 + np.exp(-2)), 1 / (1 + np.exp(-1))])
    assert raw.xyxy.tolist() == [[12, 0, 36, 32], [24, 24, 72, 40]]


def test_tao_mask_rcnn():
    detections = np.array([[8, 4, 40, 30, 1, 0.9], [0, 0, 9, 9, 0, 0.1]], np.float32)
    masks = np.zeros((2, 2, 3, 3), np.float32)
    masks[0, 1, 1, 1] = 5
    raw = parsed("mask-rcnn-tao", {"generate_detections": detections, "mask_fcn_logits/BiasAdd": masks})
    assert (raw.xyxy.tolist(), raw.class_ids.tolist()) == ([[4, 8, 30, 40]], [1])
    (cells,) = raw.masks.cut(np.array([0]), raw.xyxy, (96, 64))
    assert cells.tolist() == [[0, 0, 0], [0, 5, 0], [0, 0, 0]]


@pytest.mark.parametrize("name", list(PARSERS))
def test_other_outputs_are_none_of_these_forms(name):
    assert "needs " in (PARSERS[name].why_not(info_of(output0=(84, 2100))) or "")


def test_boxes_are_cut_at_the_input():
    boxes = np.array([[-5, -5, 5, 5], [90, 60, 120, 90], [95.5, 0, 99, 9], [10, 10, 20, 20]], np.float32)
    found, rows = cut(boxes, 96, 64)
    assert found.tolist() == [[0, 0, 5, 5], [90, 60, 96, 64], [10, 10, 20, 20]]
    assert rows.tolist() == [0, 1, 3]


def test_classifier_takes_the_first_best_of_each_output_above_the_threshold():
    outputs = [np.array([[0.1, 0.45, 0.45]], np.float32), np.array([[[0.3], [0.2]]], np.float32).reshape(1, 2, 1, 1)]
    found = classify(outputs, 0, 0.3, (("red", "green", "blue"), ("car",)), "colour")
    assert [(item.class_id, item.label, item.name, item.index) for item in found] == [(1, "green", "colour", 0)]
    found = classify(outputs, 0, 0.0, (), None)
    assert [(item.class_id, item.label, item.index) for item in found] == [(1, None, 0), (0, None, 1)]
    assert classify([np.array([[-2.0, -1.0]])], 0, 0.0, (), None) == []


def test_classifier_with_softmax():
    (item,) = classify([np.array([[0.0, np.log(3.0)]])], 0, 0.5, (("a", "b"),), None, softmax=True)
    assert (item.label, item.score) == ("b", pytest.approx(0.75))


@pytest.mark.parametrize("channels_last", [False, True])
def test_segmentation_is_the_best_channel_above_the_threshold(channels_last):
    values = np.zeros((3, 2, 4), np.float32)
    values[2, 0, 1], values[1, 1, 3], values[0, 0, 0] = 0.6, 0.9, 0.4
    output = values.transpose(1, 2, 0) if channels_last else values
    found = segment(output, 0.4, channels_last=channels_last)
    assert found.class_map.tolist() == [[-1, 2, -1, -1], [-1, -1, -1, 1]]
    assert found.classes == 3
    np.testing.assert_array_equal(found.probabilities, values)


@pytest.mark.parametrize("shape", [(2, 3), (1, 2, 3), (2, 3, 1)])
def test_finished_maps_of_classes(shape):
    found = class_map(np.arange(6, dtype=np.int64).reshape(shape), 19)
    assert found.class_map.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found.classes == 19


FRAME = (100, 80)
BOX = Letterbox(100, 80, 10, 0, 50, 40)  # half the size, 10 px of padding at the left


def placed(rows, properties=None, **attributes):
    values = np.array(rows, np.float32)
    classes = [replace(ClassAttributes(), **attributes)] * 3
    found, kept = on_frame(
        values[:, :4], values[:, 4].astype(np.int32), BOX, FRAME, replace(Properties(), **(properties or {})), classes
    )
    return found.tolist(), kept.tolist()


def test_boxes_come_back_to_the_frame():
    assert placed([[20, 10, 30, 25, 0]]) == ([[20, 20, 40, 50]], [0])


def test_a_box_that_starts_outside_moves_and_keeps_its_size():
    assert placed([[5, 10, 30, 25, 0]]) == ([[0, 20, 50, 50]], [0])


def test_a_box_that_ends_below_the_frame_is_dropped_unless_it_is_cut():
    rows = [[20, 30, 30, 45, 0], [50, 10, 70, 40, 0]]
    assert placed(rows) == ([[80, 20, 120, 80]], [1])
    cropped = placed(rows, {"crop_objects_to_roi_boundary": True})
    assert cropped == ([[20, 60, 40, 80], [80, 20, 100, 80]], [0, 1])


def test_offsets_of_the_region():
    rows = [[20, 4, 30, 20, 0], [20, 10, 30, 30, 0], [20, 15, 30, 38, 0]]
    limits = {"roi_top_offset": 10, "roi_bottom_offset": 10}
    assert placed(rows, **limits)[1] == [1]
    cropped, kept = placed(rows, {"crop_objects_to_roi_boundary": True}, **limits)
    assert kept == [0, 1, 2]
    assert cropped[0] == [20, 10, 40, 42]  # the top goes down, the height stays
    assert cropped[2] == [20, 30, 40, 70]


def test_sizes_and_classes_are_filtered():
    rows = [[20, 10, 30, 25, 0], [20, 10, 24, 25, 0], [20, 10, 40, 25, 0], [20, 10, 30, 25, 2]]
    assert placed(rows, {"filter_out_class_ids": (2,)}, detected_min_w=20, detected_max_w=39)[1] == [0]
    assert placed(rows, detected_min_h=31)[1] == []
    assert placed(rows, detected_max_h=30)[1] == [0, 1, 2, 3]


def test_no_boxes():
    found, kept = on_frame(
        np.empty((0, 4), np.float32), np.empty(0, np.int32), BOX, FRAME, Properties(), [ClassAttributes()]
    )
    assert found.shape == (0, 4)
    assert len(kept) == 0


def test_colours_are_the_classes():
    classes = [ClassAttributes(), replace(ClassAttributes(), border_color=(0, 1, 0, 1), bg_color=(0, 0, 1, 0.5))]
    border, fill = colours_of(np.array([1, 0], np.int32), classes)
    assert border.tolist() == [[0, 1, 0, 1], [1, 0, 0, 1]]
    assert fill.tolist() == [[0, 0, 1, 0.5], [0, 0, 0, 0]]
    assert colours_of(np.array([0, 0], np.int32), classes[:1]) == (None, None)
    assert colours_of(np.empty(0, np.int32), []) == (None, None)


def test_label_files_of_both_forms(tmp_path):
    path = tmp_path / "labels.txt"
    path.write_bytes(b"person\r\nbicycle;two wheels \r\ncar")
    lines = read_label_lines(path)
    assert detector_labels(lines) == ("person", "bicycle", "car")
    path.write_text("red;green;blue;\ncar;bus\n")
    lines = read_label_lines(path)
    assert classifier_labels(lines, 2, "f") == ((("red", "green", "blue"), ("car", "bus")), None)


def test_a_class_a_line_for_a_classifier_is_read_and_said(tmp_path):
    path = tmp_path / "labels.txt"
    path.write_text("cat\ndog\n")
    labels, warning = classifier_labels(read_label_lines(path), 1, str(path))
    assert labels == (("cat", "dog"),)
    assert "has a class a line" in (warning or "")


def test_given_labels_stand_as_lines():
    assert as_lines(["a", "b"], detector=True) == (("a",), ("b",))
    assert as_lines(["a", "b"], detector=False) == (("a", "b"),)


def test_label_files_that_cannot_be_read(tmp_path):
    with pytest.raises(ModelError, match="labelfile-path: cannot read"):
        read_label_lines(tmp_path / "none.txt")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    with pytest.raises(ModelError, match="not UTF-8"):
        read_label_lines(tmp_path / "latin.txt")
