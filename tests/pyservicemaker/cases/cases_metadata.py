"""Frames, objects, classifiers and display metadata: reading, writing, appending."""

import math

import numpy as np
import pytest

from sluice.contract.metadata import BatchMeta
from sluice.pyservicemaker import ApiError, Buffer, osd

UNTRACKED = 0xFFFF_FFFF_FFFF_FFFF


def views(gst_buffer):
    return BatchMeta.of(gst_buffer).frames[0]


def test_a_frame_tells_what_the_mux_wrote(batch, gst_buffer):
    for frame, view in zip(batch.frame_items, BatchMeta.of(gst_buffer).frames, strict=True):
        view.pipeline_width, view.pipeline_height = 1280, 720
        assert (frame.frame_number, frame.pad_index, frame.batch_id) == (view.frame_num, view.pad_index, view.batch_id)
        assert (frame.source_id, frame.buffer_pts, frame.ntp_timestamp) == (
            view.source_id,
            view.buf_pts,
            view.ntp_timestamp,
        )
        assert (frame.source_width, frame.source_height) == (1920, 1080)
        assert (frame.pipeline_width, frame.pipeline_height) == (1280, 720)
        with pytest.raises(AttributeError):
            frame.batch_id = 3


def test_infer_done_can_be_set(frame, gst_buffer):
    assert frame.infer_done is False
    frame.infer_done = True
    assert views(gst_buffer).infer_done is True


def test_iterators_are_one_shot_and_fresh_at_each_access(batch):
    frames = batch.frame_items
    assert [frame.batch_id for frame in frames] == [0, 1]
    assert list(frames) == []
    assert [frame.batch_id for frame in batch.frame_items] == [0, 1]
    with pytest.raises(TypeError):
        len(batch.frame_items)


def test_an_acquired_object_is_empty_and_untracked(batch):
    found = batch.acquire_object_meta()
    assert (found.object_id, found.label, found.class_id, found.confidence) == (UNTRACKED, "", 0, 0.0)
    assert found.parent is None
    assert list(found.classifier_items) == []


def test_all_fields_of_an_object(item, gst_buffer):
    item.class_id, item.object_id, item.unique_component_id = -1, 2**63 + 5, 7
    item.confidence, item.tracker_confidence, item.label = 0.5, 0.25, "person"
    item.nv_bbox_info = {"left": 1.0, "top": 2.0, "width": 3.0, "height": 4.0}
    item.detector_bbox_info = {"left": 5.0, "top": 6.0, "width": 7.0, "height": 8.0}
    rect = item.rect_params
    rect.left, rect.top, rect.width, rect.height = 10, 20.5, np.float32(30), 40.0
    rect.rotation_angle, rect.border_width, rect.has_bg_color = 45.0, 3, True
    rect.border_color, rect.bg_color = osd.Color(1.0, 0.5, 0.25, 1.0), osd.Color(0.0, 0.0, 1.0, 0.5)
    text = item.text_params
    text.display_text, text.x_offset, text.y_offset, text.set_bg_clr = "höher", 11, 12, 1
    text.font_params.name, text.font_params.size = osd.FontFamily.Serif, 14
    text.font_params.color, text.text_bg_clr = osd.Color(1.0, 1.0, 1.0, 1.0), osd.Color(0.0, 0.0, 0.0, 1.0)
    item.mask_params.threshold, item.mask_params.mask_array = 0.5, np.eye(3, 5)
    view = views(gst_buffer).objects[0]
    assert (view.class_id, view.object_id, view.unique_component_id) == (-1, 2**63 + 5, 7)
    assert (view.confidence, view.tracker_confidence, view.label) == (0.5, 0.25, "person")
    assert (view.tracker_box, view.detector_box) == ((1, 2, 3, 4), (5, 6, 7, 8))
    assert (view.box, view.rotation, view.rect.border_width) == ((10, 20.5, 30, 40), 45.0, 3)
    assert (view.rect.border_color, view.rect.bg_color) == ((1.0, 0.5, 0.25, 1.0), (0.0, 0.0, 1.0, 0.5))
    assert view.rect.has_bg_color is True
    assert (view.text.display_text, view.text.x_offset, view.text.y_offset) == ("höher", 11, 12)
    assert (view.text.font_name, view.text.font_size, view.text.set_bg_clr) == ("Serif", 14, True)
    assert (view.text.font_color, view.text.text_bg_clr) == ((1, 1, 1, 1), (0, 0, 0, 1))
    assert view.mask_threshold == 0.5
    np.testing.assert_array_equal(view.mask, np.eye(3, 5, dtype=np.float32))
    assert item.nv_bbox_info == {"left": 1.0, "top": 2.0, "width": 3.0, "height": 4.0}
    assert (text.font_params.name, rect.has_bg_color, text.set_bg_clr) == ("Serif", 1, 1)
    assert item.mask_params.mask_array.shape == (3, 5)
    assert "person" in repr(item)


