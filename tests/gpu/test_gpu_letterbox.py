"""The letterbox kernel against the formula in float64 and against the processor's path."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the GPU path needs torch")
pytest.importorskip("triton", reason="the GPU path needs triton")
from array_surfaces import from_rgb, noise, rgb_of
from device_surfaces import DeviceSurface

from sluice.contract.formats import DEEP_FORMATS, Layout, Matrix, MemType
from sluice.contract.surface import SurfaceError
from sluice.errors import ConfigurationError
from sluice.models.gpu.preprocess import check_spec, letterbox, new_input
from sluice.models.gpu.table import MOST_KNOWN, ROW, TableWriter
from sluice.models.letterbox import Letterbox
from sluice.models.preprocess import Preprocessing, Preprocessor

SPEC = Preprocessing(width=64, height=48)


def run(surfaces, spec, device, capacity=None):
    """The network's input of a batch, as float64, and how the frames lie in it."""
    batch = capacity or len(surfaces)
    table = np.zeros((batch, ROW), np.int64)
    boxes = TableWriter(spec, 0).write(table, surfaces)
    target = new_input(spec, batch, device)
    letterbox(torch.from_numpy(table).to(device), target, spec)
    return target.cpu().numpy().astype(np.float64), boxes


def assert_levels(found, wanted, level=1 / 255, precision=2e-5):
    """The same levels; where a value lies between two of them, the kernel's float32 may choose the other."""
    gap = np.abs(found - wanted)
    assert gap.max() <= level + precision
    assert (gap > precision).mean() < 0.005


def reference(surface, name, spec):
    """The definition in float64: the whole picture in bytes of RGB with chroma repeated, scaled linearly to bytes,
    padded, normalised."""
    full = np.floor(np.clip(full_rgb(surface, name), 0, 255) + 0.5)
    box = Letterbox.fit((surface.width, surface.height), (spec.width, spec.height), spec.fit)
    x = np.clip((np.arange(box.width) + 0.5) * (surface.width / box.width) - 0.5, 0, surface.width - 1)
    y = np.clip((np.arange(box.height) + 0.5) * (surface.height / box.height) - 0.5, 0, surface.height - 1)
    x0, y0 = np.floor(x).astype(int), np.floor(y).astype(int)
    x1, y1 = np.minimum(x0 + 1, surface.width - 1), np.minimum(y0 + 1, surface.height - 1)
    fx, fy = (x - x0)[None, :, None], (y - y0)[:, None, None]
    top = full[y0][:, x0] * (1 - fx) + full[y0][:, x1] * fx
    bottom = full[y1][:, x0] * (1 - fx) + full[y1][:, x1] * fx
    scaled = np.floor(top * (1 - fy) + bottom * fy + 0.5)
    result = np.full((spec.height, spec.width, 3), float(spec.pad))
    lines, columns = slice(max(0, box.top), box.top + box.height), slice(max(0, box.left), box.left + box.width)
    inside = result[lines, columns]
    skip = max(0, -box.top), max(0, -box.left)
    inside[...] = scaled[skip[0] : skip[0] + inside.shape[0], skip[1] : skip[1] + inside.shape[1]]
    if spec.order == "BGR":
        result = result[..., ::-1]
    result = (result * spec.scale - np.array(spec.mean)) / np.array(spec.std)
    return result.transpose(2, 0, 1) if spec.layout == "NCHW" else result


