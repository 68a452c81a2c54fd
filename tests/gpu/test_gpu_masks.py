"""Masks made on the GPU are those that the decoders make on the processor."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the GPU path needs torch")
pytest.importorskip("triton", reason="the GPU path needs triton")

from head_tables import letterbox_table
from torch.utils._python_dispatch import TorchDispatchMode

from sluice.models.decoders import DECODERS
from sluice.models.gpu import masks
from sluice.models.gpu.heads import Choice, chooser_for
from sluice.models.letterbox import Letterbox
from sluice.models.postprocess import to_detections
from sluice.runtimes.base import NetworkInfo, TensorInfo

WIDTH, HEIGHT = 256, 192
CELLS = sum((WIDTH // s) * (HEIGHT // s) for s in (8, 16, 32))
BOXES = [Letterbox.fit((1000, 513), (WIDTH, HEIGHT)), Letterbox.fit((64, 90), (WIDTH, HEIGHT))]
CHANNELS = 4
EDGE = 1e-5
"""Sums of single precision that are nearer to the edge than this may lie on either side of it."""


@pytest.fixture(autouse=True)
def few_programs(device, monkeypatch):
    """Triton's interpreter needs as long for a program of few cells as for one of many."""
    if device.type == "cpu":
        monkeypatch.setattr(masks, "BLOCK", 1 << 14)
        monkeypatch.setattr(masks, "PROGRAMS", 1)


