"""The thread of the outputs: what is asked of it is done in order, and whoever waits too long is told why."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from sluice.app.outputs.hub import BusyOutputs, Hub
from sluice.errors import SluiceError


@pytest.fixture
def hub() -> Iterator[Hub]:
    hub = Hub("test-hub")
    yield hub
    hub.stop()


def test_a_hub_that_is_busy_is_an_error_with_words(hub: Hub) -> None:
    go_on, done = threading.Event(), threading.Event()
    hub.post(lambda: go_on.wait(30))
    with pytest.raises(BusyOutputs, match=r"do not answer within 0\.1 s") as caught:
        hub.call(done.set, 0.1)
    assert isinstance(caught.value, SluiceError)
    go_on.set()
    assert done.wait(30)  # it is done all the same


def test_what_the_work_raises_is_raised_as_it_is(hub: Hub) -> None:
    def fail() -> None:
        raise TimeoutError("of its own")

    with pytest.raises(TimeoutError, match="of its own"):
        hub.call(fail)


def test_nobody_waits_for_a_hub_that_has_ended(hub: Hub) -> None:
    hub.stop()
    begun = time.monotonic()
    with pytest.raises(BusyOutputs, match="were closed"):
        hub.call(lambda: None, 60)
    assert time.monotonic() - begun < 30
