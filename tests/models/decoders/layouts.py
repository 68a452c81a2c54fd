"""Heads as exporters write them, each with the same two objects encoded in it by hand.

Nothing here uses a decoder: values are set cell by cell from the formula of the family's own code. All networks take
pictures of 96 x 64 pixels unless said otherwise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

WIDTH, HEIGHT = 96, 64
BOXES = ((10.0, 12.0, 30.0, 44.0), (48.0, 18.0, 88.0, 58.0))
SCORES = (0.9, 0.7)
CLASSES = (2, 0)
NAMES = "{0: 'cat', 1: 'dog', 2: 'bird'}"
COUNT = 3  # classes
POINTS = (((12.0, 14.0), (20.0, 30.0), (28.0, 40.0)), ((50.0, 20.0), (60.0, 40.0), (80.0, 50.0)))
POINT_CONFIDENCE = (0.9, 0.5, 0.8)


@dataclass
class Layout:
    """A network's outputs by name, and what they hold.

    Attributes:
        decoder: the decoder that reads them.
        outputs: arrays by name.
        metadata: of the file.
        shape: of the input.
        dtype: of the input.
        boxes: left, top, right, bottom of the objects.
        scores, classes: of the objects.
        angles, points: of the objects, where the head has them.
        named: the decoder has to be named.
        classes_known: labels or shapes tell the number of classes.
    """

    decoder: str
    outputs: dict[str, Any]
    metadata: dict[str, str] = field(default_factory=dict)
    shape: tuple[int | str, ...] = (1, 3, HEIGHT, WIDTH)
    dtype: str = "float32"
    boxes: tuple[tuple[float, ...], ...] = BOXES
    scores: tuple[float, ...] = SCORES
    classes: tuple[int, ...] = CLASSES
    angles: tuple[float, ...] | None = None
    points: Any = None
    named: bool = False


def centre_size(box):
    left, top, right, bottom = box
    return (left + right) / 2, (top + bottom) / 2, right - left, bottom - top


def logit(p):
    return math.log(p / (1 - p))


def input_of(layout):
    """Width and height of the picture that a layout's network takes."""
    return (128, 128) if layout.shape[-2:] == (128, 128) else (WIDTH, HEIGHT)


