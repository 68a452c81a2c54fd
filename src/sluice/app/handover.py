"""Gives a model that is a Python object a name, since an element's property can only hold text.

The name is ``sluice.app.handover:Class_N``; whoever loads models finds the object under it like any class in a module.
"""

import itertools
from pathlib import Path
from typing import Any

_objects: dict[str, Any] = {}
_numbers = itertools.count(1)


def name_of(candidate: Any) -> str:
    """Return a new name for an object, good until `forget`."""
    name = f"{getattr(candidate, '__name__', type(candidate).__name__).strip('<>')}_{next(_numbers)}"
    _objects[name] = candidate
    return f"{__name__}:{name}"


def forget(name: str) -> None:
    """End a name; without effect for text that is none."""
    _objects.pop(name.partition(":")[2], None)


class Lent:
    """The names that one pipeline's objects have."""

    def __init__(self) -> None:
        """Begin without any."""
        self._names: list[str] = []

    def name_of(self, candidate: Any) -> str:
        """Return the text that stands for a model in a property: the text or path that it is, or a new name."""
        if isinstance(candidate, str | Path):
            return str(candidate)
        self._names.append(name_of(candidate))
        return self._names[-1]

    def forget(self) -> None:
        """End all of them."""
        for name in self._names:
            forget(name)


def __getattr__(name: str) -> Any:
    try:
        return _objects[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
