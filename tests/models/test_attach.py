"""Detections into metadata: what is clipped, what is kept, which text and mask each object gets."""

import os
from pathlib import Path

import gi
import numpy as np
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract import bulk, infer_meta
from sluice.contract.metadata import UNTRACKED, BatchMeta, FrameMeta, Lease
from sluice.contract.packed_masks import PackedMasks
from sluice.models.attach import (
    MASK_SIDE,
    attach_batch,
    attach_detections,
    box_masks,
    label_texts,
    on_surface,
    part_of_mask,
)
from sluice.models.detections import Detections
from sluice.models.whole import Classification, Layer, RawOutputs, Segmentation, WholeFrame

SIZE = (200, 100)


def resident() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


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


def test_ten_thousand_masks_are_freed_with_their_frames():
    """Each is 100 kB, so that a tenth of them left behind would show."""
    Gst.init(None)
    masks = [np.ones((160, 160), np.float32)] * 10
    boxes = [(0, 0, 200, 100)] * 10
    held = []
    for number in range(1000):
        batch = BatchMeta.attach(Gst.Buffer.new(), 1)
        bulk.fill_frames(batch, np.zeros(1, bulk.FRAME_ROW))
        attach_detections(batch.frames[0], found(*boxes, box_masks=masks), [], 1, SIZE)
        assert batch.frames[0].objects[0].mask.shape == (160, 160)
        del batch
        if number in (100, 999):
            held.append(resident())
    assert held[1] - held[0] < 50_000_000


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


def test_embeddings_and_key_points_go_to_the_objects_that_are_written(frame):
    detections = found(
        (300, 0, 310, 9),
        (10, 20, 30, 50),
        (50, 20, 60, 50),
        embeddings=np.arange(6).reshape(3, 2),
        keypoints=np.arange(18).reshape(3, 2, 3),
    )
    assert attach_detections(frame, detections, ["a", "b", "c"], 7, SIZE) == 2
    second, first = frame.objects
    for item, row in ((first, 1), (second, 2)):
        (embedding,), (keypoints,) = infer_meta.embeddings(item), infer_meta.keypoints(item)
        assert (embedding.component, embedding.features.tolist()) == (7, detections.embeddings[row].tolist())
        assert (keypoints.component, keypoints.points.tolist()) == (7, detections.keypoints[row].tolist())


def test_a_mask_over_a_box_is_cut_with_the_box(frame):
    mask = np.zeros((4, 8), np.float32)
    mask[:, 4:] = 1
    detections = found((-40, 20, 40, 60), (100, 20, 140, 60), box_masks=[mask, mask], mask_threshold=0.25)
    attach_detections(frame, detections, [], 7, SIZE)
    whole, half = frame.objects
    assert whole.mask.tolist() == mask.tolist()
    assert half.mask.tolist() == np.ones((4, 4)).tolist(), "the left half of the box lies outside"
    assert whole.mask_threshold == half.mask_threshold == 0.25


def test_part_of_a_mask_lies_where_the_part_lies():
    mask = np.tile(np.arange(10, dtype=np.float32), (4, 1))
    part = part_of_mask(mask, np.array([0, 0, 100, 40]), np.array([25, 10, 50, 20]))
    assert part.shape == (2, 5)
    assert part[0].tolist() == pytest.approx([2.5, 3.5, 4.5, 5.5, 6.5])


def test_attributes_with_a_class_and_a_probability(frame):
    attributes = [{"colour": Classification(1, 0.75), "text": 4}]
    attach_detections(frame, found((0, 0, 9, 9), attributes=attributes), ["car", "red"], 7, SIZE)
    (car,) = frame.objects
    results = {c.classifier_type: [(x.label, x.class_id, x.probability) for x in c.labels] for c in car.classifiers}
    assert results == {"colour": [("red", 1, 0.75)], "text": [("4", 0, 1.0)]}
    assert car.text.display_text == "car red  4 "


def whole(**more: object) -> Detections:
    return Detections.of_whole(WholeFrame(**more))


