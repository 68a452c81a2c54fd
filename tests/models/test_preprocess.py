"""One-pass preprocessing against the long way round: full-size RGB, resize, pad, normalise."""

from __future__ import annotations

import itertools

import cv2
import numpy as np
import pytest
from array_surfaces import from_rgb, noise

from sluice.contract.formats import FORMATS, Matrix
from sluice.errors import ConfigurationError
from sluice.models.letterbox import Letterbox
from sluice.models.pixels import layout_of, to_packed, yuv_planes
from sluice.models.preprocess import Preprocessing, Preprocessor, shrink

COLOURS = list(itertools.product([Matrix.BT601, Matrix.BT709], [False, True]))


def picture(width, height):
    """A colourful picture with soft and hard edges, inside the colour range, so that nothing is cut off."""
    rows, columns = np.mgrid[0:height, 0:width]
    rgb = np.stack([60 + 100 * columns / width, 60 + 100 * rows / height, 110 + 40 * np.sin(columns / 9)], axis=-1)
    rgb[height // 4 : height // 2, width // 4 : width // 2] = (170, 70, 90)
    return rgb.astype(np.uint8)


def long_way(surface, spec):
    """float64 [3,height,width] by way of a full-size picture."""
    box = Letterbox.fit((surface.width, surface.height), (spec.width, spec.height), spec.fit)
    full = to_packed(surface, spec.order)
    inside = cv2.resize(full, (box.width, box.height), interpolation=cv2.INTER_LINEAR)
    canvas = np.full((spec.height, spec.width, 3), spec.pad, np.float64)
    canvas[box.top : box.top + box.height, box.left : box.left + box.width] = inside
    return ((canvas * spec.scale - spec.mean) / spec.std).transpose(2, 0, 1)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("size", [(320, 180), (181, 321), (97, 33)])
@pytest.mark.parametrize("fit", ["centre", "top-left", "stretch"])
def test_every_format_gives_what_the_long_way_gives(name, size, fit):
    surface = from_rgb(picture(*size), name)
    spec = Preprocessing(160, 128, fit=fit)
    difference = np.abs(255 * (written(surface, spec) - long_way(surface, spec)))
    assert difference.mean() < 0.6
    assert difference.max() <= 5


@pytest.mark.parametrize(("matrix", "full_range"), COLOURS)
@pytest.mark.parametrize("name", ["I420", "NV12"])
def test_matrix_and_range_of_the_stream_are_used(name, matrix, full_range):
    rgb = picture(320, 240)
    surface = from_rgb(rgb, name, matrix=matrix, full_range=full_range)
    small = shrink(surface, (160, 120), "RGB", cv2.INTER_AREA).astype(int)
    assert np.abs(small - cv2.resize(rgb, (160, 120), interpolation=cv2.INTER_AREA)).mean() < 1


@pytest.mark.parametrize(
    "spec",
    [
        Preprocessing(64, 48, order="BGR", scale=1.0),
        Preprocessing(64, 48, pad=0, order="BGR", scale=1.0, mean=(103.5, 116.3, 123.7), std=(57.4, 57.1, 58.4)),
        Preprocessing(64, 48, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
        Preprocessing(64, 48, layout="NHWC", scale=1 / 127.5, mean=(1, 1, 1)),
        Preprocessing(64, 48, dtype="float16"),
        Preprocessing(64, 48, dtype="uint8", scale=1.0, layout="NHWC"),
    ],
)
def test_normalisation_order_layout_and_type(spec):
    surface = noise("RGB", 64, 40)
    result = written(surface, spec)
    tolerance = 2e-3 if spec.dtype == "float16" else 1e-4
    assert np.allclose(result, long_way(surface, spec), atol=tolerance)


def written(surface, spec):
    """One frame through a preprocessor, as float64 [3,height,width]."""
    target = Preprocessor(spec, 1)
    target.write(0, surface)
    assert target.input.dtype == spec.dtype
    assert target.input.shape == spec.shape(1)
    result = target.input[0].astype(np.float64)
    return result if spec.layout == "NCHW" else result.transpose(2, 0, 1)


def test_padding_is_renewed_when_a_frame_of_another_shape_takes_the_slot():
    spec = Preprocessing(64, 64)
    target = Preprocessor(spec, 2)
    for size in ((64, 32), (32, 64), (64, 64), (64, 16), (64, 16)):
        surface = noise("RGB", *size)
        target.write(1, surface)
        assert np.allclose(target.input[1], long_way(surface, spec), atol=1e-5)
    assert not target.input[0].any()


def test_slots_do_not_touch_each_other():
    spec = Preprocessing(32, 32)
    target = Preprocessor(spec, 3)
    surfaces = [noise(name, 40, 30, seed=i) for i, name in enumerate(("I420", "BGRx", "GRAY8"))]
    for slot, surface in enumerate(surfaces):
        target.write(slot, surface)
    for slot, surface in enumerate(surfaces):
        assert np.allclose(target.input[slot], written(surface, spec), atol=1e-6)


@pytest.mark.parametrize(("name", "count"), [("I420", 3), ("NV12", 2)])
def test_planes_are_read_where_they_are(name, count):
    surface = noise(name, 64, 48)
    luma, chroma = yuv_planes(surface, layout_of(surface))
    assert len((luma, *chroma)) == count
    for mine, theirs in zip((luma, *chroma), surface.planes, strict=True):
        assert np.shares_memory(mine, theirs)
        assert mine.strides == theirs.strides


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"fit": "fill"}, "fit is 'fill'; right is one of centre, top-left, stretch, crop"),
        ({"order": "RBG"}, "order is 'RBG'"),
        ({"dtype": "uint8"}, "a uint8 input takes pixels as they are"),
        ({"width": 0}, "the network's input is 0x48"),
    ],
)
def test_wrong_settings_are_refused(wrong, message):
    with pytest.raises(ConfigurationError) as caught:
        Preprocessing(**{"width": 64, "height": 48, **wrong})
    assert message in str(caught.value)


def test_a_crop_holds_the_middle_of_the_resized_frame():
    surface = noise("I420", 100, 60)
    spec = Preprocessing(32, 32, fit="crop", scale=1.0)
    preprocessor = Preprocessor(spec, 1)
    box = preprocessor.write(0, surface)
    whole = shrink(surface, (box.width, box.height), "RGB")
    assert whole.shape == (32, 53, 3)
    assert np.array_equal(preprocessor.input[0].transpose(1, 2, 0), whole[:, 10:42])
