"""Options of a model: keyword arguments for its constructor, checked against the signature before it is called."""

from __future__ import annotations

import contextlib
import difflib
import inspect
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from sluice.errors import ModelError

WORDS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def check_options(
    target: Callable[..., Any], options: Mapping[str, Any], *, name: str | None = None, others: Collection[str] = ()
) -> dict[str, Any]:
    """Check keyword arguments against the signature of a class or function, and return them.

    A text (options come from a command line or a property) is turned into the type of the parameter's default or
    annotation where that is bool, int or float.

    Args:
        target: the class or function.
        options: the arguments.
        name: what messages call the target; its own name if not given.
        others: parameters that are no options: they are given otherwise, or have another value.

    Raises:
        ModelError: naming an argument that is unknown (with the known ones), missing, or of the wrong type.
    """
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):  # a class written in C may not tell
        return dict(options)
    kinds = inspect.Parameter
    takes = {
        p.name: p
        for p in signature.parameters.values()
        if p.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY) and p.name not in others
    }
    name = name or name_of(target)
    anything = any(p.kind is kinds.VAR_KEYWORD for p in signature.parameters.values())
    unknown = [name for name in options if name not in takes]
    if unknown and not anything:
        near = difflib.get_close_matches(unknown[0], takes, 1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise ModelError(f"{name} has no option {unknown[0]!r}{hint}; its options are: {', '.join(takes) or 'none'}")
    missing = [p.name for p in takes.values() if p.default is kinds.empty and p.name not in options]
    if missing:
        raise ModelError(f"{name} needs the option {missing[0]!r}; give it as a model option")
    return {key: _option_value(name, takes[key], value) if key in takes else value for key, value in options.items()}


def _option_value(name: str, parameter: inspect.Parameter, value: Any) -> Any:
    """A text as the parameter's bool, int or float, told by its annotation or its default; any other value as it is."""
    if not isinstance(value, str):
        return value
    # Words, because an annotation may be a class or a text such as "int | None".
    kinds = set(re.findall(r"\w+", str(parameter.annotation))) & {"str", "bool", "int", "float"}
    kinds = kinds or {type(parameter.default).__name__}
    if "str" in kinds:
        return value
    if "bool" in kinds:
        wanted, known = "true or false", WORDS.get(value.lower())
        if known is not None:
            return known
    elif kinds & {"int", "float"}:
        kind = float if "float" in kinds else int
        wanted = f"a number ({kind.__name__})"
        with contextlib.suppress(ValueError):
            return kind(value)
    else:
        return value
    raise ModelError(f"option {parameter.name!r} of {name} is {value!r}; right is {wanted}")


def name_of(thing: Any) -> str:
    """The name of a class or function, or of an object's class, for messages."""
    return str(getattr(thing, "__qualname__", type(thing).__qualname__))
