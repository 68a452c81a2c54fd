"""Buffers: what is one, how long it is held, and what an empty one answers."""

import gc

import gi
import numpy as np
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract import gstref
from sluice.pyservicemaker import ApiError, Buffer, StaleBufferError


class FakeBuffer:
    """Has the name and the hash of a buffer."""

    def __hash__(self):
        return 0xDEAD_BEEF


FakeBuffer.__name__ = FakeBuffer.__qualname__ = "Buffer"


@pytest.mark.parametrize("wrong", [FakeBuffer(), b"bytes", "text", 7, Gst.Caps.new_any(), {1: 2}, object()])
def test_only_a_real_buffer_is_one(wrong):
    with pytest.raises(TypeError, match=r"Gst\.Buffer"):
        Buffer(wrong)


@pytest.mark.parametrize("wrong", [[256], [-1], [0.5], ["a"]])
def test_bytes_are_numbers_from_0_to_255(wrong):
    with pytest.raises(TypeError, match="0 to 255"):
        Buffer(wrong)


@pytest.mark.parametrize("data", [[1, 2, 255], (1, 2, 255), np.array([1, 2, 255])])
def test_numbers_become_bytes(data):
    buffer = Buffer(data)
    assert (buffer.batch_size, buffer.timestamp) == (1, 2**64 - 1)
    assert buffer._buffer.extract_dup(0, 10) == bytes([1, 2, 255])


def test_an_empty_buffer():
    buffer = Buffer()
    assert (buffer.batch_size, buffer.timestamp, buffer.batch_meta.n_frames) == (0, 2**64 - 1, 0)
    assert buffer.batch_meta.frame_items == []
    assert not buffer.extract(0)
    with pytest.raises(IndexError):
        buffer.get_chunk_id(0)


def test_a_buffer_without_metadata_says_so_instead_of_crashing():
    batch = Buffer(Gst.Buffer.new_allocate(None, 4, None)).batch_meta
    assert batch
    assert (batch.n_frames, batch.is_audio, list(batch.frame_items)) == (0, False, [])
    assert list(batch.preprocess_batch_items) == []
    assert batch.extract(2) == [None, None]
    for acquire in (batch.acquire_object_meta, batch.acquire_display_meta, batch.acquire_user_meta):
        with pytest.raises(ApiError, match="no batch metadata"):
            acquire()
    assert "empty" in repr(batch)


def test_a_buffer_with_metadata(gst_buffer):
    buffer = Buffer(gst_buffer)
    assert (buffer.timestamp, buffer.batch_meta.n_frames, buffer.batch_meta.is_audio) == (40, 2, False)
    assert "n_frames=2" in repr(buffer)


def test_the_buffer_is_let_go_with_the_last_thing_got_from_it(counted):
    address = gstref.buffer_address(counted[0])
    acquire = Buffer(counted[0]).batch_meta.acquire_object_meta
    frame = next(iter(Buffer(counted.pop()).batch_meta.frame_items))
    del acquire
    assert (frame.batch_id, gstref.refcount(address)) == (0, 2)
    del frame
    assert gstref.refcount(address) == 1
    assert gstref.is_writable(address)


def test_no_cycle_holds_the_buffer(counted):
    address = gstref.buffer_address(counted[0])
    gc.disable()
    try:
        buffer = Buffer(counted.pop())
        for frame in buffer.batch_meta.frame_items:
            item = buffer.batch_meta.acquire_object_meta()
            item.rect_params.border_color.r = 1.0
            frame.append(item)
            assert [found.rect_params.border_color.r for found in frame.object_items] == [1.0]
        del buffer, frame, item
        assert gstref.refcount(address) == 1
    finally:
        gc.enable()


def test_leaving_the_context_lets_the_buffer_go_and_ends_everything(counted):
    address = gstref.buffer_address(counted[0])
    with Buffer(counted.pop()) as buffer:
        batch = buffer.batch_meta
        frame = next(iter(batch.frame_items))
        item = batch.acquire_object_meta()
        frame.append(item)
        rect, color, waiting = item.rect_params, item.rect_params.border_color, frame.object_items
    assert gstref.refcount(address) == 1
    uses = {
        "batch": lambda: batch.n_frames,
        "frames": lambda: batch.frame_items,
        "acquire": batch.acquire_object_meta,
        "frame": lambda: frame.batch_id,
        "object": lambda: item.label,
        "append": lambda: frame.append(item),
        "rect": lambda: rect.left,
        "set": lambda: setattr(rect, "left", 1.0),
        "color": lambda: setattr(color, "r", 1.0),
        "iterator": lambda: next(waiting).label,
        "buffer": lambda: buffer.batch_meta,
        "extract": lambda: buffer.extract(0),
    }
    for use in uses.values():
        with pytest.raises(StaleBufferError):
            use()
    assert "stale" in repr(frame)
    assert "stale" in repr(rect)
    assert "stale" in repr(buffer)


def test_what_was_acquired_and_not_appended_goes_back(gst_buffer, in_use):
    before = in_use(gst_buffer)
    buffer = Buffer(gst_buffer)
    batch = buffer.batch_meta
    kept, frame = batch.acquire_object_meta(), next(iter(batch.frame_items))
    frame.append(kept)
    dropped = batch.acquire_object_meta()
    dropped.text_params.display_text = "never seen"
    batch.acquire_display_meta()
    batch.acquire_user_meta().set_user_data_json([1], 9000)
    batch.acquire_event_message_meta()
    assert in_use(gst_buffer)["user_meta_pool"] == before["user_meta_pool"] + 2
    del buffer, batch, kept, dropped, frame
    assert in_use(gst_buffer) == {**before, "obj_meta_pool": before["obj_meta_pool"] + 1}
