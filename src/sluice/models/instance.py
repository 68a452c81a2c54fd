"""One model on one thread of its own: loaded, warmed up, called and closed there, for as long as it lives.

A CUDA context, a captured graph or a SQLite handle belongs to the thread that made it, so every call of a model is made
by the same thread. The thread is a daemon: a call that hangs can delay neither a stop nor the end of the process.
(``concurrent.futures.ThreadPoolExecutor`` joins its threads at exit, which is why only its ``Future`` is used here.)

Which instance an element's calls go to, and how one takes the place of another, is said in ``sluice.models.slot``.
"""

import atexit
import itertools
import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, Protocol, TypeVar

from sluice.contract.inflight import ITEM, NOTE, NOTHING, Call, Line, drop, work_on
from sluice.models.parallel import end_workers
from sluice.models.threads import ModelThread

log = logging.getLogger("sluice.models")

Result = TypeVar("Result")

#: How long a stop waits for a call in progress, in seconds. A pipeline promises to stop within two.
STOP_GRACE = 0.5


#: How long the end of the process waits for calls in progress, in seconds; none that hangs may keep it for long.
EXIT_GRACE = 3.0

#: How many calls may have been begun and not finished, where a model can do that.
MOST_BEGUN = 8

#: Seconds between two looks at whether a begun call is ready that does not notify, while no other call comes.
POLL_INTERVAL = 0.0002


class Unfinished:
    """What a call returns that was only begun: the thread makes other calls and finishes it when it is ready."""

    def ready(self) -> bool:
        """Whether `finish` would return without waiting."""
        raise NotImplementedError

    def finish(self) -> Any:
        """The call's result; may wait."""
        raise NotImplementedError

    def notify(self, wake: Callable[[], None]) -> bool:  # noqa: ARG002 - for overriding methods
        """Have ``wake()`` called once `ready` may have become true, by any thread; False where nobody will call it."""
        return False


class _Begun(NamedTuple):
    """A call that was begun: its future (None for an element's item), and whether it tells when it is ready."""

    future: "Future[Any] | None"
    call: Unfinished
    notifies: bool


_Call = tuple["Future[Any]", Callable[[Any], Any]]
_END, _LOOK_AGAIN = range(2)  # notes that are no calls: the order to end, and that a begun call may be ready


class LoadedModel(Protocol):
    """The parts of a model that its thread calls besides ``infer``; see ``sluice.models.model``."""

    def load(self) -> None:
        """Read the weights; called once, before anything else."""

    def warm_up(self) -> None:
        """Run what makes the first call slow; called once, after ``load``."""

    def rehearse(self, calls: Any) -> None:
        """Prepare for such calls before taking another model's place; see ``sluice.models.swap.Calls``."""

    def close(self) -> None:
        """Give back what ``load`` took; called once, after the last call."""


@dataclass(frozen=True)
class ModelDefinition:
    """Everything that makes two elements want the same model: the arguments of ``load_model``.

    Attributes:
        model: what to load: a path, a registered name, ``package.module:Class`` or ``file.py:Class``.
        labels: path of a label file, or None for the model's own.
        runtime: name of a runtime, or "auto".
        device: "auto", "cpu", "cuda", "cuda:1", ...
        confidence: least score the decoder keeps, or None for the model's own.
        iou: overlap above which the decoder merges boxes, or None for the model's own.
        max_detections: most detections per frame, or None for the model's own.
        classes: class ids or labels to keep, or None for all.
        options: ``key=value`` pairs for the model itself.
        prompt: what an open-vocabulary model looks for; () for its own classes.
        overrides: fields of `sluice.models.nvinfer.keys.Properties` with values that go before those of a configuration
            file of nvinfer.
        exact: run the engine that is named, and no ONNX network in its place; of no account when two are compared.
    """

    model: str
    labels: str | None = None
    runtime: str = "auto"
    device: str = "auto"
    confidence: float | None = None
    iou: float | None = None
    max_detections: int | None = None
    classes: tuple[int | str, ...] | None = None
    options: tuple[tuple[str, str], ...] = field(default=())
    prompt: tuple[str, ...] = ()
    overrides: tuple[tuple[str, Any], ...] = field(default=())
    exact: bool = field(default=False, compare=False)

    def differences(self, other: "ModelDefinition") -> list[str]:
        """Return one text per attribute that is not the same in ``other``, such as ``device is 'cpu', not 'cuda'``."""
        pairs = ((f.name, getattr(self, f.name), getattr(other, f.name)) for f in fields(self) if f.compare)
        return [f"{name} is {mine!r}, not {theirs!r}" for name, mine, theirs in pairs if mine != theirs]