def prototypes(rng, maps=CHANNELS, scale=4):
    """[2, maps, h, w] without a preference for either side of the edge, soft as a network's."""
    noise = rng.normal(0, 1, (2, maps, HEIGHT // scale // 4 + 1, WIDTH // scale // 4 + 1))
    return np.array(
        [
            [cv2.resize(one, (WIDTH // scale, HEIGHT // scale), interpolation=cv2.INTER_CUBIC) for one in p]
            for p in noise
        ],
        np.float32,
    )


def finished(seed, rows=14, size=(2, 150), scale=4):
    """Outputs of an end-to-end head: corners, score, class, coefficients; and prototypes."""
    rng = np.random.default_rng(seed)
    corner = rng.uniform(-20, (WIDTH, HEIGHT), (2, rows, 2))
    corners = np.concatenate([corner, corner + rng.uniform(*size, (2, rows, 2))], -1)
    scores = -np.sort(-rng.random((2, rows, 1)), axis=1)
    given = [corners, scores, rng.integers(0, 80, (2, rows, 1)), rng.normal(0, 1, (2, rows, CHANNELS))]
    return {"out": np.concatenate(given, -1).astype(np.float32), "proto": prototypes(rng, scale=scale)}


def dense(seed, classes=5):
    """Outputs of a head of cells: centre, size, class scores, coefficients; and prototypes."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(0, 1, (2, 2, CELLS)) * np.array([[[WIDTH], [HEIGHT]]])
    given = [centres, rng.uniform(4, 90, (2, 2, CELLS)), rng.random((2, classes, CELLS)) ** 4]
    given.append(rng.normal(0, 1, (2, CHANNELS, CELLS)))
    return {"out": np.concatenate(given, 1).astype(np.float32), "proto": prototypes(rng)}


def queries(seed, count=12, classes=4):
    """RF-DETR's outputs: boxes as shares, logits, and a mask of logits for each query."""
    rng = np.random.default_rng(seed)
    boxes = np.concatenate([rng.uniform(0.1, 0.9, (2, count, 2)), rng.uniform(0.02, 0.5, (2, count, 2))], -1)
    found = {"dets": boxes.astype(np.float32), "labels": rng.normal(-1, 2, (2, count, classes)).astype(np.float32)}
    return found | {"masks": prototypes(rng, count)}


def both(decoder, outputs, device, padding=0, change=lambda tensor: tensor, **changes):
    """What the GPU and what the processor finds in the same outputs."""
    values = {"confidence": 0.3, "iou": 0.5, "class_agnostic": False, "most": 40, **changes}
    about = NetworkInfo(
        (TensorInfo("images", (None, 3, HEIGHT, WIDTH), "float32"),),
        tuple(TensorInfo(name, (None, *array.shape[1:]), "float32") for name, array in outputs.items()),
    )
    chooser = chooser_for(decoder, about, Choice(WIDTH, HEIGHT, **values))
    tensors = [change(torch.from_numpy(array).to(device)) for array in outputs.values()]
    frames = len(tensors[0]) - padding
    packed = chooser.choose(tensors, letterbox_table(BOXES[:frames], device, padding)).cpu().numpy()
    found = chooser.read(packed[:frames], BOXES[:frames])
    packed[:] = 255  # what was read is kept
    decode = DECODERS[decoder](about, WIDTH, HEIGHT)
    arrays = [tensor.float().cpu().numpy() for tensor in tensors]
    expected = [
        to_detections(
            decode.decode(arrays, i, values["confidence"]),
            box,
            (WIDTH, HEIGHT),
            iou=values["iou"] if decode.needs_nms else None,
            class_agnostic=values["class_agnostic"],
            max_detections=values["most"],
        )
        for i, box in enumerate(BOXES[:frames])
    ]
    return found, expected


def check(found, expected, least=4):
    """The same objects in the same order with the same cells, but for cells at the very edge."""
    for one, other in zip(found, expected, strict=True):
        assert len(one) == len(other) >= least
        np.testing.assert_array_equal(one.class_ids, other.class_ids)
        np.testing.assert_allclose(one.xyxy, other.xyxy, atol=1e-3)
        one.validate()
        for mask, wanted in zip(one.box_masks, other.box_masks, strict=True):
            assert mask.shape == wanted.shape
            assert set(np.unique(mask)) <= {0.0, 1.0}
            differs = (mask > one.mask_threshold) != (wanted > other.mask_threshold)
            assert np.abs(wanted[differs] - 0.5).max(initial=0) < EDGE
        covered = np.concatenate([mask.ravel() for mask in one.box_masks])
        assert 0.1 < covered.mean() < 0.9, "masks of one kind of cells show nothing"


@pytest.mark.parametrize("most", [7, 300])
def test_finished_rows(device, most):
    check(*both("yolo-end2end", finished(0), device, most=most))


def test_programs_share_a_mask(device, monkeypatch):
    monkeypatch.setattr(masks, "BLOCK", 256)
    monkeypatch.setattr(masks, "PROGRAMS", 3)
    check(*both("yolo-end2end", finished(0), device, most=3), least=3)


def test_finished_rows_of_fractions(device):
    outputs = finished(2)
    outputs["out"][..., 0:4:2] /= WIDTH
    outputs["out"][..., 1:4:2] /= HEIGHT
    check(*both("yolo-end2end", outputs, device))


@pytest.mark.parametrize("channels_last", [False, True])
def test_rows_of_cells_with_suppression(device, channels_last):
    outputs = dense(3)
    if channels_last:
        outputs["out"] = np.ascontiguousarray(outputs["out"].transpose(0, 2, 1))
    check(*both("yolov8", outputs, device, confidence=0.5, most=10))


def test_queries_with_a_mask_each(device):
    check(*both("rf-detr", queries(4), device, most=25))


def test_queries_without_masks(device):
    outputs = queries(4)
    del outputs["masks"]
    found, expected = both("rf-detr", outputs, device)
    for one, other in zip(found, expected, strict=True):
        assert one.box_masks is None
        np.testing.assert_array_equal(one.class_ids, other.class_ids)
        np.testing.assert_allclose(one.xyxy, other.xyxy, atol=1e-3)


def test_half_precision(device):
    check(*both("yolo-end2end", finished(5), device, change=lambda tensor: tensor.half()))


def test_prototypes_whose_channels_come_last_in_memory(device):
    """Convolutions of compiled networks give such tensors."""

    def change(tensor):
        return tensor.contiguous(memory_format=torch.channels_last) if tensor.ndim == 4 else tensor

    check(*both("yolo-end2end", finished(6), device, change=change))


def test_places_of_a_batch_without_a_frame_have_no_masks(device):
    check(*both("yolo-end2end", finished(7), device, padding=1))


def test_nothing_found(device):
    found, expected = both("yolo-end2end", finished(0), device, confidence=1.0)
    assert [len(one) for one in found] == [len(one) for one in expected] == [0, 0]
    assert [one.box_masks for one in found] == [[], []]


@pytest.mark.parametrize("scale", [1, 2, 8])
def test_prototypes_of_other_sizes(device, scale):
    check(*both("yolo-end2end", finished(8, rows=12, scale=scale), device, most=12), least=1)


def test_small_masks_stay_where_they_have_a_pixel(device):
    """Cells alone do not tell; the processor looks at the input's pixels, and so must the GPU."""
    found, expected = both("yolo-end2end", finished(9, rows=30, size=(0.2, 9)), device, most=300)
    check(found, expected)
    assert any((mask > 0).sum() < 16 for one in found for mask in one.box_masks)


def test_objects_without_a_pixel_are_none(device):
    outputs = finished(10)
    outputs["proto"] = np.abs(outputs["proto"])
    outputs["out"][:, ::2, 6:] = -1  # below the edge everywhere
    outputs["out"][:, 1::2, 6:] = 1
    found, expected = both("yolo-end2end", outputs, device)
    assert [len(one) for one in found] == [len(one) for one in expected]
    assert all(0 < len(one) < 20 for one in found)


def test_boxes_that_are_no_numbers_lead_no_kernel_astray(device):
    outputs = finished(11)
    outputs["out"][0, 3, :4] = [np.nan, -np.inf, np.inf, 5]
    with pytest.raises(Exception, match="NaN or infinity"):
        both("yolo-end2end", outputs, device)


def test_masks_that_do_not_fit_are_coarser_in_their_own_picture(device, monkeypatch, caplog):
    outputs = finished(12)
    outputs["out"][1, :, 2:4] = outputs["out"][1, :, :2] + 8  # the second picture's are small
    monkeypatch.setattr(masks, "BYTES", 1 << 10)
    found, expected = both("yolo-end2end", outputs, device)
    check(found[1:], expected[1:], least=1)
    assert len(found[0]) == len(expected[0]) > 4
    sides = [max(mask.shape) for mask in found[0].box_masks]
    assert max(sides) in masks.SIDES[1:]
    assert max(max(mask.shape) for mask in expected[0].box_masks) > max(sides)
    for mask, wanted in zip(found[0].box_masks, expected[0].box_masks, strict=True):
        assert mask.mean() == pytest.approx((wanted > 0.5).mean(), abs=0.15)
    assert caplog.text.count("cells a side") == 1


class Recorder(TorchDispatchMode):
    """Notes the operations that are run."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, operation, types, arguments=(), keywords=None):
        self.seen.add(str(operation))
        return operation(*arguments, **(keywords or {}))


@pytest.mark.parametrize("decoder", ["yolo-end2end", "yolov8", "rf-detr"])
def test_nothing_is_asked_of_the_processor_or_brought_from_it(device, decoder):
    """So that a graph can hold it: no value is looked at, and none is copied from a Python number or list."""
    outputs = {"yolo-end2end": finished, "yolov8": dense, "rf-detr": queries}[decoder](0)
    about = NetworkInfo(
        (TensorInfo("images", (None, 3, HEIGHT, WIDTH), "float32"),),
        tuple(TensorInfo(name, (None, *array.shape[1:]), "float32") for name, array in outputs.items()),
    )
    chooser = chooser_for(decoder, about, Choice(WIDTH, HEIGHT, 0.3, 0.5, False, 3))
    tensors, table = [torch.from_numpy(a).to(device) for a in outputs.values()], letterbox_table(BOXES, device)
    with Recorder() as recorder:
        chooser.choose(tensors, table)
    assert any("topk" in name for name in recorder.seen)
    forbidden = ("_local_scalar_dense", "nonzero", "lift_fresh", "masked_select", "aten.index.Tensor")
    assert not [name for name in recorder.seen for bad in forbidden if bad in name]


def test_the_most_boxes_fit_whatever_they_are():
    from sluice.models.gpu.heads import CANDIDATES

    assert CANDIDATES * ((masks.SIDES[-1] ** 2 + 7) // 8) <= masks.BYTES