def cell_list(width=WIDTH, height=HEIGHT, strides=(8, 16, 32), up=False):
    """(stride, row, column) of every cell, in the order of the rows of dense heads."""
    return [
        (stride, row, column)
        for stride in strides
        for row in range(math.ceil(height / stride) if up else height // stride)
        for column in range(math.ceil(width / stride) if up else width // stride)
    ]


def dense(extra=0, count=COUNT, objectness=None, anchors=1, strides=(8, 16, 32)):
    """Rows [cells, 4 + (1) + classes + extra] of finished boxes: each cell's own, the objects in two."""
    grid = [cell for cell in cell_list(strides=strides) for _ in range(anchors)]
    first = 4 if objectness is None else 5
    rows = np.zeros((len(grid), first + count + extra), np.float32)
    for i, (stride, row, column) in enumerate(grid):
        rows[i, :4] = (column + 0.5) * stride, (row + 0.5) * stride, stride, stride
        rows[i, 4:first] = 1 if objectness == 1 else 0.01
        rows[i, first : first + count] = 0.02
    for i, box, score, class_id in zip((7, len(grid) - 26), BOXES, SCORES, CLASSES, strict=True):
        rows[i, :4] = centre_size(box)
        rows[i, first + class_id] = score
        if objectness is not None:
            rows[i, 4] = 1.0
    return rows


def finished(columns, order="xyxysc", rows=20, scale=(1, 1)):
    """Rows of finished boxes, empty behind the objects; `order` names the columns that the objects are written to."""
    array = np.zeros((rows, columns), np.float32)
    for i, (box, score, class_id) in enumerate(zip(BOXES, SCORES, CLASSES, strict=True)):
        corners = [value / size for value, size in zip(box, scale * 2, strict=True)]
        values = {"xyxysc": [*corners, score, class_id], "csxyxy": [class_id, score, *corners]}[order]
        array[i, :6] = values
    return array


PROTOTYPE_SIZE = HEIGHT // 4, WIDTH // 4


def prototypes():
    """Two prototypes: the left half of the picture is +4, the upper half is +4; the rest is -4."""
    planes = np.full((2, *PROTOTYPE_SIZE), -4, np.float32)
    planes[0, :, : WIDTH // 8] = 4
    planes[1, : HEIGHT // 8] = 4
    return planes


def with_coefficients(rows, at):
    """Rows whose objects have the first and the second prototype for a mask; columns 0, 1 of the coefficients."""
    for i, coefficients in zip(at, ((1, 0), (0, 1)), strict=True):
        rows[i, -2:] = coefficients
    return rows


def yolox():
    rows = np.full((126, 5 + COUNT), 0.01, np.float32)
    for i, box, score, class_id in zip((20, 110), BOXES, SCORES, CLASSES, strict=True):
        stride, row, column = cell_list()[i]
        x, y, w, h = centre_size(box)
        rows[i, :4] = x / stride - column, y / stride - row, math.log(w / stride), math.log(h / stride)
        rows[i, 4], rows[i, 5 + class_id] = 1.0, score
    return rows


def anchor_maps(anchors, power):
    """Three maps [1,3,h,w,5+C] of logits, the objects with anchor 1 of stride 8 and anchor 2 of stride 16."""
    maps = {s: np.full((1, 3, HEIGHT // s, WIDTH // s, 5 + COUNT), -6, np.float32) for s in (8, 16, 32)}
    for stride, anchor, box, score, class_id in zip((8, 16), (1, 2), BOXES, SCORES, CLASSES, strict=True):
        x, y, w, h = centre_size(box)
        column, row = int(x / stride), int(y / stride)
        size = anchors[stride][anchor]
        cell = maps[stride][0, anchor, row, column]
        if power:  # centre = 2 s - 0.5 + cell, size = (2 s)^2 anchor
            cell[0], cell[1] = logit((x / stride - column + 0.5) / 2), logit((y / stride - row + 0.5) / 2)
            cell[2], cell[3] = logit(math.sqrt(w / size[0]) / 2), logit(math.sqrt(h / size[1]) / 2)
        else:  # centre = s + cell, size = anchor e^t; a centre on a cell's edge is at the largest logit
            cell[0], cell[1] = (logit(max(x / stride - column, 1e-7)), logit(max(y / stride - row, 1e-7)))
            cell[2], cell[3] = math.log(w / size[0]), math.log(h / size[1])
        cell[4] = 30
        cell[5 + class_id] = logit(score)
    return list(maps.values())


V5 = {8: [(10, 13), (16, 30), (33, 23)], 16: [(30, 61), (62, 45), (59, 119)]}
V7 = {8: [(12, 16), (19, 36), (40, 28)], 16: [(36, 75), (76, 55), (72, 146)]}


def channels_first(maps):
    return [m.transpose(0, 1, 4, 2, 3).reshape(1, -1, *m.shape[2:4]) for m in maps]


def bins_of(value, count):
    """Logits of a distribution over `count` bins with this expected value: all on the two bins beside it."""
    logits = np.full(count, -40, np.float32)
    low = int(value)
    logits[low] = 0 if value == low else math.log(low + 1 - value)
    if value > low:
        logits[low + 1] = math.log(value - low)
    return logits


def distribution_head(strides, bins, point, up=False, width=WIDTH, height=HEIGHT):
    """Per stride (scores [cells, C], logits [cells, 4 bins]); objects at the second stride's cells nearest them."""
    result = {}
    for stride in strides:
        count = len(cell_list(width, height, (stride,), up))
        result[stride] = np.full((count, COUNT), 0.01, np.float32), np.zeros((count, 4 * bins), np.float32)
    stride = strides[1]
    columns = math.ceil(width / stride) if up else width // stride
    for box, score, class_id in zip(BOXES, SCORES, CLASSES, strict=True):
        x, y, _, _ = centre_size(box)
        column, row = int(x / stride), int(y / stride)
        px, py = point(column, stride), point(row, stride)
        scores, logits = result[stride]
        scores[row * columns + column, class_id] = score
        sides = px - box[0], py - box[1], box[2] - px, box[3] - py
        logits[row * columns + column] = np.concatenate([bins_of(side / stride, bins) for side in sides])
    return result


def v8_maps(bins=16):
    head = distribution_head((8, 16, 32), bins, lambda cell, stride: (cell + 0.5) * stride)
    maps = []
    for stride, (scores, logits) in head.items():
        rows = np.concatenate([logits, np.log(scores / (1 - scores))], axis=1)
        maps.append(rows.T.reshape(1, -1, HEIGHT // stride, WIDTH // stride).astype(np.float32))
    return maps


def pair():
    rows = dense()
    boxes = np.concatenate([rows[:, :2] - rows[:, 2:4] / 2, rows[:, :2] + rows[:, 2:4] / 2], axis=1)
    return boxes[None].astype(np.float32), rows[None, :, 4:]


def queries(score_of, count=100, extra=0):
    """Boxes [1,count,4] as centre and size in fractions, and class values [1,count,C] made by `score_of`."""
    boxes = np.full((1, count, 4), 0.5, np.float32)
    scores = np.full((1, count, COUNT + extra), score_of(0.01), np.float32)
    for i, box, score, class_id in zip((3, 70), BOXES, SCORES, CLASSES, strict=True):
        x, y, w, h = centre_size(box)
        boxes[0, i] = x / WIDTH, y / HEIGHT, w / WIDTH, h / HEIGHT
        scores[0, i, class_id] = score_of(score)
    return boxes, scores


def detr_logits():
    """Logits under a softmax with "no object" last."""
    boxes, scores = queries(lambda score: score, extra=1)
    scores[..., -1] = 0
    scores[..., -1] = 1 - scores.sum(axis=-1)
    # A logit of ln(p) + c gives p for any c.
    return boxes, (np.log(np.clip(scores, 1e-6, None)) + 5).astype(np.float32)


def ssd(rows=50, count=COUNT, classes=CLASSES):
    scores = np.zeros((1, rows, 1 + count), np.float32)
    boxes = np.tile(np.array([0.1, 0.1, 0.2, 0.2], np.float32), (1, rows, 1))
    for i, box, score, class_id in zip((11, 40), BOXES, SCORES, classes, strict=True):
        boxes[0, i] = [value / size for value, size in zip(box, (WIDTH, HEIGHT) * 2, strict=True)]
        scores[0, i, 1 + class_id] = score
    scores[..., 0] = 1 - scores[..., 1:].sum(axis=-1)
    return scores, boxes


def tensorflow():
    boxes, scores, classes = (
        np.zeros((1, 10, 4), np.float32),
        np.zeros((1, 10), np.float32),
        np.zeros((1, 10), np.float32),
    )
    for i, (box, score, class_id) in enumerate(zip(BOXES, SCORES, CLASSES, strict=True)):
        left, top, right, bottom = box
        boxes[0, i] = top / HEIGHT, left / WIDTH, bottom / HEIGHT, right / WIDTH
        scores[0, i], classes[0, i] = score, class_id + 1
    return boxes, scores, classes


def picked():
    """Number, corners, scores and classes of finished boxes [1, 10, ...], and rubbish behind the number."""
    boxes, scores = np.full((1, 10, 4), 5, np.float32), np.full((1, 10), 0.99, np.float32)
    classes = np.zeros((1, 10), np.int32)
    boxes[0, :2], scores[0, :2], classes[0, :2] = BOXES, SCORES, CLASSES
    return np.array([[2]], np.int32), boxes, scores, classes


def onnx_nms(yx):
    boxes, scores = np.full((1, 30, 4), 3, np.float32), np.full((1, COUNT, 30), 0.9, np.float32)
    for i, box, score, class_id in zip((4, 21), BOXES, SCORES, CLASSES, strict=True):
        boxes[0, i] = [box[k] for k in ((1, 0, 3, 2) if yx else (0, 1, 2, 3))]
        scores[0, class_id, i] = score
    picks = np.array([[0, CLASSES[0], 4], [0, CLASSES[1], 21]], np.int64)
    return picks, boxes, scores


def rows7(class_at, score_at):
    rows = np.zeros((2, 7), np.float32)
    for i, (box, score, class_id) in enumerate(zip(BOXES, SCORES, CLASSES, strict=True)):
        rows[i, 1:5], rows[i, class_at], rows[i, score_at] = box, class_id, score
    return rows


def efficientdet():
    """128 x 128: anchors of strides 8 to 128, three sizes in the outer loop, three shapes."""
    anchors = [
        ((column + 0.5) * stride, (row + 0.5) * stride, stride * 4 * 2 ** (o / 3) * w, stride * 4 * 2 ** (o / 3) * h)
        for stride, row, column in cell_list(128, 128, (8, 16, 32, 64, 128))
        for o in range(3)
        for w, h in ((1, 1), (1.4, 0.7), (0.7, 1.4))
    ]
    scores = np.full((1, len(anchors), COUNT), 0.01, np.float32)
    offsets = np.zeros((1, len(anchors), 4), np.float32)
    for i, box, score, class_id in zip((400, 2500), BOXES, SCORES, CLASSES, strict=True):
        x, y, w, h = centre_size(box)
        ax, ay, aw, ah = anchors[i]
        offsets[0, i] = (y - ay) / ah, (x - ax) / aw, math.log(h / ah), math.log(w / aw)
        scores[0, i, class_id] = score
    return offsets, scores


def centernet():
    size = HEIGHT // 4, WIDTH // 4
    heat = np.full((1, COUNT, *size), -5, np.float32)
    sizes, offsets = np.zeros((1, 2, *size), np.float32), np.zeros((1, 2, *size), np.float32)
    for box, score, class_id in zip(BOXES, SCORES, CLASSES, strict=True):
        x, y, w, h = centre_size(box)
        column, row = int(x / 4), int(y / 4)
        heat[0, class_id, row, column] = logit(score)
        heat[0, class_id, row, column + 1] = logit(score) - 0.1  # a neighbour that is no peak
        sizes[0, :, row, column] = w / 4, h / 4
        offsets[0, :, row, column] = x / 4 - column, y / 4 - row
    return heat, sizes, offsets


def centerface():
    size = HEIGHT // 4, WIDTH // 4
    maps = [np.zeros((1, n, *size), np.float32) for n in (1, 2, 2, 10)]
    for k, (box, score) in enumerate(zip(BOXES, SCORES, strict=True)):
        x, y, w, h = centre_size(box)
        column, row = int(x / 4), int(y / 4)
        maps[0][0, 0, row, column] = score
        maps[1][0, :, row, column] = math.log(h / 4), math.log(w / 4)
        maps[2][0, :, row, column] = y / 4 - row - 0.5, x / 4 - column - 0.5
        for j, (px, py) in enumerate(FIVE[k]):
            maps[3][0, 2 * j : 2 * j + 2, row, column] = (py - box[1]) / h, (px - box[0]) / w
    return maps


FIVE = tuple((*points, (15.0 + 40 * k, 20.0), (25.0 + 40 * k, 30.0)) for k, points in enumerate(POINTS))


def yunet():
    outputs = {}
    for stride in (8, 16, 32):
        count = (WIDTH // stride) * (HEIGHT // stride)
        for part, n in (("cls", 1), ("obj", 1), ("bbox", 4), ("kps", 10)):
            outputs[f"{part}_{stride}"] = np.zeros((1, count, n), np.float32)
    for k, (stride, box, score) in enumerate(zip((8, 32), BOXES, SCORES, strict=True)):
        x, y, w, h = centre_size(box)
        column, row = int(x / stride), int(y / stride)
        at = row * (WIDTH // stride) + column
        outputs[f"cls_{stride}"][0, at], outputs[f"obj_{stride}"][0, at] = score, score
        outputs[f"bbox_{stride}"][0, at] = (
            x / stride - column,
            y / stride - row,
            math.log(w / stride),
            math.log(h / stride),
        )
        outputs[f"kps_{stride}"][0, at] = [v for px, py in FIVE[k] for v in (px / stride - column, py / stride - row)]
    return outputs


def yunet_2021():
    """128 x 128."""
    sides = {8: (10, 16, 24), 16: (32, 48), 32: (64, 96), 64: (128, 192, 256)}
    priors = [
        ((column + 0.5) * stride, (row + 0.5) * stride, side)
        for stride, row, column in cell_list(128, 128, tuple(sides))
        for side in sides[stride]
    ]
    loc, conf, iou = (np.zeros((len(priors), n), np.float32) for n in (14, 2, 1))
    for k, (i, box, score) in enumerate(zip((200, 900), BOXES, SCORES, strict=True)):
        x, y, w, h = centre_size(box)
        px, py, side = priors[i]
        loc[i, :4] = (x - px) / side * 10, (y - py) / side * 10, math.log(w / side) * 5, math.log(h / side) * 5
        loc[i, 4:] = [v for a, b in FIVE[k] for v in ((a - px) / side * 10, (b - py) / side * 10)]
        conf[i, 1], iou[i, 0] = score, score
    return {"loc": loc, "conf": conf, "iou": iou}


def detectnet():
    """96 x 64 in cells of 16: centre = (16 cell + 0.5), distances in units of 35 pixels."""
    cov, bbox = np.zeros((1, COUNT, 4, 6), np.float32), np.zeros((1, 4 * COUNT, 4, 6), np.float32)
    for box, score, class_id in zip(BOXES, SCORES, CLASSES, strict=True):
        x, y, _, _ = centre_size(box)
        column, row = int(x / 16), int(y / 16)
        cx, cy = column * 16 + 0.5, row * 16 + 0.5
        cov[0, class_id, row, column] = score
        sides = (cx - box[0]) / 35, (cy - box[1]) / 35, (box[2] - cx) / 35, (box[3] - cy) / 35
        bbox[0, 4 * class_id : 4 * class_id + 4, row, column] = sides
    return cov, bbox


def rtmdet_maps():
    scores = {s: np.full((1, COUNT, HEIGHT // s, WIDTH // s), -6, np.float32) for s in (8, 16, 32)}
    sides = {s: np.zeros((1, 4, HEIGHT // s, WIDTH // s), np.float32) for s in (8, 16, 32)}
    for stride, box, score, class_id in zip((8, 16), BOXES, SCORES, CLASSES, strict=True):
        x, y, _, _ = centre_size(box)
        column, row = int(x / stride), int(y / stride)
        px, py = column * stride, row * stride
        scores[stride][0, class_id, row, column] = logit(score)
        sides[stride][0, :, row, column] = px - box[0], py - box[1], box[2] - px, box[3] - py
    return {f"cls{s}": scores[s] for s in scores} | {f"bbox{s}": sides[s] for s in sides}


def keypoint_values(scale=(1, 1)):
    return [
        [v for (x, y), c in zip(points, POINT_CONFIDENCE, strict=True) for v in (x / scale[0], y / scale[1], c)]
        for points in POINTS
    ]


def expected_points():
    return [[(x, y, c) for (x, y), c in zip(points, POINT_CONFIDENCE, strict=True)] for points in POINTS]


def pose(scale=(1, 1)):
    rows = dense(extra=9, count=1)
    rows[:, 5::3], rows[:, 6::3] = rows[:, :1], rows[:, 1:2]  # the other cells' key points lie at their centres
    for i, values, score in zip((7, 100), keypoint_values(), SCORES, strict=True):
        rows[i, 4:] = [score, *values]
    rows[:, [0, 2, *range(5, 14, 3)]] /= scale[0]
    rows[:, [1, 3, *range(6, 14, 3)]] /= scale[1]
    return rows.T[None]


RADIANS = (0.3, 2.0)


def obb():
    rows = dense(extra=1)
    rows[:, -1] = np.linspace(-0.7, 2.3, len(rows))
    rows[[7, 100], -1] = RADIANS
    return rows.T[None]


#: 0.3 rad = 17.188 degrees. 2.0 rad turns width into height: the same rectangle at 2.0 - pi / 2 = 24.592 degrees.
OBB_BOXES = (BOXES[0], (48.0, 18.0, 88.0, 58.0))
OBB_ANGLES = (17.188734, 24.591559)


def end2end(extra=0, count=20, **options):
    return finished(6 + extra, rows=count, **options)[None]


def chosen_queries(count=100):
    """Rows [1,count,6] of centre and size in fractions, score and class, best first, as RT-DETR's topk gives them."""
    rows = np.full((1, count, 6), 0.5, np.float32)
    rows[0, :, 0] = np.linspace(0.1, 0.9, count)  # everywhere in the picture, and small
    rows[0, :, 2:4] = 0.08
    rows[0, :, 4] = np.linspace(0.2, 0.01, count)
    rows[0, :, 5] = np.arange(count) % COUNT
    for i, (box, score, class_id) in enumerate(zip(BOXES, SCORES, CLASSES, strict=True)):
        x, y, w, h = centre_size(box)
        rows[0, i] = x / WIDTH, y / HEIGHT, w / WIDTH, h / HEIGHT, score, class_id
    return rows


def torchvision(masks=False):
    outputs = {
        "boxes": np.array(BOXES, np.float32),
        "labels": np.array(CLASSES, np.int64),
        "scores": np.array(SCORES, np.float32),
    }
    if masks:
        planes = np.zeros((2, 1, HEIGHT, WIDTH), np.float32)
        planes[0, 0, :, : WIDTH // 2], planes[1, 0, : HEIGHT // 2] = 0.9, 0.9
        outputs["masks"] = planes
    return outputs


def ultralytics(task, **more):
    return {"task": task, "names": NAMES, **more}


def layouts() -> dict[str, Layout]:
    """Every layout by a name of its own."""
    v8 = dense().T[None]
    seg = with_coefficients(dense(extra=2), (7, 100)).T[None]
    v5seg = with_coefficients(dense(extra=2, objectness=0.01, anchors=3), (7, 352))[None]
    e2eseg = with_coefficients(end2end(2)[0], (0, 1))[None]
    v5, v7, v3 = anchor_maps(V5, True), anchor_maps(V7, True), anchor_maps(V5, False)
    nas = pair()
    boxes, sigmoid_scores = queries(lambda p: p)
    _, logits = queries(logit)
    detr_boxes, detr = detr_logits()
    nanodet = distribution_head((8, 16, 32), 8, lambda cell, stride: cell * stride + (stride - 1) / 2)
    pico = distribution_head((8, 16, 32, 64), 8, lambda cell, stride: (cell + 0.5) * stride, up=True)
    plus = distribution_head((8, 16, 32, 64), 8, lambda cell, stride: cell * stride, up=True)
    heat, sizes, offsets = centernet()
    regression, classification = efficientdet()
    cov, bbox = detectnet()
    tf_boxes, tf_scores, tf_classes = tensorflow()
    number, nms_boxes, nms_scores, nms_classes = picked()
    floats = nms_classes.astype(np.float32)
    ssd_scores, ssd_boxes = ssd()
    rfb_scores, rfb_boxes = ssd(3 * 96 + 2 * 24 + 2 * 6 + 3 * 2, 1, (0, 0))  # 64 rows of pixels are 1 cell of 64
    fractions = nms_boxes / np.array([WIDTH, HEIGHT] * 2, np.float32)
    scale = (WIDTH, HEIGHT)
    rtdetr_rows = np.concatenate([boxes, sigmoid_scores], axis=2)
    kpt = {"task": "pose", "names": "{0: 'person'}", "kpt_shape": "[3, 3]"}
    e2e_pose = end2end(9)
    e2e_pose[0, :2, 6:], e2e_pose[0, :2, 5] = keypoint_values(), 0
    e2e_obb = end2end(1)
    e2e_obb[0, :2, :4], e2e_obb[0, :2, 6] = [centre_size(box) for box in BOXES], RADIANS
    one_class = {"classes": (0, 0)}
    faces = {"classes": (0, 0), "points": FIVE}
    tf_ids = tuple(class_id + 1 for class_id in CLASSES)
    finished_detr = {
        "labels": np.array([CLASSES], np.int64),
        "boxes": np.array([BOXES], np.float32),
        "scores": np.array([SCORES], np.float32),
    }
    dets = np.concatenate([np.array(BOXES), np.array(SCORES)[:, None]], axis=1)[None].astype(np.float32)
    ssd_rows = np.full((1, 1, 5, 7), -1, np.float32)
    for i in range(2):
        corners = [v / s for v, s in zip(BOXES[i], scale * 2, strict=True)]
        ssd_rows[0, 0, i] = [0, CLASSES[i], SCORES[i], *corners]
    deepstream = np.zeros((1, 1200, 6), np.float32)
    deepstream[0, :20] = end2end()[0]
    large = {"shape": (1, 3, 128, 128)}
    return {
        "yolov8 with names": Layout("yolov8", {"output0": v8}, {"names": NAMES, "task": "detect"}),
        "yolov8 plain": Layout("yolov8", {"output0": v8}),
        "yolov8 with a finer map": Layout("yolov8", {"output0": dense(strides=(4, 8, 16, 32)).T[None]}),
        "yolov3-tiny of ultralytics": Layout("yolov8", {"output0": dense(strides=(16, 32)).T[None]}),
        "yolov5 with a coarser map": Layout(
            "yolov5",
            {"output0": dense(objectness=0.01, anchors=3, strides=(8, 16, 32, 64))[None]},
        ),
        "yolov8 transposed, with names": Layout("yolov8", {"output0": v8.transpose(0, 2, 1)}, {"names": NAMES}),
        "yolov8-seg": Layout("yolov8", {"output0": seg, "output1": prototypes()[None]}, ultralytics("segment")),
        "yolov8 raw maps": Layout("yolov8-raw", dict(zip("abc", v8_maps(), strict=True))),
        "yolov5": Layout("yolov5", {"output0": dense(objectness=0.01, anchors=3)[None]}),
        "yolov5 and raw maps": Layout(
            "yolov5", {"output": dense(objectness=0.01, anchors=3)[None], **dict(zip("abc", v5, strict=True))}
        ),
        "yolov5-seg": Layout("yolov5", {"output0": v5seg, "output1": prototypes()[None]}),
        "yolov5 raw maps": Layout("yolov5-raw", dict(zip("abc", v5, strict=True)), named=True),
        "yolov7 raw maps": Layout("yolov7-raw", dict(zip("abc", channels_first(v7), strict=True)), named=True),
        "yolov3 raw maps": Layout("yolov3-raw", dict(zip("cba", channels_first(v3)[::-1], strict=True)), named=True),
        "yolov6": Layout("yolov6", {"outputs": dense(objectness=1)[None]}),
        "yolox": Layout("yolox", {"output": yolox()[None]}),
        "yolox with its decoding": Layout("yolov6", {"output": dense(objectness=0.01)[None]}, {"names": NAMES}),
        "yolox with its decoding, without names": Layout(
            "yolov6", {"output": dense(objectness=0.01)[None]}, named=True
        ),
        "yolo pose": Layout("yolo-pose", {"output0": pose()}, kpt, **one_class, points=expected_points()),
        "yolo pose in fractions": Layout(
            "yolo-pose", {"output0": pose(scale)}, kpt, **one_class, points=expected_points()
        ),
        "yolo obb": Layout("yolo-obb", {"output0": obb()}, ultralytics("obb"), boxes=OBB_BOXES, angles=OBB_ANGLES),
        "yolo end to end": Layout("yolo-end2end", {"output0": end2end()}, ultralytics("detect")),
        "yolo end to end, plain": Layout("yolo-end2end", {"output0": end2end()}),
        "yolo end to end in fractions": Layout("yolo-end2end", {"output0": end2end(scale=scale)}),
        "yolo end to end seg": Layout(
            "yolo-end2end", {"output0": e2eseg, "output1": prototypes()[None]}, ultralytics("segment")
        ),
        "yolo end to end pose": Layout(
            "yolo-end2end-pose", {"output0": e2e_pose}, kpt, **one_class, points=expected_points()
        ),
        "yolo end to end obb": Layout(
            "yolo-end2end-obb", {"output0": e2e_obb}, ultralytics("obb"), boxes=OBB_BOXES, angles=OBB_ANGLES
        ),
        "yolov7 end to end": Layout("yolov7-end2end", {"output": rows7(5, 6)}),
        "super-gradients flat": Layout("flat-rows", {"graph2_flat_predictions": rows7(6, 5)}),
        "deepstream-yolo": Layout("deepstream-yolo", {"output": deepstream}),
        "yolo-nas": Layout("yolo-nas", {"boxes": nas[0], "scores": nas[1]}),
        "damo-yolo": Layout("damo-yolo", {"output": nas[1], "794": nas[0]}),
        "efficientnms": Layout(
            "efficientnms",
            {"num_dets": number, "det_boxes": nms_boxes, "det_scores": nms_scores, "det_classes": nms_classes},
        ),
        "batchednms": Layout(
            "efficientnms",
            {
                "BatchedNMS": number,
                "BatchedNMS_1": fractions,
                "BatchedNMS_2": nms_scores,
                "BatchedNMS_3": floats,
            },
        ),
        "batchednms with names of their own, fractions": Layout(
            "efficientnms",
            {"num_detections": number, "nmsed_boxes": fractions, "nmsed_scores": nms_scores, "nmsed_classes": floats},
        ),
        "batchednms with names of their own, pixels": Layout(
            "efficientnms",
            {"num_detections": number, "nmsed_boxes": nms_boxes, "nmsed_scores": nms_scores, "nmsed_classes": floats},
        ),
        "efficientnms with names as TensorFlow's": Layout(
            "efficientnms",
            {
                "num_detections": number,
                "detection_boxes": nms_boxes,
                "detection_scores": nms_scores,
                "detection_classes": nms_classes,
            },
            named=True,
        ),
        "onnx nms": Layout(
            "onnx-nms", dict(zip(("picks", "boxes", "scores"), onnx_nms(False), strict=True)), named=True
        ),
        "onnx nms, y first": Layout(
            "onnx-nms-yx", dict(zip(("picks", "boxes", "scores"), onnx_nms(True), strict=True)), named=True
        ),
        "rtmdet by mmdeploy": Layout("mmdeploy", {"dets": dets, "labels": np.array([CLASSES], np.int64)}),
        "rtmdet raw maps": Layout("rtmdet-raw", rtmdet_maps()),
        "nanodet": Layout(
            "nanodet",
            {f"cls{s}": nanodet[s][0][None] for s in nanodet} | {f"dis{s}": nanodet[s][1][None] for s in nanodet},
        ),
        "nanodet-plus": Layout(
            "nanodet-plus", {"output": np.concatenate([np.concatenate(plus[s], axis=1) for s in plus])[None]}
        ),
        "picodet": Layout(
            "picodet", {f"cls{s}": pico[s][0][None] for s in pico} | {f"dis{s}": pico[s][1][None] for s in pico}
        ),
        "picodet with boxes": Layout("picodet-boxes", {"boxes": nas[0], "scores": nas[1].transpose(0, 2, 1)}),
        "picodet suppressed": Layout(
            "paddle-rows",
            {"multiclass_nms3_0.tmp_0": finished(6, "csxyxy", 2), "multiclass_nms3_0.tmp_2": np.array([2], np.int32)},
        ),
        "ssd": Layout("ssd", {"scores": ssd_scores, "boxes": ssd_boxes}),
        "rfb": Layout("rfb", {"scores": rfb_scores, "boxes": rfb_boxes}, classes=(0, 0)),
        "ssd rows": Layout("ssd-rows", {"detection_out": ssd_rows}),
        "tensorflow": Layout(
            "tf-od",
            {
                "detection_boxes": tf_boxes,
                "detection_classes": tf_classes,
                "detection_scores": tf_scores,
                "num_detections": np.array([2], np.float32),
            },
            shape=(1, HEIGHT, WIDTH, 3),
            dtype="uint8",
            classes=tf_ids,
        ),
        "torchvision": Layout("torchvision", torchvision(), shape=(3, HEIGHT, WIDTH)),
        "mask r-cnn of torchvision": Layout("torchvision", torchvision(masks=True)),
        "efficientdet": Layout("efficientdet", {"regression": regression, "classification": classification}, **large),
        "centernet": Layout("centernet", {"hm": heat, "wh": sizes, "reg": offsets}),
        "centernet without names": Layout("centernet", {"537": heat, "538": sizes, "539": offsets}, named=True),
        "centerface": Layout("centerface", dict(zip(("537", "538", "539", "540"), centerface(), strict=True)), **faces),
        "yunet": Layout("yunet", yunet(), **faces),
        "yunet of 2021": Layout("yunet-2021", yunet_2021(), **large, **faces),
        "rtdetr of ultralytics": Layout("rtdetr", {"output0": rtdetr_rows}, ultralytics("detect")),
        "rtdetr of ultralytics, end to end": Layout(
            "rtdetr-end2end", {"output0": chosen_queries()}, ultralytics("detect", head="RTDETRDecoder")
        ),
        "rtdetr of ultralytics, end to end, without the head's name": Layout(
            "rtdetr-end2end", {"output0": chosen_queries()}, ultralytics("detect", end2end="False")
        ),
        "rtdetr of ultralytics, end to end, plain": Layout("rtdetr-end2end", {"output0": chosen_queries()}),
        "rtdetr of transformers": Layout("rtdetr-logits", {"logits": logits, "pred_boxes": boxes}),
        "detr of transformers": Layout("detr", {"logits": detr, "pred_boxes": detr_boxes}),
        "rtdetr and d-fine finished": Layout("detr-finished", finished_detr),
        "rf-detr": Layout("rf-detr", {"dets": boxes, "labels": logits}),
        "detectnet": Layout("detectnet", {"output_cov/Sigmoid:0": cov, "output_bbox/BiasAdd:0": bbox}),
    }
