"""PyTorch: TorchScript (``.torchscript``, ``.pt``), exported programs (``.pt2``), and modules made in Python."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.errors import ConfigurationError, ModelError
from sluice.runtimes.base import NetworkInfo, TensorInfo, metadata_texts
from sluice.runtimes.torch_files import TorchFile, torch_file
from sluice.runtimes.unwinding import import_compiled

torch: Any = import_compiled("torch")

OPEN_SIZE = 640  # for a network that does not say the size of its input
METADATA = "config.txt"  # the extra file that Ultralytics puts into its TorchScript archives
_RIGHT_METADATA = "right is an object as Ultralytics writes it, or an archive without that file"


class TorchNetwork:
    """A PyTorch file. See `sluice.runtimes.base.Network`.

    Pickled modules are not opened: unpickling runs whatever code the file names. Make the module in Python
    (``file.py:Class``) and load its weights, or export it.
    """

    def __init__(
        self,
        path: Path,
        device: str = "auto",
        *,
        size: tuple[int | None, int | None] = (None, None),
        precision: str | None = None,
        threads: int | None = None,
    ) -> None:
        place = torch_device(device)
        set_threads(threads)
        kind = torch_file(path)
        if kind is TorchFile.TORCHSCRIPT:
            module, metadata = _open_torchscript(path, place)
            inputs = None
        elif kind is TorchFile.EXPORT:
            module, inputs, metadata = _open_exported(path, place)
        else:
            raise ModelError(f"{path} is {kind.value}; {_REMEDIES[kind]}")
        self._network = ModuleNetwork(
            module, str(path), place, size=size, precision=precision, metadata=metadata, entry=inputs
        )
        self.info = self._network.info

    def run(self, array: npt.NDArray[Any]) -> Sequence[npt.NDArray[Any]]:
        """All outputs for one array given to the only input."""
        return self._network.run(array)

    @property
    def on_device(self) -> DeviceModule:
        """The module itself, for tensors that are on its device already."""
        return self._network.on_device

    def close(self) -> None:
        """Drop the module and its memory."""
        self._network.close()


@dataclass(frozen=True)
class DeviceModule:
    """A network whose input and outputs stay on its device.

    Attributes:
        device: the torch device.
        module: what is called with the input tensor.
        autocast: type of its arithmetic; None for its own.
    """

    device: Any
    module: Callable[[Any], Any]
    autocast: Any = None

    def __call__(self, pictures: Any) -> list[Any]:
        """All outputs for an input tensor, in the order of `NetworkInfo.outputs`."""
        with _arithmetic(self.device, self.autocast):
            return [tensor for _, tensor in _tensors(self.module(pictures))]

    def compiled(self, name: str) -> DeviceModule:
        """The same, to be compiled for the sizes of input that `prepare` is given; `name` is for messages."""
        from sluice.runtimes.torch_compile import CompiledSizes

        return replace(self, module=CompiledSizes(self, self.module, name), autocast=None)

    def prepare(self, inputs: Sequence[Any]) -> None:
        """Make what calls with inputs of these shapes need: for a compiled network its compilation, else nothing.

        Raises:
            ConfigurationError, ModelError: see `sluice.runtimes.torch_compile.CompiledSizes.prepare`.
        """
        from sluice.runtimes.torch_compile import CompiledSizes

        if isinstance(self.module, CompiledSizes):
            self.module.prepare(inputs)


class ModuleNetwork:
    """A module (or any callable from a tensor to tensors) as a network. See `sluice.runtimes.base.Network`.

    Outputs may be a tensor, or tuples, lists and mappings of tensors, nested; they are numbered in the order of the
    walk, or named by their keys.

    Args:
        module: what is called with a tensor [batch, 3, height, width] on its device.
        name: what messages call it.
        device: where it computes.
        size: width and height of the first call, which shows what the outputs are.
        precision: "f16" or "bf16" for arithmetic in that type; None and "f32" leave the module's own.
        metadata: what the exporter wrote.
        entry: the input where it is known; else any batch of three channels, any size, in the type of the weights.
    """

    def __init__(
        self,
        module: Any,
        name: str,
        device: Any,
        *,
        size: tuple[int | None, int | None] = (None, None),
        precision: str | None = None,
        metadata: Mapping[str, str] | None = None,
        entry: TensorInfo | None = None,
    ) -> None:
        self._device = device
        self._autocast = _autocast_type(precision)
        self._module: Callable[[Any], Any] = module
        metadata = dict(metadata or {})
        if entry is None:
            height, width = _imgsz(metadata) or (None, None)
            entry = TensorInfo("images", (_batch(metadata), 3, height, width), _weights_type(module))
        first = (size[1] or entry.shape[2] or OPEN_SIZE, size[0] or entry.shape[3] or OPEN_SIZE)
        picture = np.zeros((entry.shape[0] or 1, entry.shape[1] or 3, *first), np.dtype(entry.dtype))
        try:
            outputs = self._call(picture)
        except Exception as error:  # a module may raise anything
            raise ModelError(
                f"{name} cannot be called with one picture {list(picture.shape)} ({entry.dtype}): "
                f"{type(error).__name__}: {_last_line(error)}"
            ) from error
        if not outputs:
            raise ModelError(f"{name} returned no tensors for one picture {list(picture.shape)}")
        # Sizes are left open: those that follow the input's size are not told from the others by one call.
        described = tuple(
            TensorInfo(key, (entry.shape[0], *[None] * (array.ndim - 1))[: array.ndim], array.dtype.name)
            for key, array in outputs
        )
        self.info = NetworkInfo((entry,), described, metadata)

    def run(self, array: npt.NDArray[Any]) -> Sequence[npt.NDArray[Any]]:
        """All outputs for one array given to the only input."""
        return [output for _, output in self._call(array)]

    @property
    def on_device(self) -> DeviceModule:
        """The module itself, for tensors that are on its device already."""
        return DeviceModule(self._device, self._module, self._autocast)

    def close(self) -> None:
        """Drop the module and its memory."""
        del self._module

    def _call(self, array: npt.NDArray[Any]) -> list[tuple[str, npt.NDArray[Any]]]:
        with torch.inference_mode(), _arithmetic(self._device, self._autocast):
            # torch refuses to share an array that may not be written; the copy to a GPU makes no difference to it.
            tensor = torch.from_numpy(np.require(array, requirements=("C", "W"))).to(self._device)
            return [(name, _to_numpy(item)) for name, item in _tensors(self._module(tensor))]


def _arithmetic(device: Any, autocast: Any) -> Any:
    """A context of arithmetic in a type; weights are converted anew in each, which a captured graph needs."""
    if autocast is None:
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=autocast, cache_enabled=False)


def torch_device(device: str) -> Any:
    """The torch device of a name; "auto" is the first GPU that works, else the processor.

    Raises:
        ConfigurationError: there is no such device.
    """
    if device == "auto":
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    if re.fullmatch(r"cpu|mps|xpu|cuda(:\d+)?", device) is None:
        raise ConfigurationError(f"device is {device!r}; right for PyTorch is auto, cpu, cuda, cuda:N, mps or xpu")
    kind, _, number = device.partition(":")
    if kind == "cuda":
        count = torch.cuda.device_count()
        if int(number or 0) >= count:
            raise ConfigurationError(f"device {device!r}: PyTorch {torch.__version__} sees {count} GPUs here")
    elif kind != "cpu" and not getattr(torch, kind).is_available():
        raise ConfigurationError(f"device {device!r}: PyTorch {torch.__version__} sees none here")
    return torch.device(device)


def set_threads(threads: int | None) -> None:
    """How many threads compute on the processor; PyTorch has one number for the process."""
    if threads is not None and threads != torch.get_num_threads():
        torch.set_num_threads(threads)


def load_weights(module: Any, path: str | Path, *, allow_pickle: bool = False) -> None:
    """Load a checkpoint's weights into a module.

    Args:
        module: the module, whose ``state_dict`` must have the checkpoint's names and shapes.
        path: a ``.safetensors`` file, or one that ``torch.save`` wrote: a state dict, alone or under "model",
            "state_dict" or "model_state_dict".
        allow_pickle: unpickle Python objects too. That runs whatever code the file names: only for files whose author
            is trusted.

    Raises:
        ModelError: the file is missing, holds other things than weights, or the weights of another module.
    """
    content = _read_checkpoint(Path(path), allow_pickle)
    for key in ("state_dict", "model_state_dict", "model"):
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
    if not isinstance(content, Mapping):
        raise ModelError(f"{path} holds a {type(content).__name__}; right is a state dict: names and tensors")
    try:
        module.load_state_dict(content)
    except RuntimeError as error:
        raise ModelError(f"the weights in {path} are not those of {type(module).__name__}: {error}") from error


def _read_checkpoint(path: Path, allow_pickle: bool) -> Any:
    if not path.is_file():
        raise ModelError(f"there is no weights file {str(path)!r}")
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    try:
        return torch.load(path, map_location="cpu", weights_only=not allow_pickle)
    except Exception as error:  # pickle's, zipfile's and torch's own exceptions
        hint = "" if allow_pickle else "; if you trust who made the file, set the option allow_pickle=true"
        raise ModelError(f"{path} cannot be read as weights: {str(error).splitlines()[0]}{hint}") from error


_REMEDIES = {
    TorchFile.ULTRALYTICS: "right is load_model(path), which runs it by Ultralytics' own package",
    TorchFile.RFDETR: "right is load_model(path), which runs it by the package rfdetr",
    TorchFile.CHECKPOINT: (
        "right is to name the module's class, file.py:Class, with the option weights_file=PATH, or a file written by "
        "torch.jit.save or torch.export.save"
    ),
    TorchFile.OTHER: "right is a file written by torch.jit.save or torch.export.save",
}


def _open_torchscript(path: Path, device: Any) -> tuple[Any, dict[str, str]]:
    extra = {METADATA: ""}
    try:
        module = torch.jit.load(str(path), map_location=device, _extra_files=extra)
    except Exception as error:  # RuntimeError, or one of torch's own
        raise ModelError(f"PyTorch cannot open {path}: {str(error).strip().splitlines()[0]}") from error
    return module.eval(), _metadata(extra[METADATA], path)


def _open_exported(path: Path, device: Any) -> tuple[Any, TensorInfo, dict[str, str]]:
    extra = {METADATA: ""}
    try:
        program = torch.export.load(path, extra_files=extra)
        if device.type != "cpu":
            from torch.export.passes import move_to_device_pass

            program = move_to_device_pass(program, device)
    except Exception as error:  # torch.export raises many kinds
        raise ModelError(f"PyTorch cannot open {path}: {str(error).strip().splitlines()[0]}") from error
    names = program.graph_signature.user_inputs
    values = {node.name: node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"}
    if len(names) != 1:
        raise ModelError(f"{path} has {len(names)} inputs ({', '.join(map(str, names))}); right is one, the picture")
    value = values[names[0]]
    shape = tuple(size if isinstance(size, int) else None for size in value.shape)
    entry = TensorInfo(str(names[0]), shape, _dtype_name(value.dtype))
    # Parameters and buffers stay as they were exported; the module of an exported program has no eval().
    return program.module(), entry, _metadata(extra[METADATA], path)


def _metadata(text: str | bytes, path: Path) -> dict[str, str]:
    """What the exporter left in an archive's `METADATA`; an archive without it has an empty text."""
    try:
        content = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: its {METADATA} is no JSON ({error}); {_RIGHT_METADATA}") from error
    if not isinstance(content, dict):
        raise ModelError(f"{path}: its {METADATA} holds a {type(content).__name__}; {_RIGHT_METADATA}")
    return metadata_texts(content)


