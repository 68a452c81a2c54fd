"""Fixtures shared by the tests of whole pipelines."""

from collections.abc import Iterator

import pytest

import sluice


@pytest.fixture
def service() -> Iterator[sluice.Pipeline]:
    """A service without streams, which is stopped at the end."""
    with sluice.Pipeline([], service=True) as pipeline:
        pipeline.start()
        yield pipeline
