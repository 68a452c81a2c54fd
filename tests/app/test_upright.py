"""Pictures are turned as the image-orientation tag says, and left alone where nothing is to be turned."""

from __future__ import annotations

import gi
import pytest

gi.require_version("Gst", "1.0")
gi.require_version("GstBase", "1.0")
from gi.repository import Gst, GstBase

from playing import reaches_its_end
from sluice.app.gst import add_chain, make_element
from sluice.app.upright import make_upright
from sluice.contract.structures import required_structure

CAPS = "video/x-raw, format=I420, width=64, height=32"


def run(tags: list[str]) -> tuple[tuple[int, int], bool]:
    """Send five pictures with these tags; return the last one's size, and if they went untouched."""
    pipeline = Gst.Pipeline.new(None)
    flip, sink = make_upright(), make_element("fakesink", sync=False, enable_last_sample=True)
    injects = [make_element("taginject", tags=f"image-orientation={tag}") for tag in tags]
    source = make_element("videotestsrc", num_buffers=5)
    add_chain(pipeline, source, make_element("capsfilter", caps=Gst.Caps.from_string(CAPS)), *injects, flip, sink)
    pipeline.set_state(Gst.State.PLAYING)
    reaches_its_end(pipeline)
    found = required_structure(sink.get_property("last-sample").get_caps(), 0)
    untouched = GstBase.BaseTransform.is_passthrough(flip)
    pipeline.set_state(Gst.State.NULL)
    return (found["width"], found["height"]), untouched


@pytest.mark.parametrize("tags", [[], ["rotate-0"]])
def test_what_is_upright_is_not_copied(tags: list[str]) -> None:
    assert run(tags) == ((64, 32), True)


@pytest.mark.parametrize(
    ("tag", "size"), [("rotate-90", (32, 64)), ("rotate-180", (64, 32)), ("flip-rotate-270", (32, 64))]
)
def test_what_is_not_is_turned(tag: str, size: tuple[int, int]) -> None:
    assert run([tag]) == (size, False)
