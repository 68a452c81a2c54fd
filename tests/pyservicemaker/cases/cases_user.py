"""User metadata: JSON, event messages, features, and how they are copied and freed."""

import ctypes
import math

import numpy as np
import pytest

from sluice.contract import user_meta
from sluice.contract.metadata import BatchMeta
from sluice.errors import ContractError
from sluice.pyservicemaker import ApiError, Buffer, osd

TYPE = 9000


@pytest.mark.parametrize("value", [{"a": [1, 2.5, None, True]}, [], "text", 0, {"ü": "日本"}])
def test_json_goes_in_and_out(batch, item, value):
    meta = batch.acquire_user_meta()
    assert meta
    assert meta.get_user_data_json() is None
    assert meta.set_user_data_json(value, TYPE) is None
    item.append(meta)
    (found,) = item.user_meta_items(TYPE)
    assert (found.get_user_data_json(), found.meta_type) == (value, TYPE)
    assert list(item.user_meta_items(TYPE + 1)) == []


def test_json_is_a_c_string_that_sluices_own_elements_read(batch, item, gst_buffer):
    meta = batch.acquire_user_meta()
    meta.set_user_data_json({"a": 1}, TYPE)
    item.append(meta)
    view = BatchMeta.of(gst_buffer).frames[0].objects[0].user_metas[0]
    assert user_meta.kind_of(view) is user_meta.Kind.TEXT
    assert user_meta.payload_json(view) == {"a": 1}
    assert ctypes.string_at(view.data) == b'{"a": 1}'


def test_json_on_batch_and_frame_in_list_order(batch, frame):
    for number in range(3):
        for owner in (batch, frame):
            meta = batch.acquire_user_meta()
            meta.set_user_data_json(number, TYPE)
            owner.append(meta)
    assert [meta.get_user_data_json() for meta in batch.user_meta_items(TYPE)] == [0, 1, 2]
    assert [meta.get_user_data_json() for meta in frame.user_meta_items(TYPE)] == [2, 1, 0]


def test_json_is_copied_replaced_and_freed(gst_buffer, copied, live_payloads):
    before = live_payloads()
    with Buffer(gst_buffer) as buffer:
        batch = buffer.batch_meta
        meta = batch.acquire_user_meta()
        meta.set_user_data_json("first", TYPE)
        batch.append(meta)
        copy = copied(gst_buffer)
        meta.set_user_data_json("second", TYPE)
        assert live_payloads() == before + 2
        (kept,) = Buffer(copy).batch_meta.user_meta_items(TYPE)
        assert kept.get_user_data_json() == "first"
        unused = batch.acquire_user_meta()
        unused.set_user_data_json("third", TYPE)
    del copy, kept
    assert live_payloads() == before + 1


@pytest.mark.parametrize("wrong", [object(), {1, 2}, float("nan")])
def test_what_is_no_json_is_refused(batch, wrong):
    with pytest.raises(ApiError, match="JSON"):
        batch.acquire_user_meta().set_user_data_json(wrong, TYPE)


def test_data_of_others_are_not_read(batch, item, gst_buffer):
    view = BatchMeta.of(gst_buffer).frames[0].objects[0]
    user_meta.attach_bytes(view, TYPE, b"123")
    (found,) = item.user_meta_items(TYPE)
    with pytest.raises(ContractError, match="not a JSON text"):
        found.get_user_data_json()


def test_user_metas_are_appended_once(batch, item):
    meta = batch.acquire_user_meta()
    item.append(meta)
    with pytest.raises(ApiError, match="not appended before"):
        item.append(meta)
    meta.meta_type = 77
    assert [found.meta_type for found in item.user_meta_items(77)] == [77]


def test_casts_to_another_type_are_falsy_and_empty(batch):
    meta = batch.acquire_user_meta()
    meta.set_user_data_json(1, TYPE)
    tensors, pixels, regions = meta.as_tensor_output(), meta.as_segmentation(), meta.as_preprocess_batch()
    on_object, on_frame, features = meta.as_nvdsanalytics_obj(), meta.as_nvdsanalytics_frame(), meta.as_obj_reid()
    assert not any((tensors, pixels, regions, on_object, on_frame, features))
    assert (tensors.get_layers(), tensors.unique_id) == ({}, 0)
    assert (pixels.classes, pixels.width, pixels.class_map.shape) == (0, 0, (0, 0))
    assert pixels.class_probabilities_map.shape == (0, 0, 0)
    assert (regions.rois, bool(regions)) == ([], False)
    assert (on_object.roi_status, on_object.dir_status, on_object.unique_id) == ([], "", 0)
    assert (on_frame.obj_cnt, on_frame.oc_status, on_frame.unique_id) == ({}, {}, 0)
    assert (features.feature_size, features.feature_vector.size) == (0, 0)
    with pytest.raises(ApiError, match="empty"):
        _ = regions.preprocess_tensor_meta.name
    with pytest.raises(ApiError, match="another type"):
        _ = features.meta_type


