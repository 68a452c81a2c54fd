"""JSON as DeepStream's messages have it: printed by json-glib, pretty, so that the very text can be compared.

Two spaces of indent, ``"key" : value``, numbers of C's double type with up to 17 significant digits and always a point
or an exponent, an empty object with its indent inside, an empty array as ``[]``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from json.encoder import encode_basestring
from typing import Any


class Rendered(str):
    """JSON that is printed already, for the depth at which it will stand."""

    __slots__ = ()


def pretty(value: Any, depth: int = 0) -> str:
    """Return a value as JSON.

    Args:
        value: dict, list, str, int, float, None, or `Rendered` JSON. A float that is not finite, which JSON cannot
            tell, becomes null; json-glib writes ``nan`` and makes the message unreadable.
        depth: how many objects and arrays it stands in.
    """
    kind = type(value)
    printer = _SCALARS.get(kind)
    if printer is not None:
        return printer(value)
    if kind is dict:
        if not value:
            return "{" + "  " * depth + "}"
        inner = _line(depth + 1)
        members = [f"{inner}{encode_basestring(key)} : {pretty(item, depth + 1)}" for key, item in value.items()]
        return "{" + ",".join(members) + _line(depth) + "}"
    if not value:
        return "[]"
    return "[" + ",".join([_line(depth + 1) + pretty(item, depth + 1) for item in value]) + _line(depth) + "]"


@functools.cache
def _line(depth: int) -> str:
    """Return a line end and the indent of the next line."""
    return "\n" + "  " * depth


def number(value: float) -> str:
    """Return a C double as json-glib prints it: 0.0, 0.90000000000000002, 1e+20."""
    if not math.isfinite(value):
        return "null"
    text = f"{value:.17g}"
    return text if "." in text or "e" in text else text + ".0"


_SCALARS: dict[type, Callable[[Any], str]] = {
    str: encode_basestring,
    float: number,
    int: str,
    Rendered: str,
    type(None): lambda _: "null",
}


def encoded(value: Any) -> bytes:
    """Return a value as UTF-8 JSON; text that is not valid Unicode keeps its escape."""
    return pretty(value).encode("utf-8", "backslashreplace")
