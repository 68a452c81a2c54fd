"""Errors on a pipeline's bus as exceptions of Python."""

from __future__ import annotations

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice import errors
from sluice.app.credentials import redact
from sluice.app.gst import describe, reason_in
from sluice.errors import SluiceError


def interruption(message: Gst.Message) -> KeyboardInterrupt | None:
    """Return the interruption behind an error: of the thread that starts elements, where their guards catch it."""
    if _detail(message, "exception") != KeyboardInterrupt.__name__:
        return None
    found, status = message.parse_error_details().get_int("status")
    return KeyboardInterrupt(status) if found else KeyboardInterrupt()


def _detail(message: Gst.Message, name: str) -> str:
    """Return what an element's error tells of the Python exception behind it, "" where there is none."""
    details = message.parse_error_details()
    return details.get_string(name) or "" if details is not None else ""


def as_exception(message: Gst.Message) -> SluiceError:
    """Return an element's error as an exception, of our own class where one is behind it.

    Its first line says what happened; below it are the lines of people's own code that led there.
    """
    text, debug = describe(message)
    exception, lines = _detail(message, "exception"), _detail(message, "lines")
    text = f"{message.src.get_name()}: {text}" + ("" if exception else reason_in(debug))
    kind = getattr(errors, exception, SluiceError) if exception else SluiceError
    return kind(redact(f"{text}\n{lines}" if lines else text))
