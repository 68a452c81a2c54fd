"""The model of an element, from start to stop, and its replacement by another while the stream runs.

The work is done in `sluice.models.slot`; here are the requests, made by setting a property, and the reports: the signal
``model-updated``, an element message of that name, and the properties, which always name the model that runs.
"""

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.elements.base import guarded, post_error
from sluice.elements.direct import DirectElement
from sluice.elements.guard import post_warning, printable
from sluice.elements.infer_nvinfer import values_for_swap
from sluice.elements.infer_properties import ALIASES, DEFINING, PROPERTIES, Settings
from sluice.errors import ConfigurationError, ModelError

if TYPE_CHECKING:
    from sluice.models.slot import ModelSlot
    from sluice.models.swap import SwapReport, SwapRequest


class SwappingElement(DirectElement):
    """An in-flight element with a model that can be replaced; abstract. A subclass declares the signal."""

    def __init__(self) -> None:
        super().__init__()
        self._values: dict[str, Any] = {entry.name: entry.default for entry in PROPERTIES}
        self._given: set[str] = set()  # properties that were set, which go before a configuration file
        self._settings: Settings | None = None
        self._slot: ModelSlot | None = None
        self._requests: list[SwapRequest] = []
        self._requests_lock = threading.Lock()

    def start_model(self, settings: Settings) -> "ModelSlot":
        """Load the model that the properties ask for, report that it runs, and return where it is.

        Raises what loading raises.
        """
        from sluice.elements.infer_calls import definition_of, open_model
        from sluice.models.sharing import acquire

        self._slot = acquire(definition_of(settings), open_model, self._swap_ended, settings.instance_id)
        self._slot.wait_loaded()
        # What is known of objects from frame to frame is read on the sink pad's thread.
        self.set_route(None if settings.scope.secondary else self._slot.route)
        self._settings = settings
        self._announce(0, settings.model)
        return self._slot

    def stop_model(self) -> None:
        """Give the model back; a change that is still in progress is reported as failed."""
        self._settings = None
        slot, self._slot = self._slot, None
        with self._requests_lock:
            requests, self._requests = self._requests, []
        if slot is not None:
            from sluice.models.sharing import release

            self.set_route(None)
            release(slot, self._swap_ended)
        for request in requests:
            self._refuse(10, request.path, "the element stopped before the new model ran")

    def request_swap(self, name: str, value: str | None) -> None:
        """Begin to replace the model by the one that setting a property names; returns at once.

        How it ends is reported, see `_announce`; the property keeps its value until the new model runs.
        """
        from sluice.elements.infer_calls import definition_of
        from sluice.models.swap import SwapRequest

        slot = self._slot
        if slot is None:
            return
        values = values_for_swap(self._values, name, value)
        try:
            settings = Settings.from_values(values)
        except ConfigurationError as error:
            self._refuse(1, value or "", str(error))
            return
        request = SwapRequest(
            # nvinfer builds a missing engine at the start; a model set while running is to run, or to be refused.
            replace(definition_of(settings), exact=True),
            path=value or "",
            in_place=values["swap-policy"] == "in-place",
            values={key: values[key] for key in DEFINING},
        )
        with self._requests_lock:
            self._requests.append(request)
        refusal = slot.swap(request)
        if refusal is not None and self._claim(request):
            self._refuse(refusal.status, request.path, refusal.reason)

    def _claim(self, request: "SwapRequest") -> bool:
        """Whether a request is this element's own and not reported yet; it counts as reported from here on."""
        with self._requests_lock:
            mine = request in self._requests
            if mine:
                self._requests.remove(request)
        return mine

    @guarded(None)
    def _swap_ended(self, report: "SwapReport") -> None:
        """Take note of how a swap ended, which may have been another element's; called on the swap's thread."""
        mine = self._claim(report.request)
        if self._slot is None:
            return
        if report.lost:
            post_error(self, ModelError(f"there is no model any more: {report.reason}"))
            self.flow = Gst.FlowReturn.ERROR
        if report.status == 0:
            self._values.update(report.request.values)
            for name in ("model", "config-file-path", *ALIASES):
                self.notify(name)
            self._announce(0, report.request.path)
        elif mine:
            self._refuse(report.status, report.request.path, report.reason, report.trace)

    def _refuse(self, status: int, path: str, reason: str, trace: str = "") -> None:
        """Report that a model did not take the place of the one that runs."""
        running = self._values["model"] or self._values["config-file-path"]
        self.warn(f"{path} did not replace the model: {reason}; {running} goes on", trace, told_as="model-updated")
        self._announce(status, path, reason)

    def _announce(self, status: int, path: str, reason: str = "") -> None:
        """Emit ``model-updated(status, path)`` and post an element message ``model-updated`` with status, path, reason.

        Args:
            status: 0 if the model runs now, else nvinfer's number for what went wrong, see `sluice.models.swap`.
            path: the value that was set.
            reason: what went wrong, in words.
        """
        structure = Gst.Structure.new_empty("model-updated")
        for field, value in (("status", int(status)), ("path", path), ("reason", reason)):
            structure.set_value(field, printable(value) if isinstance(value, str) else value)
        self.post_message(Gst.Message.new_element(self, structure))
        self.emit("model-updated", int(status), path)

    def warn(self, text: str, debug: str = "", told_as: str = "") -> None:
        """Post a warning message; see `post_warning`."""
        post_warning(self, text, debug, told_as=told_as)
