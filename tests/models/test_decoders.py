"""The first decoders: boxes against plain loops over made-up outputs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sluice.errors import ConfigurationError
from sluice.models.decoders import DECODERS, named_decoder
from sluice.models.decoders.base import cells
from sluice.runtimes import NetworkInfo, TensorInfo


def network(*shapes, **metadata):
    outputs = tuple(TensorInfo(f"output{i}", shape, "float32") for i, shape in enumerate(shapes))
    return NetworkInfo((TensorInfo("images", (1, 3, 64, 96), "float32"),), outputs, metadata)


WIDTH, HEIGHT = 96, 64
CELLS = cells(WIDTH, HEIGHT, (8, 16, 32))  # 96 + 24 + 6
NAMES = "{0: 'person', 1: 'car'}"
NANODET = [(1, n, c) for c in (80, 32) for n in (96, 24, 6)]

HEADS = {
    "yolox": [network((1, CELLS, 85)), network((None, CELLS, 7), names=NAMES)],
    "yolov5": [network((1, 3 * CELLS, 85))],
    "yolov8": [
        network((1, 84, CELLS)),
        network((1, CELLS, 84), names=str({i: str(i) for i in range(80)})),
        network((1, 6, CELLS), names=NAMES, task="detect"),
        network((1, 116, CELLS), (1, 32, 16, 24)),
    ],
    "yolo-end2end": [network((1, 300, 6)), network((None, 300, 6), names=NAMES, task="detect")],
    "nanodet": [network(*NANODET)],
    "fastestdet": [network((1, 85, 4, 6))],
}


def test_a_decoder_that_does_not_exist_is_named_with_the_nearest():
    with pytest.raises(ConfigurationError, match=r"no decoder 'yolo8'; did you mean 'yolov8'\? \(there are: yolox"):
        named_decoder("yolo8")


def decode(name, info, *outputs, confidence=0.5):
    return DECODERS[name](info, WIDTH, HEIGHT).decode(outputs, 0, confidence)


@pytest.mark.parametrize("name", HEADS)
def test_no_boxes_keep_shapes_and_types(name):
    info = HEADS[name][0]
    outputs = [np.full([size or 1 for size in item.shape], 1e-6, np.float32) for item in info.outputs]
    xyxy, scores, class_ids, *_ = decode(name, info, *outputs)
    assert (xyxy.shape, scores.shape, class_ids.shape) == ((0, 4), (0,), (0,))
    assert (xyxy.dtype, scores.dtype, class_ids.dtype) == (np.float32, np.float32, np.int32)


def grid_cells():
    for stride in (8, 16, 32):
        for row in range(HEIGHT // stride):
            for column in range(WIDTH // stride):
                yield stride, row, column


def test_yolox_against_a_loop():
    rng = np.random.default_rng(0)
    output = rng.uniform(0, 1, (1, CELLS, 7)).astype(np.float32)
    expected = []
    for (stride, row, column), (ox, oy, ow, oh, objectness, *classes) in zip(grid_cells(), output[0], strict=True):
        best = int(np.argmax(classes))
        if objectness * classes[best] >= 0.5:
            cx, cy, w, h = (ox + column) * stride, (oy + row) * stride, math.exp(ow) * stride, math.exp(oh) * stride
            corners = (cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2)
            expected.append((*corners, objectness * classes[best], best))
    xyxy, scores, class_ids, *_ = decode("yolox", network((1, CELLS, 7)), output)
    assert len(expected) > 5
    assert np.allclose(np.column_stack([xyxy, scores, class_ids]), expected, rtol=1e-5)


def test_yolov5_against_a_loop():
    rng = np.random.default_rng(0)
    output = rng.uniform(0, 1, (1, 3 * CELLS, 7)).astype(np.float32)
    xyxy, scores, class_ids, *_ = decode("yolov5", network((1, 3 * CELLS, 7)), output)
    expected = [
        (cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2, o * max(c), int(np.argmax(c)))
        for cx, cy, w, h, o, *c in output[0]
        if o * max(c) >= 0.5
    ]
    assert np.allclose(np.column_stack([xyxy, scores, class_ids]), expected, rtol=1e-5)


def yolov8_output(normalised=False):
    rng = np.random.default_rng(0)
    output = rng.uniform(0, 0.6, (1, 6, CELLS)).astype(np.float32)
    for cell, (stride, row, column) in enumerate(grid_cells()):
        output[0, :4, cell] = (column + 0.5) * stride, (row + 0.5) * stride, stride * 2, stride
    if normalised:
        output[0, :4] /= np.array([[WIDTH], [HEIGHT], [WIDTH], [HEIGHT]])
    return output


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("normalised", [False, True])
def test_yolov8_in_both_orders_and_both_units(transposed, normalised):
    pixels = yolov8_output()[0]
    expected = [
        (cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2, max(classes), int(np.argmax(classes)))
        for cx, cy, w, h, *classes in pixels.T
        if max(classes) >= 0.5
    ]
    output = yolov8_output(normalised)
    output = output.transpose(0, 2, 1) if transposed else output
    xyxy, scores, class_ids, *_ = decode("yolov8", network(output.shape), output)
    assert len(expected) > 5
    assert np.allclose(np.column_stack([xyxy, scores, class_ids]), expected, rtol=1e-5)


def test_yolov8_segmentation_does_not_take_mask_coefficients_for_scores():
    output = np.zeros((1, 4 + 2 + 32, CELLS), np.float32)
    output[0, :4] = 50
    output[0, 6:] = 0.9
    output[0, 5, 7] = 0.8
    info = network(output.shape, (1, 32, 16, 24))
    _, scores, class_ids, *_ = decode("yolov8", info, output, np.zeros((1, 32, 16, 24), np.float32))
    assert (scores.tolist(), class_ids.tolist()) == ([pytest.approx(0.8)], [1])


def test_end_to_end_rows():
    output = np.array([[[1, 2, 30, 40, 0.9, 7], [5, 6, 7, 8, 0.4, 1], [0, 0, 0, 0, 0, 0]]], np.float32)
    xyxy, scores, class_ids, *_ = decode("yolo-end2end", network((1, 3, 6)), output)
    assert (xyxy.tolist(), class_ids.tolist()) == ([[1, 2, 30, 40]], [7])
    assert scores.tolist() == [pytest.approx(0.9)]


def test_nanodet_against_a_loop():
    rng = np.random.default_rng(0)
    outputs = [rng.uniform(0, 0.55, shape).astype(np.float32) for shape in NANODET[:3]]
    outputs += [rng.normal(0, 2, shape).astype(np.float32) for shape in NANODET[3:]]
    expected = []
    for scores, sides, stride in zip(outputs[:3], outputs[3:], (8, 16, 32), strict=True):
        for cell in range(scores.shape[1]):
            row, column = divmod(cell, WIDTH // stride)
            best = int(scores[0, cell].argmax())
            if scores[0, cell, best] >= 0.548:
                weights = np.exp(sides[0, cell].reshape(4, 8).astype(np.float64))
                left, top, right, bottom = (weights * np.arange(8)).sum(1) / weights.sum(1) * stride
                x, y = column * stride + 0.5 * (stride - 1), row * stride + 0.5 * (stride - 1)
                expected.append((x - left, y - top, x + right, y + bottom, scores[0, cell, best], best))
    xyxy, scores, class_ids, *_ = decode("nanodet", network(*NANODET), *outputs, confidence=0.548)
    assert len(expected) > 5
    assert np.allclose(np.column_stack([xyxy, scores, class_ids]), expected, rtol=1e-4, atol=1e-4)


def test_fastestdet_against_a_loop():
    rng = np.random.default_rng(0)
    output = rng.uniform(0, 1, (1, 7, 4, 6)).astype(np.float32)
    expected = []
    for row in range(4):
        for column in range(6):
            objectness, bx, by, bw, bh, *classes = output[0, :, row, column].astype(float)
            score = objectness**0.6 * max(classes) ** 0.4
            if score >= 0.5:
                cx, cy = (column + math.tanh(bx)) / 6 * WIDTH, (row + math.tanh(by)) / 4 * HEIGHT
                w, h = WIDTH / (1 + math.exp(-bw)), HEIGHT / (1 + math.exp(-bh))
                corners = (cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2)
                expected.append((*corners, score, int(np.argmax(classes))))
    xyxy, scores, class_ids, *_ = decode("fastestdet", network((1, 7, 4, 6)), output)
    assert np.allclose(np.column_stack([xyxy, scores, class_ids]), expected, rtol=1e-4)
