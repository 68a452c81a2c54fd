"""Texts of a configuration file as numbers and lists, by the rules of GLib's key files and of nvinfer's YAML parser.

A key file's integer may be followed by a space and anything (so a comment after it does no harm), its floating number
must stand alone. nvinfer's YAML parser calls std::stoi and std::stod, which read as far as a number goes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, TypeVar

from sluice.models.nvinfer.document import Form

T = TypeVar("T")
#: Reads one text; raises ValueError with what would be right.
Reader = Callable[[str, Form], Any]

INTEGER = re.compile(r"\s*([+-]?\d+)(.*)", re.DOTALL)
NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(.*)", re.DOTALL)
INT_LIMIT = 2**31


def read_integer(text: str, form: Form) -> int:
    """A 32-bit integer."""
    match = INTEGER.match(text)
    if match is None or (form == "key-file" and match[2] and not match[2][0].isspace()):
        raise ValueError("an integer")
    # Python refuses to read some thousand digits, in words of its own.
    value = int(match[1]) if len(match[1]) < 100 else INT_LIMIT
    if not -INT_LIMIT <= value < INT_LIMIT:
        raise ValueError("an integer of 32 bits")
    return value


def read_number(text: str, form: Form) -> float:
    """A floating number."""
    match = NUMBER.match(text)
    if match is None or (form == "key-file" and match[2].strip()) or not math.isfinite(float(match[1])):
        raise ValueError("a number")
    return float(match[1])


def read_boolean(text: str, form: Form) -> bool:
    """A boolean: 0, 1, true or false in a key file, an integer in YAML."""
    if form == "yaml":
        try:
            return read_integer(text, form) != 0
        except ValueError:
            raise ValueError("0 or 1 (nvinfer reads a number here, not true or false)") from None
    known = {"0": False, "false": False, "1": True, "true": True}
    if text not in known:
        raise ValueError("0, 1, true or false")
    return known[text]


def read_text(text: str, _form: Form) -> str:
    """The text as it stands."""
    return text


def list_of(item: Callable[[str, Form], T]) -> Callable[[str, Form], tuple[T, ...]]:
    """A reader of items between ``;``, with or without a last ``;``."""

    def read(text: str, form: Form) -> tuple[T, ...]:
        parts = text.split(";")
        if not parts[-1].strip():
            del parts[-1]
        try:
            return tuple(item(part.strip(), form) for part in parts)
        except ValueError as error:
            raise ValueError(f"a list between ';' of which each is {error}") from None

    return read


def exactly(count: int, reader: Callable[[str, Form], tuple[T, ...]]) -> Callable[[str, Form], tuple[T, ...]]:
    """A reader of a list with `count` items."""

    def read(text: str, form: Form) -> tuple[T, ...]:
        values = reader(text, form)
        if len(values) != count:
            raise ValueError(f"{count} values between ';'")
        return values

    return read


def checked(reader: Callable[[str, Form], T], allowed: Callable[[T], bool], right: str) -> Callable[[str, Form], T]:
    """A reader of what also passes a check; `right` says what does."""

    def read(text: str, form: Form) -> T:
        value = reader(text, form)
        if not allowed(value):
            raise ValueError(right)
        return value

    return read


def at_least(reader: Callable[[str, Form], Any], low: float) -> Reader:
    """A reader of numbers from `low` on."""
    return checked(reader, lambda value: value >= low, f"{low} or more")


def between(reader: Callable[[str, Form], Any], low: float, high: float) -> Reader:
    """A reader of numbers from `low` to `high`."""
    return checked(reader, lambda value: low <= value <= high, f"from {low} to {high}")


def one_of(choices: dict[int, str]) -> Reader:
    """A reader of one of some integers; each has a meaning, which messages tell."""
    right = ", ".join(f"{number} ({meaning})" for number, meaning in choices.items())
    return checked(read_integer, lambda value: value in choices, right)
