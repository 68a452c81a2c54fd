"""Tensors: frames without a copy, arrays of other libraries, copies and buffers made of them."""

import gc
import threading

import gi
import numpy as np
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract import counters, gstref
from sluice.contract.batching import make_batch
from sluice.contract.formats import FrameFormat
from sluice.pyservicemaker import ApiError, Buffer, ColorFormat, as_tensor


def batch_of(*formats, width=33, height=17):
    """Return a batch of random frames, and their bytes as rows of GStreamer's stride."""
    frames, contents = [], []
    for seed, name in enumerate(formats):
        caps = Gst.Caps.from_string(f"video/x-raw, format={name}, width={width}, height={height}, framerate=1/1")
        format = FrameFormat.from_caps(caps)
        content = np.random.default_rng(seed).integers(0, 256, format.info.size, dtype=np.uint8)
        frames.append((Gst.Buffer.new_wrapped(content.tobytes()), format))
        contents.append(content)
    return make_batch(frames, 4), contents


@pytest.mark.parametrize(
    ("name", "channels"), [("RGB", 3), ("BGR", 3), ("RGBA", 4), ("BGRA", 4), ("RGBx", 4), ("BGRx", 4), ("GRAY8", 1)]
)
def test_a_packed_frame_is_a_tensor_without_a_copy(name, channels):
    batch, (content,) = batch_of(name)
    stride = -(-33 * channels // 4) * 4
    before = counters.copies()
    tensor = Buffer(batch).extract(0)
    array = np.from_dlpack(tensor)
    assert tensor
    assert (tensor.shape, tensor.strides, tensor.dtype) == ((17, 33, channels), (stride, channels, 1), np.uint8)
    assert (tensor.device_type, tensor.size(), tensor.__dlpack_device__()) == ("CPU", 17 * 33 * channels, (1, 0))
    np.testing.assert_array_equal(array, content.reshape(17, stride)[:, : 33 * channels].reshape(17, 33, channels))
    assert counters.copies() == before
    assert array.ctypes.data == np.from_dlpack(Buffer(batch).extract(0)).ctypes.data
    assert not array.flags.writeable


def test_frames_of_a_mixed_batch_and_places_that_are_not_there():
    batch, (first, _) = batch_of("RGB", "RGBA")
    buffer = Buffer(batch)
    assert buffer.batch_size == 4
    assert [buffer.extract(i).shape[2] for i in range(2)] == [3, 4]
    assert np.from_dlpack(buffer.extract(0))[0, 0].tolist() == first[:3].tolist()
    for place in (2, -1, 100):
        with pytest.raises(IndexError, match="there are 2"):
            buffer.extract(place)
    assert buffer.get_chunk_id(1) == 0
    with pytest.raises(IndexError):
        buffer.get_chunk_id(4)


@pytest.mark.parametrize("name", ["I420", "NV12", "YUY2"])
def test_other_frames_give_an_empty_tensor_that_says_why(name):
    batch, _ = batch_of(name)
    tensor = Buffer(batch).extract(0)
    assert not tensor
    assert (tensor.device_type, tensor.clone()) == ("NONE", None)
    for use in (
        lambda: tensor.shape,
        lambda: tensor.strides,
        lambda: tensor.dtype,
        tensor.size,
        tensor.__dlpack__,
        tensor.__dlpack_device__,
        lambda: tensor.wrap(ColorFormat.RGB),
        lambda: tensor.to_gpu(0),
        lambda: np.from_dlpack(tensor),
    ):
        with pytest.raises(ApiError, match=name):
            use()
    assert name in repr(tensor)


def test_a_buffer_that_is_no_batch_gives_an_empty_tensor():
    tensor = Buffer(Gst.Buffer.new_allocate(None, 4, None)).extract(0)
    assert not tensor
    with pytest.raises(ApiError):
        _ = tensor.shape


def test_a_tensor_outlives_the_buffer_and_leaves_it_writable():
    batch, (content,) = batch_of("RGBA", width=4, height=2)
    address = gstref.ref(gstref.buffer_address(batch))
    with Buffer(batch) as buffer:
        tensor = buffer.extract(0)
    del batch, buffer
    assert gstref.is_writable(address)
    gstref.unref(address)
    np.testing.assert_array_equal(np.from_dlpack(tensor).ravel(), content)
    live = counters.live_batches()
    del tensor
    assert counters.live_batches() == live - 1


def test_a_clone_is_packed_and_its_own():
    batch, _ = batch_of("RGB")
    tensor = Buffer(batch).extract(0)
    clone = tensor.clone()
    assert (clone.shape, clone.strides, clone.device_type) == ((17, 33, 3), (99, 3, 1), "CPU")
    np.testing.assert_array_equal(np.from_dlpack(clone), np.from_dlpack(tensor))
    np.from_dlpack(clone)[:] = 7
    assert np.from_dlpack(tensor).max() > 7


@pytest.mark.parametrize(
    "dtype", ["u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"], ids=lambda name: name
)
def test_arrays_of_every_type_go_in_and_out_without_a_copy(dtype):
    array = np.arange(24, dtype=dtype).reshape(2, 3, 4)[:, ::2, 1:]
    tensor = as_tensor(array, "CHW")
    back = np.from_dlpack(tensor)
    assert (tensor.shape, tensor.strides, tensor.dtype) == ((2, 2, 3), (12, 8, 1), np.dtype(dtype))
    assert (back.ctypes.data, back.strides) == (array.ctypes.data, array.strides)
    np.testing.assert_array_equal(back, array)
    np.testing.assert_array_equal(np.from_dlpack(tensor.clone()), array)


def test_arrays_without_axes_or_elements():
    assert as_tensor(np.array(5.0), "").shape == ()
    assert np.from_dlpack(as_tensor(np.array(5.0), "").clone()).item() == 5.0
    assert as_tensor(np.zeros((0, 3), np.float32), "").size() == 0
    assert np.from_dlpack(as_tensor(np.zeros((0, 3), np.float32), "")).shape == (0, 3)


def test_a_bool_is_unsigned_and_a_read_only_array_stays_so():
    assert as_tensor(np.array([True, False]), "").dtype == np.uint8
    array = np.arange(3)
    array.flags.writeable = False
    assert not np.from_dlpack(as_tensor(array, "")).flags.writeable


def test_what_a_tensor_cannot_be_made_of():
    empty = as_tensor([1, 2], "HWC")
    assert not empty
    with pytest.raises(ApiError, match="list"):
        _ = empty.shape
    with pytest.raises(ApiError):
        as_tensor(np.zeros(2, np.complex64), "")
    with pytest.raises(ApiError):
        as_tensor(np.zeros(2, np.longdouble), "")
    with pytest.raises(TypeError, match="format"):
        as_tensor(np.zeros(2), 3)
    with pytest.raises(TypeError, match="no constructor"):
        type(empty)()


class OldProducer:
    """An array from before DLPack 1.0."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return (1, 0)


def test_the_source_lives_as_long_as_any_tensor_of_it_and_no_longer():
    gc.collect()
    before = counters.live_tensors()
    tensor = as_tensor(OldProducer(np.arange(6.0)), "")
    taken, left = np.from_dlpack(tensor), tensor.__dlpack__()
    assert counters.live_tensors() == before + 2
    del tensor, left
    assert counters.live_tensors() == before + 1
    assert taken.sum() == 15.0
    view = taken[1:]
    del taken
    assert view.sum() == 15.0
    del view
    assert counters.live_tensors() == before


@pytest.mark.parametrize(
    ("use", "error"),
    [
        (lambda tensor: int(tensor.__dlpack__()), TypeError),
        (lambda tensor: int(tensor.__dlpack__(max_version=(1, 0))), TypeError),
        (lambda tensor: np.from_dlpack(tensor).reshape(7), ValueError),
        (lambda tensor: (np.from_dlpack(tensor), 1 / 0), ZeroDivisionError),
    ],
)
def test_what_is_let_go_while_an_exception_unwinds_leaves_it_alone(use, error):
    before = counters.live_tensors()
    with pytest.raises(error):
        use(as_tensor(np.arange(3), ""))
    gc.collect()
    assert counters.live_tensors() == before


def test_a_tensor_may_be_let_go_on_any_thread():
    before = counters.live_tensors()
    held = [np.from_dlpack(as_tensor(np.arange(1000), "")) for _ in range(50)]
    threads = [threading.Thread(target=held.pop) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counters.live_tensors() == before


def test_what_an_export_refuses():
    tensor = as_tensor(np.arange(3), "")
    with pytest.raises(BufferError, match="clone"):
        tensor.__dlpack__(copy=True)
    with pytest.raises(BufferError, match="device"):
        tensor.__dlpack__(dl_device=(2, 0))
    assert "dltensor_versioned" in repr(tensor.__dlpack__(max_version=(1, 0)))
    assert '"dltensor"' in repr(tensor.__dlpack__(None))


def test_bytes_become_a_buffer():
    buffer = as_tensor(np.array([1, 2, 250], np.uint8), "").wrap(ColorFormat.RGB)
    assert buffer.batch_size == 1
    assert buffer._buffer.extract_dup(0, 10) == bytes([1, 2, 250])


@pytest.mark.parametrize(("format", "channels"), [(ColorFormat.RGB, 3), (ColorFormat.RGBA, 4)])
def test_a_host_frame_becomes_a_batch_of_one(format, channels):
    pixels = np.random.default_rng(1).integers(0, 256, (5, 7, channels), np.uint8)
    buffer = as_tensor(pixels[:, ::-1], "HWC").wrap(format)
    assert buffer.batch_size == 1
    np.testing.assert_array_equal(np.from_dlpack(buffer.extract(0)), pixels[:, ::-1])


@pytest.mark.parametrize(
    ("array", "tag", "format"),
    [
        (np.zeros((4, 4, 3), np.uint8), "CHW", ColorFormat.RGB),
        (np.zeros((4, 4, 3), np.uint8), "HWC", ColorFormat.RGBA),
        (np.zeros((4, 4, 3), np.uint8), "HWC", ColorFormat.I420),
        (np.zeros((4, 4), np.uint8), "HWC", ColorFormat.RGB),
        (np.zeros((4, 4, 3), np.float32), "HWC", ColorFormat.RGB),
    ],
)
def test_what_cannot_be_wrapped(array, tag, format):
    with pytest.raises(ApiError):
        as_tensor(array, tag).wrap(format)
    with pytest.raises(TypeError):
        as_tensor(array, tag).wrap("RGB")


def test_without_a_gpu_the_driver_is_named():
    if has_gpu():
        pytest.skip("there is a GPU")
    with pytest.raises(ApiError, match="CUDA driver"):
        as_tensor(np.zeros(3), "").to_gpu(0)


def has_gpu():
    """Whether the CUDA driver finds a GPU."""
    try:
        as_tensor(np.zeros(3), "").to_gpu(0)
    except ApiError:
        return False
    return True
