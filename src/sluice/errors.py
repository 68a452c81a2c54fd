"""The errors Sluice raises. Each message names the thing, what was wrong with it, and what would be right."""

import traceback


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
        return "".join(["Traceback (most recent call last):\n", *lines, f"{type(error).__name__}: {error}\n"])
