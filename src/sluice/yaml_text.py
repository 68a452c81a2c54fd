"""YAML through PyYAML, whose refusals are of one kind here.

PyYAML raises its own error for text that is none, but whatever Python raises for an escape that is no character
(``"\\UFFFFFFFF"``) and for a value that is not what its tag says (``!!bool maybe``: KeyError).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import yaml

_PYTHONS = (ValueError, LookupError, AttributeError, TypeError, OverflowError)
_MOST_BITS = 64  # of a whole number; one of some thousand digits could not even be shown


class Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """PyYAML's safe loader, which says of a value that cannot be made where it stands."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Return the value of a node; raises ConstructorError with its line."""
        try:
            value = super().construct_object(node, deep)
        except ValueError as error:  # such as the date 2026-02-31
            raise _fault(str(error), node) from error
        except _PYTHONS as error:
            raise _fault(f"{node.value!r} is not what its tag {node.tag} says", node) from error
        if isinstance(value, int) and value.bit_length() > _MOST_BITS:
            raise _fault(f"a whole number has more than {_MOST_BITS} bits", node)
        return value


def _fault(text: str, node: yaml.Node) -> Exception:
    fault: Exception = yaml.constructor.ConstructorError(None, None, text, node.start_mark)
    return fault


def load_yaml(text: str | bytes) -> Any:
    """Return what YAML stands for, in plain Python values.

    Raises:
        ValueError: it is no YAML, or a value in it cannot be made; the reason is one line.
        RecursionError: it is nested too deeply.
    """
    return _read(lambda: yaml.load(text, Loader=Loader))


def compose_yaml(text: str | bytes) -> Any:
    """Return the root node of YAML in which every value is left the text it is; None where there is none.

    Raises:
        ValueError: it is no YAML; the reason is one line.
        RecursionError: it is nested too deeply.
    """
    return _read(lambda: yaml.compose(text, Loader=yaml.BaseLoader))


def _read(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
    except _PYTHONS as error:  # of an escape or a directive
        raise ValueError(f"an escape or a number in it cannot be read: {error}") from error