def test_shapes_are_references_and_setting_one_copies(item):
    rect = item.rect_params
    rect.left = 9.0
    rect.border_color.g = 0.75
    assert (item.rect_params.left, item.rect_params.border_color) == (9.0, osd.Color(0.0, 0.75, 0.0, 0.0))
    other = osd.Rect()
    other.left, other.width = 1.0, 2.0
    item.rect_params = other
    other.left = 100.0
    assert (rect.left, rect.width) == (1.0, 2.0)
    words = osd.TextParams()
    words.display_text = "first"
    item.text_params = words
    words.display_text = "second"
    assert item.text_params.display_text == "first"
    mask = osd.Mask()
    mask.threshold, mask.mask_array = 0.5, np.ones((2, 2), np.float32)
    item.mask_params = mask
    mask.mask_array = np.zeros((2, 2), np.float32)
    assert item.mask_params.mask_array.sum() == 4
    for name, wrong in (("rect_params", osd.Text()), ("text_params", osd.Text()), ("mask_params", rect)):
        with pytest.raises(TypeError):
            setattr(item, name, wrong)


def test_a_reference_that_is_set_where_it_came_from_loses_nothing(item):
    text, rect, mask = item.text_params, item.rect_params, item.mask_params
    text.display_text, text.x_offset, text.font_params.name = "person 7", 5, "Sans"
    rect.left, rect.border_width = 3.0, 2
    mask.threshold, mask.mask_array = 0.5, np.ones((2, 2), np.float32)
    item.text_params, item.rect_params, item.mask_params = text, rect, mask
    assert (text.display_text, text.x_offset, text.font_params.name) == ("person 7", 5, "Sans")
    assert (rect.left, rect.border_width) == (3.0, 2)
    assert (mask.threshold, mask.mask_array.sum()) == (0.5, 4)


@pytest.mark.parametrize("wrong", [-1, 1.0, "1", 2**32, None])
def test_unsigned_fields_refuse_floats_and_negatives(wrong):
    for shape, field in ((osd.Rect(), "border_width"), (osd.Text(), "x_offset"), (osd.Line(), "x1")):
        with pytest.raises(TypeError):
            setattr(shape, field, wrong)


@pytest.mark.parametrize(
    ("field", "wrong"), [("class_id", 1.0), ("object_id", -1), ("object_id", 2**64), ("unique_component_id", "1")]
)
def test_numbers_of_an_object_refuse_what_is_none(item, field, wrong):
    with pytest.raises(TypeError):
        setattr(item, field, wrong)


def test_a_long_label_is_cut_between_characters(item):
    item.label = "é" * 100
    assert item.label == "é" * 63


