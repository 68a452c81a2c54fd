"""What is read of many frames at once equals what their views say."""

import gi
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract import gstref
from sluice.contract.bulk import fill_frames
from sluice.contract.frame_rows import open_frames, read_frames
from sluice.contract.metadata import BatchMeta, Lease
from sluice.contract.user_meta import attach_text
from sluice.errors import StaleBufferError

Gst.init(None)


def batch_of(count: int) -> tuple[Gst.Buffer, BatchMeta]:
    buffer = Gst.Buffer.new()
    batch = BatchMeta.attach(buffer, count)
    fill_frames(batch, [(1000 + i, 2000 + i, i, 10 + i, 20 + i, 640, 480, 0, 0) for i in range(count)])
    return buffer, batch


@pytest.mark.parametrize("count", [1, 3, 40])
def test_rows_are_what_the_views_say(count):
    buffer, batch = batch_of(count)
    batch.frames[0].add_object()
    attach_text(batch.frames[-1], "ACME.NOTE", "seen")
    metas, rows = open_frames(gstref.buffer_address(buffer), Lease())
    assert metas == batch.frames
    assert rows == read_frames(batch.frames)
    for row, frame in zip(rows, batch.frames, strict=True):
        assert (row.address, row.pts, row.ntp) == (frame.address, frame.buf_pts, frame.ntp_timestamp)
        assert (row.batch_id, row.source_id, row.number) == (frame.batch_id, frame.source_id, frame.frame_num)
        assert row.has_objects == bool(frame.objects)
        assert row.has_user_metas == bool(frame.user_metas)


def test_a_buffer_without_a_batch_gets_one_where_it_holds_a_frame():
    buffer = Gst.Buffer.new()
    buffer.pts = 77
    address = gstref.buffer_address(buffer)
    assert open_frames(address, Lease()) is None
    metas, rows = open_frames(address, Lease(), (5, 320, 240))
    assert BatchMeta.of(buffer).frames == metas
    [frame] = metas
    assert (frame.frame_num, frame.buf_pts, frame.source_width, frame.source_height) == (5, 77, 320, 240)
    assert (rows[0].number, rows[0].pts, rows[0].batch_id) == (5, 77, 0)
    assert open_frames(address, Lease(), (6, 1, 1))[1] == rows
    copy = buffer.copy_deep()
    assert BatchMeta.of(copy).frames[0].frame_num == 5


def test_frames_whose_lease_has_ended_are_not_read():
    _buffer, batch = batch_of(1)
    lease = Lease()
    frame = type(batch.frames[0])(batch.frames[0].address, lease, batch.provider)
    lease.end()
    with pytest.raises(StaleBufferError):
        read_frames([frame])
    assert read_frames([]) == []
