"""Where an element's model sits: calls go in, and one model takes the place of another between two of them.

A slot has the running `ModelInstance`, or none where frames pass without inference. A swap runs on a thread of its own,
never on a streaming thread: it opens the new model on that model's own thread, has it loaded and warmed up, calls it
once with frames of the stream, and puts it in the old one's place. Calls queued before go to the old model, which then
closes; calls after it go to the new one. Whatever goes wrong on the way leaves the old model where it is.

Elements may share a slot, see `sluice.models.sharing`: their calls queue in the order they came, and they swap
together.
"""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import replace
from typing import Any, TypeVar

from sluice.contract.inflight import Route
from sluice.errors import ModelError, format_trace, text_of
from sluice.models.instance import STOP_GRACE, LoadedModel, ModelDefinition, ModelInstance, Unfinished
from sluice.models.swap import Calls, Sample, SwapReport, SwapRequest, SwapStatus, clear_frames, status_of

log = logging.getLogger("sluice.models")

Result = TypeVar("Result")

#: Name of the model that is none: frames pass without inference.
NO_MODEL = "none"

#: How long a swap waits for the old model's last call before it is reported done without it, in seconds.
RETIRE_GRACE = 10.0

Listener = Callable[[SwapReport], None]


class _ModelLostError(ModelError):
    """Neither the new model nor, again, the old one could be loaded; `why` is what went wrong with the new one."""

    def __init__(self, text: str, why: BaseException) -> None:
        super().__init__(text)
        self.why = why


class _Swap:
    """A swap in progress: what was asked for, the new instance, and the frames it is tried on."""

    def __init__(self, request: SwapRequest) -> None:
        self.request = request
        self.instance: ModelInstance | None = None
        self.sample: Future[Sample] | None = None
        self.doing = "loading it"
        self.tried = False