class ModelInstance:
    """A model and the thread that owns it.

    The thread starts with the object and loads the model; :meth:`wait_loaded` says how that went. :meth:`submit` queues
    a call. :meth:`retire` lets the thread end after the calls queued so far; :meth:`close` ends it now, or abandons it
    when a call does not return.

    Args:
        definition: what is loaded; its ``model`` names the thread and the instance in messages.
        open_model: called on the instance's thread; returns the model, not loaded yet.
    """

    def __init__(self, definition: ModelDefinition, open_model: Callable[[ModelDefinition], LoadedModel]) -> None:
        self.definition = definition
        self._open_model = open_model
        self.line = Line()
        self._calls: dict[int, _Call] = {}
        self._numbers = itertools.count(_LOOK_AGAIN + 1)
        self._loaded: Future[Any] = Future()
        self._busy_since: float | None = None
        self._lock = threading.Lock()  # nothing is queued behind the order to end
        self._ends = self._closed = False
        _instances.add(self)
        self._thread = ModelThread(self._run, f"model {definition.model}"[:60], definition.device)

    def wait_loaded(self, timeout: float | None = None) -> Any:
        """Return the model once it is loaded and warmed up.

        Args:
            timeout: seconds to wait; None waits for as long as loading takes.

        Raises:
            TimeoutError: it is still loading.
            Exception: whatever loading raised, with its traceback.
        """
        return self._loaded.result(timeout)

    def submit(self, call: "Callable[[Any], Result | Unfinished]") -> "Future[Result]":
        """Queue ``call(model)`` for the instance's thread and return its future; never waits.

        The future's ``cancel`` takes back a call that has not begun. A call on an instance that was retired or closed
        is cancelled at once.
        """
        future: Future[Result] = Future()
        with self._lock:
            if not self._ends:
                number = next(self._numbers)
                self._calls[number] = (future, call)
                self.line.note(number)
                return future
        future.cancel()
        return future

    @property
    def waiting(self) -> int:
        """Number of calls that have not begun."""
        return len(self.line)

    def retire(self) -> None:
        """Let the thread make the calls queued so far, close the model and end; never waits, see :meth:`join`."""
        with self._lock:
            if not self._ends:
                self._ends = True
                self.line.note(_END)

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the thread of a retired or closed instance; return whether it has ended.

        Args:
            timeout: seconds to wait; None waits for as long as it takes.
        """
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def close(self, timeout: float = STOP_GRACE) -> bool:
        """Cancel what has not begun, close the model on its own thread and end the thread.

        Args:
            timeout: seconds to wait for a call that is being made.

        Returns:
            True if the thread ended; False if the call outlived ``timeout`` and was abandoned, which is logged once. An
            abandoned call ends with the process or when it returns; its result goes nowhere.
        """
        already_closed, self._closed = self._closed, True
        self.cancel()
        if not self.join(timeout) and not already_closed:
            began = self._busy_since
            doing = f"a call that began {time.monotonic() - began:.1f} s ago" if began else "loading or closing it"
            log.warning(
                "model %s: %s did not return within %g s of the stop and was abandoned; "
                "its thread ends when it returns, or with the process",
                self.definition.model,
                doing,
                timeout,
            )
        return not self._thread.is_alive()

    def cancel(self) -> None:
        """Cancel what has not begun and let the thread end after the call that it makes; never waits, see `join`."""
        waiting = []
        with self._lock:
            self._ends = True
            while (call := self.line.next(0)).kind != NOTHING:
                waiting.append(call)
            self.line.note(_END)
        for call in waiting:
            if call.kind == ITEM:
                drop(call)
            elif call.value > _LOOK_AGAIN:
                self._calls.pop(call.value)[0].cancel()

    def _run(self) -> None:
        """Body of the thread."""
        model = None
        try:
            model = self._open_model(self.definition)
            model.load()
            model.warm_up()
        except BaseException as error:
            self._loaded.set_exception(error)
        else:
            self._loaded.set_result(model)
            self._serve(model)
        if model is not None:
            try:
                model.close()
            except Exception:
                log.exception("model %s: close() raised", self.definition.model)

    def _serve(self, model: Any) -> None:
        """Make the queued calls until the order to end comes, then finish those that were begun."""
        begun: deque[_Begun] = deque()
        while (call := self._next_call(begun)).value != _END or call.kind == ITEM:
            self._busy_since = time.monotonic()
            if call.kind == ITEM:
                future, result = None, work_on(call, model)
            else:
                future, result = self._make(call.value, model)
            if result is not None:
                begun.append(_Begun(future, result, result.notify(self._look_again)))
            self._busy_since = None
            # Waiting for the next call must not keep this call's frames, and with them a decoder's buffers, alive.
            del call, future, result
        while begun:
            self._finish(begun.popleft())

    def _make(self, number: int, model: Any) -> "tuple[Future[Any], Unfinished | None]":
        """Make a call that was queued by `submit`."""
        future, call = self._calls.pop(number)
        if not future.set_running_or_notify_cancel():
            return future, None
        return future, _complete(future, lambda: call(model))

    def _next_call(self, begun: "deque[_Begun]") -> Call:
        """Wait for the next call or the order to end, and finish meanwhile the begun ones that are ready."""
        while True:
            if begun and (begun[0].call.ready() or len(begun) >= MOST_BEGUN):
                self._finish(begun.popleft())
                continue
            call = self.line.next(None if not begun or begun[0].notifies else POLL_INTERVAL)
            if call.kind == ITEM or (call.kind == NOTE and call.value != _LOOK_AGAIN):
                return call

    def _look_again(self) -> None:
        self.line.note(_LOOK_AGAIN)

    def _finish(self, begun: "_Begun") -> None:
        self._busy_since = time.monotonic()
        if begun.future is None:
            begun.call.finish()
        else:
            _complete(begun.future, begun.call.finish)
        self._busy_since = None


_instances: "weakref.WeakSet[ModelInstance]" = weakref.WeakSet()


@atexit.register
def end_all() -> bool:
    """End the threads of all models, also those that were abandoned, before the interpreter is taken down.

    A call in C++ (ONNX Runtime, PyTorch) that returns to an interpreter in its last moments would end the process by
    SIGABRT: Python ends the thread there, and C++ takes that for an exception that nobody catches.

    Returns:
        whether all have ended, after three seconds at most.
    """
    end = time.monotonic() + EXIT_GRACE
    running = [instance for instance in _instances if not instance.join(0)]
    for instance in running:
        instance.cancel()
    for instance in running:
        instance.join(max(0.0, end - time.monotonic()))
    end_workers(end)
    return all(instance.join(0) for instance in running)


def _complete(future: "Future[Any]", call: Callable[[], Any]) -> "Unfinished | None":
    """Complete a future with what a call returns or raises; an unfinished call is returned instead."""
    try:
        result = call()
    except BaseException as error:
        future.set_exception(error)
        return None
    if isinstance(result, Unfinished):
        return result
    future.set_result(result)
    return None
