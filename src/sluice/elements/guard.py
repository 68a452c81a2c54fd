"""The guard around every function that GStreamer calls.

PyGObject turns an exception in a callback into return value 0, which is FLOW_OK: an element that fails on every frame
would run to the end as a success. `guarded` posts an element error instead and returns the value that means failure.
"""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeAlias, TypeVar

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GLib, GObject, Gst

from sluice.errors import ConfigurationError, SluiceError, format_own_lines, format_trace, text_of

# Pad templates are made when an element's module is imported, which needs GStreamer; within a plugin scan it is ready.
if not Gst.is_initialized():
    Gst.init(None)

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def post_error(
    element: Gst.Element, error: BaseException, *, stream: int | None = None, frame: int | None = None
) -> None:
    """Post an element error with the traceback of a Python exception.

    Args:
        element: the element that failed; the source of the message.
        error: the exception. The message's text is its own, after the stream and frame; its debug text the traceback.
        stream: number of the stream (the muxer's pad), or None to use the exception's attribute ``stream`` if any.
        frame: number of the frame within the stream, or None to use the exception's attribute ``frame`` if any.

    The message's details (``Gst.Message.parse_error_details``) carry ``stream`` (int), ``frame`` (int64),
    ``exception`` (the class's name) and ``lines`` (of the traceback those that people want to see) for programs.
    ``ConfigurationError`` is posted in the library domain as SETTINGS, all others in the stream domain as FAILED.
    """
    stream = _number(error, "stream", 31) if stream is None else stream
    frame = _number(error, "frame", 63) if frame is None else frame
    place = [f"{name} {value}" for name, value in (("stream", stream), ("frame", frame)) if value is not None]
    text = printable(f"{', '.join(place)}: {text_of(error)}" if place else text_of(error))
    trace = printable(format_trace(error))
    if isinstance(error, ConfigurationError):
        gerror = GLib.Error.new_literal(Gst.LibraryError.quark(), text, int(Gst.LibraryError.SETTINGS))
    else:
        gerror = GLib.Error.new_literal(Gst.StreamError.quark(), text, int(Gst.StreamError.FAILED))
    message = Gst.Message.new_error_with_details(element, gerror, trace, _details(error, stream, frame))
    element.post_message(message)


Code: TypeAlias = Gst.CoreError | Gst.LibraryError | Gst.ResourceError | Gst.StreamError


TOLD_AS = "told-as"
"""Field of a warning's details: the name of the element message that tells the same to programs."""


def post_warning(
    element: Gst.Element, text: str, trace: str = "", code: Code = Gst.StreamError.FAILED, told_as: str = ""
) -> None:
    """Post an element warning, with a traceback or none; its domain is that of the code.

    Args:
        element: the source of the message.
        text: what is wrong.
        trace: for the debug text.
        code: of the warning.
        told_as: name of an element message that the element posts of the same, if it does.
    """
    warning = GLib.Error.new_literal(type(code).quark(), printable(text), int(code))
    if told_as:
        details = Gst.Structure.new_empty("sluice-warning")
        details.set_value(TOLD_AS, told_as)
        message = Gst.Message.new_warning_with_details(element, warning, printable(trace), details)
    else:
        message = Gst.Message.new_warning(element, warning, printable(trace))
    element.post_message(message)


def post_info(element: Gst.Element, text: str, code: Code) -> None:
    """Post what is good to know and no fault; its domain is that of the code."""
    info = GLib.Error.new_literal(type(code).quark(), printable(text), int(code))
    element.post_message(Gst.Message.new_info(element, info, ""))


def printable(text: str) -> str:
    """Return a text as a message can carry it: file names and models' texts may hold lone surrogates and NUL."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")


def _details(error: BaseException, stream: int | None, frame: int | None) -> Gst.Structure:
    details = Gst.Structure.new_empty("sluice-error")
    details.set_value("exception", printable(type(error).__name__))
    if stream is not None:
        details.set_value("stream", GObject.Value(GObject.TYPE_INT, int(stream)))
    if frame is not None:
        details.set_value("frame", GObject.Value(GObject.TYPE_INT64, int(frame)))
    if isinstance(error, KeyboardInterrupt) and error.args and isinstance(error.args[0], int):
        # The exit status that whoever raised it wants.
        details.set_value("status", GObject.Value(GObject.TYPE_INT, error.args[0]))
    # An error that we raise on purpose says all in its text; of any other without own lines the fault is ours.
    lines = format_own_lines(error) or ("" if isinstance(error, SluiceError) else format_trace(error))
    details.set_value("lines", printable(lines))
    return details


def _number(error: BaseException, name: str, bits: int) -> int | None:
    """An exception's attribute, where it is a number of so many bits; others' exceptions have anything of that name."""
    found = getattr(error, name, None)
    return found if isinstance(found, int) and 0 <= found < 1 << bits else None


def guarded(failure: Any) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Decorate a function that GStreamer calls: an exception becomes an element error and the value ``failure``.

    The element is the first argument that is one: ``self`` of a virtual function, ``parent`` of a static pad function,
    the user data of a task function. `SystemExit` and `KeyboardInterrupt` are caught too, since on GStreamer's threads
    they would end the process from under the pipeline.
    """

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        @functools.wraps(function)
        def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
            try:
                return function(*args, **kwargs)
            except BaseException as error:
                for argument in args:
                    if isinstance(argument, Gst.Element):
                        # Without attributes it is just being collected: what failed is its end, and nobody listens.
                        if vars(argument):
                            post_error(argument, error)
                        break
                else:
                    Gst.error(f"{function.__qualname__}: {format_trace(error)}")
                return failure  # type: ignore[no-any-return]

        call.is_guarded = True  # type: ignore[attr-defined]
        return call

    return decorate