def test_a_classification_of_a_frame_is_an_object_as_nvinfer_makes_it(frame):
    result = whole(classification=[Classification(1, 0.6, index=2), Classification(0, 0.3, "day", "light")])
    assert attach_detections(frame, result, ["cat", "dog"], 7, SIZE) == 1
    (item,) = frame.objects
    assert (item.box, item.class_id, item.object_id, item.label) == ((0, 0, 200, 100), -1, UNTRACKED, "")
    assert (item.rect.border_width, item.rect.has_bg_color, item.rect.bg_color) == (6, False, (1, 1, 0, 0.4))
    assert (item.rect.border_color, item.parent, item.confidence) == ((1, 0, 0, 1), None, 0)
    assert item.text.display_text == " dog  day "
    results = {c.classifier_type: [(x.label, x.label_id, x.class_id) for x in c.labels] for c in item.classifiers}
    assert results == {None: [("dog", 2, 1)], "light": [("day", 0, 0)]}
    assert frame.infer_done


def test_a_classifier_that_is_not_sure_writes_nothing(frame):
    assert attach_detections(frame, whole(), ["cat"], 7, SIZE) == 0
    assert frame.objects == []
    assert frame.infer_done


def test_what_holds_for_a_frame_is_written_to_the_frame(frame):
    outputs = RawOutputs((Layer("out", np.ones((2, 3), np.float16)),), 64, 32, 3)
    segmentation = Segmentation([[0, 1], [-1, 1]], classes=2)
    result = whole(embedding=[1, 2], keypoints=[[3, 4]], segmentation=segmentation, outputs=outputs)
    assert attach_detections(frame, result, [], 7, SIZE) == 0
    assert frame.objects == []
    assert infer_meta.embeddings(frame)[0].features.tolist() == [1, 2]
    assert infer_meta.keypoints(frame)[0].points.tolist() == [[3, 4]]
    assert infer_meta.segmentations(frame)[0].class_map.tolist() == [[0, 1], [-1, 1]]
    ((component, layers),) = infer_meta.outputs(frame)
    assert (component, layers["out"].tolist()) == (7, np.ones((2, 3)).tolist())


def test_a_secondary_models_results_go_to_its_object(frame):
    attach_detections(frame, found((10, 20, 90, 80)), ["car"], 1, SIZE)
    frame.infer_done = False
    (car,) = frame.objects
    result = found((20, 30, 40, 40), labels=["plate"])
    result.whole = WholeFrame([Classification(0, 0.9, "red", "colour")], embedding=[1.0], text="B-XY 1")
    assert attach_detections(frame, result, [], 2, SIZE, parent=car) == 1
    plate, _ = frame.objects
    assert (plate.parent, plate.label, plate.unique_component_id, plate.box) == (car, "plate", 2, (20, 30, 20, 10))
    assert {c.classifier_type: c.labels[0].label for c in car.classifiers} == {"colour": "red", "text": "B-XY 1"}
    assert car.text.display_text == "car red  B-XY 1 "
    assert infer_meta.embeddings(car)[0].component == 2
    assert frame.user_metas == []
    assert not frame.infer_done, "only a detector of frames marks them"


def test_of_an_attributes_classes_the_best_is_read_first_and_shown(frame):
    found = [Classification(2, 0.6), Classification(0, 0.3), Classification(1, 0.9, index=1), Classification(1, 0.1)]
    attach_detections(frame, whole(classification=found), ["a", "b", "c"], 7, SIZE)
    (item,) = frame.objects
    (classifier,) = item.classifiers
    labels = [(x.label_id, x.label) for x in classifier.labels]
    assert [label for index, label in labels if index == 0] == ["c", "a", "b"]
    assert [label for index, label in labels if index == 1] == ["b"]
    assert item.text.display_text == " c b "


def test_colours_of_boxes_are_written(frame):
    boxes = [(0, 0, 9, 9), (300, 0, 310, 9), (20, 0, 29, 9)]
    border = [[0, 0, 1, 1], [0, 0, 0, 1], [0, 1, 0, 0.5]]
    fill = [[1, 1, 0, 0.25], [1, 1, 1, 1], [0, 0, 0, 0]]
    attach_detections(frame, found(*boxes, border_colors=border, fill_colors=fill), [], 7, SIZE)
    second, first = frame.objects
    assert (first.rect.border_color, second.rect.border_color) == ((0, 0, 1, 1), (0, 1, 0, 0.5))
    assert (first.rect.has_bg_color, first.rect.bg_color) == (True, (1, 1, 0, 0.25))
    assert second.rect.has_bg_color is False


def facts(item: object) -> tuple:
    return item.box, item.confidence, item.class_id, item.label, item.unique_component_id


