"""Changing the model of all processes: the first one tries it, the others follow, and all have the same at the end."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from sluice.app.model_control import BusyModel, check_policy
from sluice.app.options import UNCHANGED, Options
from sluice.app.serve.processes.task import Setup
from sluice.app.streams import Event, EventLog
from sluice.errors import SluiceError, text_of

IDLE = 10.0
"""Seconds without a frame after which a process is taken to have none to try a model on."""
_PATIENCE = 30.0  # seconds after which it is looked whether a process that still tries has frames at all
_LOOK = 1.0  # seconds between two looks
_log = logging.getLogger(__name__)


class Tries(Protocol):
    """A process that models are tried in."""

    @property
    def name(self) -> str:
        """The process, for people."""

    def runs(self) -> bool:
        """Whether there is one; one that is not there is started with what all have at the end."""

    def fed(self) -> bool:
        """Whether frames come, without which a pipeline that runs puts a model into use never."""

    def order(self, order: Order) -> queue.SimpleQueue[Event | None]:
        """Have its pipeline change; return where the event comes that ends this, or None where the process ends.

        Raises:
            SluiceError: it refuses at once.
        """

    def begin_anew(self, setup: Setup) -> None:
        """Start the process anew with this; raises SluiceError where it cannot run so."""

    def restore(self, setup: Setup) -> None:
        """Start the process anew with what it had; where that fails, again until it works."""

    def runtime(self) -> str:
        """What executes the model; "unknown" where it does not say."""


@dataclass(frozen=True)
class Order:
    """A call of `Engine.swap_model` or `set_thresholds`."""

    method: str
    arguments: tuple[Any, ...] = ()
    named: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Change:
    """What is to be changed.

    Attributes:
        before: what all processes have.
        after: what they are to have.
        there: what brings a pipeline that runs from the one to the other.
        back: the opposite.
    """

    before: Setup
    after: Setup
    there: Order
    back: Order


@dataclass(frozen=True)
class Refusal:
    """Why a change was not made, and the number by which the element told it."""

    reason: str
    status: int = 1


class ModelChanges:
    """The model of all processes. Any thread may call; nothing waits for a model to be loaded.

    One change is under way at a time. Thresholds that are asked for meanwhile follow it.
    """

    def __init__(
        self,
        tries: Callable[[], list[Tries]],
        events: EventLog,
        setup: Setup,
        kept: Callable[[Setup], None],
        turn: threading.Lock,
    ) -> None:
        """Take over processes that run.

        Args:
            tries: returns them, each time as they are.
            events: where it is told what comes of changes.
            setup: what they were started with.
            kept: is told what processes are to be started with from now on.
            turn: held while something is changed.
        """
        self._tries = tries
        self._events = events
        self._setup = setup
        self._kept = kept
        self._turn = turn
        self._lock = threading.Lock()
        self._busy = False
        self._wanted: dict[str, Any] = {}
        self._runtime = "unknown"
        self._reason = ""

    def started(self, runtime: str) -> None:
        """Take note of what executes the model that all began with."""
        self._runtime = runtime

    @property
    def status(self) -> dict[str, Any]:
        """As `sluice.Pipeline.model`: of all processes."""
        with self._lock:
            state = "loading" if self._busy else "running"
            return {"name": self._setup.model, "runtime": self._runtime, "state": state, "reason": self._reason}

    def swap(self, model: str, policy: str) -> int:
        """Begin to replace the model everywhere; see `sluice.Pipeline.swap_model`.

        Raises:
            BusyModel: another change is under way.
            ConfigurationError: there is no such policy.
        """
        check_policy(policy)
        with self._lock:
            if self._busy:
                raise BusyModel("another model is being loaded; try again when an event has said how that ended")
            self._busy = True
            before = self._setup
        change = Change(
            before,
            replace(before, model=model),
            Order("swap_model", (model, policy)),
            Order("swap_model", (before.model, policy)),
        )
        return self._begin(change)

    def set_thresholds(self, changes: Mapping[str, Any]) -> None:
        """Begin to change thresholds everywhere, those that are not UNCHANGED; see `sluice.Pipeline.set_thresholds`.

        Raises:
            ConfigurationError: a value cannot be used.
        """
        given = {name: value for name, value in changes.items() if value is not UNCHANGED}
        Options(**given)  # checks them
        with self._lock:
            self._wanted.update(given)
            busy, self._busy = self._busy, True
        if not busy:
            self._begin(self._thresholds())

    def _thresholds(self) -> Change:
        with self._lock:
            wanted, self._wanted = self._wanted, {}
            before = self._setup
        return Change(
            before,
            replace(before, thresholds={**before.thresholds, **wanted}),
            Order("set_thresholds", named=wanted),
            Order("set_thresholds", named={name: before.thresholds[name] for name in wanted}),
        )

    def _begin(self, change: Change) -> int:
        model = change.after.model
        event = self._events.add("model-loading", None, f"the model {model} is being loaded", model=model)
        threading.Thread(target=self._run, args=(change,), name="sluice-model", daemon=True).start()
        return event.number

    def _run(self, change: Change) -> None:
        with self._turn:
            try:
                refusal = self._everywhere(change)
            except Exception as error:  # a fault of ours must not keep every later change from being made
                _log.exception("the model could not be changed in all processes")
                refusal = Refusal(text_of(error))
            if refusal is None:
                self._kept(change.after)
                self._runtime = next((tried.runtime() for tried in self._tries() if tried.runs()), self._runtime)
        with self._lock:  # who hears of it may ask for the next change at once
            self._tell(change, refusal)
            self._busy = more = bool(self._wanted)
        if more:
            self._begin(self._thresholds())

    def _tell(self, change: Change, refusal: Refusal | None) -> None:
        model = change.after.model
        if refusal is None:
            self._setup, self._reason = change.after, ""
            thresholds = dict(change.after.thresholds)
            self._events.add("model-swapped", None, f"the model {model} runs", model=model, thresholds=thresholds)
        else:
            self._reason = refusal.reason
            text = f"the model {model} was refused: {refusal.reason}"
            details = {"model": model, "status": refusal.status, "reason": refusal.reason}
            self._events.add("model-refused", None, text, **details)

    def _everywhere(self, change: Change) -> Refusal | None:
        """Make a change in one process after another; where one refuses, all get back what they had."""
        changed: list[Tries] = []
        # Where frames come first: there it is known soonest.
        for tried in sorted((tried for tried in self._tries() if tried.runs()), key=lambda tried: not tried.fed()):
            refusal = self._one(tried, change.there, change.after)
            if refusal is None:
                changed.append(tried)
                continue
            if changed:
                refusal = replace(refusal, reason=f"{tried.name}: {refusal.reason}")
            if not tried.runs():  # what refuses while it plays has kept the old one itself
                changed.append(tried)
            for other in changed:
                self._give_back(other, change)
            return refusal
        return None

    def _give_back(self, changed: Tries, change: Change) -> None:
        if not changed.runs() or self._one(changed, change.back, change.before) is not None:
            changed.restore(change.before)

    def _one(self, tried: Tries, order: Order, setup: Setup) -> Refusal | None:
        """Make a change in one process."""
        if not tried.fed():
            return self._anew(tried, setup)
        try:
            outcomes = tried.order(order)
        except SluiceError as error:
            return Refusal(str(error))
        begun = time.monotonic()
        while True:
            try:
                outcome = outcomes.get(timeout=_LOOK)
            except queue.Empty:
                if time.monotonic() - begun > _PATIENCE and not tried.fed():
                    return self._anew(tried, setup)
                continue
            if outcome is None:
                return Refusal(f"{tried.name} ended while it was loaded")
            if outcome.kind == "model-swapped":
                return None
            return Refusal(str(outcome.details.get("reason", outcome.text)), int(outcome.details.get("status", 1)))

    @staticmethod
    def _anew(tried: Tries, setup: Setup) -> Refusal | None:
        """Start a process anew where there are no frames that a change could be tried on."""
        try:
            tried.begin_anew(setup)
        except SluiceError as error:
            return Refusal(str(error))
        return None
