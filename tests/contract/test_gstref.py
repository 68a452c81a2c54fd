"""References by C address: counts, writability, and what is refused."""

import gc

import gi
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract import gstref


@pytest.fixture
def buffer() -> Gst.Buffer:
    return Gst.Buffer.new_allocate(None, 8, None)


def test_references_are_counted(buffer: Gst.Buffer) -> None:
    address = gstref.address(buffer)
    assert gstref.refcount(address) == 1
    assert gstref.is_writable(address)
    assert gstref.ref(address) == address
    assert gstref.refcount(address) == 2
    assert not gstref.is_writable(address)
    gstref.unref(address)
    assert gstref.refcount(address) == 1


def test_a_stolen_buffer_has_one_reference(buffer: Gst.Buffer) -> None:
    copy = buffer.copy_region(Gst.BufferCopyFlags.MEMORY, 0, 8)
    address = gstref.steal(copy)
    assert gstref.refcount(address) == 2
    del copy
    gc.collect()
    assert gstref.refcount(address) == 1
    gstref.unref(address)


def test_a_wrapper_has_a_reference_of_its_own(buffer: Gst.Buffer) -> None:
    address = gstref.address(buffer)
    wrapper = gstref.wrap(address)
    assert gstref.address(wrapper) == address
    assert gstref.refcount(address) == 2
    del wrapper
    gc.collect()
    assert gstref.refcount(address) == 1


def test_make_writable_copies_only_what_is_shared(buffer: Gst.Buffer) -> None:
    address = gstref.steal(buffer)
    copy = gstref.make_writable(address)
    assert copy != address
    assert gstref.refcount(address) == 1
    assert gstref.make_writable(copy) == copy
    gstref.unref(copy)


def test_a_memory_copy_protects_the_memory_and_leaves_the_buffer_writable(buffer: Gst.Buffer) -> None:
    address = gstref.address(buffer)
    assert gstref.is_memory_writable(address)
    copy = gstref.copy_memory(address)
    assert gstref.is_writable(address)
    assert not gstref.is_memory_writable(address)
    gstref.unref(copy)
    assert gstref.is_memory_writable(address)


def test_other_gstreamer_objects_have_addresses() -> None:
    pad = Gst.Pad.new("pad", Gst.PadDirection.SRC)
    caps = Gst.Caps.from_string("video/x-raw")
    assert gstref.address(pad) != gstref.address(caps)
    assert gstref.refcount(gstref.address(caps)) == 1


@pytest.mark.parametrize("wrong", [None, 5, "buffer", object(), Gst.Buffer])
def test_only_wrappers_have_addresses(wrong: object) -> None:
    with pytest.raises(TypeError, match="a GStreamer object is needed"):
        gstref.address(wrong)


@pytest.mark.parametrize("wrong", [None, 5, "buffer", Gst.Caps.new_empty()])
def test_only_buffers_are_buffers(wrong: object) -> None:
    with pytest.raises(TypeError, match=r"a Gst\.Buffer is needed, not"):
        gstref.buffer_address(wrong)