# NvDsEventMsgMeta of nvdsmeta_schema.h: offset and type of what a message says.
EVENT = {
    "type": (0, ctypes.c_int32),
    "objType": (4, ctypes.c_int32),
    "top": (8, ctypes.c_float),
    "left": (12, ctypes.c_float),
    "width": (16, ctypes.c_float),
    "height": (20, ctypes.c_float),
    "objClassId": (88, ctypes.c_int32),
    "sensorId": (92, ctypes.c_int32),
    "moduleId": (96, ctypes.c_int32),
    "placeId": (100, ctypes.c_int32),
    "frameId": (108, ctypes.c_int32),
    "confidence": (112, ctypes.c_double),
    "trackingId": (120, ctypes.c_uint64),
    "ts": (128, ctypes.c_char_p),
    "objectId": (136, ctypes.c_char_p),
    "sensorStr": (144, ctypes.c_char_p),
    "extMsg": (13848, ctypes.c_size_t),
    "extMsgSize": (13856, ctypes.c_uint32),
    "has3DTracking": (13896, ctypes.c_bool),
    "z_len": (13904 + 32 + 5 * 4, ctypes.c_float),
}
VEHICLE = {"type": 0, "make": 8, "model": 16, "color": 24}


def event_of(buffer):
    (user,) = (user for user in BatchMeta.of(buffer).frames[0].user_metas if user.meta_type == 9)
    return {name: kind.from_address(user.data + offset).value for name, (offset, kind) in EVENT.items()}


def vehicle_of(event):
    return {name: ctypes.c_char_p.from_address(event["extMsg"] + at).value for name, at in VEHICLE.items()}


@pytest.fixture
def car(item, gst_buffer):
    item.class_id, item.object_id, item.confidence, item.label = 0, 2**40 + 1, 0.75, "car"
    rect = item.rect_params
    rect.left, rect.top, rect.width, rect.height = 10.0, 20.0, 30.0, 40.0
    view = BatchMeta.of(gst_buffer).frames[0].objects[0]
    for component, label in ((4, "suv"), (5, "red"), (6, "acme"), (9, "other")):
        view.add_classifier(component).add_label(label)
    return item


def test_an_event_message_says_what_is_known(batch, frame, car, gst_buffer):
    message = batch.acquire_event_message_meta()
    assert message
    message.generate(car, frame, "cam-1", "file:///a.mp4")
    frame.append(message)
    event = event_of(gst_buffer)
    assert (event["type"], event["objType"], event["objClassId"]) == (2, 0, 0)
    assert (event["left"], event["top"], event["width"], event["height"]) == (10, 20, 30, 40)
    assert (event["sensorId"], event["moduleId"], event["placeId"]) == (frame.source_id,) * 3
    assert (event["frameId"], event["confidence"], event["trackingId"]) == (frame.frame_number, 0.75, 2**40 + 1)
    assert (event["sensorStr"], event["objectId"]) == (b"cam-1", b"car")
    assert len(event["ts"]) == len("2026-01-01T00:00:00.000Z")
    assert event["ts"].endswith(b"Z")
    assert (vehicle_of(event), event["extMsgSize"]) == (
        {"type": b"suv", "make": b"acme", "model": None, "color": b"red"},
        48,
    )
    assert event["has3DTracking"] is False


def test_an_event_message_is_copied_whole_and_outlives_the_first(batch, frame, car, gst_buffer, copied):
    message = batch.acquire_event_message_meta()
    message.generate(object_meta=car, frame_meta=frame, sensor="cam-1")
    frame.append(message)
    first, copy = event_of(gst_buffer), copied(gst_buffer)
    car.label, car.class_id = "person", 2
    message.generate(car, frame, sensor="cam-2")
    second, kept = event_of(gst_buffer), event_of(copy)
    assert (second["sensorStr"], second["objType"], second["extMsg"]) == (b"cam-2", 1, 0)
    assert {name: kept[name] for name in ("objectId", "sensorStr", "trackingId")} == {
        name: first[name] for name in ("objectId", "sensorStr", "trackingId")
    }
    assert vehicle_of(kept)["color"] == b"red"