class ModelSlot:
    """A model that can be replaced while it is called. Made by `sluice.models.sharing.acquire`.

    Attributes:
        route: what elements have their buffers announced on to the model that runs, in the order of `submit`'s calls.

    Args:
        definition: what is loaded first, at once, on the new instance's thread.
        open_model: see :class:`~sluice.models.instance.ModelInstance`.
    """

    def __init__(self, definition: ModelDefinition, open_model: Callable[[ModelDefinition], LoadedModel]) -> None:
        self.definition = definition
        self._open_model = open_model
        self._lock = threading.Lock()
        self._listeners: list[Listener] = []
        self.route = Route()
        self._current = self._open(definition, open_model)
        self._direct()
        self._retiring: ModelInstance | None = None
        self._swap: _Swap | None = None
        self._calls = Calls()
        self._closed = False

    def _direct(self) -> None:
        """Have the buffers of elements with this slot's route announced to the model that runs."""
        self.route.open(None if self._current is None else self._current.line)

    # Calls

    def wait_loaded(self, timeout: float | None = None) -> None:
        """Wait until the running model is loaded; raises what loading raised, see `ModelInstance.wait_loaded`."""
        current = self._current
        if current is not None:
            current.wait_loaded(timeout)

    def submit(self, call: "Callable[[Any], Result | Unfinished]") -> "Future[Result] | None":
        """Queue ``call(model)`` for the model that runs now; None while none does. Never waits."""
        with self._lock:
            return None if self._current is None else self._current.submit(call)

    def note_call(self, frames: int, at_once: int, *, on_gpu: bool) -> None:
        """Take note of how the model is called, for one that will take its place; see `Calls`."""
        noted = self._calls
        if frames not in noted.sizes or at_once > noted.at_once or on_gpu > noted.on_gpu:
            with self._lock:
                noted = self._calls
                sizes = noted.sizes | {frames}
                self._calls = Calls(sizes, max(at_once, noted.at_once), on_gpu or noted.on_gpu)

    @property
    def running(self) -> bool:
        """Whether there is a model to call: not with `NO_MODEL`, nor while one takes another's place in place."""
        return self._current is not None

    @property
    def wants_sample(self) -> bool:
        """Whether a new model waits for frames to be tried on, see `offer`."""
        swap = self._swap
        return swap is not None and swap.sample is not None and not swap.sample.done()

    def offer(self, sample: Sample) -> None:
        """Lend frames to the new model that waits for them; the slot releases them when it has been called."""
        with self._lock:
            future = self._swap.sample if self._swap is not None else None
            if future is not None and not future.done():
                future.set_result(sample)
                return
        sample.release()

    def set_prompt(self, labels: tuple[str, ...]) -> None:
        """Have an open-vocabulary model look for other things from one of the next batches on.

        Waits for the texts to be encoded, beside the model, and for the switch between two batches.

        Raises:
            ModelError: there is no model, or it takes no prompt.
            CancelledError: another model took its place meanwhile.
            Exception: whatever the model's own code raises; it goes on with the prompt it had.
        """
        current = self._current
        if current is None:
            raise ModelError("no model runs that could take a prompt")
        encoded = current.wait_loaded().encode_prompt(labels)
        current.submit(lambda model: model.use_prompt(labels, encoded)).result()
        with self._lock:
            if self._current is current:
                self.definition = replace(self.definition, prompt=labels)

    # Swaps

    def swap(self, request: SwapRequest) -> SwapReport | None:
        """Begin to replace the model; returns at once.

        Every listener of the slot is called with the report, on a thread of the swap's own, when it has ended.

        Returns:
            None if the swap began; a report of the refusal, which no listener hears of, if another has not ended yet or
            it cannot begin.
        """
        swap = _Swap(request)
        with self._lock:
            pending, closed = self._swap, self._closed
            if pending is None and not closed:
                self._swap = swap
        if closed:
            return SwapReport(request, SwapStatus.UNKNOWN, "the element has stopped")
        if pending is not None:
            reason = (
                f"the change to {pending.request.path} is still in progress; "
                "set it again when the signal model-updated has said how that ended"
            )
            return SwapReport(request, SwapStatus.UNKNOWN, reason)
        name = f"swap {request.path}"[:60]
        try:
            threading.Thread(target=self._run, args=(swap,), name=name, daemon=True).start()
        except RuntimeError as error:  # the process has all the threads it may have
            with self._lock:
                self._swap = None
            return SwapReport(request, SwapStatus.UNKNOWN, f"no thread could be started for the change: {error}")
        return None

    def _run(self, swap: _Swap) -> None:
        """Body of a swap's thread."""
        try:
            if swap.request.in_place:
                self._swap_in_place(swap)
            else:
                self._retire(self._replace(self._open_and_try(swap), swap.request.definition))
        except BaseException as error:
            report = _report_of(error, swap)
        else:
            report = SwapReport(swap.request, SwapStatus.SUCCESS)
        with self._lock:
            self._swap = None
            listeners = list(self._listeners)
        for listener in listeners:
            listener(report)

    def _swap_in_place(self, swap: _Swap) -> None:
        """Unload the old model, then load the new; load the old again if that fails."""
        with self._lock:
            old, self._current, self._retiring = self._current, None, self._current
            self._direct()
        if old is not None:
            old.retire()
            while not old.join(STOP_GRACE):
                if self._closed:
                    raise CancelledError
        self._retiring = None
        try:
            instance = self._open_and_try(swap)
        except BaseException as error:
            self._reload(swap, error)
            raise
        self._replace(instance, swap.request.definition)

    def _reload(self, swap: _Swap, why: BaseException) -> None:
        """Load the old model again after an attempt to replace it in place."""
        if self._closed:
            return
        instance = self._open(self.definition, self._open_model)
        try:
            if instance is not None:
                self._put_in_reach(swap, instance)
                instance.wait_loaded()
        except CancelledError:
            raise
        except BaseException as error:
            old = self.definition.model
            text = f"{text_of(why)}; and {old}, which ran before, could not be loaded again: {text_of(error)}"
            raise _ModelLostError(text, why) from error
        self._replace(instance, self.definition)

    def _open(
        self, definition: ModelDefinition, opener: Callable[[ModelDefinition], LoadedModel]
    ) -> ModelInstance | None:
        return None if definition.model == NO_MODEL else ModelInstance(definition, opener)

    def _open_another(self, definition: ModelDefinition) -> Any:
        """Open a model, which must not be the very object that runs: it would be loaded twice, and closed in use."""
        model, current = self._open_model(definition), self._current
        target = getattr(model, "target", None)
        running = None if current is None else getattr(current.wait_loaded(), "target", None)
        if target is not None and target is running and any(hasattr(target, name) for name in ("load", "close")):
            raise ModelError(
                f"{definition.model} is the same object as the model that runs, and has a load() or close(); right is "
                "its class, or an object of its own"
            )
        return model

    def _open_and_try(self, swap: _Swap) -> ModelInstance | None:
        """Return the new instance, loaded, warmed up and called once with frames of the stream.

        What takes long is done before the frames are lent: a decoder may have no others. Waits for the next frames as
        long as none come: until then nobody needs the new model.
        """
        instance = self._open(swap.request.definition, self._open_another)
        if instance is None:
            return None
        try:
            self._put_in_reach(swap, instance)
            instance.wait_loaded()
            swap.doing = "preparing it for the stream's batches"
            calls = self._calls
            instance.submit(lambda model: model.rehearse(calls)).result()
            swap.doing = "calling it with frames of the stream"
            sample = self._next_sample(swap)
            try:
                swap.tried = True
                instance.submit(lambda model: model.infer(list(sample.frames))).result()
            finally:
                sample.release()
        except BaseException as error:
            clear_frames(error)
            instance.close(RETIRE_GRACE)
            raise
        return instance

    def _put_in_reach(self, swap: _Swap, instance: ModelInstance) -> None:
        """Let `close` find an instance that is not in its place yet."""
        with self._lock:
            swap.instance = instance
            closed = self._closed
        if closed:
            instance.cancel()
            raise CancelledError

    def _next_sample(self, swap: _Swap) -> Sample:
        wanted: Future[Sample] = Future()
        with self._lock:
            if self._closed:
                raise CancelledError
            swap.sample = wanted
        return wanted.result()

    def _replace(self, instance: ModelInstance | None, definition: ModelDefinition) -> ModelInstance | None:
        """Put an instance in its place and return the one that was there."""
        with self._lock:
            closed = self._closed
            if not closed:
                old, self._current = self._current, instance
                self._retiring, self.definition = old, definition
                self._direct()
        if closed:
            if instance is not None:
                instance.close()
            raise CancelledError
        return old

    def _retire(self, old: ModelInstance | None) -> None:
        """Wait until the old model has made its last call and is closed, but not for ever."""
        if old is None:
            return
        old.retire()
        if not old.join(RETIRE_GRACE) and not self._closed:
            log.warning(
                "model %s: its last call did not return within %g s of its replacement and was abandoned",
                old.definition.model,
                RETIRE_GRACE,
            )
        self._retiring = None

    # Users

    def add(self, listener: Listener) -> None:
        """Let a function hear how swaps end."""
        with self._lock:
            self._listeners.append(listener)

    def remove(self, listener: Listener) -> int:
        """Take a listener out and return how many are left."""
        with self._lock:
            self._listeners.remove(listener)
            return len(self._listeners)

    def close(self, timeout: float = STOP_GRACE) -> bool:
        """Close every instance there is and abandon a swap in progress.

        Returns:
            False if a call had to be abandoned, see `ModelInstance.close`.
        """
        with self._lock:
            self._closed = True
            swap = self._swap
            instances = {self._current, self._retiring, swap.instance if swap else None}
            if swap is not None and swap.sample is not None:
                swap.sample.cancel()
        end = time.monotonic() + timeout
        ended = [instance.close(max(0.0, end - time.monotonic())) for instance in instances if instance is not None]
        return all(ended)


def _report_of(error: BaseException, swap: _Swap) -> SwapReport:
    """Say how a swap failed."""
    if isinstance(error, CancelledError):
        return SwapReport(swap.request, SwapStatus.UNKNOWN, "the element stopped before the new model ran")
    trace = format_trace(error)
    if isinstance(error, _ModelLostError):
        return SwapReport(swap.request, status_of(error.why, tried=swap.tried), str(error), trace, lost=True)
    reason = f"{swap.doing} failed: {text_of(error)}"
    return SwapReport(swap.request, status_of(error, tried=swap.tried), reason, trace)
