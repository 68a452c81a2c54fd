"""One-pass preprocessing against the long way round: full-size RGB, resize, pad, normalise."""

from __future__ import annotations

import itertools

import cv2
import numpy as np
import pytest
from array_surfaces import from_rgb, noise

from sluice.contract.formats import FORMATS, Matrix
from sluice.errors import ConfigurationError
from sluice.models.antialias import antialiased
from sluice.models.letterbox import Letterbox
from sluice.models.pixels import layout_of, to_packed, yuv_planes
from sluice.models.preprocess import ANTIALIAS, Preprocessing, Preprocessor, shrink

COLOURS = list(itertools.product([Matrix.BT601, Matrix.BT709], [False, True]))


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
    surface = noise(name, *size)
    spec = Preprocessing(160, 128, fit=fit, scale=1.0)
    assert np.array_equal(written(surface, spec), long_way(surface, spec))


SIZES = [
    ((1920, 1080), (640, 360)),  # one row in three is read
    ((1280, 720), (640, 360)),  # OpenCV takes means of 2x2
    ((1280, 1440), (320, 360)),  # two rows in four, equally far apart
    ((854, 480), (256, 144)),  # six rows in ten
    ((1920, 1080), (256, 144)),  # four rows in fifteen, whose chroma is another every second time
    ((1920, 1088), (640, 363)),
    ((176, 144), (416, 340)),
    ((64, 1000), (9, 37)),
    ((63, 47), (20, 15)),
    ((50, 40), (50, 40)),
    ((50, 40), (25, 40)),
    ((1, 1), (7, 5)),
    ((33, 900), (33, 1)),
]


@pytest.mark.parametrize(("matrix", "full_range"), COLOURS)
@pytest.mark.parametrize("name", ["I420", "NV12", "YUY2"])
@pytest.mark.parametrize(("frame", "size"), SIZES)
def test_rows_that_are_not_converted_are_not_read(monkeypatch, name, frame, size, matrix, full_range):
    """The small picture is that of the whole frame in RGB, whatever is in the rows left out."""
    empty = np.empty
    monkeypatch.setattr(np, "empty", lambda shape, dtype: np.full(shape, 0xAA, dtype))
    surface = noise(name, *frame, matrix=matrix, full_range=full_range)
    full = to_packed(surface, "BGR")
    for interpolation in (cv2.INTER_LINEAR, cv2.INTER_NEAREST, cv2.INTER_CUBIC):
        expected = full if frame == size else cv2.resize(full, size, interpolation=interpolation)
        assert np.array_equal(shrink(surface, size, "BGR", interpolation), expected)
    assert np.empty is not empty


def test_rows_read_at_any_scale():
    """Of 300 sizes at random."""
    rng = np.random.default_rng(1)
    for _ in range(300):
        height, target = (int(n) for n in rng.integers(1, 1300, 2))
        surface = noise("NV12", 8, height, seed=height)
        full = to_packed(surface, "RGB")
        for interpolation in (cv2.INTER_LINEAR, cv2.INTER_NEAREST):
            found = shrink(surface, (5, target), "RGB", interpolation)
            assert np.array_equal(found, cv2.resize(full, (5, target), interpolation=interpolation))


@pytest.mark.parametrize("name", ["I420", "NV12"])
def test_area_and_antialias(name):
    surface = noise(name, 320, 240)
    full = to_packed(surface, "RGB")
    expected = cv2.resize(full, (100, 75), interpolation=cv2.INTER_AREA)
    assert np.array_equal(shrink(surface, (100, 75), "RGB", cv2.INTER_AREA), expected)
    soft = from_rgb(cv2.GaussianBlur(full, (0, 0), 5), name)
    found = shrink(soft, (100, 75), "RGB", ANTIALIAS).astype(int)
    apart = np.abs(found - antialiased(to_packed(soft, "RGB"), (100, 75)))
    assert apart.mean() < 1
    assert apart.max() <= 4


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


def test_frames_of_changing_sizes_and_formats_leave_nothing_in_the_next():
    """The memory in which rows are converted is kept from frame to frame, and larger than a small frame needs."""
    spec = Preprocessing(160, 128, scale=1.0)
    preprocessor = Preprocessor(spec, 1)
    kinds = list(
        itertools.product(FORMATS, [(640, 360), (97, 33), (181, 321), (160, 128)], [Matrix.BT601, Matrix.BT709])
    )
    for seed, place in enumerate(np.random.default_rng(0).permutation(len(kinds))):
        name, size, matrix = kinds[place]
        surface = noise(name, *size, seed=seed, matrix=matrix)
        preprocessor.write(0, surface)
        assert np.array_equal(preprocessor.input[0], long_way(surface, spec)), kinds[place]


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