def test_a_sensor_with_half_a_surrogate_pair_gets_a_question_mark(batch, frame, car, gst_buffer):
    message = batch.acquire_event_message_meta()
    message.generate(car, frame, sensor="caf\udce9")
    frame.append(message)
    assert event_of(gst_buffer)["sensorStr"] == b"caf?"


def test_places_are_scaled_back_to_the_source(batch, frame, car, gst_buffer):
    view = BatchMeta.of(gst_buffer).frames[0]
    view.pipeline_width, view.pipeline_height = 960, 270
    message = batch.acquire_event_message_meta()
    message.generate(car, frame)
    frame.append(message)
    event = event_of(gst_buffer)
    assert (event["left"], event["top"], event["width"], event["height"]) == (20, 80, 60, 160)
    assert (event["sensorStr"], event["objectId"]) == (b"N/A", b"car")


@pytest.mark.parametrize(
    ("class_id", "labels", "expected"),
    [
        (0, (), (2, 0)),
        (2, (), (0, 1)),
        (1, (), (0, 258)),
        (1, ["person", "car"], (2, 0)),
        (0, ["person", "car"], (0, 1)),
        (1, ["car", "face"], (0, 2)),
        (2, ["a", "b", "bag"], (0, 3)),
        (0, ["bg"], (0, 3)),
        (0, ["dog"], (0, 258)),
    ],
)
def test_the_class_decides_event_and_object_type(batch, frame, item, gst_buffer, class_id, labels, expected):
    item.class_id = class_id
    message = batch.acquire_event_message_meta()
    message.generate(item, frame, labels=labels)
    frame.append(message)
    event = event_of(gst_buffer)
    assert (event["type"], event["objType"]) == expected
    assert (event["extMsgSize"] > 0) == (expected[1] == 0)


def test_the_time_of_shared_memory_sources_is_the_frames(batch, frame, item, gst_buffer):
    BatchMeta.of(gst_buffer).frames[0].buf_pts = 1_700_000_000_123_456_789
    message = batch.acquire_event_message_meta()
    message.generate(item, frame, uri="ipc:///tmp/socket")
    frame.append(message)
    assert event_of(gst_buffer)["ts"] == b"2023-11-14T22:13:20.123Z"


def test_the_box_in_the_world_goes_into_the_message(batch, frame, item, gst_buffer):
    numbers = (ctypes.c_float * 12)(*range(12))
    meta = batch.acquire_user_meta()
    meta.meta_type = 24
    meta._need().data = ctypes.addressof(numbers)
    item.append(meta)
    message = batch.acquire_event_message_meta()
    message.generate(item, frame)
    frame.append(message)
    event = event_of(gst_buffer)
    assert (event["has3DTracking"], event["z_len"]) == (True, 5.0)


def test_what_generate_refuses(batch, frame, item):
    message = batch.acquire_event_message_meta()
    with pytest.raises(TypeError, match="ObjectMetadata"):
        message.generate(frame, frame)
    with pytest.raises(TypeError, match="FrameMetadata"):
        message.generate(item, batch)


def test_features_are_stored_copied_and_replaced(batch, item, gst_buffer, copied):
    meta = batch.acquire_obj_reid_meta()
    assert (bool(meta), meta.feature_size, meta.feature_vector.size) == (True, 0, 0)
    features = np.arange(8, dtype=np.float32)[::2]
    meta.set_feature_vector(features)
    item.append(meta)
    copy = copied(gst_buffer)
    meta.set_feature_vector(np.ones(2, np.float32))
    (found,) = item.obj_reid_items
    assert found.as_obj_reid().feature_vector.tolist() == [1.0, 1.0]
    (kept,) = next(iter(next(iter(Buffer(copy).batch_meta.frame_items)).object_items)).obj_reid_items
    assert (kept.as_obj_reid().feature_size, kept.as_obj_reid().feature_vector.tolist()) == (4, [0, 2, 4, 6])


@pytest.mark.parametrize("wrong", [np.zeros((2, 2), np.float32), np.zeros(3), [1.0, 2.0]])
def test_features_are_float32_of_one_dimension(batch, wrong):
    with pytest.raises(ApiError, match="float32"):
        batch.acquire_obj_reid_meta().set_feature_vector(wrong)


def test_a_font_is_kept_by_name():
    text = osd.Text()
    assert text.font.name == ""
    text.font.name = "DejaVu Sans"
    text.font.size = 9
    other = osd.Text()
    other.font = text.font
    assert (other.font.name, other.font.size) == ("DejaVu Sans", 9)
    assert math.isclose(other.font.color.a, 0.0)
    with pytest.raises(TypeError, match="Font"):
        other.font = "Serif"
    with pytest.raises(TypeError, match="no constructor"):
        osd.Font()