def test_objects_are_prepended_and_keep_their_parent(batch, frame, gst_buffer):
    outer, inner = batch.acquire_object_meta(), batch.acquire_object_meta()
    outer.label, inner.label = "car", "plate"
    frame.append(outer)
    inner.parent = outer
    frame.append(inner)
    assert [found.label for found in frame.object_items] == ["plate", "car"]
    assert next(iter(frame.object_items)).parent == outer
    assert views(gst_buffer).num_objects == 2
    assert views(gst_buffer).objects[0].parent == views(gst_buffer).objects[1]
    inner.parent = None
    assert views(gst_buffer).objects[0].parent is None


def test_objects_may_be_appended_while_walking_the_list(batch, frame, item):
    for _ in frame.object_items:
        frame.append(batch.acquire_object_meta())
    assert len(list(frame.object_items)) == 2


def test_appending_twice_or_elsewhere_or_what_was_not_acquired_is_refused(batch, frame, item, gst_buffer, copied):
    with pytest.raises(ApiError, match="not appended before"):
        frame.append(item)
    with pytest.raises(ApiError, match="acquired from this buffer"):
        frame.append(Buffer(copied(gst_buffer)).batch_meta.acquire_object_meta())
    with pytest.raises(ApiError):
        frame.append(next(iter(frame.object_items)))
    for wrong in (None, batch, osd.Rect(), "object"):
        with pytest.raises(TypeError, match="append"):
            frame.append(wrong)
    with pytest.raises(TypeError, match="UserMetadata"):
        item.append(batch.acquire_display_meta())
    assert len(list(frame.object_items)) == 1


def test_a_parent_is_of_the_same_buffer(item, gst_buffer, copied):
    with pytest.raises(ApiError, match="same buffer"):
        item.parent = Buffer(copied(gst_buffer)).batch_meta.acquire_object_meta()
    with pytest.raises(TypeError):
        item.parent = 5


def test_classifiers_and_labels(item, gst_buffer):
    classifier = views(gst_buffer).objects[0].add_classifier(4, "colour")
    classifier.add_label("red", class_id=2, label_id=1, probability=0.75, num_classes=9)
    classifier.add_label("")
    (found,) = item.classifier_items
    assert (found.n_labels, found.unique_component_id, found.classifier_type) == (2, 4, "colour")
    assert (found.get_n_label(0), found.get_n_label(1)) == ("red", "red")
    label = found.get_label_info(1)
    assert (label.label, label.class_id, label.label_id, label.prob, label.num_classes) == ("red", 2, 1, 0.75, 9)
    for n in (2, -1):
        with pytest.raises(IndexError, match="no label"):
            found.get_n_label(n)
        with pytest.raises(IndexError, match="no label"):
            found.get_label_info(n)


def test_a_long_label_of_a_classifier_comes_whole(item, gst_buffer):
    label = views(gst_buffer).objects[0].add_classifier(4).add_label("short")
    label.long_label = "x" * 300
    (found,) = item.classifier_items
    assert (found.get_n_label(0), found.classifier_type) == ("x" * 300, "")


def test_display_metadata_copy_what_is_added(batch, frame, gst_buffer):
    display = batch.acquire_display_meta()
    text, rect, line, arrow, circle = osd.Text(), osd.Rect(), osd.Line(), osd.Arrow(), osd.Circle()
    text.display_text, text.x_offset, text.font.size, text.font.name = b"hello", 5, 12, osd.FontFamily.Serif
    rect.left, rect.border_width = 3.0, 2
    line.x1, line.width, line.color = 7, 1, osd.Color(0.0, 1.0, 0.0, 1.0)
    arrow.x2, arrow.head = 9, osd.ArrowHead.Both
    circle.xc, circle.radius, circle.has_bg_color, circle.width = 4, 6, 1, 2
    for add, shape in zip(
        (display.add_text, display.add_rect, display.add_line, display.add_arrow, display.add_circle),
        (text, rect, line, arrow, circle),
        strict=True,
    ):
        assert add(shape) is None
    text.display_text, rect.left = "changed", 99.0
    del text
    frame.append(display)
    counts = (display.n_labels, display.n_rects, display.n_lines, display.n_arrows, display.n_circles)
    assert counts == (1, 1, 1, 1, 1)
    (view,) = views(gst_buffer).display_metas
    assert (view.texts[0].display_text, view.texts[0].x_offset, view.texts[0].font_name) == ("hello", 5, "Serif")
    assert (view.rects[0].left, view.rects[0].border_width) == (3.0, 2)
    assert (view.lines[0].x1, view.lines[0].line_width, view.lines[0].line_color) == (7, 1, (0, 1, 0, 1))
    assert (view.arrows[0].x2, view.arrows[0].arrow_head) == (9, 2)
    assert (view.circles[0].radius, view.circles[0].has_bg_color, view.circles[0].circle_width) == (6, True, 2)


