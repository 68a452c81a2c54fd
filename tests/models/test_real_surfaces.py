"""Frames over surfaces of real GStreamer buffers: pixels right, nothing copied, memory kept."""

from __future__ import annotations

import gc

import gi
import numpy as np
import pytest

gi.require_version("Gst", "1.0")
gi.require_version("GstVideo", "1.0")
from array_surfaces import from_rgb
from gi.repository import Gst, GstVideo

from sluice.contract.formats import FORMATS
from sluice.contract.surface import SurfaceBatch
from sluice.models.frame import Frame
from sluice.models.preprocess import Preprocessing, Preprocessor

Gst.init(None)
SIZES = [(64, 48), (33, 17)]


def picture(width, height):
    rows, columns = np.mgrid[0:height, 0:width]
    return np.stack([200 * columns / width, 200 * rows / height, 100 + 0 * rows], axis=-1).astype(np.uint8)


def buffer_of(surface, name):
    """A Gst.Buffer with GStreamer's own strides and offsets, filled from a surface's planes."""
    caps = Gst.Caps.from_string(
        f"video/x-raw,format={name},width={surface.width},height={surface.height},framerate=30/1"
        + (",colorimetry=bt601" if name in ("I420", "NV12", "YUY2") else "")
    )
    info = GstVideo.VideoInfo.new_from_caps(caps)
    memory = np.zeros(info.size, np.uint8)
    for index, plane in enumerate(surface.planes):
        rows = plane.reshape(plane.shape[0], -1)
        for number, row in enumerate(rows):
            start = info.offset[index] + number * info.stride[index]
            memory[start : start + len(row)] = row
    return Gst.Buffer.new_wrapped(memory.tobytes()), caps


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_a_buffer_gives_the_pixels_of_the_same_planes_in_arrays(name, width, height):
    expected = from_rgb(picture(width, height), name, **({"full_range": True} if name == "GRAY8" else {}))
    buffer, caps = buffer_of(expected, name)
    surface = SurfaceBatch.of_raw(buffer, caps)[0]
    frame = Frame(surface, stream=0, number=0, pts=None)
    same = Frame(expected, stream=0, number=0, pts=None)
    assert np.array_equal(frame.rgb(), same.rgb())
    assert np.array_equal(frame.bgr(), same.bgr())
    for mine, theirs in zip(frame.planes(), expected.planes, strict=True):
        assert np.array_equal(np.from_dlpack(mine), theirs)
    networks = [Preprocessor(Preprocessing(24, 20), 1) for _ in range(2)]
    networks[0].write(0, surface)
    networks[1].write(0, expected)
    assert np.array_equal(networks[0].input, networks[1].input)


def test_rgb_of_an_rgb_buffer_is_its_memory_and_keeps_it():
    buffer, caps = buffer_of(from_rgb(picture(32, 16), "RGB"), "RGB")
    frame = Frame(SurfaceBatch.of_raw(buffer, caps)[0], stream=0, number=0, pts=None)
    rgb = frame.rgb()
    assert np.shares_memory(rgb, np.from_dlpack(frame.planes()[0]))
    assert not rgb.flags.writeable
    del buffer, frame
    gc.collect()
    assert np.array_equal(rgb, picture(32, 16))


def test_a_frame_outlives_its_buffer():
    buffer, caps = buffer_of(from_rgb(picture(32, 16), "I420"), "I420")
    frame = Frame(SurfaceBatch.of_raw(buffer, caps)[0], stream=0, number=0, pts=None)
    del buffer
    gc.collect()
    assert np.abs(frame.rgb().astype(int) - picture(32, 16)).mean() < 4


def test_a_tensor_where_torch_is():
    torch = pytest.importorskip("torch")
    buffer, caps = buffer_of(from_rgb(picture(32, 16), "RGB"), "RGB")
    tensor = Frame(SurfaceBatch.of_raw(buffer, caps)[0], stream=0, number=0, pts=None).rgb_tensor("cpu")
    assert (tensor.dtype, tuple(tensor.shape)) == (torch.uint8, (16, 32, 3))
    assert np.array_equal(tensor.numpy(), picture(32, 16))
