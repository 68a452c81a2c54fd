"""The elements of a run behind its tracker that are there only where asked for: archives and slow models."""

from __future__ import annotations

from collections.abc import Mapping

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.gst import make_element, set_checked
from sluice.app.handover import Lent
from sluice.app.options import Options
from sluice.app.telling import StreamTexts
from sluice.vlm.failures import Reason

_EMBEDDER = 99
"""unique-id of the model that makes embeddings for the archive: far from those that people give theirs."""


class BehindTracker:
    """A model that looks at each object and ``sluiceindex``, and ``sluicevlm``; each if the options name it.

    Attributes:
        elements: in the order in which they are linked.
        vlm: the element that asks a slow model; None without one.
    """

    def __init__(self, options: Options, lent: Lent, *, waits: bool) -> None:
        """Make the elements.

        Args:
            options: what the run was asked for.
            lent: makes names for models that are Python objects.
            waits: whether buffers are held back for a slow model's answers, unless the options say otherwise.

        Raises:
            ConfigurationError: a value cannot be used.
        """
        self.elements: list[Gst.Element] = []
        self.vlm: Gst.Element | None = None
        self._named: list[Gst.Element] = []
        self._names = StreamTexts(_as_names, self._set_names)
        if options.index is not None:
            self._add_index(options, lent)
        if options.vlm is not None:
            self.vlm = make_element("sluicevlm")
            values = options.vlm.element_properties(lent.name_of(options.vlm.backend))
            for name, value in {"policy": "wait" if waits else "newest", **values}.items():
                set_checked(self.vlm, name, value)
            self.elements.append(self.vlm)
            self._named.append(self.vlm)

    def name(self, number: int, name: str) -> None:
        """Name a stream, as prompts, answers and archives call it."""
        self._names.tell(number, name.replace(";", ","))

    def forget(self, number: int) -> None:
        """Let go of the name of a stream that has left."""
        self._names.forget(number)

    def _set_names(self, text: str) -> None:
        for element in self._named:
            element.set_property("names", text)

    def segments(self) -> dict[str, int]:
        """What became of a slow model's segments: "asked", "answered", and how many have no answer, by reason."""
        if self.vlm is None:
            return {}
        stats = self.vlm.get_property("stats")
        counts = {name: stats.get_uint64(name)[1] for name in ("asked", "answered", *(one.value for one in Reason))}
        return {name: count for name, count in counts.items() if count}

    def _add_index(self, options: Options, lent: Lent) -> None:
        index = make_element("sluiceindex", location=str(options.index))
        if options.index_model is not None:
            model = make_element("sluiceinfer", unique_id=_EMBEDDER, process_mode="secondary")
            # The element of the first model has the factory's name.
            model.set_property("name", "embedder")
            for name, value in options.embedder_properties(lent.name_of(options.index_model)).items():
                model.set_property(name, value)
            index.set_property("component-id", _EMBEDDER)
            self.elements.append(model)
        self.elements.append(index)
        self._named.append(index)


def _as_names(names: Mapping[int, str]) -> str:
    return ";".join(f"{number}={name}" for number, name in names.items())
