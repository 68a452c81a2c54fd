"""What a run makes of the messages on its bus."""

from types import SimpleNamespace
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.hearing import Hearing


class CountingPipeline:
    """Counts how often all ends are asked for their latency."""

    def __init__(self) -> None:
        self.asked = 0

    def recalculate_latency(self) -> bool:
        self.asked += 1
        return True


def test_the_latency_is_looked_at_once_however_many_elements_say_that_theirs_changed() -> None:
    pipeline = CountingPipeline()
    unused: Any = None
    graph: Any = SimpleNamespace(pipeline=pipeline)
    hearing = Hearing(graph, unused, unused, unused, unused, unused)
    for _ in range(200):
        assert not hearing.hear(Gst.Message.new_latency(None))
    assert pipeline.asked == 0
    hearing.heard_all()
    hearing.heard_all()
    assert pipeline.asked == 1
    hearing.hear(Gst.Message.new_latency(None))
    hearing.heard_all()
    assert pipeline.asked == 2
