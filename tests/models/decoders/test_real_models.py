"""The twelve real models against what was recorded with their own code: found without a hint, to the box and pixel."""

from __future__ import annotations

import json

import cv2
import numpy as np
import pytest
from array_surfaces import from_rgb
from processor import int8_saturates

from sluice.models.frame import Frame
from sluice.models.labels import read_labels
from sluice.models.network import NetworkModel

#: What reads each model, and the threshold that the recorded boxes were made with.
MODELS = {
    "yolox_nano_416x416.onnx": ("yolox", 0.4),
    "nanodet_m_320.onnx": ("nanodet", 0.4),
    "FastestDet.onnx": ("fastestdet", 0.5),
    "yolo11n_256_coco80_int8_qdq.onnx": ("yolov8", 0.3),
    "yolov8n_seg_320_coco80_int8_qdq.onnx": ("yolov8", 0.3),
    "yolo26_pose_256_qdq_int8.onnx": ("yolo-pose", 0.3),
    "version-RFB-320.onnx": ("rfb", 0.6),
    "face_detection_yunet_120x160.onnx": ("yunet-2021", 0.6),
    "deeplab_v3_1_default_1.onnx": ("segmentation", 0.25),
    "mobilenet_v2_quant.onnx": ("classification", 0.0),
    "osnet_x0_25_msmt17.onnx": ("embedding", 0.25),
    "person-reidentification-retail-0248.onnx": ("embedding", 0.25),
}
PICTURES = ("bus.jpg", "zidane.jpg")


@pytest.fixture(scope="module")
def recorded(data):
    return json.loads((data / "models/expected_detections.json").read_text())


@pytest.fixture(scope="module")
def opened(data):
    """A function that opens a model once."""
    models: dict[str, NetworkModel] = {}

    def get(name):
        if name not in models:
            models[name] = NetworkModel(data / "models" / name, confidence=MODELS[name][1])
            models[name].load()
        return models[name]

    return get


def picture(data, name):
    return cv2.cvtColor(cv2.imread(str(data / "models/images" / name)), cv2.COLOR_BGR2RGB)


def infer(model, *pictures):
    frames = [Frame(from_rgb(rgb, "RGB"), stream=0, number=i, pts=None) for i, rgb in enumerate(pictures)]
    return [found.validate(rgb.shape[1::-1]) for found, rgb in zip(model.infer(frames), pictures, strict=True)]


