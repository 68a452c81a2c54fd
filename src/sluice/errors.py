"""The errors Sluice raises. Each message names the thing, what was wrong with it, and what would be right."""

import sysconfig
import traceback
from pathlib import Path

_OURS = f"{Path(__file__).parent}/"
_PYTHONS = f"{sysconfig.get_path('stdlib')}/"
_INSTALLED = ("/site-packages/", "/dist-packages/")  # below the standard library's folder too, and none of it


class SluiceError(Exception):
    """Base class of every error that Sluice raises on purpose."""


class ContractError(SluiceError):
    """Metadata, a surface or a library does not have the layout or the state the contract asks for."""


class StaleBufferError(ContractError):
    """A metadata or surface wrapper was used after the buffer it belongs to had left the element."""


class ModelError(SluiceError):
    """A model could not be loaded, or returned something that is not a list of detections, one per frame."""


class ConfigurationError(SluiceError):
    """A property, an argument or a configuration file holds a value that cannot be used."""


def text_of(error: BaseException) -> str:
    """Return what an exception says: Sluice's own in its words, any other behind the name of its class.

    It raises nothing, also where the exception's own ``__str__`` does: what reports an error must not fail of it.
    """
    try:
        words = str(error)
    except Exception as second:
        words = f"(its text could not be made: {type(second).__name__})"
    if isinstance(error, SluiceError) and words:
        return words
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def format_trace(error: BaseException) -> str:
    """Return an exception's traceback as text, also while other threads parse Python.

    Before 3.11.5, CPython's formatting itself can raise SystemError ("AST constructor recursion depth mismatch") when
    two threads parse at the same time, which an error in a model must survive; the lines then lack the column marks.
    """
    try:
        return "".join(traceback.format_exception(error))
    except SystemError:
        frames = traceback.walk_tb(error.__traceback__)
        lines = [
            f'  File "{frame.f_code.co_filename}", line {line}, in {frame.f_code.co_name}\n' for frame, line in frames
        ]
        return "".join(["Traceback (most recent call last):\n", *lines, f"{text_of(error)}\n"])


def format_own_lines(error: BaseException) -> str:
    """Return the part of a traceback that leads through people's own code, without the error's text at its end.

    What is wrong with a file's syntax is shown with its line. "" where no line is anybody's own: what we raise on
    purpose, perhaps because of what a package that we use has raised, says all in its text.
    """
    on_purpose = isinstance(error, SluiceError)
    while isinstance(error, SluiceError) and error.__cause__ is not None:
        error = error.__cause__
    rows = traceback.extract_tb(error.__traceback__)
    first = _first_own(rows, installed=False)
    if first is None and not on_purpose:  # a model may be a package's
        first = _first_own(rows, installed=True)
    own = [] if first is None else [row for row in rows[first:] if not row.filename.startswith("<frozen ")]
    lines = ["Traceback (most recent call last):\n"] if own else []
    try:
        lines += traceback.format_list(own)
    except SystemError:  # see format_trace
        lines += [f'  File "{row.filename}", line {row.lineno}, in {row.name}\n' for row in own]
    if isinstance(error, SyntaxError):
        lines += traceback.format_exception_only(error)[:-1]
    return "".join(lines).rstrip("\n")


def _first_own(rows: list[traceback.FrameSummary], installed: bool) -> int | None:
    """Number of the first line that is neither Sluice's nor Python's, nor an installed package's unless asked for."""
    for number, row in enumerate(rows):
        of_package = any(folder in row.filename for folder in _INSTALLED)
        if row.filename.startswith((_OURS, "<")) or (of_package and not installed):
            continue
        if of_package or not row.filename.startswith(_PYTHONS):
            return number
    return None


def with_own_lines(error: SluiceError) -> str:
    """Return an error as people are shown it once: its text, and below the lines of their own code that led to it."""
    lines = format_own_lines(error)
    return f"{error}\n{lines}" if lines else str(error)
