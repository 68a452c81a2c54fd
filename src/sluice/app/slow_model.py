"""The element of a run that asks a slow model."""

from __future__ import annotations

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.gst import make_element, set_checked
from sluice.app.vlm import VlmOptions
from sluice.vlm.failures import Reason


class SlowModel:
    """``sluicevlm``, set as a run's options say.

    Attributes:
        element: the element.
    """

    def __init__(self, options: VlmOptions, backend: str, *, waits: bool) -> None:
        """Make the element.

        Args:
            options: what it is asked, and when.
            backend: the text that names the back end.
            waits: whether buffers are held back for their answers, unless the options say otherwise.

        Raises:
            ConfigurationError: a value cannot be used.
        """
        self.element: Gst.Element = make_element("sluicevlm")
        self._names: dict[int, str] = {}
        for name, value in {"policy": "wait" if waits else "newest", **options.element_properties(backend)}.items():
            set_checked(self.element, name, value)

    def name(self, number: int, name: str) -> None:
        """Name a stream, as prompts, settings and answers call it."""
        self._names[number] = name.replace(";", ",")
        self.element.set_property("names", ";".join(f"{at}={known}" for at, known in self._names.items()))

    def segments(self) -> dict[str, int]:
        """What became of the segments: "asked", "answered", and how many have no answer, by reason."""
        stats = self.element.get_property("stats")
        counts = {name: stats.get_uint64(name)[1] for name in ("asked", "answered", *(one.value for one in Reason))}
        return {name: count for name, count in counts.items() if count}