def _tensors(value: Any, name: str = "output") -> list[tuple[str, Any]]:
    """All tensors of a nested result with their names, in the order of the walk."""
    if isinstance(value, torch.Tensor):
        return [(name, value)]
    found: list[tuple[str, Any]] = []
    if isinstance(value, Mapping):
        for key, item in value.items():
            found += _tensors(item, str(key))
    elif isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            found += _tensors(item, f"{name}{index}")
    return found


def _to_numpy(tensor: Any) -> npt.NDArray[Any]:
    if tensor.dtype == torch.bfloat16:  # NumPy has no such type
        tensor = tensor.float()
    array: npt.NDArray[Any] = tensor.detach().cpu().numpy()
    return array


def _weights_type(module: Any) -> str:
    """Type of the first weight that is a floating number; float32 for a module without any."""
    parameters = getattr(module, "parameters", None)
    if parameters is not None:
        for parameter in parameters():
            if parameter.dtype in (torch.float16, torch.float64):
                return _dtype_name(parameter.dtype)
            if parameter.is_floating_point():
                break
    return "float32"


def _dtype_name(dtype: Any) -> str:
    """NumPy's name of a torch type: "torch.float32" is "float32", "torch.uint8" "uint8"."""
    return str(dtype).removeprefix("torch.")


