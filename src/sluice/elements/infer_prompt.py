"""The prompt of an element's open-vocabulary model, and its change while the stream runs.

Imports gi and the standard library only: it is read when GStreamer scans its plugins.
"""

import threading
from concurrent.futures import CancelledError
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.elements.base import guarded
from sluice.elements.guard import printable
from sluice.elements.infer_properties import parse_prompt
from sluice.elements.infer_swap import SwappingElement
from sluice.errors import ConfigurationError, format_trace, text_of


class PromptedElement(SwappingElement):
    """An element whose model may take a prompt; abstract."""

    def __init__(self) -> None:
        super().__init__()
        self._prompts: list[str | None] = []  # the one wanted last, while a thread works on prompts
        self._prompting = False
        self._prompts_lock = threading.Lock()

    def request_prompt(self, value: str | None) -> None:
        """Begin to change what the model looks for; returns at once. Of several requests the last counts.

        How it ends is told by an element message ``prompt-updated`` with the fields status (0: it counts now), prompt
        and reason; the property keeps its value until then.
        """
        with self._prompts_lock:
            self._prompts = [value]
            if self._prompting:
                return
            self._prompting = True
        threading.Thread(target=self._change_prompts, name="sluice-prompt", daemon=True).start()

    @guarded(None)
    def _change_prompts(self) -> None:
        while True:
            with self._prompts_lock:
                if not self._prompts:
                    self._prompting = False
                    return
                value = self._prompts.pop()
            self._change_prompt(value)

    def _change_prompt(self, value: str | None) -> None:
        slot = self._slot
        try:
            labels = parse_prompt(value)
            if not labels:
                raise ConfigurationError("it names nothing; right is what to look for, as in red truck;person")
            if slot is None:
                raise ConfigurationError("the element stopped before the prompt counted")
            slot.set_prompt(labels)
        except CancelledError:
            self._tell_prompt(1, value, "another model took the place of the one it was for")
        except BaseException as error:  # whatever a model's own code raises
            self._tell_prompt(1, value, text_of(error), format_trace(error))
        else:
            self._values["prompt"] = value
            self._given.add("prompt")
            self.notify("prompt")
            self._tell_prompt(0, value)

    def _tell_prompt(self, status: int, value: str | None, reason: str = "", trace: str = "") -> None:
        if status:
            text = f"the prompt {value!r} was not taken, the model goes on as before: {reason}"
            self.warn(text, trace, told_as="prompt-updated")
        structure = Gst.Structure.new_empty("prompt-updated")
        fields: dict[str, Any] = {"status": status, "prompt": value or "", "reason": reason}
        for name, field in fields.items():
            structure.set_value(name, printable(field) if isinstance(field, str) else field)
        self.post_message(Gst.Message.new_element(self, structure))
