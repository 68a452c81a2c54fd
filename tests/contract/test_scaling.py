"""Scaling as the legacy nvstreammux does it: where the picture lies, and that it is the same picture."""

import cv2
import gi
import numpy as np
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst
from surface_samples import frame_format, padded_frame, raw_caps

from sluice.contract import counters
from sluice.contract.formats import FORMATS, Matrix
from sluice.contract.scaling import Placement, place, scale_frame, scaled_format
from sluice.contract.surface import SurfaceBatch, writable_raw
from sluice.errors import ContractError


def solid_frame(format, value=200):
    """Return a frame with one value in every byte of every plane."""
    buffer, _ = padded_frame(format)
    with writable_raw(buffer, format) as surface:
        for plane in surface.host_planes():
            plane[:] = value
    return buffer


@pytest.mark.parametrize(
    ("size", "par", "output", "expected"),
    [
        ((1920, 1080), "1/1", (1280, 720), Placement(0, 0, 1280, 720)),
        ((768, 576), "1/1", (1280, 720), Placement(160, 0, 960, 720)),
        ((1080, 1920), "1/1", (1280, 720), Placement(438, 0, 404, 720)),
        ((640, 360), "1/1", (640, 640), Placement(0, 140, 640, 360)),
        ((720, 576), "16/11", (1280, 720), Placement(0, 8, 1280, 704)),
        ((720, 576), "1/1", (1001, 501), Placement(186, 0, 626, 500)),
    ],
)
def test_letterbox_geometry(size, par, output, expected):
    """W·h·PAR_d / (w·PAR_n) and its counterpart, rounded down to even, by hand."""
    format = frame_format("I420", *size, extra=f", pixel-aspect-ratio={par}")
    assert place(format, *output, True) == expected
    assert place(format, *output, False) == Placement(0, 0, *output)


@pytest.mark.parametrize("output", [(80, 40), (31, 15), (40, 80)])
@pytest.mark.parametrize("size", [(33, 17), (64, 48)])
@pytest.mark.parametrize("name", FORMATS)
def test_a_solid_frame_stays_solid_inside_black_bars(name, size, output):
    format = frame_format(name, *size)
    target = scaled_format(format, *output)
    assert (target.name, target.matrix, target.full_range) == (name, format.matrix, format.full_range)
    for padding in (False, True):
        scaled = SurfaceBatch.of_raw(scale_frame(solid_frame(format), format, *output, padding), target)[0]
        area = place(format, *output, padding)
        black = 0 if target.full_range else 16
        chroma = 0 if target.matrix is Matrix.RGB else 128
        for index, plane in enumerate(scaled.host_planes()):
            step = 2 if index else 1
            inside = np.zeros(plane.shape[:2], bool)
            right = area.x + (area.width + 1) // 2 * 2 if name == "YUY2" else area.x + area.width
            inside[area.y // step : -(-(area.y + area.height) // step), area.x // step : -(-right // step)] = True
            assert (plane[inside] == 200).all()
            bars = plane[~inside]
            if name == "YUY2":
                assert (bars == (black, 128)).all()
            else:
                assert (bars == (chroma if index else black)).all()


@pytest.mark.parametrize("name", FORMATS)
def test_the_scaled_picture_is_the_same_picture(name):
    """Scaled down planes equal what OpenCV makes of the whole picture converted to RGB, within interpolation error."""
    format = frame_format("RGB", 320, 240)
    y, x = np.mgrid[0:240, 0:320]
    picture = np.stack([x * 255 // 319, y * 255 // 239, 128 + 60 * np.sin(x / 40)], axis=-1).astype(np.uint8)
    source = Gst.Buffer.new_wrapped(picture.tobytes())
    convert = run("RGB", name, source, (320, 240))
    scaled = scale_frame(convert, frame_format(name, 320, 240), 160, 90, True)
    found = rgb_of(run(name, "RGB", scaled, (160, 90)), (160, 90))
    area = place(format, 160, 90, True)
    expected = cv2.resize(picture, (area.width, area.height), interpolation=cv2.INTER_LINEAR)
    if name == "GRAY8":
        expected = np.repeat(expected @ np.array([[0.299], [0.587], [0.114]]), 3, axis=2)
    inner = found[area.y : area.y + area.height, area.x : area.x + area.width].astype(float)
    assert np.abs(inner - expected).mean() < 4
    assert found[:, : area.x - 1].max() < 4


def run(name, to, buffer, size):
    """Convert one frame with videoconvert."""
    pipeline = Gst.parse_launch(
        "appsrc name=source format=time ! videoconvert ! "
        f"{raw_caps(to, *size).to_string()} ! appsink name=sink sync=false"
    )
    source = pipeline.get_by_name("source")
    source.set_property("caps", raw_caps(name, *size))
    pipeline.set_state(Gst.State.PLAYING)
    try:
        source.emit("push-buffer", buffer)
        source.emit("end-of-stream")
        return pipeline.get_by_name("sink").emit("pull-sample").get_buffer()
    finally:
        pipeline.set_state(Gst.State.NULL)


def rgb_of(buffer, size):
    """Return an RGB frame as an array."""
    return SurfaceBatch.of_raw(buffer, frame_format("RGB", *size))[0].host_plane()


def test_a_scaled_frame_keeps_its_times_and_counts_as_one_copy():
    format = frame_format("NV12", 64, 48)
    buffer = solid_frame(format)
    buffer.pts, buffer.duration = 5, 7
    before = counters.copies()
    scaled = scale_frame(buffer, format.info, 32, 32)
    assert (scaled.pts, scaled.duration) == (5, 7)
    assert counters.copies() == before + 1


def test_a_frame_of_the_right_size_is_not_copied():
    format = frame_format("NV12", 64, 48)
    buffer = solid_frame(format)
    before = counters.copies()
    assert scale_frame(buffer, format, 64, 48, True) is buffer
    assert counters.copies() == before


def test_colorimetry_survives_a_change_of_size():
    format = frame_format("I420", 64, 48, extra=", colorimetry=(string)1:3:5:1")
    scaled = scaled_format(format, 1920, 1080)
    assert (scaled.matrix, scaled.full_range, scaled.color_format) == (Matrix.BT709, True, format.color_format)


@pytest.mark.parametrize("size", [(1, 32), (32, 0), (-4, 4)])
def test_impossible_sizes_are_refused(size):
    format = frame_format("RGB")
    with pytest.raises(ContractError, match=f"scaled to {size[0]}x{size[1]}"):
        scale_frame(solid_frame(format), format, *size)
