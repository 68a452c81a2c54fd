"""User metadata of NVIDIA's elements, in structs laid out as NVIDIA's headers have them."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from sluice.contract.metadata import BatchMeta
from sluice.errors import StaleBufferError
from sluice.pyservicemaker import ApiError, Buffer
from sluice.pyservicemaker._pydeepstream import (
    Object3DBBoxUserMetadata,
    ObjectConvexHullUserMetadata,
    ObjectImageFootLocationUserMetadata,
    ObjectVisibilityUserMetadata,
    ObjectWorldFootLocationUserMetadata,
    TrackerPastFrameUserMetadata,
)

TENSOR, SEGMENTATION, PAST_FRAME, REID, VISIBILITY, IMAGE_FOOT, WORLD_FOOT, HULL, BOX_3D = (
    12,
    13,
    15,
    17,
    *range(20, 25),
)
PREPROCESS, ANALYTICS_FRAME, ANALYTICS_OBJECT = 28, 32, 33


@pytest.fixture(scope="session")
def structs(tmp_path_factory):
    """The C++ structs' makers, compiled."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    library = tmp_path_factory.mktemp("structs") / "structs.so"
    source = Path(__file__).with_name("nvidia_structs.cpp")
    subprocess.run(["g++", "-std=c++17", "-shared", "-fPIC", "-o", library, source], check=True)
    found = ctypes.CDLL(str(library))
    for name in ("analytics_object", "analytics_frame", "preprocess"):
        getattr(found, name).restype = ctypes.c_void_p
    found.preprocess.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    return found


@pytest.fixture
def buffer(gst_buffer):
    return Buffer(gst_buffer)


@pytest.fixture
def batch(buffer):
    return buffer.batch_meta


def put(batch, owner, meta_type, address):
    """Put data on a batch, a frame or an object, as an element of NVIDIA's would."""
    meta = batch.acquire_user_meta()
    meta.meta_type = meta_type
    meta._need().data = address
    owner.append(meta)
    return meta


def packed(*parts):
    """Return a C block of ctypes values one after the other."""
    return ctypes.create_string_buffer(b"".join(bytes(part) for part in parts))


def floats(*numbers):
    return (ctypes.c_float * len(numbers))(*numbers)


def pointer(value):
    return ctypes.c_size_t(ctypes.addressof(value) if value is not None else 0)


def test_what_a_tracker_tells_of_an_object(batch, item):
    numbers = floats(*range(12))
    points = (ctypes.c_int32 * 6)(1, 2, 3, 4, 5, 6)
    hull = packed(pointer(points), ctypes.c_uint32(8), ctypes.c_uint32(3))
    for meta_type in (VISIBILITY, IMAGE_FOOT, WORLD_FOOT, BOX_3D):
        put(batch, item, meta_type, ctypes.addressof(numbers) + (4 if meta_type != BOX_3D else 0))
    put(batch, item, HULL, ctypes.addressof(hull))

    def only(meta_type, kind):
        (user,) = item.user_meta_items(meta_type)
        return kind(user)

    assert only(VISIBILITY, ObjectVisibilityUserMetadata).visibility == 1.0
    foot = only(IMAGE_FOOT, ObjectImageFootLocationUserMetadata)
    assert (bool(foot), foot.image_foot_location) == (True, {"x": 1.0, "y": 2.0})
    assert only(WORLD_FOOT, ObjectWorldFootLocationUserMetadata).world_foot_location == {"x": 1.0, "y": 2.0}
    assert only(HULL, ObjectConvexHullUserMetadata).convex_hull == [(1, 2), (3, 4), (5, 6)]
    box = only(BOX_3D, Object3DBBoxUserMetadata).bbox_3d
    assert (box["x_centre"], box["z_len"], box["y_rot"], box["z_vel"]) == (0.0, 5.0, 7.0, 11.0)
    assert len(box) == 12


def test_tracker_metadata_of_another_type_are_falsy(batch, item):
    meta = put(batch, item, 9000, ctypes.addressof(floats(1.0)))
    assert not ObjectVisibilityUserMetadata(meta)
    assert ObjectVisibilityUserMetadata(meta).visibility == 0.0
    assert ObjectConvexHullUserMetadata(meta).convex_hull == []
    assert TrackerPastFrameUserMetadata(meta).past_frame_data == []
    with pytest.raises(TypeError, match="UserMetadata"):
        ObjectVisibilityUserMetadata(item)


