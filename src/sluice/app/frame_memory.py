"""Where decoded frames are up to the model: in the GPU memory that a decoder put them in, or on the host."""

from __future__ import annotations

import threading
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.app.decoders import installed
from sluice.contract.batching import CUDA_FEATURE, NVMM_FEATURE

if TYPE_CHECKING:
    from sluice.app.options import Options
    from sluice.app.sources import Source
    from sluice.app.streams.policy import StreamPolicy

HOST = "system"
NAMES = {NVMM_FEATURE: "NVMM", CUDA_FEATURE: "CUDAMemory"}
"""What summaries call the memory of a caps feature; any other is `HOST` or the feature itself."""


class FrameMemory:
    """One decision for all streams of a run, since a batch has one kind of memory: that of the first stream's frames.

    Frames stay in GPU memory where the model reads them there and no stream is known that decodes on the host. Else
    they are brought to the host in front of the muxer.

    Attributes:
        why_not: why frames in GPU memory were brought to the host; "" where none came, or they stayed.
    """

    def __init__(self, options: Options) -> None:
        """Prepare the decision, which is made when the first frames come."""
        self._options = options
        self._lock = threading.Lock()
        self._first = ""
        self._models: str | None = None  # why they read frames on the host, once that was asked
        self.why_not = ""

    def expect(self, source: Source, policy: StreamPolicy) -> None:
        """Take note of a stream before it is opened."""
        if source.kind != "uri" or policy.decoder in ("software", "vaapi"):
            with self._lock:
                self._first = self._first or HOST

    def prepare(self) -> None:
        """Ask PyTorch for its GPU where frames may come in GPU memory, before any does.

        To import it takes seconds, in which a decoder's thread and all other streams that begin would wait.

        Raises:
            ConfigurationError: there is no such device.
        """
        with self._lock:
            if self._first != HOST and "nvdec" in installed():
                self._why_models_not()

    def may_stay(self) -> bool:
        """Whether frames in GPU memory could stay there, by what is known so far."""
        with self._lock:
            return self._first != HOST and not self._why_models_not()

    def stays(self, feature: str) -> bool:
        """Decide for a stream whose frames come in the memory of a caps feature ("" for the host's)."""
        kind = feature or HOST
        with self._lock:
            reason = self._why_models_not() if kind in NAMES else ""
            if not reason and self._first == HOST and kind in NAMES:
                reason = "another stream has frames in system memory, and a batch has one kind"
            self._first = self._first or (HOST if reason else kind)
            self.why_not = self.why_not or reason
            return kind in NAMES and not reason

    def _why_models_not(self) -> str:
        if self._models is None:
            options = self._options
            self._models = why_on_host(options)
            if not self._models and options.index_model is not None:
                self._models = why_on_host(replace(options, model=options.index_model))
        return self._models


def why_on_host(options: Options) -> str:
    """Return why a run's model cannot read frames in GPU memory; "" where it can, or there is none.

    PyTorch's networks read them by a kernel of Triton's. Python models are given them where PyTorch has a GPU: their
    planes are tensors then, and what they ask for as an array is brought to the host.

    Raises:
        ConfigurationError: there is no such device.
    """
    runtime = options.runtime_name
    if runtime == "none":
        return ""
    if runtime not in ("torch", "python") or _is_nvinfer(options.model):
        return f"the model, run by {runtime}, reads frames on the host"
    if find_spec("torch") is None or find_spec("triton") is None:
        return "PyTorch or Triton is not installed, so that the model reads frames on the host"
    from sluice.runtimes.torch import torch_device

    if torch_device(options.device).type != "cuda":
        return "the model runs on the processor"
    return ""


def _is_nvinfer(model: Any) -> bool:
    from sluice.models.nvinfer import is_configuration

    return isinstance(model, str | Path) and is_configuration(str(model))