def test_a_batch_of_plain_detections_is_written_as_each_alone():
    """Clipped, left out where nothing remains, empty frames and frames of other sizes."""
    sizes = [(100, 50), (40, 40), (64, 64)]
    given = [
        Detections(
            np.array([[-5, 10, 20, 60], [200, 0, 210, 10], [1, 2, 3, 4]], np.float32),
            np.array([0.9, 0.8, 0.7], np.float32),
            np.array([0, 1, 7], np.int32),
        ),
        Detections.empty(),
        Detections(np.array([[5, 5, 90, 20]], np.float32), np.array([0.5], np.float32), np.array([1], np.int32)),
    ]
    written = []
    for together in (True, False):
        buffer, lease = Gst.Buffer.new(), Lease()
        batch = BatchMeta.attach(buffer, 4, lease)
        bulk.fill_frames(batch, np.zeros(3, bulk.FRAME_ROW))
        frames = batch.frames
        if together:
            count = attach_batch(frames, given, ("a", "b"), 3, sizes)
        else:
            count = sum(
                attach_detections(frame, item, ("a", "b"), 3, size)
                for frame, item, size in zip(frames, given, sizes, strict=True)
            )
        assert count == 3
        written.append([[facts(item) for item in frame.objects] for frame in frames])
        assert all(frame.infer_done for frame in frames)
    assert written[0] == written[1]
    assert [len(frame) for frame in written[0]] == [2, 0, 1]


def bits(*masks: np.ndarray) -> PackedMasks:
    parts = [np.packbits(mask.astype(bool), bitorder="little") for mask in masks]
    columns, lines = np.array([mask.shape[::-1] for mask in masks], np.int64).T
    return PackedMasks(np.concatenate(parts), np.cumsum([0, *map(len, parts[:-1])]), columns, lines)


@pytest.mark.parametrize("kinds", ["packed", "floats", "both", "some", "edges"])
def test_masks_of_a_batch_are_written_as_frame_by_frame(kinds):
    """One of the boxes is clipped, one lies outside, and one frame has none."""
    random = np.random.default_rng(0)
    masks = [random.integers(0, 2, shape).astype(np.float32) for shape in ((5, 7), (6, 8), (3, 3), (4, 10))]
    first = [(0, 0, 50, 40), (-20, 10, 20, 50), (-30, -30, -10, -10)]
    given = [
        found(*first, box_masks=bits(*masks[:3]) if kinds != "floats" else masks[:3]),
        found(),
        found((10, 20, 30, 50), box_masks=bits(masks[3]) if kinds == "packed" else masks[3:]),
    ]
    if kinds == "some":
        given[2].box_masks = None
    if kinds == "edges":
        given[2].mask_threshold = 0.25
    sizes = [(200, 100), (200, 100), (100, 80)]
    written = []
    for together in (True, False):
        batch = BatchMeta.attach(Gst.Buffer.new(), 3)
        bulk.fill_frames(batch, np.zeros(3, bulk.FRAME_ROW))
        frames = batch.frames
        if together:
            attach_batch(frames, given, ("a", "b"), 3, sizes)
        else:
            for frame, item, size in zip(frames, given, sizes, strict=True):
                attach_detections(frame, item, ("a", "b"), 3, size)
        objects = [obj for frame in frames for obj in reversed(frame.objects)]
        written.append([(obj.mask_threshold, None if obj.mask is None else obj.mask.tolist()) for obj in objects])
    assert written[0] == written[1]
    assert written[0][0] == (0.5, masks[0].tolist())
    assert len(written[0][1][1][0]) == 4, "half of the second box lies outside"
    last = {"some": (0.0, None), "edges": (0.25, masks[3].tolist())}
    assert written[0][2] == last.get(kinds, (0.5, masks[3].tolist()))


@pytest.mark.parametrize(
    ("angle", "place"),
    [(0, (40, 50)), (90, (60, 30)), (45, (65, 27)), (-30, (104, 32))],
    ids=["upright", "a quarter", "an eighth", "back"],
)
def test_the_label_of_a_turned_box_stands_at_its_highest_corner(frame, angle, place):
    """The box is 80 wide and 40 high about (80, 80); the label stands ten pixels higher."""
    found = Detections([[40, 60, 120, 100]], [0.9], [0], angles=[angle])
    attach_detections(frame, found, ["ship"], 1, (200, 200))
    text = frame.objects[0].text
    assert (text.x_offset, text.y_offset) == pytest.approx(place, abs=1)