def test_past_frames(batch):
    def past(number):
        return (
            bytes(ctypes.c_uint64(number)),
            floats(1.0, 2.0, 3.0, 4.0),
            bytes(96),
            floats(0.5),
            ctypes.c_uint32(6),
            ctypes.c_int32(1),
            floats(0.25, 7.0, 8.0),
        )

    frames = packed(*past(41), *past(42))
    objects = packed(
        pointer(frames),
        ctypes.c_uint32(2),
        ctypes.c_uint32(2),
        ctypes.c_uint64(2**40),
        ctypes.c_uint16(3),
        b"car".ljust(134, b"\0"),
    )
    streams = packed(
        pointer(objects),
        ctypes.c_uint64(5),
        ctypes.c_uint64(6),
        ctypes.c_uint32(1),
        ctypes.c_uint32(1),
    )
    data = packed(pointer(streams), ctypes.c_uint32(4), ctypes.c_uint32(1), ctypes.c_uint64(0))
    put(batch, batch, PAST_FRAME, ctypes.addressof(data))
    (user,) = batch.user_meta_items(PAST_FRAME)
    (stream,) = TrackerPastFrameUserMetadata(user).past_frame_data
    assert (stream["stream_id"], stream["surface_stream_id"]) == (5, 6)
    (found,) = stream["objects"]
    assert (found["unique_id"], found["class_id"], found["label"]) == (2**40, 3, "car")
    assert [frame["frame_num"] for frame in found["frames"]] == [41, 42]
    assert found["frames"][1] == {
        "frame_num": 42,
        "left": 1.0,
        "top": 2.0,
        "width": 3.0,
        "height": 4.0,
        "confidence": 0.5,
        "age": 6,
        "tracker_state": 1,
        "visibility": 0.25,
        "world_foot": (7.0, 8.0),
    }


def test_features_of_a_tracker_are_read_and_not_overwritten(batch, item):
    features = floats(1.0, 2.0, 3.0)
    data = packed(ctypes.c_uint64(3), pointer(features), ctypes.c_uint64(0))
    meta = put(batch, item, REID, ctypes.addressof(data)).as_obj_reid()
    assert (meta.feature_size, meta.feature_vector.tolist()) == (3, [1.0, 2.0, 3.0])
    with pytest.raises(ApiError, match="somebody else's"):
        meta.set_feature_vector(np.zeros(3, np.float32))
    on_gpu = packed(ctypes.c_uint64(3), ctypes.c_uint64(0), pointer(features))
    assert put(batch, item, REID, ctypes.addressof(on_gpu)).as_obj_reid().feature_vector.size == 0


def test_segmentation(batch, frame):
    classes = (ctypes.c_int32 * 6)(0, 1, 2, 3, 4, -1)
    chances = floats(*(i / 100 for i in range(12)))
    data = packed(
        ctypes.c_uint32(2),
        ctypes.c_uint32(3),
        ctypes.c_uint64(2),
        pointer(classes),
        pointer(chances),
        ctypes.c_uint64(0),
        ctypes.c_uint64(8),
    )
    put(batch, frame, SEGMENTATION, ctypes.addressof(data))
    (user,) = frame.segmentation_items
    found = user.as_segmentation()
    assert (found.classes, found.width, found.height, found.unique_id) == (2, 3, 2, 8)
    assert found.class_map.tolist() == [[0, 1, 2], [3, 4, -1]]
    assert found.class_map.dtype == np.int32
    assert found.class_probabilities_map.shape == (2, 3, 2)
    np.testing.assert_allclose(found.class_probabilities_map[1, 2], [0.10, 0.11])
    pad = frame.pad_index
    assert [array.tolist() for array in batch.extract(pad + 1)[pad]["seg_maps"]] == [[[0, 1, 2], [3, 4, -1]]]
    without = packed(ctypes.c_uint32(2), ctypes.c_uint32(3), ctypes.c_uint64(2), pointer(classes), bytes(24))
    assert (
        put(batch, frame, SEGMENTATION, ctypes.addressof(without)).as_segmentation().class_probabilities_map.size == 0
    )


LAYERS = (("boxes", 0, (2, 3)), ("half", 1, (4,)), ("counts", 3, (2, 1, 2)), ("ids", 4, (3,)), ("levels", 2, (5,)))
DTYPES = {0: np.float32, 1: np.float16, 2: np.int8, 3: np.int32, 4: np.int64}


def tensor_meta(on_gpu=()):
    """Return an NvDsInferTensorMeta of `LAYERS`, the arrays in it, and what must be kept alive."""
    arrays = [np.arange(np.prod(shape), dtype=DTYPES[kind]).reshape(shape) for _, kind, shape in LAYERS]
    names = [ctypes.create_string_buffer(name.encode()) for name, _, _ in LAYERS]
    infos = packed(*(packed_layer(kind, shape, name) for (_, kind, shape), name in zip(LAYERS, names, strict=True)))
    host = (ctypes.c_size_t * len(arrays))(*(array.ctypes.data for array in arrays))
    device = (ctypes.c_size_t * len(arrays))(*(0x1000 if i in on_gpu else 0 for i in range(len(arrays))))
    data = packed(
        ctypes.c_uint32(6),
        ctypes.c_uint32(len(arrays)),
        pointer(infos),
        pointer(host),
        pointer(device),
        ctypes.c_uint64(1),
        bytes(32),
    )
    return data, arrays, (names, infos, host, device)