def _autocast_type(precision: str | None) -> Any:
    if precision in (None, "f32"):
        return None
    types = {"f16": torch.float16, "bf16": torch.bfloat16}
    if precision not in types:
        raise ConfigurationError(f"precision is {precision!r}; right for PyTorch is f32, f16 or bf16")
    return types[precision]


def _imgsz(metadata: Mapping[str, str]) -> tuple[int, int] | None:
    """Height and width from Ultralytics' ``imgsz``, for a network that was traced at that size."""
    numbers = re.findall(r"\d+", metadata.get("imgsz", ""))
    if len(numbers) != 2 or _dynamic(metadata):
        return None
    return int(numbers[0]), int(numbers[1])


def _batch(metadata: Mapping[str, str]) -> int | None:
    """Frames at once from Ultralytics' ``batch``, where the archive was traced for that number."""
    text = metadata.get("batch", "")
    return int(text) if text.isdecimal() and not _dynamic(metadata) else None


def _last_line(error: Exception) -> str:
    """The reason; TorchScript tells a traceback of many lines before it."""
    return (str(error).strip().splitlines() or [""])[-1].removeprefix("RuntimeError: ")


def _dynamic(metadata: Mapping[str, str]) -> bool:
    return "'dynamic': True" in metadata.get("args", "") or metadata.get("dynamic") == "True"
