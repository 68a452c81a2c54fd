"""Whatever a model returns is attached as given or refused in words; a surface of any layout is read as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from contract.surface_samples import Gst, add_video_meta, frame_format, read_planes
from sluice.contract.bulk import fill_frames, read_objects
from sluice.contract.metadata import BatchMeta
from sluice.contract.surface import SurfaceBatch
from sluice.errors import SluiceError
from sluice.models.attach import attach_detections
from sluice.models.detections import Detections

MANY = settings(max_examples=150, deadline=None)
SIZE = (640, 480)
FORMATS = ("I420", "NV12", "RGB", "BGR", "RGBA", "BGRA", "BGRx", "GRAY8", "YUY2")
anything = st.one_of(
    st.none(), st.integers(), st.floats(), st.text(max_size=5), st.lists(st.floats(), max_size=6),
    arrays.arrays(
        st.sampled_from([np.float32, np.float64, np.int32, np.int64, np.uint8, np.bool_]),
        arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5),
    ),
)  # fmt: skip
rows = st.integers(0, 5)


@st.composite
def nearly_right(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of Detections, most of them of the right shape, with numbers of any size, infinite and NaN."""
    count = draw(rows)
    number = st.floats(width=32)
    given_ = {
        "xyxy": draw(arrays.arrays(np.float32, (count, 4), elements=number)),
        "scores": draw(arrays.arrays(np.float32, (count,), elements=number)),
        "class_ids": draw(arrays.arrays(np.int32, (count,))),
    }
    optional = {
        "angles": arrays.arrays(np.float32, (count,), elements=number),
        "embeddings": arrays.arrays(np.float32, (count, 3), elements=number),
        "keypoints": arrays.arrays(np.float32, (count, 2, 3), elements=number),
        "labels": st.lists(st.one_of(st.none(), st.text()), min_size=count, max_size=count),
        "texts": st.lists(st.one_of(st.none(), st.text()), min_size=count, max_size=count),
    }
    for name in draw(st.sets(st.sampled_from(sorted(optional)))):
        given_[name] = draw(optional[name])
    if draw(st.integers(0, 4)) == 0:
        given_[draw(st.sampled_from(sorted(given_)))] = draw(anything)
    return given_


def attach(arguments: dict[str, Any]) -> tuple[int, int] | None:
    """Attach to a fresh frame; return objects given and found there, None when they were refused."""
    buffer = Gst.Buffer.new_allocate(None, 16, None)
    batch = BatchMeta.attach(buffer, 1)
    fill_frames(batch, [(0, 0, 0, 0, 0, *SIZE, 0, 0)])
    frame = batch.frames[0]
    try:
        detections = Detections(**arguments).validate(SIZE)
        attach_detections(frame, detections, ("a", "b"), 1, SIZE)
    except SluiceError:
        assert not frame.objects, "refused, and yet something was attached"
        return None
    return len(detections.xyxy), len(read_objects(frame).object_id)


@MANY
@given(arguments=nearly_right())
def test_detections_are_attached_or_refused(arguments: dict[str, Any]) -> None:
    counts = attach(arguments)
    assert counts is None or counts[1] <= counts[0]


def test_good_detections_are_attached() -> None:
    good = {"xyxy": [[1, 2, 30, 40], [5, 6, 70, 80]], "scores": [0.5, 0.9], "class_ids": [0, 1]}
    assert attach(good) == (2, 2)


@MANY
@given(
    name=st.sampled_from(FORMATS), width=st.integers(1, 70), height=st.integers(1, 50), lead=st.integers(0, 40),
    padding=st.integers(0, 70), gap=st.integers(0, 40), seed=st.integers(0, 1000),
)  # fmt: skip
def test_a_surface_of_any_layout_is_read_as_it_is(
    name: str, width: int, height: int, lead: int, padding: int, gap: int, seed: int
) -> None:
    form = frame_format(name, width, height)
    offsets, strides, end = [0] * 4, [0] * 4, lead
    for index, plane in enumerate(form.planes):
        offsets[index], strides[index] = end, plane.row_bytes + padding
        end += strides[index] * plane.height + gap
    content = np.random.default_rng(seed).integers(0, 256, end, dtype=np.uint8)
    buffer = Gst.Buffer.new_wrapped(content.tobytes())
    add_video_meta(buffer, form, offsets, strides)
    (surface,) = SurfaceBatch.of_raw(buffer, form)
    found = [np.from_dlpack(surface.dlpack(index)) for index in range(len(surface.planes))]
    for plane, wanted in zip(found, read_planes(content, form, offsets, strides), strict=True):
        assert np.array_equal(plane.reshape(wanted.shape), wanted)


@pytest.mark.parametrize("stride", [0, 1, 32])
def test_rows_that_are_too_short_are_refused(stride: int) -> None:
    form = frame_format("RGB", 33, 17)
    buffer = Gst.Buffer.new_allocate(None, 33 * 17 * 3, None)
    add_video_meta(buffer, form, [0] * 4, [stride, 0, 0, 0])
    with pytest.raises(SluiceError, match=r"\d"):
        SurfaceBatch.of_raw(buffer, form)
