"""What is said of a change of model: the request, the report, and the status that fits an exception."""

import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

from sluice.errors import ModelError, SluiceError
from sluice.models.instance import ModelDefinition

_OUT_OF_MEMORY = ("out of memory", "bad_alloc", "bad allocation", "failed to allocate", "cannot allocate memory")


class SwapStatus(IntEnum):
    """How a swap ended: of the values of NvDsInferStatus, which nvinfer reports, those that a swap can have."""

    SUCCESS = 0
    CONFIG_FAILED = 1
    OUTPUT_PARSING_FAILED = 4
    OUT_OF_MEMORY = 9
    UNKNOWN = 10


class Sample(Protocol):
    """Frames of the stream, lent for the new model's first call."""

    @property
    def frames(self) -> Sequence[Any]:
        """The frames, at least one."""

    def release(self) -> None:
        """End the loan; the frames' pixels may be used for something else."""


class Calls(NamedTuple):
    """How the model that runs is called, which another one has to be ready for.

    Attributes:
        sizes: how many frames its calls have had.
        at_once: how many of them may be in progress.
        on_gpu: whether frames were in GPU memory.
    """

    sizes: frozenset[int] = frozenset()
    at_once: int = 1
    on_gpu: bool = False


@dataclass(frozen=True, eq=False)
class SwapRequest:
    """A model asked for.

    Attributes:
        definition: the model to load.
        path: the name under which it was asked for, for the report.
        in_place: unload the old model before the new one is loaded, for devices without room for both.
        values: whatever the asking element wants every element of the slot to know once the model runs.
    """

    definition: ModelDefinition
    path: str
    in_place: bool = False
    values: Any = None


@dataclass(frozen=True)
class SwapReport:
    """How a swap ended.

    Attributes:
        request: what was asked for.
        status: `SwapStatus.SUCCESS` if it runs now; otherwise the old model runs as before, unless `lost`.
        reason: what went wrong, in words; empty for success.
        trace: the traceback, if there is one.
        lost: the old model, unloaded for a swap in place, could not be loaded again either: there is none.
    """

    request: SwapRequest
    status: SwapStatus
    reason: str = ""
    trace: str = ""
    lost: bool = False


def status_of(error: BaseException, *, tried: bool = False) -> SwapStatus:
    """The status that fits an exception best.

    Args:
        error: what opening, loading, warming up or calling the model raised.
        tried: whether it was the call.
    """
    causes = [error]
    while (cause := causes[-1].__cause__) is not None and cause not in causes:
        causes.append(cause)
    if any(isinstance(cause, MemoryError) or _says_out_of_memory(cause) for cause in causes):
        return SwapStatus.OUT_OF_MEMORY
    if tried:
        return SwapStatus.OUTPUT_PARSING_FAILED if isinstance(error, ModelError) else SwapStatus.UNKNOWN
    known = isinstance(error, SluiceError | OSError | ImportError)
    return SwapStatus.CONFIG_FAILED if known else SwapStatus.UNKNOWN


def _says_out_of_memory(error: BaseException) -> bool:
    return any(words in str(error).lower() for words in _OUT_OF_MEMORY)


def clear_frames(error: BaseException | None) -> None:
    """Drop the local variables of an exception's frames, which keep what a model that failed had allocated."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
