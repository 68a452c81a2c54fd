"""Starting what all streams of a run share."""

from __future__ import annotations

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.exceptions import as_exception, interruption
from sluice.app.graph import Graph
from sluice.errors import SluiceError


def start_elements(graph: Graph) -> None:
    """Load the model and bring the shared elements to PLAYING.

    Raises:
        KeyboardInterrupt: while a model was being loaded.
        SluiceError: an element could not be started; of the class that it gave as the reason.
    """
    pipeline = graph.pipeline
    # Those that may refuse their settings come first: the sinks empty an earlier run's files as they open them.
    first = [element for element in (graph.infer, graph.tracker) if element is not None]
    states = [(element, Gst.State.READY) for element in first] + [(pipeline, Gst.State.PLAYING)]
    if any(element.set_state(state) == Gst.StateChangeReturn.FAILURE for element, state in states):
        message = pipeline.get_bus().timed_pop_filtered(0, Gst.MessageType.ERROR)
        if message is None:
            raise SluiceError("the pipeline could not be started")
        raise interruption(message) or as_exception(message)
