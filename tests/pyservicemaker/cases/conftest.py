"""Buffers with a batch on them, and pipelines that run to their end."""

import ctypes
import os
from collections.abc import Callable, Iterator
from typing import Any

import gi
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract import gstref
from sluice.contract._native import library
from sluice.contract.bulk import fill_frames
from sluice.contract.layout import POOLS
from sluice.contract.metadata import BatchMeta
from sluice.contract.provider import provider
from sluice.elements import register_all
from sluice.pyservicemaker import Buffer

WHOLE = (
    Gst.BufferCopyFlags.FLAGS | Gst.BufferCopyFlags.TIMESTAMPS | Gst.BufferCopyFlags.META | Gst.BufferCopyFlags.MEMORY
)


@pytest.fixture(autouse=True, scope="session")
def the_provider_asked_for() -> None:
    assert provider().name == os.environ["SLUICE_PROVIDER"]


def new_buffer() -> Gst.Buffer:
    """Return a buffer with a batch of two frames of 1920x1080."""
    buffer = Gst.Buffer.new_allocate(None, 16, None)
    buffer.pts = 40
    meta = BatchMeta.attach(buffer, 4)
    fill_frames(meta, [(1000 * i, 5000 + i, i, 10 + i, 100 + i, 1920, 1080, 0, 0) for i in range(2)])
    return buffer


@pytest.fixture
def gst_buffer() -> Gst.Buffer:
    """A buffer with a batch of two frames of 1920x1080."""
    return new_buffer()


@pytest.fixture
def batch(gst_buffer):
    """The metadata of that batch, by the names of NVIDIA's package."""
    return Buffer(gst_buffer).batch_meta


@pytest.fixture
def frame(batch):
    """The first frame of the batch."""
    return next(iter(batch.frame_items))


@pytest.fixture
def item(batch, frame):
    """An object that the first frame has."""
    found = batch.acquire_object_meta()
    frame.append(found)
    return found


@pytest.fixture
def counted() -> Iterator[list[Gst.Buffer]]:
    """The same in a list, which holds the only wrapper, and one reference more that outlives it."""
    held = [new_buffer()]
    address = gstref.ref(gstref.buffer_address(held[0]))
    yield held
    gstref.unref(address)


@pytest.fixture
def copied() -> Callable[[Gst.Buffer], Gst.Buffer]:
    """Copies a buffer as make_writable would."""
    return lambda buffer: buffer.copy_region(WHOLE, 0, 2**64 - 1)


@pytest.fixture
def in_use() -> Callable[[Gst.Buffer], dict[str, int]]:
    """Reads how many elements of each of a batch's pools are in use."""

    def read(buffer: Gst.Buffer) -> dict[str, int]:
        meta = BatchMeta.of(buffer)
        assert meta is not None
        table = meta.provider.layout
        counts = {}
        for pool in POOLS:
            at = ctypes.c_size_t.from_address(meta.address + table.offset(f"NvDsBatchMeta.{pool}")).value
            counts[pool] = ctypes.c_uint32.from_address(at + table.offset("NvDsMetaPool.num_full_elements")).value
        return counts

    return read


@pytest.fixture
def live_payloads() -> Callable[[], int]:
    """Counts the texts, bytes and objects on all batches."""
    return lambda: int(library().sluice_live_payloads())


@pytest.fixture
def play() -> Callable[..., Any]:
    """Builds a pipeline, lets a function attach to it, and runs it; returns the error, or None at its end."""

    def run(line: str, prepare: Callable[[Any], object]) -> Any:
        register_all()
        pipeline = Gst.parse_launch(line)
        prepare(pipeline)
        pipeline.set_state(Gst.State.PLAYING)
        try:
            kinds = Gst.MessageType.EOS | Gst.MessageType.ERROR
            message = pipeline.get_bus().timed_pop_filtered(30 * Gst.SECOND, kinds)
            assert message is not None, "neither the end nor an error came"
            return message.parse_error() if message.type == Gst.MessageType.ERROR else None
        finally:
            pipeline.set_state(Gst.State.NULL)

    return run
