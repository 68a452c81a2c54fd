"""What bounds the memory of a run: how few frames wait, and how few threads decode."""

import os

import gi
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

import sluice
from waiting import until


def _elements(pipeline: Gst.Bin) -> list[Gst.Element]:
    found, every = [], pipeline.iterate_recurse()
    while (step := every.next())[0] == Gst.IteratorResult.OK:
        found.append(step[1])
    return found


@pytest.mark.parametrize("streams", [1, 3])
def test_decoders_share_the_cores_and_few_large_frames_wait(data, streams):
    """A frame of 1080p has 3.1 MB: one fills its stream's queue."""
    clip = data / "videos" / "Retail02_first7s.mp4"
    pipeline = sluice.Pipeline([clip] * streams, tracker=None)
    frames = iter(pipeline)
    next(frames)

    def threads_of_decoders() -> list[int]:
        elements = _elements(pipeline._job._graph.pipeline)
        return [e.get_property("max-threads") for e in elements if e.find_property("max-threads") is not None]

    # The first frame may come before the other streams have a decoder.
    until(lambda: len(threads_of_decoders()) == streams, "a decoder of each stream")
    threads = threads_of_decoders()
    limits = {
        e.get_property("max-size-bytes")
        for e in _elements(pipeline._job._graph.pipeline)
        if e.get_factory().get_name() == "queue" and e.get_parent().get_name().startswith("source_")
    }
    frames.close()
    assert threads == [max(1, len(os.sched_getaffinity(0)) // streams)] * streams
    assert limits == {3_000_000}
