"""Networks compiled ahead of time by PyTorch's AOTInductor, each batch size in a process of its own, into a cache.

A compilation takes a minute or more of a processor and all of Python's lock, so it is done beside the pipeline. What
comes out is a library that runs the network without Python, and that CUDA graphs can hold.

The files lie in ``$XDG_CACHE_HOME/sluice/compiled`` (``~/.cache``), named by everything that they were made of: the
graph, the weights, the sizes, PyTorch and the GPU. They can be deleted at any time, and copied to machines alike.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sluice.errors import ConfigurationError, ModelError
from sluice.runtimes.child import run_module
from sluice.runtimes.unwinding import import_compiled, loaded_libraries

torch: Any = import_compiled("torch")

FORMAT = "2"
"""Changes when files of an earlier version must not be used."""
MOST_AT_ONCE = 4
"""Compilations at the same time; each starts compilers of its own for kernels."""

Whole = Callable[[Any], Sequence[Any]]


class CompiledSizes:
    """A network compiled for some batch sizes; any other size runs as it is in Python.

    Args:
        whole: the network, from its input tensor to a sequence of output tensors.
        owner: the module that `whole` calls, whose weights are part of it.
        name: what messages call it.
    """

    def __init__(self, whole: Whole, owner: Any, name: str) -> None:
        self._whole, self._owner, self._name = whole, owner, name
        self._by_batch: dict[int, Any] = {}

    def __call__(self, pictures: Any) -> list[Any]:
        """All outputs for an input tensor."""
        return list(self._by_batch.get(len(pictures), self._whole)(pictures))

    def prepare(self, inputs: Sequence[Any]) -> None:
        """Compile for inputs of these shapes, or load what was compiled before; may take minutes.

        Raises:
            ConfigurationError: the network cannot be traced, or this PyTorch cannot compile.
            ModelError: a compilation failed, with what it wrote.
        """
        wanted = [one for one in inputs if len(one) not in self._by_batch]
        if not wanted:
            return
        # Each by its own graph, which has the size in it: what was compiled beside others is found alone, too.
        programs = [self._export(one) for one in wanted]
        files = [_file(_key(program), one) for program, one in zip(programs, wanted, strict=True)]
        cache_folder().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
            orders: list[tuple[Path, Path, Path]] = []
            for number, (program, file) in enumerate(zip(programs, files, strict=True)):
                if not file.is_file():
                    traced = Path(folder) / f"traced{number}.pt2"
                    torch.export.save(program, traced)
                    orders.append((traced, Path(folder) / f"made{number}.pt2", file))
            with ThreadPoolExecutor(MOST_AT_ONCE) as threads:
                list(threads.map(lambda order: _compile(*order, name=self._name), orders))
        for one, file in zip(wanted, files, strict=True):
            self._by_batch[len(one)] = _load(file, one.device)

    def _export(self, pictures: Any) -> Any:
        whole = _Whole(self._whole, self._owner)
        try:
            with torch.no_grad():
                return torch.export.export(whole, (pictures,), strict=False)
        except Exception as error:  # tracing runs the network's own code
            raise ConfigurationError(
                f"{self._name} cannot be compiled, because torch.export cannot trace it "
                f"({type(error).__name__}: {_first_line(error)}); right is compile=false, or a network that it can"
            ) from error


class _Whole(torch.nn.Module):  # type: ignore[misc]
    """What is traced: the network with its arithmetic and its outputs in a row."""

    def __init__(self, whole: Whole, owner: Any) -> None:
        super().__init__()
        self.owner = owner if isinstance(owner, torch.nn.Module) else None
        self._call = whole

    def forward(self, pictures: Any) -> tuple[Any, ...]:
        return tuple(self._call(pictures))


def cache_folder() -> Path:
    """Where compiled networks are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sluice" / "compiled"


def _key(program: Any) -> str:
    """A name for a traced network: of its graph, its weights and what compiles and runs it."""
    found = hashlib.sha256()
    place = "cpu"
    if torch.cuda.is_available():
        place = f"{torch.cuda.get_device_name()} {torch.cuda.get_device_capability()} {torch.version.cuda}"
    for text in (FORMAT, torch.__version__, place, program.graph_module.code):
        found.update(text.encode())
    for name, tensor in sorted({**program.state_dict, **program.constants}.items()):
        found.update(f"{name} {getattr(tensor, 'shape', '')} {getattr(tensor, 'dtype', '')}".encode())
        if isinstance(tensor, torch.Tensor):
            found.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()[:32]


def _file(key: str, pictures: Any) -> Path:
    size = "x".join(map(str, pictures.shape))
    return cache_folder() / f"{key}-{size}.pt2"


def _compile(traced: Path, made: Path, target: Path, *, name: str) -> None:
    """Have a child compile a traced network; the file appears whole or not at all."""
    with shared_standard_library() as environment:
        run_module(__name__, [str(traced), str(made)], f"compiling {name} for {target.name}", environment=environment)
    made.replace(target)


@contextlib.contextmanager
def shared_standard_library(compiler: str | None = None) -> Iterator[dict[str, str]]:
    """Variables with which a compiler links the C++ library of this process, where it would take a part of its own.

    Without the developers' link ``libstdc++.so`` it takes ``libstdc++.a``. Two C++ libraries in a process do not know
    each other's locales, and the regular expression by which PyTorch reads a device's name (aoti_runtime/model_base.h,
    parse_device_str) then crashes, never ends or works, by chance.

    Args:
        compiler: the C++ compiler; None for the one that PyTorch takes.
    """
    compiler = compiler or os.environ.get("CXX", "g++")
    try:
        answer = subprocess.run(
            [compiler, "-print-file-name=libstdc++.so"], capture_output=True, text=True, check=True, timeout=60
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        answer = ""  # PyTorch says itself what is wrong with its compiler
    mapped = next((path for path in loaded_libraries() if Path(path).name.startswith("libstdc++.so")), None)
    if not answer or Path(answer).is_absolute() or mapped is None:  # it answers with the bare name where there is none
        yield {}
        return
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "libstdc++.so").symlink_to(mapped)
        instead = Path(folder) / Path(compiler).name
        # The compiler's own folder, with libstdc++.a in it, comes before those that variables name.
        instead.write_text(f'#!/bin/sh\nexec {shlex.quote(compiler)} -L{shlex.quote(folder)} "$@"\n')
        instead.chmod(0o700)
        yield {"CXX": str(instead)}


def _load(file: Path, device: Any) -> Any:
    from torch._inductor import aoti_load_package

    try:
        # Without the library's own bookkeeping between threads, which a graph cannot hold; all calls are one thread's.
        return aoti_load_package(
            str(file), run_single_threaded=True, device_index=-1 if device.index is None else device.index
        )
    except TypeError as error:
        raise ConfigurationError(f"compile=true needs PyTorch 2.7 or newer, this is {torch.__version__}") from error
    except RuntimeError as error:
        raise ModelError(f"{file} cannot be loaded ({_first_line(error)}); delete it to have it made again") from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0]


def main(arguments: list[str]) -> int:
    """The child: the traced network's file, and the file to make."""
    from torch._inductor import aoti_compile_and_package

    traced, made = arguments
    with torch.no_grad():
        aoti_compile_and_package(torch.export.load(traced), package_path=made)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
