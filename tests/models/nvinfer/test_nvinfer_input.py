"""The network's input: which pixels are read, where they lie, and the arithmetic on them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from array_surfaces import blank, from_rgb, noise

from sluice.errors import ConfigurationError
from sluice.models.nvinfer.input import InputSpec, InputWriter, placement, source_rectangle
from sluice.models.nvinfer.keys import Properties

SIZE = (3, 24, 32)  # channels, height, width


def spec_of(tmp_path, size=SIZE, channels_last=False, dtype="float32", **properties):
    return InputSpec.make(replace(Properties(), **properties), size, channels_last, dtype, tmp_path / "c.txt")


def written(spec, surface):
    writer = InputWriter(spec, 1)
    box = writer.write(0, surface)
    return writer.input[0], box


@pytest.mark.parametrize(
    ("rectangle", "expected"),
    [
        ((0, 0, 1920, 1080), (0, 0, 1920, 1080)),
        ((0, 0, 853, 479), (0, 0, 852, 478)),
        ((10.9, 11.2, 33.9, 20.5), (10, 12, 32, 20)),
        ((1.0, 0.9, 1.9, 3.0), (2, 0, 0, 2)),
    ],
)
def test_source_rectangles_are_even(rectangle, expected):
    assert source_rectangle(*rectangle) == expected


@pytest.mark.parametrize(
    ("source", "network", "keep", "symmetric", "expected"),
    [
        ((1920, 1080), (640, 640), False, True, (0, 0, 640, 640)),
        ((1920, 1080), (640, 640), True, False, (0, 0, 640, 360)),
        ((1920, 1080), (640, 640), True, True, (0, 140, 640, 360)),
        ((810, 1080), (416, 416), True, True, (52, 0, 312, 416)),
        # 640 * 478 / 852 = 359.06: cut, not rounded; the odd rest of 281 goes below.
        ((852, 478), (640, 640), True, True, (0, 140, 640, 359)),
        ((500, 334), (416, 416), True, False, (0, 0, 416, 277)),
        ((4000, 2), (64, 64), True, False, (0, 0, 64, 1)),
    ],
)
def test_placement(source, network, keep, symmetric, expected):
    box = placement(source, network, keep_aspect=keep, symmetric=symmetric)
    assert (box.left, box.top, box.width, box.height) == expected
    assert box.scale == (expected[2] / source[0], expected[3] / source[1])


@pytest.mark.parametrize(("color_format", "order"), [(0, [0, 1, 2]), (1, [2, 1, 0])])
@pytest.mark.parametrize("channels_last", [False, True])
def test_scale_and_offsets_per_channel(tmp_path, color_format, order, channels_last):
    """y = scale * (x - mean), in the order of the channels, of a picture of the network's own size."""
    surface = noise("RGB", 32, 24)
    spec = spec_of(
        tmp_path,
        channels_last=channels_last,
        model_color_format=color_format,
        net_scale_factor=0.5,
        offsets=(1.0, 2.0, 3.0),
    )
    found, _ = written(spec, surface)
    expected = 0.5 * (surface.planes[0][..., order].astype(np.float64) - [1, 2, 3])
    np.testing.assert_allclose(found if channels_last else found.transpose(1, 2, 0), expected, rtol=1e-6)


@pytest.mark.parametrize("scale", [0.0, -1.0])
def test_without_a_positive_scale_pixels_go_in_as_they_are(tmp_path, scale):
    surface = noise("RGB", 32, 24)
    found, _ = written(spec_of(tmp_path, net_scale_factor=scale, offsets=(9.0, 9.0, 9.0)), surface)
    np.testing.assert_array_equal(found.transpose(1, 2, 0), surface.planes[0])


def test_padding_is_black_before_the_normalisation(tmp_path):
    spec = spec_of(
        tmp_path, maintain_aspect_ratio=True, symmetric_padding=True, net_scale_factor=0.1, offsets=(10.0, 20.0, 30.0)
    )
    writer = InputWriter(spec, 1)
    writer.write(0, noise("RGB", 32, 24))  # fills the whole input, so that padding has to be written afterwards
    surface = noise("RGB", 64, 24)
    box = writer.write(0, surface)
    assert (box.top, box.height) == (6, 12)
    for rows in (slice(0, 6), slice(18, 24)):
        np.testing.assert_allclose(
            writer.input[0][:, rows, :], np.full((3, 6, 32), [[[-1]], [[-2]], [[-3]]]), rtol=1e-6
        )


