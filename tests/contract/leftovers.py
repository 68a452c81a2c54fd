"""Checks that a block frees what it made."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from sluice.contract import counters


@contextmanager
def nothing_is_left(*names: str) -> Iterator[None]:
    """Fail where one of these counters of `sluice.contract.counters` is another behind the block than before it."""
    before = _collected(names)
    yield
    assert _collected(names) == before


def _collected(names: tuple[str, ...]) -> dict[str, int]:
    gc.collect()
    found = counters.read()
    return {name: getattr(found, name) for name in names}
