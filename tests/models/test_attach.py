"""Detections into metadata: what is clipped, what is kept, which text and mask each object gets."""

import gi
import numpy as np
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract import bulk
from sluice.contract.metadata import BatchMeta, FrameMeta
from sluice.models.attach import MASK_SIDE, attach_detections, box_masks, label_texts, on_surface
from sluice.models.detections import Detections

SIZE = (200, 100)


def found(*boxes: tuple[float, float, float, float], **more: object) -> Detections:
    n = len(boxes)
    return Detections(np.array(boxes, np.float32).reshape(n, 4), np.linspace(0.9, 0.5, n), np.arange(n), **more)


@pytest.fixture
def frame() -> FrameMeta:
    Gst.init(None)
    batch = BatchMeta.attach(Gst.Buffer.new(), 1)
    bulk.fill_frames(batch, np.zeros(1, bulk.FRAME_ROW))
    return batch.frames[0]


@pytest.mark.parametrize(
    ("box", "expected"),
    [
        ((10, 20, 30, 50), (10, 20, 20, 30)),
        ((-10, -20, 30, 50), (0, 0, 30, 50)),
        ((190, 90, 230, 150), (190, 90, 10, 10)),
        ((-5, -5, 500, 500), (0, 0, 200, 100)),
        ((199.5, 0, 300, 10), (199.5, 0, 0.5, 10)),
    ],
)
def test_a_box_over_the_edge_is_clipped_and_kept(box, expected):
    _, boxes = on_surface(found(box), SIZE)
    assert boxes.tolist() == [pytest.approx(expected)]


@pytest.mark.parametrize(
    "box", [(-20, 0, 0, 50), (200, 0, 260, 50), (0, -30, 50, -1), (0, 100, 50, 120), (5, 5, 5, 50), (5, 5, 50, 5)]
)
def test_a_box_outside_or_without_area_is_left_out(box):
    left, boxes = on_surface(found(box, (0, 0, 9, 9)), SIZE)
    assert boxes.tolist() == [[0, 0, 9, 9]]
    assert left.class_ids.tolist() == [1]


def test_the_models_own_array_is_not_changed():
    detections = found((-10, -10, 30, 30))
    on_surface(detections, SIZE)
    assert detections.xyxy.tolist() == [[-10, -10, 30, 30]]


def test_a_rotated_box_keeps_its_shape():
    reaching_over = (-30.0, 40.0, 30.0, 60.0)
    _, boxes = on_surface(found(reaching_over, reaching_over, angles=np.array([30, 0], np.float32)), SIZE)
    assert boxes.tolist() == [[-30, 40, 60, 20], [0, 40, 30, 20]]


def test_rotation_decides_whether_a_box_touches_the_surface():
    above = (50.0, -30.0, 110.0, -10.0)  # 60 wide, 20 high, its centre 20 above the surface
    detections = found(above, above, above, angles=np.array([0, 90, 30], np.float32))
    left, _ = on_surface(detections, SIZE)
    assert left.angles.tolist() == [90, 30]
    assert len(on_surface(found((50, 50, 50, 60), angles=np.array([45], np.float32)), SIZE)[1]) == 0


def test_a_detections_own_label_goes_before_the_tables():
    detections = found((0, 0, 9, 9), (0, 0, 9, 9), (0, 0, 9, 9), labels=["cat", None, None])
    assert label_texts(detections, ["zero", "one"]) == ["cat", "one", None]
    detections.class_ids[2] = -1
    assert label_texts(detections, ["zero", "one"])[2] is None


def test_masks_are_cut_to_their_boxes():
    masks = np.zeros((2, 100, 200), bool)
    masks[0, 20:30, 10:15] = True
    masks[1] = True
    whole, part = np.array([0, 0, 200, 100]), np.array([10.2, 19.9, 9.0, 20.0])
    cut = box_masks(masks, np.stack([part, whole]).astype(np.float32))
    assert cut[0].shape == (21, 10)
    assert cut[0][1:11, :5].all()
    assert cut[0].sum() == 50
    assert cut[1].shape == (MASK_SIDE // 2, MASK_SIDE)
    assert cut[1].min() == 1.0
    assert {m.dtype for m in cut} == {np.dtype(np.float32)}


def test_a_box_thinner_than_a_pixel_has_a_mask():
    masks = np.ones((1, 100, 200), bool)
    assert box_masks(masks, np.array([[199.5, 99.5, 0.2, 0.2]], np.float32))[0].shape == (1, 1)


def test_objects_are_written_as_nvinfer_writes_them(frame):
    assert attach_detections(frame, found((10, 20, 30, 50), (300, 0, 310, 9)), ["person"], 7, SIZE) == 1
    (written,) = frame.objects
    assert (written.class_id, written.label, written.unique_component_id) == (0, "person", 7)
    assert written.box == written.detector_box == (10, 20, 20, 30)
    assert written.confidence == pytest.approx(0.9)
    assert written.text.display_text == "person"
    assert frame.infer_done


def test_a_frame_without_detections_was_seen(frame):
    assert attach_detections(frame, Detections.empty(), ["person"], 7, SIZE) == 0
    assert frame.infer_done
    assert frame.objects == []


def test_angles_masks_texts_and_attributes_are_written(frame):
    detections = found(
        (10, 20, 30, 50),
        (100, 20, 130, 50),
        angles=np.array([30, 0], np.float32),
        masks=np.ones((2, 100, 200), bool),
        texts=["B-XY 123", None],
        attributes=[{"colour": "red", "doors": 4}, {}],
    )
    attach_detections(frame, detections, ["car", "van"], 7, SIZE)
    van, car = frame.objects
    assert (car.rotation, van.rotation) == (30, 0)
    assert car.mask.shape == (30, 20)
    assert (car.label, car.text.display_text) == ("car", "B-XY 123")
    assert (van.label, van.text.display_text) == ("van", "van")
    results = {c.classifier_type: [label.label for label in c.labels] for c in car.classifiers}
    assert results == {"colour": ["red"], "doors": ["4"]}
    assert {c.unique_component_id for c in car.classifiers} == {7}
    assert van.classifiers == []