def packed_layer(kind, shape, name):
    """Return the bytes of an NvDsInferLayerInfo."""
    return b"".join(
        (
            bytes(ctypes.c_int32(kind)),
            bytes(ctypes.c_uint32(len(shape))),
            bytes((ctypes.c_uint32 * 8)(*shape)),
            bytes(ctypes.c_uint64(int(np.prod(shape)))),
            bytes(pointer(name)),
            bytes(16),
        )
    )


def test_outputs_of_a_network(buffer, batch, frame, item):
    data, arrays, kept = tensor_meta()
    for owner in (frame, item):
        put(batch, owner, TENSOR, ctypes.addressof(data))
        (user,) = owner.tensor_items
        output = user.as_tensor_output()
        layers = output.get_layers()
        assert (output.unique_id, list(layers)) == (6, [name for name, _, _ in LAYERS])
        for array, tensor in zip(arrays, layers.values(), strict=True):
            assert (tensor.device_type, tensor.shape, tensor.dtype) == ("CPU", array.shape, array.dtype)
            np.testing.assert_array_equal(np.from_dlpack(tensor), array)
            assert np.from_dlpack(tensor).ctypes.data == array.ctypes.data
    clone = layers["boxes"].clone()
    buffer._release()
    for use in (lambda: layers["boxes"].shape, layers["boxes"].__dlpack__, output.get_layers):
        with pytest.raises(StaleBufferError):
            use()
    np.testing.assert_array_equal(np.from_dlpack(clone), arrays[0])
    del kept


def test_outputs_on_the_gpu_are_told_so(batch, frame):
    data, _, kept = tensor_meta(on_gpu=(0, 2))
    put(batch, frame, TENSOR, ctypes.addressof(data))
    layers = next(iter(frame.tensor_items)).as_tensor_output().get_layers()
    assert [tensor.device_type for tensor in layers.values()] == ["GPU", "CPU", "GPU", "CPU", "CPU"]
    assert layers["boxes"].__dlpack_device__() == (2, 1)
    del kept


def test_analytics_of_an_object(structs, batch, item):
    put(batch, item, ANALYTICS_OBJECT, structs.analytics_object())
    (user,) = item.nvdsanalytics_obj_items
    found = user.as_nvdsanalytics_obj()
    assert found.roi_status == ["door", "a region with a name that is longer than sixteen bytes"]
    assert (found.oc_status, found.lc_status) == ([], ["exit"])
    assert (found.dir_status, found.obj_status, found.unique_id) == ("north", "ok", 7)


def test_analytics_of_a_frame(structs, batch, frame):
    put(batch, frame, ANALYTICS_FRAME, structs.analytics_frame())
    (user,) = frame.nvdsanalytics_frame_items
    found = user.as_nvdsanalytics_frame()
    assert found.oc_status == {"hall": True, "door": False}
    assert found.obj_in_roi_cnt == {f"region {i}": i for i in range(100)}
    assert (found.obj_lc_curr_cnt, found.obj_lc_cum_cnt) == ({"exit": 2}, {"exit": 2**40})
    assert (found.obj_cnt, found.unique_id) == ({-1: 3, 2: 4}, 9)


def test_prepared_regions(structs, batch, frame, item, gst_buffer):
    view = BatchMeta.of(gst_buffer).frames[0]
    put(batch, batch, PREPROCESS, structs.preprocess(view.address, view.objects[0].address))
    (user,) = batch.preprocess_batch_items
    found = user.as_preprocess_batch()
    whole, part = found.rois
    assert (whole.roi.left, whole.roi.height, part.roi.top) == (1.0, 4.0, 2.0)
    assert (whole.frame_meta, part.object_meta) == (frame, item)
    assert [list(items) for items in (whole.classifier_items, whole.tensor_items, whole.segmentation_items)] == [[]] * 3
    with pytest.raises(ApiError, match="empty"):
        _ = whole.object_meta.label
    tensor = found.preprocess_tensor_meta
    assert (tensor.name, tensor.meta_id) == ("images", 5)
    assert (tensor.tensor.shape, tensor.tensor.dtype, tensor.tensor.device_type) == ((2, 3, 2, 2), np.float32, "GPU")
