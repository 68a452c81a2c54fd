"""Enumerations of GObject, for properties that take a number or its name: PyGObject can use them, but not make them.

Imports gi and the standard library only: it is read when GStreamer scans its plugins.
"""

import ctypes
from collections.abc import Mapping
from typing import Any

import gi

gi.require_version("GObject", "2.0")
from gi.repository import GObject


class _Value(ctypes.Structure):
    """GEnumValue."""

    _fields_ = (("value", ctypes.c_int), ("name", ctypes.c_char_p), ("nick", ctypes.c_char_p))


_kept: list[ctypes.Array[_Value]] = []  # GObject refers to the tables for as long as the process lives


def enumeration(name: str, values: Mapping[str, int]) -> Any:
    """Return the GType of an enumeration, registered when it is asked for first.

    Args:
        name: of the type, the same in the whole process.
        values: number of each word.
    """
    if name not in _types:
        register = ctypes.CDLL("libgobject-2.0.so.0").g_enum_register_static
        register.restype, register.argtypes = ctypes.c_size_t, (ctypes.c_char_p, ctypes.c_void_p)
        rows = [_Value(number, word.capitalize().encode(), word.encode()) for word, number in values.items()]
        table = (_Value * (len(rows) + 1))(*rows)
        _kept.append(table)
        register(name.encode(), ctypes.addressof(table))
        _types[name] = GObject.type_from_name(name)
        _words[name] = tuple(values)
    return _types[name]


def words_of(name: str) -> tuple[str, ...]:
    """Return the words of an enumeration made here, by its type's name; empty for another type."""
    return _words.get(name, ())


_types: dict[str, Any] = {}
_words: dict[str, tuple[str, ...]] = {}
