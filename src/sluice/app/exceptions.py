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
    if _exception_named(message) != KeyboardInterrupt.__name__:
        return None
    return KeyboardInterrupt(describe(message)[0].rpartition(":")[2].strip())


def _exception_named(message: Gst.Message) -> str:
    """Return the class of the Python exception that an element's error tells of, "" where there is none."""
    details = message.parse_error_details()
    return details.get_string("exception") or "" if details is not None else ""


def as_exception(message: Gst.Message) -> SluiceError:
    """Return an element's error as an exception: of our own class where one is behind it, else with its traceback."""
    text, debug = describe(message)
    text = f"{message.src.get_name()}: {text}"
    kind = getattr(errors, _exception_named(message), None)
    if kind is not None:
        return kind(redact(text))  # type: ignore[no-any-return]
    return SluiceError(redact(f"{text}\n{debug}" if "Traceback" in debug else text + reason_in(debug)))