def test_the_filter_is_nearest_unless_it_is_named(tmp_path):
    surface = noise("RGB", 64, 48)
    nearest, _ = written(spec_of(tmp_path), surface)
    np.testing.assert_array_equal(nearest.transpose(1, 2, 0), surface.planes[0][::2, ::2])


@pytest.mark.parametrize(
    ("number", "mean", "largest"),
    [(0, 0, 0), (1, 0.6, 6), (2, 5, 40), (3, 0, 0), (4, 4, 40), (5, 0, 0), (6, 0, 0)],
)
def test_filters_are_those_of_nvidias_converter(tmp_path, number, mean, largest):
    """filters_on_gpu.json: corners of 16x16 pixels that NvBufSurfTransform (DeepStream 9.0) made on an H200 of this
    noise, scaled to 640x384 by each filter."""
    content = np.random.default_rng(0).integers(0, 256, (1080, 1920, 4), dtype=np.uint8)
    surface = blank("RGBA", 1920, 1080)
    surface.planes[0][...] = content
    golden = json.loads((Path(__file__).parent / "filters_on_gpu.json").read_text())[str(number)]
    spec = spec_of(tmp_path, size=(3, 384, 640), scaling_filter=number)
    found = written(spec, surface)[0].transpose(1, 2, 0)[:16, :16]
    gap = np.abs(found - np.array(golden).reshape(16, 16, 3))
    assert gap.mean() <= mean
    assert gap.max() <= largest


@pytest.mark.parametrize("name", ["I420", "NV12", "YUY2", "RGBA", "BGRx", "GRAY8"])
@pytest.mark.parametrize("filter_number", range(7))
def test_every_format_and_filter_shows_the_picture(tmp_path, name, filter_number):
    """A plain colour stays what it is; odd sizes lose their last row and column."""
    rgb = np.full((49, 65, 3), (60, 120, 180) if name != "GRAY8" else (90, 90, 90), np.uint8)
    found, box = written(spec_of(tmp_path, scaling_filter=filter_number), from_rgb(rgb, name))
    assert (box.frame_width, box.frame_height) == (64, 48)
    np.testing.assert_allclose(found.transpose(1, 2, 0), np.broadcast_to(rgb[0, 0], (24, 32, 3)), atol=2.5)


def test_the_odd_last_row_and_column_are_not_read(tmp_path):
    surface = blank("RGB", 33, 25)
    surface.planes[0][:, 32] = 255
    surface.planes[0][24] = 255
    found, _ = written(spec_of(tmp_path), surface)
    assert found.max() == 0


def test_gray(tmp_path):
    rgb = np.full((24, 32, 3), (255, 0, 0), np.uint8)
    found, _ = written(spec_of(tmp_path, size=(1, 24, 32), model_color_format=2), from_rgb(rgb, "RGB"))
    assert found.shape == (1, 24, 32)
    assert found.max() == found.min() == 76  # 0.299 * 255


def test_half_precision(tmp_path):
    found, _ = written(spec_of(tmp_path, dtype="float16", net_scale_factor=1 / 255), noise("RGB", 32, 24))
    assert found.dtype == np.float16
    assert 0.9 < found.max() <= 1


def test_the_mean_picture_goes_before_offsets(tmp_path):
    mean = np.random.default_rng(1).integers(0, 256, (24, 32, 3), dtype=np.uint8)
    (tmp_path / "mean.ppm").write_bytes(b"P6\n32 24\n255\n" + mean.tobytes())
    surface = noise("RGB", 32, 24)
    spec = spec_of(tmp_path, mean_file=str(tmp_path / "mean.ppm"), offsets=(1.0, 2.0, 3.0))
    found, _ = written(spec, surface)
    np.testing.assert_array_equal(found.transpose(1, 2, 0), surface.planes[0].astype(np.float32) - mean)


def test_what_does_not_fit_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match="offsets has 2 values; right are 3"):
        spec_of(tmp_path, offsets=(1.0, 2.0))
    with pytest.raises(ConfigurationError, match="gives 1 channels, but the network's input has 3"):
        spec_of(tmp_path, model_color_format=2)
    with pytest.raises(ConfigurationError, match="no PPM picture"):
        spec_of(tmp_path, mean_file=str(tmp_path / "none.ppm"))
    (tmp_path / "small.ppm").write_bytes(b"P6\n2 2\n255\n" + bytes(12))
    with pytest.raises(ConfigurationError, match="a picture of 2x2, the network's input is 32x24"):
        spec_of(tmp_path, mean_file=str(tmp_path / "small.ppm"))
    with pytest.raises(ConfigurationError, match="1x24 is too small"):
        written(spec_of(tmp_path), blank("RGB", 1, 24))
