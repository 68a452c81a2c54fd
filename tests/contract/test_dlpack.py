"""Tensors over planes: no copy, the right shape, and alive for as long as somebody holds them."""

import gc
import subprocess
import sys

import gi
import numpy as np
import pytest
from leftovers import nothing_is_left

gi.require_version("Gst", "1.0")
from gi.repository import Gst
from surface_samples import ForeignBatch, frame_format, let_die_on_other_threads, padded_frame, random_frame

from sluice.contract import counters, gstref
from sluice.contract.batching import make_batch
from sluice.contract.dlpack import Hold, PlaneTensor
from sluice.contract.formats import FORMATS, MemType
from sluice.contract.surface import SurfaceBatch, SurfaceError, writable_batch


def surface_of(name, width=33, height=17):
    """Return (surface, its planes) of a padded frame in a batch."""
    format = frame_format(name, width, height)
    buffer, planes = padded_frame(format)
    return SurfaceBatch.of(make_batch([(buffer, format)], 2))[0], planes


@pytest.fixture(autouse=True)
def _no_tensor_is_left():
    with nothing_is_left("live_tensors", "live_batches"):
        yield


@pytest.mark.parametrize("name", FORMATS)
def test_numpy_takes_every_plane_without_a_copy(name):
    surface, planes = surface_of(name)
    for index, wanted in enumerate(planes):
        tensor = np.from_dlpack(surface.dlpack(index))
        plane = surface.planes[index]
        assert (tensor.dtype, tensor.shape, tensor.strides) == (np.uint8, plane.shape, plane.strides)
        assert tensor.ctypes.data == plane.address
        assert np.array_equal(tensor, wanted)
        assert not tensor.flags.writeable


@pytest.mark.parametrize("name", FORMATS)
def test_torch_takes_every_plane_without_a_copy(name):
    torch = pytest.importorskip("torch")
    surface, planes = surface_of(name)
    for index, wanted in enumerate(planes):
        tensor = torch.from_dlpack(surface.dlpack(index))
        assert tensor.data_ptr() == surface.planes[index].address
        assert tensor.stride() == surface.planes[index].strides
        assert np.array_equal(tensor.numpy(), wanted)
        del tensor


@pytest.mark.parametrize("name", ["RGB", "BGRA", "GRAY8", "YUY2"])
def test_a_packed_surface_is_a_tensor_itself(name):
    surface, planes = surface_of(name)
    assert surface.__dlpack_device__() == (1, 0)
    assert np.array_equal(np.from_dlpack(surface), planes[0])


def test_a_planar_surface_is_not_one_tensor():
    surface, _ = surface_of("NV12")
    with pytest.raises(SurfaceError, match=r"NV12 surface has 2 planes .* dlpack\(plane\)"):
        np.from_dlpack(surface)


@pytest.mark.parametrize(
    ("version", "name"), [(None, "dltensor"), ((0, 8), "dltensor"), ((1, 0), "dltensor_versioned")]
)
def test_capsules_nobody_consumes_are_released(version, name):
    surface, _ = surface_of("RGB")
    capsule = surface.dlpack().__dlpack__(max_version=version)
    assert f'"{name}"' in repr(capsule)
    live = counters.live_tensors()
    del capsule
    assert counters.live_tensors() == live - 1


def test_live_tensors_are_counted():
    surface, _ = surface_of("I420")
    before = counters.live_tensors()
    hoard = [np.from_dlpack(surface.dlpack(index % 3)) for index in range(30)]
    assert counters.live_tensors() == before + 30
    del hoard
    assert counters.live_tensors() == before


def test_a_writable_surface_gives_a_writable_tensor():
    format = frame_format("RGB")
    buffer, _ = padded_frame(format)
    batch = make_batch([(buffer, format)], 1)
    del buffer
    with writable_batch(batch) as surfaces:
        tensor = np.from_dlpack(surfaces[0].dlpack())
        assert tensor.flags.writeable
        tensor[:] = 5
        del tensor
    assert (SurfaceBatch.of(batch)[0].host_plane() == 5).all()


def test_a_tensor_leaves_the_buffer_writable_and_its_memory_not():
    format = frame_format("RGB")
    batch = make_batch([(random_frame(format)[0], format)], 1)
    address = gstref.buffer_address(batch)
    tensor = np.from_dlpack(SurfaceBatch.of(batch)[0].dlpack())
    assert gstref.refcount(address) == 1
    assert not gstref.is_memory_writable(address)
    del tensor
    assert gstref.is_memory_writable(address)


def test_another_device_or_a_copy_is_refused():
    tensor = surface_of("RGB")[0].dlpack()
    with pytest.raises(BufferError, match="copy"):
        tensor.__dlpack__(copy=True)
    with pytest.raises(BufferError, match=r"\(1, 0\), not on \(2, 0\)"):
        tensor.__dlpack__(dl_device=(2, 0))


@pytest.mark.parametrize(
    ("kind", "device"),
    [
        (MemType.DEFAULT, (2, 3)),
        (MemType.CUDA_DEVICE, (2, 3)),
        (MemType.CUDA_UNIFIED, (2, 3)),
        (MemType.CUDA_PINNED, (1, 0)),
        (MemType.SYSTEM, (1, 0)),
    ],
)
def test_the_device_is_that_of_the_memory(kind, device):
    surface = SurfaceBatch.of(ForeignBatch(mem_type=kind, gpu_id=3).buffer())[0]
    assert surface.dlpack(1).__dlpack_device__() == device


