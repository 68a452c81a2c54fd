"""Names of streams as a property of elements takes them: ``0=gate;1=yard``."""

import functools
from collections.abc import Mapping
from types import MappingProxyType

from sluice.errors import ConfigurationError


@functools.lru_cache(64)
def read_names(text: str | None) -> Mapping[int, str]:
    """Read names by the streams' numbers.

    Raises:
        ConfigurationError: something else is there.
    """
    names = {}
    for part in filter(str.strip, (text or "").split(";")):
        number, equals, name = part.partition("=")
        if not equals or not number.strip().isdecimal() or not name.strip():
            raise ConfigurationError(f"names is {text!r}; right is NUMBER=NAME, several between semicolons")
        names[int(number)] = name.strip()
    return MappingProxyType(names)