def full_rgb(surface, name):
    """float64 RGB of the whole picture, not cut at 0 and 255."""
    planes, height, width = surface.planes, surface.height, surface.width
    if name in ("RGB", "RGBA", "RGBx"):
        return planes[0][..., :3].astype(float)
    if name in ("BGR", "BGRA", "BGRx"):
        return planes[0][..., 2::-1].astype(float)
    if name == "GRAY8":
        y, u, v = planes[0], np.full_like(planes[0], 128), np.full_like(planes[0], 128)
        return unclipped(y, u, v, Matrix.BT601, surface.full_range)
    if name in DEEP_FORMATS:
        y = planes[0][..., 1]
        u, v = (np.repeat(np.repeat(planes[1][..., i], 2, 0), 2, 1)[:height, :width] for i in (1, 3))
        return unclipped(y, u, v, surface.matrix, surface.full_range)
    if name == "YUY2":
        y = planes[0][:, :width, 0]
        u, v = (np.repeat(planes[0][:, i::2, 1], 2, axis=1)[:, :width] for i in (0, 1))
    else:
        y = planes[0]
        chroma = planes[1:] if name == "I420" else (planes[1][..., 0], planes[1][..., 1])
        u, v = (np.repeat(np.repeat(c, 2, axis=0), 2, axis=1)[:height, :width] for c in chroma)
    return unclipped(y, u, v, surface.matrix, surface.full_range)


def unclipped(y, u, v, matrix, full_range):
    kr, kb = matrix.luma
    y, u, v = (p.astype(np.float64) for p in (y, u, v))
    luma, cb, cr = (
        (y / 255, (u - 128) / 255, (v - 128) / 255)
        if full_range
        else ((y - 16) / 219, (u - 128) / 224, (v - 128) / 224)
    )
    red, blue = luma + 2 * (1 - kr) * cr, luma + 2 * (1 - kb) * cb
    return np.stack([red, (luma - kr * red - kb * blue) / (1 - kr - kb), blue], -1) * 255


COLOURS = [(matrix, full) for matrix in (Matrix.BT601, Matrix.BT709) for full in (False, True)]


@pytest.mark.parametrize(("matrix", "full_range"), COLOURS)
@pytest.mark.parametrize("name", ["NV12", "I420", "YUY2", "P010_10LE", "P012_LE"])
def test_yuv_is_the_formula(device, name, matrix, full_range):
    host = noise(name, 150, 91, matrix=matrix, full_range=full_range)
    found, _ = run([DeviceSurface(host, name, device)], SPEC, device)
    assert_levels(found[0], reference(host, name, SPEC))


@pytest.mark.parametrize("name", ["RGB", "BGR", "RGBA", "BGRA", "RGBx", "BGRx", "GRAY8"])
def test_packed_formats_are_the_formula(device, name):
    host = noise(name, 75, 130)
    found, _ = run([DeviceSurface(host, name, device)], SPEC, device)
    assert_levels(found[0], reference(host, name, SPEC))


