"""Structures are read alike from caps, events, queries and messages, whatever GStreamer's Python bindings return."""

import gc

import gi
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract.structures import fields_of, required_structure, structure_of

Gst.init(None)


def structure() -> Gst.Structure:
    return Gst.Structure.from_string("video/x-raw, width=(int)64, format=(string)NV12")[0]


def caps() -> Gst.Caps:
    return Gst.Caps.from_string("video/x-raw, width=64, format=NV12")


OWNERS = {
    "caps": lambda: (caps(), 0),
    "event": lambda: (Gst.Event.new_custom(Gst.EventType.CUSTOM_DOWNSTREAM, structure()), None),
    "query": lambda: (Gst.Query.new_custom(Gst.QueryType.CUSTOM, structure()), None),
    "message": lambda: (Gst.Message.new_application(None, structure()), None),
}


@pytest.mark.parametrize("kind", OWNERS)
def test_a_structure_is_read_and_outlives_its_owner(kind: str) -> None:
    owner, index = OWNERS[kind]()
    found = required_structure(owner, index)
    del owner
    gc.collect()
    assert found.get_name() == "video/x-raw"
    assert found.get_int("width") == (True, 64)
    assert found.get_string("format") == "NV12"


def test_a_copy_may_be_changed_without_changing_the_owner() -> None:
    owner = caps()
    required_structure(owner, 0).set_value("width", 1)
    assert required_structure(owner, 0).get_int("width") == (True, 64)


def test_the_structure_asked_for_is_the_one_read() -> None:
    owner = Gst.Caps.from_string("video/x-raw, width=1; video/x-h264, width=2")
    assert [required_structure(owner, index).get_name() for index in range(2)] == ["video/x-raw", "video/x-h264"]


def test_an_item_without_a_structure() -> None:
    event = Gst.Event.new_flush_start()
    assert structure_of(event) is None
    with pytest.raises(ValueError, match="carries no structure"):
        required_structure(event)


def test_fields_by_name_in_their_order() -> None:
    assert list(fields_of(structure()).items()) == [("width", 64), ("format", "NV12")]
    assert fields_of(Gst.Structure.new_empty("nothing")) == {}
