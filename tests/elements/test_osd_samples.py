"""sluiceosd beside pictures that nvdsosd drew (RGBA, process-mode 0) from the same metadata and properties.

What both draw without smooth edges is the same to the pixel, and so are texts where the fonts are the same. Lines and
circles have edges of another smoothness, and lines are longer by half their width, as nvdsosd draws them on a GPU.
"""

import json
from pathlib import Path
from typing import Any

import cv2
import gi
import numpy as np
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst
from osd_streams import Stream, add_frame, add_object, planes, raw_buffer, raw_caps

from sluice.contract.metadata import BatchMeta

WIDTH, HEIGHT = 320, 240
CAPS = raw_caps("RGBA", WIDTH, HEIGHT)
KINDS = {"rect_params": "rects", "text_params": "texts", "line_params": "lines", "circle_params": "circles"}


def fill(view: Any, fields: dict[str, Any]) -> None:
    """Set the fields of a struct by their names in DeepStream's headers."""
    for name, value in fields.items():
        if name == "font_params":
            fill(view, value)
        elif isinstance(value, dict):
            setattr(view, name, tuple(value[part] for part in ("red", "green", "blue", "alpha")))
        else:
            setattr(view, name, value)


def described(spec: dict[str, Any]) -> Gst.Buffer:
    """A black frame with the objects and display metas of a sample."""
    buffer, _ = raw_buffer(CAPS, 0)
    frame = add_frame(BatchMeta.attach(buffer, 1), 0)
    for fields in spec.get("objects", []):
        item = add_object(frame, (0.0, 0.0, 0.0, 0.0))
        fill(item.rect, fields.get("rect_params", {}))
        fill(item.text, fields.get("text_params", {}))
    for fields in spec.get("display", []):
        display = frame.add_display()
        for kind, items in fields.items():
            setattr(display, f"num_{'labels' if kind == 'text_params' else KINDS[kind]}", len(items))
            for view, item in zip(getattr(display, KINDS[kind]), items, strict=True):
                fill(view, item)
    return buffer


def drawn(reference: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """What nvdsosd and what sluiceosd drew, int [h, w, 3]."""
    folder = reference / "samples" / "osd"
    spec = json.loads((folder / f"{name}.json").read_text())["spec"]
    with Stream(f"sluiceosd {spec.get('props', '')}", CAPS) as stream:
        stream.push(described(spec))
        stream.play()
        (sample,) = stream.finish()
    ours = planes(sample.get_buffer(), CAPS)[0][:, :, :3].astype(int)
    theirs = cv2.imread(str(folder / f"{name}.png"))[:, :, ::-1].astype(int)
    return theirs, ours


@pytest.mark.parametrize(
    "name",
    ["disp_rect", "rect_bg_only", "rect_bw0", "rect_bw4", "rect_bw10", "rect_frac", "rect_display_bbox_false",
     "text_display_false", "text_empty"],
)  # fmt: skip
def test_boxes_are_the_same_to_the_pixel(reference: Path, name: str) -> None:
    theirs, ours = drawn(reference, name)
    assert (theirs == ours).all()


@pytest.mark.parametrize("name", ["disp_text", "text_bg", "text_plain"])
def test_texts_are_as_large_and_lie_where_they_do(reference: Path, name: str) -> None:
    theirs, ours = drawn(reference, name)
    assert np.abs(theirs - ours).mean() < 0.5, "fonts may be hinted otherwise; with the same fonts nothing differs"


@pytest.mark.parametrize("name", ["disp_line", "disp_line_h", "disp_circle_w5", "rect_bw1"])
def test_smooth_edges_lie_within_a_pixel(reference: Path, name: str) -> None:
    theirs, ours = (picture.max(axis=2).astype(np.uint8) for picture in drawn(reference, name))
    around = np.ones((5, 5), np.uint8)
    assert (ours[cv2.dilate(theirs, around) == 0] == 0).all()
    assert (theirs[cv2.dilate(ours, around) == 0] == 0).all()
    assert int(ours.sum()) == pytest.approx(int(theirs.sum()), rel=0.25)


def test_the_clock_is_drawn_in_its_place_and_colour(reference: Path) -> None:
    theirs, ours = drawn(reference, "clock")
    for axis, tolerance in ((0, 12), (1, 3)):
        ends = [np.flatnonzero(picture.any(axis=(axis, 2)))[[0, -1]] for picture in (theirs, ours)]
        assert np.abs(ends[0] - ends[1]).max() <= tolerance
    assert not ours[:, :, 1:].any()