def iou(a, b):
    size = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    inter = np.clip(size, 0, None).prod()
    return inter / ((a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - inter)


@pytest.mark.parametrize("name", MODELS)
def test_each_model_is_recognised(opened, name):
    assert opened(name).head.decoder == MODELS[name][0]


@pytest.mark.parametrize("picture_name", PICTURES)
@pytest.mark.parametrize("name", list(MODELS)[:8])
def test_boxes_no_more_and_no_less(data, recorded, opened, name, picture_name):
    """The recorded boxes are of a processor with VNNI: on others the int8 networks themselves give other numbers."""
    rgb = picture(data, picture_name)
    expected = sorted(recorded[name][picture_name], key=lambda row: -row["score"])
    [found] = infer(opened(name), rgb)
    assert len(found) == len(expected)
    limits = np.array([*rgb.shape[1::-1]] * 2)
    assert (found.xyxy >= 0).all()
    assert (found.xyxy <= limits).all()
    rough = "int8" in name and int8_saturates()
    least, apart = (0.85, 0.05) if rough else (0.99, 0.006)
    left = list(range(len(found)))
    for row in expected:
        box = np.clip(row["xyxy"], 0, limits)
        best = max(left, key=lambda i: iou(found.xyxy[i], box))
        left.remove(best)
        assert iou(found.xyxy[best], box) >= least
        assert found.scores[best] == pytest.approx(row["score"], abs=apart)
        assert found.class_ids[best] == row.get("class_id", 0)


def test_labels(opened):
    assert opened("face_detection_yunet_120x160.onnx").labels == ("face",)
    assert opened("version-RFB-320.onnx").labels == ("face",)
    assert opened("yolo26_pose_256_qdq_int8.onnx").labels == ("person",)


@pytest.mark.parametrize("picture_name", PICTURES)
def test_masks(data, recorded, opened, picture_name):
    """The areas recorded, and the cells against masks made plainly: the whole picture enlarged, then cut at the box.

    The recorded areas are of probabilities that were enlarged, here logits are; that moves the edge by up to 3 %.
    """
    name = "yolov8n_seg_320_coco80_int8_qdq.onnx"
    rgb = picture(data, picture_name)
    model = opened(name)
    [found] = infer(model, rgb)
    expected = sorted(recorded[name][picture_name], key=lambda row: -row["score"])
    for row, box, mask in zip(expected, found.xyxy, found.box_masks, strict=True):
        left, top, right, bottom = (round(float(edge)) for edge in box)
        full = cv2.resize(mask, (right - left, bottom - top), interpolation=cv2.INTER_LINEAR) > 0.5
        assert full.sum() == pytest.approx(row["mask_area_px_in_box"], rel=0.03)
    preprocessor = model._inputs[0].preprocessor
    preprocessor.write(0, from_rgb(rgb, "RGB"))
    outputs = model._run(preprocessor.input)
    kept = [at for row in expected for at in [_row_of(outputs[0][0], row, model, rgb)]]
    for at, box, mask in zip(kept, found.xyxy, found.box_masks, strict=True):
        plain = _plain_mask(outputs, at, rgb.shape[:2])
        left, top, right, bottom = (round(float(edge)) for edge in box)
        cell = cv2.resize(mask, (right - left, bottom - top), interpolation=cv2.INTER_LINEAR) > 0.5
        part = plain[top:bottom, left:right]
        assert (cell & part).sum() / (cell | part).sum() >= 0.97


def _row_of(output, row, model, rgb):
    """Which of the cells has the recorded object: the one whose class score and box are nearest."""
    height, width = rgb.shape[:2]
    gain = min(320 / width, 320 / height)
    pad = np.array([(320 - width * gain) / 2, (320 - height * gain) / 2])
    centre = (np.array(row["xyxy"][:2]) + np.array(row["xyxy"][2:])) / 2 * gain + pad
    distance = np.abs(output[:2] - centre[:, None]).sum(axis=0) / 10 + np.abs(
        output[4 + row["class_id"]] - row["score"]
    )
    return int(distance.argmin())


def _plain_mask(outputs, at, shape):
    """The mask of one cell over the whole frame, by enlarging the logits to the input and the frame's part of it."""
    coefficients, prototypes = outputs[0][0, 84:, at], outputs[1][0]
    logits = np.tensordot(coefficients, prototypes, axes=1)
    large = cv2.resize(logits, (320, 320), interpolation=cv2.INTER_LINEAR)
    gain = min(320 / shape[1], 320 / shape[0])
    width, height = round(shape[1] * gain), round(shape[0] * gain)
    left, top = (320 - width) // 2, (320 - height) // 2
    inside = large[top : top + height, left : left + width]
    return cv2.resize(inside, shape[::-1], interpolation=cv2.INTER_LINEAR) > 0


@pytest.mark.parametrize("picture_name", PICTURES)
def test_key_points(data, recorded, opened, picture_name):
    name = "yolo26_pose_256_qdq_int8.onnx"
    rgb = picture(data, picture_name)
    [found] = infer(opened(name), rgb)
    expected = recorded[name][picture_name]
    assert found.keypoints.shape == (len(expected), 17, 3)
    limits = [rgb.shape[1], rgb.shape[0]]
    for row in expected:
        best = int(np.argmax([iou(box, np.clip(row["xyxy"], 0, limits * 2)) for box in found.xyxy]))
        points = np.array(row["keypoints_xyc"])
        assert np.abs(found.keypoints[best, :, :2] - np.clip(points[:, :2], 0, limits)).max() <= 1.5
        assert np.abs(found.keypoints[best, :, 2] - points[:, 2]).max() <= 0.01


@pytest.mark.parametrize(
    ("picture_name", "points"),
    [("zidane.jpg", 2), ("bus.jpg", 1)],
)
def test_landmarks_of_faces_lie_in_their_order(data, opened, picture_name, points):
    """YuNet's five: right eye, left eye, nose, right and left corner of the mouth, as seen on the picture."""
    [found] = infer(opened("face_detection_yunet_120x160.onnx"), picture(data, picture_name))
    assert found.keypoints.shape == (points, 5, 2)
    for box, (right_eye, left_eye, nose, right_mouth, left_mouth) in zip(found.xyxy, found.keypoints, strict=True):
        assert right_eye[0] < left_eye[0]
        assert right_mouth[0] < left_mouth[0]
        assert max(right_eye[1], left_eye[1]) < nose[1] < min(right_mouth[1], left_mouth[1])
        for x, y in (right_eye, left_eye, nose, right_mouth, left_mouth):
            assert box[0] <= x <= box[2]
            assert box[1] <= y <= box[3]


@pytest.mark.parametrize("picture_name", PICTURES)
def test_segmentation_by_share_of_pixels(data, recorded, opened, picture_name):
    name = "deeplab_v3_1_default_1.onnx"
    labels = read_labels(data / "models/voc21_labels.txt")
    [found] = infer(opened(name), picture(data, picture_name))
    segmentation = found.whole.segmentation
    assert (segmentation.class_map.shape, segmentation.classes) == ((257, 257), 21)
    shares = {label: (segmentation.class_map == i).mean() for i, label in enumerate(labels)}
    for label, share in recorded[name][picture_name].items():
        assert shares[label] == pytest.approx(share, abs=0.003)


@pytest.mark.parametrize("picture_name", ["orange.png", "bus.jpg"])
def test_classification(data, recorded, picture_name):
    name = "mobilenet_v2_quant.onnx"
    model = NetworkModel(data / "models" / name, labels=data / "models/imagenet1001_labels.txt", confidence=0.0)
    model.load()
    assert len(model.labels) == 1000  # the file has a background class before them, the network has not
    [found] = infer(model, picture(data, picture_name))
    for result, row in zip(found.whole.classification, recorded[name][picture_name], strict=True):
        assert (result.class_id, model.labels[result.class_id]) == (row["class_id"], row["label"])
        assert result.score == pytest.approx(row["softmax"], abs=0.02)


@pytest.mark.parametrize("name", list(MODELS)[10:])
def test_embeddings_of_the_same_and_of_other_people(data, recorded, opened, name):
    rgb = picture(data, "bus.jpg")
    people = [row for row in recorded["yolox_nano_416x416.onnx"]["bus.jpg"] if row["class_id"] == 0][:3]
    crops = []
    for row in people:
        left, top, right, bottom = (max(0, int(edge)) for edge in row["xyxy"])
        crops.append(np.ascontiguousarray(rgb[top:bottom, left:right]))
    mirrored = [np.ascontiguousarray(crop[:, ::-1]) for crop in crops]
    vectors = [found.whole.embedding for found in infer(opened(name), *crops, *mirrored)]
    units = [vector / np.linalg.norm(vector) for vector in vectors]
    same = [float(units[i] @ units[i + 3]) for i in range(3)]
    other = [float(units[i] @ units[j]) for i, j in ((0, 1), (0, 2), (1, 2))]
    assert same == pytest.approx(recorded[name]["cosine_same_person_mirrored"], abs=0.01)
    assert other == pytest.approx(recorded[name]["cosine_different"], abs=0.02)
