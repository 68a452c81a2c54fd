"""OpenVINO: its own files (``.xml`` beside ``.bin``) and ONNX files."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.errors import ConfigurationError, ModelError
from sluice.runtimes.base import NetworkInfo, TensorInfo, metadata_texts
from sluice.runtimes.unwinding import import_compiled
from sluice.yaml_text import load_yaml

openvino: Any = import_compiled("openvino")

PRECISIONS = {"f32": "f32", "f16": "f16", "bf16": "bf16"}


class OpenVinoNetwork:
    """A network compiled by OpenVINO. See `sluice.runtimes.base.Network`.

    On processors that have bfloat16 instructions OpenVINO computes in bfloat16 by itself, which moves boxes and
    scores; here it computes in float32 unless another precision is asked for.
    """

    def __init__(
        self,
        path: Path,
        device: str = "auto",
        *,
        size: tuple[int | None, int | None] = (None, None),  # noqa: ARG002 - the file says its sizes
        precision: str | None = None,
        threads: int | None = None,
    ) -> None:
        place = _device(device)
        settings = _settings(place, precision, threads)
        try:
            core = openvino.Core()
            model = core.read_model(path)
            compiled = core.compile_model(model, place, settings)
        except Exception as error:  # OpenVINO raises RuntimeError and its own subclasses of it
            raise ModelError(f"OpenVINO cannot open {path} on {place}: {_first_line(error)}") from error
        self.info = NetworkInfo(
            inputs=tuple(_tensor(port, index) for index, port in enumerate(compiled.inputs)),
            outputs=tuple(_tensor(port, index) for index, port in enumerate(compiled.outputs)),
            metadata=_metadata(model, path),
        )
        if len(self.info.inputs) != 1:
            names = ", ".join(str(item) for item in self.info.inputs)
            raise ModelError(f"{path} has {len(self.info.inputs)} inputs ({names}); right is one, the picture")
        self._path = path
        self._outputs = compiled.outputs
        self._request = compiled.create_infer_request()

    def run(self, array: npt.NDArray[Any]) -> Sequence[npt.NDArray[Any]]:
        """All outputs for one array given to the only input; they are copies, the next run does not change them."""
        try:
            # The array is read where it lies; start_async and wait, since both release the GIL.
            self._request.start_async([np.ascontiguousarray(array)], share_inputs=True)
            self._request.wait()
        except Exception as error:  # as above, and TypeError for an array of another type
            raise ModelError(f"OpenVINO cannot run {self._path}: {_first_line(error)}") from error
        return [np.array(self._request.get_tensor(port).data) for port in self._outputs]

    def close(self) -> None:
        """Drop the request and the compiled network."""
        del self._request, self._outputs


def _device(device: str) -> str:
    """OpenVINO's name of a device; "auto" is the processor."""
    if device == "auto":
        return "CPU"
    match = re.fullmatch(r"(cpu|gpu|npu)(?::(\d+))?", device)
    if match is None:
        raise ConfigurationError(f"device is {device!r}; right for OpenVINO is auto, cpu, gpu, gpu:N or npu")
    return match[1].upper() + (f".{match[2]}" if match[2] else "")


def _settings(place: str, precision: str | None, threads: int | None) -> dict[str, Any]:
    """What the network is compiled with: one stream for least latency, and threads that stay off other cores."""
    if precision is not None and precision not in PRECISIONS:
        raise ConfigurationError(f"precision is {precision!r}; right for OpenVINO is {', '.join(PRECISIONS)}")
    settings: dict[str, Any] = {"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1"}
    if precision is not None:
        settings["INFERENCE_PRECISION_HINT"] = precision
    if place.startswith("CPU"):
        settings.setdefault("INFERENCE_PRECISION_HINT", "f32")
        settings["INFERENCE_NUM_THREADS"] = str(threads or len(os.sched_getaffinity(0)))
        settings["ENABLE_CPU_PINNING"] = "NO"  # decoders use the same cores
    return settings


def _tensor(port: Any, index: int) -> TensorInfo:
    shape = tuple(None if size.is_dynamic else size.get_length() for size in port.get_partial_shape())
    name = port.get_any_name() if port.get_names() else f"tensor{index}"
    return TensorInfo(name, shape, np.dtype(port.get_element_type().to_dtype()).name)


def _metadata(model: Any, path: Path) -> dict[str, str]:
    """What the exporter left: ONNX metadata (OpenVINO's section "framework"), or Ultralytics' YAML file beside it."""
    texts: dict[str, str] = {}
    if model.has_rt_info("framework"):
        texts.update(model.get_rt_info("framework").value)
    beside = path.parent / "metadata.yaml"
    if path.suffix.lower() == ".xml" and beside.is_file():
        try:
            content = load_yaml(beside.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise ModelError(
                f"{beside}, which Ultralytics writes beside {path.name}, cannot be read: {error}"
            ) from error
        texts.update(metadata_texts(content) if isinstance(content, dict) else {})
    return texts


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # "Exception from src/inference/...:80:" comes first, the reason last.
    return lines[-1] if lines else type(error).__name__