def test_a_display_meta_has_room_for_sixteen_of_each(batch, gst_buffer):
    display = batch.acquire_display_meta()
    text = osd.Text()
    for number in range(20):
        text.display_text = str(number)
        display.add_text(text)
        display.add_circle(osd.Circle())
    assert (display.n_labels, display.n_circles, display.n_rects) == (16, 16, 0)
    next(iter(Buffer(gst_buffer).batch_meta.frame_items))
    with pytest.raises(TypeError, match=r"osd\.Text"):
        display.add_text(osd.TextParams())


def test_metadata_survive_a_copy_of_the_buffer(batch, frame, item, gst_buffer, copied):
    item.label, item.text_params.display_text = "kept", "shown"
    display = batch.acquire_display_meta()
    text = osd.Text()
    text.display_text = "drawn"
    display.add_text(text)
    frame.append(display)
    copy = copied(gst_buffer)
    item.label, item.text_params.display_text = "changed", "changed"
    (found,) = next(iter(Buffer(copy).batch_meta.frame_items)).object_items
    assert (found.label, found.text_params.display_text) == ("kept", "shown")
    assert views(copy).display_metas[0].texts[0].display_text == "drawn"


def test_extract_gives_plain_values(batch, frame, item, gst_buffer):
    item.label, item.confidence, item.object_id = "car", 0.5, 12
    rect = item.rect_params
    rect.left, rect.top, rect.width, rect.height = 1.9, 2.0, 10.0, 20.0
    item.mask_params.threshold, item.mask_params.mask_array = 0.5, np.array([[0.4, 0.6]], np.float32)
    views(gst_buffer).objects[0].add_classifier(4).add_label("red")
    pad = frame.pad_index
    values = batch.extract(pad + 2)
    assert len(values) == pad + 2
    found = values[pad]
    assert (found["shape"], found["bboxes"], found["probs"]) == ([1080, 1920], [[1, 2, 11, 22]], [0.5])
    assert (found["labels"], found["objects"], found["timestamp"]) == ([["car", "red"]], [12], frame.buffer_pts)
    assert [array.tolist() for array in found["seg_maps"]] == [[[0, 1]]]
    assert found["seg_maps"][0].dtype == np.int32
    item.object_id = UNTRACKED
    assert batch.extract(pad + 1)[pad]["objects"] == [-1]
    assert batch.extract(0) == []


def test_colours_are_values_of_their_own_until_they_are_got_from_a_shape():
    color = osd.Color(0.1, 0.2, 0.3, 0.4)
    color.r = 1
    assert (color.r, color.g, color.b, color.a) == (1.0, 0.2, 0.3, 0.4)
    line = osd.Line()
    line.color = color
    color.r = 0.0
    assert math.isclose(line.color.r, 1.0)
    for wrong in ((1.0, 1.0, 1.0, 1.0), None):
        with pytest.raises(TypeError, match="Color"):
            line.color = wrong
    with pytest.raises(TypeError):
        osd.Color(1.0, 1.0, 1.0)
    with pytest.raises(TypeError):
        osd.Color("1", 0.0, 0.0, 1.0)