@pytest.mark.parametrize("kind", [MemType.SURFACE_ARRAY, MemType.HANDLE, MemType.CUDA_ARRAY])
def test_memory_no_tensor_can_be_made_of_is_named(kind):
    with pytest.raises(SurfaceError, match=kind.name):
        SurfaceBatch.of(ForeignBatch(mem_type=kind).buffer())[0].dlpack()


def test_a_tensor_outlives_its_pipeline():
    """The source's buffers come from a pool that the pipeline shuts down under the tensors."""
    pipeline = Gst.parse_launch(
        "videotestsrc num-buffers=6 pattern=ball ! video/x-raw,format=I420,width=64,height=48 ! "
        "appsink name=sink sync=false"
    )
    sink = pipeline.get_by_name("sink")
    pipeline.set_state(Gst.State.PLAYING)
    tensors, copies = [], []
    for _ in range(6):
        sample = sink.emit("pull-sample")
        format = frame_format("I420", 64, 48)
        batch = SurfaceBatch.of(make_batch([(sample.get_buffer(), format)], 1))
        tensors.append(np.from_dlpack(batch[0].dlpack(0)))
        copies.append(tensors[-1].copy())
        del sample, batch
    pipeline.set_state(Gst.State.NULL)
    del sink, pipeline
    gc.collect()
    assert all(np.array_equal(tensor, copy) for tensor, copy in zip(tensors, copies, strict=True))
    assert len({tensor.ctypes.data for tensor in tensors}) == 6


def test_tensors_die_on_any_thread():
    surface, _ = surface_of("RGB")
    before = counters.live_tensors()
    hoard = [np.from_dlpack(surface.dlpack()) for _ in range(400)]
    let_die_on_other_threads(hoard)
    assert counters.live_tensors() == before


DELETER_WITHOUT_PYTHON = """
import ctypes, sys, threading
sys.path[:0] = {paths!r}
from surface_samples import frame_format, random_frame
from sluice.contract import counters
from sluice.contract.batching import make_batch
from sluice.contract.surface import SurfaceBatch

format = frame_format("RGB")
surface = SurfaceBatch.of(make_batch([(random_frame(format)[0], format)], 1))[0]
capsule = surface.dlpack().__dlpack__()
take = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", ctypes.pythonapi))
tensor = take(capsule, b"dltensor")
used = b"used_dltensor"  # as a consumer does; the capsule keeps the pointer
rename(capsule, used)
deleter = ctypes.c_void_p.from_address(tensor + 56).value  # DLManagedTensor: DLTensor (48), context (8), deleter
assert counters.live_tensors() == 1
{how}
"""


# PyDLL keeps the GIL while this thread waits for the other, which C has started.
ON_A_FOREIGN_THREAD = """
libc, thread = ctypes.PyDLL(None), ctypes.c_ulong()
libc.pthread_create(ctypes.byref(thread), None, ctypes.c_void_p(deleter), ctypes.c_void_p(tensor))
libc.pthread_join(thread, None)
assert counters.live_tensors() == 0
print("released")
"""
AFTER_THE_INTERPRETER = """
libc = ctypes.CDLL(None)
libc.__cxa_atexit.argtypes = (ctypes.c_void_p,) * 3
libc.__cxa_atexit(deleter, tensor, None)
print("released")
"""


@pytest.mark.parametrize("how", [ON_A_FOREIGN_THREAD, AFTER_THE_INTERPRETER])
def test_the_deleter_needs_no_python(how):
    script = DELETER_WITHOUT_PYTHON.format(paths=sys.path, how=how)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip()) == (0, "released"), done.stderr


def cuda_plane():
    """A plane that says it is on a GPU; its pixels are never looked at here."""
    buffer = Gst.Buffer.new()
    hold = Hold(gstref.ref(gstref.address(buffer)))
    return PlaneTensor(hold, 0x1000, (4, 4), (4, 1), on_cuda=True, device_id=0, writable=False)


@pytest.mark.parametrize("stream", [None, 1, 2, -1, 0x7F0000001000])
def test_memory_of_a_cuda_tensor_is_let_go_where_there_is_no_cuda(stream):
    before = counters.live_tensors()
    capsule = cuda_plane().__dlpack__(stream=stream)
    assert counters.live_tensors() == before + 1
    del capsule
    assert counters.live_tensors() == before


def test_stream_0_of_a_cuda_tensor_is_refused_as_ambiguous():
    with pytest.raises(BufferError, match=r"stream 0 is ambiguous; right is 1"):
        cuda_plane().__dlpack__(stream=0)


def test_the_layout_key_tells_layouts_apart_and_not_addresses():
    one, other = surface_of("NV12")[0], surface_of("NV12")[0]
    assert one.layout_key == other.layout_key
    assert one.address != other.address
    assert [one.address + plane.offset for plane in one.planes] == [plane.address for plane in one.planes]
    assert surface_of("I420")[0].layout_key != one.layout_key
    assert surface_of("NV12", 35)[0].layout_key != one.layout_key
    parts = [one.crop(0, 0, 4, 4), one.crop(2, 0, 4, 4), one.crop(0, 2, 4, 4), one.crop(0, 0, 4, 6), one]
    assert len({part.layout_key for part in parts}) == len(parts)
    for part in parts:
        assert [part.address + plane.offset for plane in part.planes] == [plane.address for plane in part.planes]