@pytest.mark.parametrize(
    "spec",
    [
        Preprocessing(64, 48, fit="top-left", order="BGR"),
        Preprocessing(64, 48, fit="stretch", layout="NHWC"),
        Preprocessing(64, 48, fit="crop", mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
        Preprocessing(64, 48, pad=0, scale=1.0, mean=(123.0, 117.0, 104.0)),
    ],
    ids=lambda spec: spec.fit + spec.order + spec.layout,
)
def test_every_fit_and_normalisation(device, spec):
    host = noise("NV12", 130, 70)
    found, _ = run([DeviceSurface(host, "NV12", device)], spec, device)
    level = spec.scale / min(spec.std)
    assert_levels(found[0], reference(host, "NV12", spec), level, 2e-5 * 255 * level)


def test_half_precision_and_bytes(device):
    host = noise("NV12", 130, 70)
    surface = DeviceSurface(host, "NV12", device)
    half = Preprocessing(64, 48, dtype="float16")
    found, _ = run([surface], half, device)
    assert_levels(found[0], reference(host, "NV12", half), precision=6e-4)
    bytes_ = Preprocessing(64, 48, dtype="uint8", scale=1.0)
    found, _ = run([surface], bytes_, device)
    assert_levels(found[0], reference(host, "NV12", bytes_), level=1)


def test_a_batch_of_mixed_sizes_and_formats_in_one_launch(device):
    kinds = [("NV12", 150, 91), ("RGBA", 33, 77), ("I420", 64, 48), ("NV12", 200, 20)]
    hosts = [noise(name, width, height, seed=i) for i, (name, width, height) in enumerate(kinds)]
    surfaces = [DeviceSurface(host, kind[0], device) for host, kind in zip(hosts, kinds, strict=True)]
    found, boxes = run(surfaces, SPEC, device)
    for host, kind, picture, box in zip(hosts, kinds, found, boxes, strict=True):
        assert_levels(picture, reference(host, kind[0], SPEC))
        assert (box.frame_width, box.frame_height) == kind[1:]


def test_places_without_a_frame_are_left_alone(device):
    surface = DeviceSurface(noise("NV12", 150, 91), "NV12", device)
    found, _ = run([surface], SPEC, device, capacity=3)
    np.testing.assert_allclose(found[1:], 114 / 255, atol=1e-6)


@pytest.mark.parametrize("name", ["NV12", "I420", "RGBA", "YUY2"])
def test_it_is_what_the_processor_makes(device, name):
    host = from_rgb(np.random.default_rng(0).integers(0, 256, (64, 96, 3), dtype=np.uint8), name)
    found, _ = run([DeviceSurface(host, name, device)], SPEC, device)
    processor = Preprocessor(SPEC, 1)
    processor.write(0, host)
    levels = np.abs(found[0] - processor.input[0].astype(np.float64)) * 255
    # OpenCV's integer arithmetic is a level off now and then, in its colours and in its weights of 1/2048.
    assert levels.mean() < 0.5
    assert levels.max() < 3.01


def test_a_surface_in_system_memory_is_refused_with_the_converter(device):
    surface = DeviceSurface(noise("NV12", 8, 8), "NV12", device)
    surface.mem_type = MemType.SYSTEM
    with pytest.raises(SurfaceError, match=r"SYSTEM.*nvvideoconvert ! video/x-raw\(memory:NVMM\)"):
        run([surface], SPEC, device)


@pytest.mark.parametrize(
    ("memory", "layout", "name", "read"),
    [
        (MemType.CUDA_DEVICE, Layout.PITCH, "NV12", True),
        (MemType.CUDA_PINNED, Layout.PITCH, "RGBA", True),
        (MemType.CUDA_DEVICE, Layout.PITCH, "UYVY", False),
        (MemType.CUDA_DEVICE, Layout.BLOCK_LINEAR, "NV12", False),
        (MemType.CUDA_ARRAY, Layout.PITCH, "NV12", False),
        (MemType.SURFACE_ARRAY, Layout.PITCH, "NV12", False),
    ],
)
def test_what_the_kernel_cannot_read_is_known_beforehand(device, memory, layout, name, read):
    surface = DeviceSurface(noise("NV12", 8, 8), "NV12", device)
    surface.mem_type, surface.layout, surface.format = memory, layout, name
    assert TableWriter(SPEC, 0).reads(surface) is read


def test_a_surface_on_another_gpu_is_refused_by_number(device):
    surface = DeviceSurface(noise("NV12", 8, 8), "NV12", device)
    surface.gpu_id = 1
    with pytest.raises(SurfaceError, match=r"GPU 1 and the network on GPU 0.*cuda:1"):
        run([surface], SPEC, device)


def test_layouts_are_not_remembered_without_end(device):
    surface = DeviceSurface(noise("NV12", 8, 8), "NV12", device)
    writer, table = TableWriter(SPEC, 0), np.zeros((1, ROW), np.int64)
    for number in range(3 * MOST_KNOWN):
        surface.layout_key = (number,)
        writer.write(table, [surface])
    assert len(writer._known) <= MOST_KNOWN
    assert table[0, 0] == surface.address


def test_area_interpolation_is_refused():
    with pytest.raises(ConfigurationError, match="linear"):
        check_spec(Preprocessing(64, 48, interpolation="area"))


def test_the_reference_is_the_standard(device):
    host = noise("NV12", 8, 8)
    full = full_rgb(host, "NV12")
    u, v = (np.repeat(np.repeat(host.planes[1][..., i], 2, axis=0), 2, axis=1) for i in (0, 1))
    np.testing.assert_allclose(np.clip(full, 0, 255), rgb_of(host.planes[0], u, v, host.matrix, host.full_range))
