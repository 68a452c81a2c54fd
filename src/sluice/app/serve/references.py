"""``${ENV:NAME}`` and ``${FILE:/run/secrets/name}`` in a configuration: secrets by reference, never in the file.

What a reference stands for is remembered, so that it can be removed from whatever is shown or logged.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sluice.app.credentials import redact
from sluice.app.serve.marks import Location
from sluice.errors import ConfigurationError

_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)\}?")
_KIND = re.compile(r"(ENV|FILE):(.+)", re.DOTALL)
_LARGEST_SECRET = 1 << 16  # bytes of a file of a secret
_SHORTEST_SECRET = 4  # shorter values would remove half of every text
_IN_USER_INFO = re.compile(r"[a-zA-Z][\w+.-]*://[^/?#\s]*\Z")
_FORMS = "right are ${ENV:NAME} and ${FILE:/run/secrets/name}, and $${ for a plain ${"


class Secrets:
    """Resolves references, and hides what they stand for.

    Thread-safe: values are only added.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        """Resolve relative file names against a folder, variables in an environment (default: this process's)."""
        self._folder = folder
        self._environment = os.environ if environment is None else environment
        self._values: tuple[str, ...] = ()

    def resolve(self, data: Any, fault: Callable[[Location, str], None], at: Location = ()) -> Any:
        """Return nested data with every reference replaced; what cannot be goes to `fault` and stays as it is."""
        if isinstance(data, dict):
            return {key: self.resolve(value, fault, (*at, key)) for key, value in data.items()}
        if isinstance(data, list):
            return [self.resolve(value, fault, (*at, index)) for index, value in enumerate(data)]
        if not isinstance(data, str):
            return data
        try:
            return self.text(data)
        except ConfigurationError as error:
            fault(at, str(error))
            return data

    def text(self, text: str) -> str:
        """Return a text with its references replaced.

        In the user part of a URL the value is escaped, so that a password may hold any character.

        Raises:
            ConfigurationError: a variable or file is missing, or it is no reference; never shows a value.
        """

        def replace(match: re.Match[str]) -> str:
            if match[0] == "$${":
                return "${"
            value = self._value(match)
            before, after = text[: match.start()], text[match.end() :]
            if _IN_USER_INFO.search(before) and "@" in after:
                escaped = quote(value, safe=":")
                self.hide(escaped)
                return escaped
            return value

        return _REFERENCE.sub(replace, text)

    def hide(self, value: str) -> None:
        """Remove this value from now on from everything that `scrub` is given."""
        if len(value) >= _SHORTEST_SECRET and value not in self._values:
            self._values = tuple(sorted((*self._values, value), key=len, reverse=True))

    @property
    def hidden(self) -> tuple[str, ...]:
        """The values that `scrub` removes."""
        return self._values

    def scrub(self, text: str) -> str:
        """Return the text without the values of references and without credentials in URLs."""
        text = redact(text)
        for value in self._values:
            text = text.replace(value, "***")
        return text

    def _value(self, match: re.Match[str]) -> str:
        kind = _KIND.fullmatch(match[1]) if match[0].endswith("}") else None
        if kind is None:
            raise ConfigurationError(f"{match[0]!r} is no reference; {_FORMS}")
        value = self._variable(kind[2]) if kind[1] == "ENV" else self._file(kind[2])
        # A whole URL holds a host that is no secret; its credentials are removed as those of any URL are.
        if "://" not in value:
            self.hide(value)
        return value

    def _variable(self, name: str) -> str:
        if name not in self._environment:
            raise ConfigurationError(f"the environment variable {name} is not set")
        return self._environment[name]

    def _file(self, name: str) -> str:
        path = self._folder / name
        try:
            if not path.is_file():
                raise ConfigurationError(f"there is no file {name!r}")
            with path.open(encoding="utf-8") as file:
                value = file.read(_LARGEST_SECRET + 1)
        except OSError as error:
            raise ConfigurationError(f"the file {name!r} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError:
            raise ConfigurationError(f"the file {name!r} is no UTF-8 text") from None
        if len(value) > _LARGEST_SECRET:
            raise ConfigurationError(f"the file {name!r} is larger than any secret ({_LARGEST_SECRET >> 10} KiB)")
        return value.rstrip("\r\n")


def references(text: str) -> list[str]:
    """Return the references in a text, as ``ENV:NAME`` and ``FILE:path``."""
    return [match[1] for match in _REFERENCE.finditer(text) if match[0] != "$${"]


def check_allowed(text: str, allowed: Collection[str]) -> None:
    """Refuse references that a caller of the API may not use: it could send any secret to a host of its own.

    Raises:
        ConfigurationError: naming the reference and the key that allows it.
    """
    for name in references(text):
        if name not in allowed:
            raise ConfigurationError(
                f"the reference ${{{name}}} may not be used here; http.references in the configuration lists those "
                f"that may: {', '.join(sorted(allowed)) or 'none'}"
            )
