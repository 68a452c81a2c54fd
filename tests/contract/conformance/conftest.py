"""A batch on a buffer, and what the cases look at: pools, copies, both kinds of writer."""

import ctypes
import gc
import os
from collections.abc import Callable

import gi
import numpy as np
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract._native import library
from sluice.contract.bulk import fill_frames
from sluice.contract.layout import POOLS
from sluice.contract.metadata import BatchMeta, FrameMeta
from sluice.contract.provider import provider

WHOLE = (
    Gst.BufferCopyFlags.FLAGS | Gst.BufferCopyFlags.TIMESTAMPS | Gst.BufferCopyFlags.META | Gst.BufferCopyFlags.MEMORY
)


@pytest.fixture(autouse=True, scope="session")
def the_provider_asked_for() -> None:
    assert provider().name == os.environ["SLUICE_PROVIDER"]


@pytest.fixture
def buffer() -> Gst.Buffer:
    return Gst.Buffer.new_allocate(None, 16, None)


@pytest.fixture
def batch(buffer: Gst.Buffer) -> BatchMeta:
    """A batch with room for 4 frames and 2 frames in it."""
    meta = BatchMeta.attach(buffer, 4)
    fill_frames(meta, [(1000 * i, 5000 + i, i, 10 + i, 100 + i, 1920, 1080, 0, 0) for i in range(2)])
    return meta


@pytest.fixture
def frame(batch: BatchMeta) -> FrameMeta:
    return batch.frames[0]


@pytest.fixture
def copied() -> Callable[[Gst.Buffer], Gst.Buffer]:
    """Copies a buffer as make_writable would."""
    return lambda buffer: buffer.copy_region(WHOLE, 0, 2**64 - 1)


@pytest.fixture
def pools() -> Callable[[BatchMeta], dict[str, tuple[int, int, int]]]:
    """Reads each pool's (elements, empty, in use), checking the counters against the lists."""

    def length(link: int) -> int:
        count = 0
        while link:
            link, count = ctypes.c_size_t.from_address(link + 8).value, count + 1
        return count

    def read(meta: BatchMeta) -> dict[str, tuple[int, int, int]]:
        table = meta.provider.layout
        found = {}
        for pool, struct in POOLS.items():
            address = ctypes.c_size_t.from_address(meta.address + table.offset(f"NvDsBatchMeta.{pool}")).value
            row = np.frombuffer(
                ctypes.string_at(address, table.struct("NvDsMetaPool").size), table.dtype("NvDsMetaPool")
            )[0]
            assert row["element_size"] == table.struct(struct).size
            counts = int(row["max_elements_in_pool"]), int(row["num_empty_elements"]), int(row["num_full_elements"])
            assert counts == (counts[1] + counts[2], length(int(row["empty_list"])), length(int(row["full_list"])))
            found[pool] = counts
        return found

    return read


@pytest.fixture
def ledger() -> Callable[[], tuple[int, int]]:
    """Counts live batches (the portable provider's only) and live payloads."""

    def read() -> tuple[int, int]:
        gc.collect()
        return library().sluice_live_batches(), library().sluice_live_payloads()

    return read
