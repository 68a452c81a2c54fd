"""Every family that Ultralytics exports gives the result that Ultralytics gives."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ultralytics", reason="needs the environment of make test-reference")

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "models")]
from array_surfaces import from_rgb
from comparing import frame_masks, gap_threshold, mask_overlap, pair_up
from ultralytics_nets import Family, ReferenceNet, crop

from sluice.models.detections import Detections
from sluice.models.frame import Frame
from sluice.models.loading import load_model
from sluice.runtimes import open_network

IOU = 0.7
LOW = 0.05  # what the threshold is chosen above
LEAST_AREA = 100  # pixels of a mask that is compared
#: Least overlap of masks, by that of the boxes: from the same network input, and from a picture that is scaled first.
MASK_IOU = {0.999: 0.98, 0.99: 0.94}

#: One row per kind of export; a new family is a new row.
FAMILIES = (
    Family("yolo26n"),
    Family("yolo26n", {"nms": False}),
    Family("yolo12n"),
    Family("yolo11n", {"dynamic": True}, (256, 416)),
    Family("yolov10n", {"nms": False}),
    Family("yolov9t"),
    Family("yolov8n"),
    Family("yolov6n"),
    Family("yolov5n"),
    Family("yolov3-tiny", seed=2),  # with seed 1 the network itself finds nothing in the smaller picture
    *(
        Family(f"{name}-{task}")
        for name in ("yolo26n", "yolo12n", "yolo11n", "yolov8n")
        for task in ("seg", "pose", "obb")
    ),
    *(Family(f"yolo26n-{task}", {"nms": False}) for task in ("seg", "pose", "obb")),
    Family("rtdetr-resnet50"),
)
CLASSIFIERS = tuple(Family(f"{name}-cls", size=(224, 224)) for name in ("yolo26n", "yolo11n", "yolov8n"))


@pytest.fixture(scope="module", params=FAMILIES, ids=str)
def net(request, work, rgb) -> ReferenceNet:
    return ReferenceNet(request.param, rgb, work)


def found(net: ReferenceNet, rgb: np.ndarray, confidence: float):
    model = load_model(net.onnx, confidence=confidence, iou=IOU, device="cpu")
    [result] = model.infer([Frame(from_rgb(rgb, "RGB"), stream=0, number=0, pts=None)])
    model.close()
    return result


def test_raw_heads_within_a_thousandth(net, rgb):
    """The same network input: PyTorch's outputs and those of the exported file in our runtime."""
    height, width = net.family.size
    picture = crop(rgb, net.family.size).transpose(2, 0, 1)[None].astype(np.float32) / 255
    assert picture.shape == (1, 3, height, width)
    network = open_network(net.onnx, "onnxruntime", "cpu")
    mine, theirs = network.run(picture), net.raw(picture)
    network.close()
    assert [a.shape for a in mine] == [b.shape for b in theirs]
    if net.family.end_to_end:  # rows by falling score; those of one score may change places
        compare_rows(mine.pop(0)[0], theirs.pop(0)[0])
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)


def test_same_boxes_from_the_same_network_input(net, rgb):
    """A picture of the network's own size: nothing is scaled, so both networks see the same numbers."""
    compare(net, crop(rgb, net.family.size), 0.999)


def test_same_boxes_from_rgb(net, rgb):
    """Any picture: Ultralytics' letterbox and ours."""
    compare(net, rgb, 0.99)


def compare_rows(mine: np.ndarray, theirs: np.ndarray) -> None:
    """Every row of an end-to-end head, down to a gap in the scores, is in the other."""
    sure = theirs[theirs[:, 4] > gap_threshold(theirs[:, 4], 8, 200)]
    nearest = np.abs(sure[:, None] - mine[None]).max(axis=2).min(axis=1)
    assert nearest.max() < 1e-3


def compare(net: ReferenceNet, rgb: np.ndarray, iou: float) -> None:
    confidence = gap_threshold(net.detections(rgb, LOW, IOU).scores)
    expected = net.detections(rgb, confidence, IOU)
    assert len(expected) >= 8
    result = found(net, rgb, confidence)
    result = result[pair_up(expected, result, iou)]
    assert np.abs(expected.scores - result.scores).max() < 0.01
    compare_parts(expected, result)
    if expected.masks is not None:
        fine = net.detections(rgb, confidence, IOU, fine_masks=True)
        # A mask of a pixel or two may have none when it is enlarged otherwise; Ultralytics then leaves the object out.
        shown = np.isin(expected.scores, fine.scores)
        np.testing.assert_array_equal(expected.scores[shown], fine.scores)
        compare_masks(fine.masks, frame_masks(result[shown], rgb.shape[1], rgb.shape[0]), MASK_IOU[iou])


def compare_parts(expected: Detections, result: Detections) -> None:
    """Angles and key points of results in the same order."""
    if expected.angles is not None:
        # A box turned by a right angle, its width and height changed over, is the same box, and Ultralytics does so.
        turned = np.abs(expected.angles - result.angles) % 90
        assert np.minimum(turned, 90 - turned).max() < 0.5
    if expected.keypoints is not None:
        assert np.abs(expected.keypoints[..., :2] - result.keypoints[..., :2]).max() < 1.0
        assert np.abs(expected.keypoints[..., 2] - result.keypoints[..., 2]).max() < 0.01


def compare_masks(expected: np.ndarray, found: np.ndarray, iou: float) -> None:
    """Masks of at least `LEAST_AREA` pixels, by their overlap.

    In what is smaller, one row of cells along the outline, which two ways of sampling place differently, is much.
    """
    large = expected.sum(axis=(1, 2)) >= LEAST_AREA
    assert large.sum() >= 3
    overlaps = mask_overlap(expected[large], found[large])
    assert overlaps.min() > iou, np.sort(overlaps)[:5]


@pytest.fixture(scope="module", params=CLASSIFIERS, ids=str)
def classifier(request, work, rgb) -> ReferenceNet:
    return ReferenceNet(request.param, rgb, work)


@pytest.mark.parametrize("part", [True, False], ids=["same network input", "from RGB"])
def test_same_class_and_probability(classifier, rgb, part):
    """A classifier's best class and its probability."""
    picture = crop(rgb, classifier.family.size) if part else rgb
    expected = classifier.results(picture, 0.0).probs
    result = found(classifier, picture, 0.0).whole.classification[0]
    assert result.class_id == int(expected.top1)
    assert abs(result.score - float(expected.top1conf)) < 0.01
