"""TensorRT's Python module, made safe beside PyGObject.

TensorRT's ``Dims`` has a length and an index but no iterator, so ``tuple(dims)`` reads elements until the index is out
of range, and the bindings report that by a C++ exception. Where two unwinders are in the process (see
`sluice.runtimes.unwinding`) that exception ends it: SIGABRT or SIGSEGV, with no word of what went wrong. Ultralytics'
TensorRT backend reads every shape in this way.

Two things are done about it. ``Dims`` gets an iterator that stops by itself, so that nothing is thrown; and the module
is bound to the unwinder that libstdc++ uses, so that the exceptions left are caught. `guard_tensorrt` does both for
whoever imports TensorRT later, a user's model and the libraries it calls among them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from sluice.errors import ConfigurationError
from sluice.runtimes.unwinding import import_compiled, one_unwinder

#: The packages with the runtime's interface: the full one, the one without a builder, and the one without kernels.
PACKAGES = ("tensorrt", "tensorrt_lean", "tensorrt_dispatch")
#: In some releases the classes live in a package of their own, which can be installed alone.
NAMES = (*PACKAGES, *(f"{name}_bindings" for name in PACKAGES))


def import_tensorrt() -> Any:
    """The TensorRT module that is installed, safe to use.

    Raises:
        ConfigurationError: there is none, or it cannot be loaded (its libraries are missing); with the reasons.
    """
    reasons = []
    for name in NAMES:
        try:
            module = import_compiled(name)
        except ImportError as error:
            reasons.append(f"{name}: {error}")
        else:
            make_dims_safe(module)
            return module
    raise ConfigurationError("TensorRT's Python module cannot be imported (" + "; ".join(reasons) + ")")


def dims(shape: Any) -> tuple[int, ...]:
    """Sizes of a ``Dims``, read element by element; -1 stands for an open one."""
    return tuple(int(shape[index]) for index in range(len(shape)))


def make_dims_safe(module: Any) -> None:
    """Give a TensorRT module's ``Dims`` an iterator, for code that writes ``tuple(shape)``."""
    kind = getattr(module, "Dims", None)
    if kind is not None and not hasattr(kind, "__iter__"):
        kind.__iter__ = _elements


def guard_tensorrt() -> None:
    """Make TensorRT safe for this whole process: what is imported already, and what will be imported by anyone."""
    for name in NAMES:
        if name in sys.modules:
            make_dims_safe(sys.modules[name])
    if not any(isinstance(finder, _TensorRtFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _TensorRtFinder())


class _TensorRtFinder:
    """Finds TensorRT's modules as Python does, and has them loaded safely."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a TensorRT module; None for any other."""
        spec = PathFinder.find_spec(name, path, target) if name in NAMES else None
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def load_safely(module: ModuleType) -> None:
            with one_unwinder():
                load(module)
            make_dims_safe(module)

        spec.loader.exec_module = load_safely  # type: ignore[method-assign]
        return spec


def _elements(shape: Any) -> Iterator[int]:
    """The iterator that ``Dims`` lacks."""
    return iter(dims(shape))
