"""Changes of the model, one after another, asked for from other threads."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import gi
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.gst import make_element
from sluice.app.model_control import BusyModel, ModelControl
from sluice.app.options import Options
from sluice.app.streams.events import Event, EventLog

Gst.init(None)
ENDS = {"model-swapped", "model-refused"}


class AskingLog(EventLog):
    """A log of which one reader asks for the next model as soon as it hears that a change has ended."""

    def __init__(self) -> None:
        super().__init__(time.time)
        self.control: Any = None
        self.answers: list[int | BusyModel] = []
        self.asking: list[threading.Thread] = []

    def add(self, kind: str, stream: str | None, text: str, **details: Any) -> Event:
        event = super().add(kind, stream, text, **details)
        if kind in ENDS:
            self.asking.append(threading.Thread(target=self._ask))
            self.asking[-1].start()
            self.asking[-1].join(0.3)  # time enough to be refused, where it is
        return event

    def _ask(self) -> None:
        try:
            self.answers.append(self.control.swap("next.py:Model"))
        except BusyModel as error:
            self.answers.append(error)


@pytest.mark.parametrize("status", [0, 1])
def test_who_hears_that_a_change_has_ended_may_ask_for_the_next(status: int) -> None:
    log, infer = AskingLog(), make_element("sluiceinfer")
    log.control = control = ModelControl(infer, Options(model="first.py:Model"), log)
    control.started()

    def told(status: int, path: str) -> Any:
        text = f"model-updated, status=(int){status}, path=(string){path}, reason=(string)reason"
        structure = Gst.Structure.from_string(text)[0]
        return SimpleNamespace(src=infer, get_structure=lambda: structure)

    control.ended(told(0, "first.py:Model"))  # with which the run begins
    control.swap("second.py:Model")
    control.ended(told(status, "second.py:Model"))
    for thread in log.asking:
        thread.join(30)
    assert [type(answer) for answer in log.answers] == [int]
    assert [event.kind for event in log.since()] == [
        "model-loading",
        "model-refused" if status else "model-swapped",
        "model-loading",
    ]
