"""From a configuration file to a checked `Config`, or to all of its faults, each with its line."""

from __future__ import annotations

import copy
import difflib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from sluice.app.serve.marks import Location, Marked, parse_yaml, read_yaml
from sluice.app.serve.references import Secrets
from sluice.app.serve.schema import NAME_PATTERN, SHORTEST_TOKEN, Config
from sluice.errors import ConfigurationError

Top = TypeVar("Top", bound=BaseModel)
_MOST_LOOKS = 20  # at a file; each finds at least one more fault
_OF_GROUP = re.compile(r"cannot be used: (?:\w+: )?(?:\w+\.)?(?P<key>\w+) ")  # what our own classes say of a value
_PATTERNS = {
    r"^https?://": "begins with http:// or https://",
    r"^[\w .-]{1,64}$": "has up to 64 letters, digits, spaces, '_', '-' and '.'",
    r"^[\w-]{1,64}$": "has up to 64 letters, digits, '_' and '-'",
}
"""What a text must be like, by the patterns of the schemas."""
_UNKNOWN_KEY = ("extra_forbidden", "unexpected_keyword_argument")


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong in a configuration file.

    Attributes:
        line: where, counted from 1.
        where: the key, such as ``streams[0].policy.fps``.
        text: what is wrong and what would be right.
    """

    line: int
    where: str
    text: str


class FaultyConfigError(ConfigurationError):
    """A configuration file with faults; the message has one line for each.

    Attributes:
        faults: in the order of the file.
    """

    def __init__(self, path: Path, faults: Iterable[Fault]) -> None:
        """Name every fault of a file."""
        self.faults = sorted(faults, key=lambda fault: fault.line)
        super().__init__(
            "\n".join(f"{path}, line {fault.line}: {fault.where or 'the file'}: {fault.text}" for fault in self.faults)
        )


@dataclass(frozen=True)
class Loaded:
    """A configuration that was read.

    Attributes:
        config: with every reference resolved.
        file: as written, with the lines.
        secrets: what the references stand for.
    """

    config: Config
    file: Marked
    secrets: Secrets

    def fail(self, faults: Iterable[tuple[Location, str]]) -> None:
        """Raise FaultyConfigError if there is a fault; the locations are those of the file's values."""
        found = [_fault(self.file, at, self.secrets.scrub(text)) for at, text in faults]
        if found:
            raise FaultyConfigError(self.file.path, found)


def load(path: str | Path, environment: Mapping[str, str] | None = None) -> Loaded:
    """Read, resolve and check a configuration file; nothing that it names is opened.

    Paths in the file start from its folder.

    Raises:
        ConfigurationError: the file cannot be read.
        FaultyConfigError: it has faults; names all.
    """
    path = Path(path)
    return _load(read_yaml(path), environment)


def load_text(text: str, path: Path, environment: Mapping[str, str] | None = None) -> Loaded:
    """As `load`, from a text; the path is for messages and relative names."""
    return _load(parse_yaml(text, path), environment)


def _load(file: Marked, environment: Mapping[str, str] | None) -> Loaded:
    config, secrets = validated(file, Config, environment)
    if config.http.token is not None:
        secrets.hide(config.http.token.get_secret_value())
    return Loaded(config, file, secrets)


def validated(file: Marked, top: type[Top], environment: Mapping[str, str] | None = None) -> tuple[Top, Secrets]:
    """Resolve the references of a file that was read, and check it against a model.

    Args:
        file: the file.
        top: what it shall be.
        environment: of the references; None: this process's.

    Raises:
        FaultyConfigError: it has faults; names all.
    """
    secrets = Secrets(file.path.parent, environment)
    faults = list(file.faults)
    unresolved: set[Location] = set()

    def note(at: Location, text: str) -> None:
        faults.append((at, text))
        unresolved.add(at)

    data = secrets.resolve(file.data, note)
    for at in empty_paths(data, top):
        note(at, "is empty; it names a file or folder, or is left out")
    config, wrong = _looked_through(data, top)
    faults += [(at, text) for at, text in wrong if at not in unresolved]
    if faults or config is None:
        raise FaultyConfigError(file.path, [_fault(file, at, secrets.scrub(text)) for at, text in faults])
    return config, secrets


def _looked_through(data: Any, top: type[Top]) -> tuple[Top | None, list[tuple[Location, str]]]:
    """Check data against a model; return it, or all that is wrong.

    What is wrong in a group hides what else is wrong in it, so that it is left out and the rest is looked at again.
    """
    found: dict[tuple[Location, str], None] = {}
    left_out: set[Location] = set()
    for _ in range(_MOST_LOOKS):
        try:
            config = top.model_validate(data)
        except ValidationError as error:
            fresh = [
                (at, text)
                for at, text in explain(error.errors(include_url=False), top, data)
                if (at, text) not in found and not _is_of(at, text, left_out)
            ]
        else:
            return (None if found else config), list(found)
        if not fresh:
            break
        found |= dict.fromkeys(fresh)
        data = copy.deepcopy(data)
        left_out |= {gone for at, text in fresh if (gone := _leave_out(data, at, text)) is not None}
    return None, list(found)


def _is_of(at: Location, text: str, left_out: set[Location]) -> bool:
    """Whether a fault is only there because a value was left out: it is missing, or goes together with another."""
    named = {str(gone[-1]) for gone in left_out if gone[:-1] == at}
    return at in left_out or any(re.search(rf"\b{re.escape(name)}\b", text) for name in named)


def _leave_out(data: Any, at: Location, text: str) -> Location | None:
    """Take a wrong value out of the data; return which it was, None where none can be."""
    while at and isinstance(at[-1], int):  # of a list that has a wrong value all of it, but no group in it
        at = at[:-1]
    around, value = None, data
    for part in at:
        if isinstance(value, dict) and part not in value:
            return None  # it is missing
        around, value = value, value[part]
    named = _OF_GROUP.match(text)
    if named is not None and isinstance(value, dict) and named["key"] in value:
        around, at = value, (*at, named["key"])
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return None
    if not isinstance(around, dict):
        return None
    del around[at[-1]]
    return at


def _fault(file: Marked, at: Location, text: str) -> Fault:
    return Fault(file.line(at), shown(at), text)


def shown(at: Location) -> str:
    """Return a location as people write it: ``streams[0].policy.fps``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in at).lstrip(".")


# Pydantic's errors in our words


def explain(errors: Iterable[ErrorDetails], top: Any, data: Any) -> list[tuple[Location, str]]:
    """Return what is wrong with data, each with its location and what would be right.

    Args:
        errors: what validating the data against `top` found.
        top: the model or dataclass.
        data: the data.
    """
    found: dict[Location, list[str]] = {}
    details = [(_location(item["loc"], data), item) for item in errors]
    # Where a value may be of several kinds, pydantic reports what is wrong for each: the one it came deepest in counts.
    for at, item in details:
        if any(len(other) > len(at) and other[: len(at)] == at for other, _ in details):
            continue
        text = _explanation(item, at, top)
        if text not in found.setdefault(at, []):
            found[at].append(text)
    return [(at, "; or ".join(texts)) for at, texts in found.items()]


def _location(loc: tuple[str | int, ...], data: Any) -> Location:
    """Return a location in the data: without the names of the kinds that pydantic tried."""
    at: list[str | int] = []
    for index, part in enumerate(loc):
        inside = (isinstance(data, dict) and part in data) or (isinstance(data, list) and isinstance(part, int))
        if inside and isinstance(data, list) and not int(part) < len(data):
            break
        if inside:
            at.append(part)
            data = data[part]
        elif index == len(loc) - 1 and isinstance(data, dict) and str(part).isidentifier():
            at.append(part)  # a key that is missing
    return tuple(at)


def _explanation(item: ErrorDetails, at: Location, top: Any) -> str:
    kind, context = item["type"], item.get("ctx", {})
    if kind in _UNKNOWN_KEY:
        return _unknown_key(str(at[-1]), sorted(_keys(top, at[:-1])))
    if kind.startswith("missing"):
        return "is missing"
    given = item["input"]
    if at[-1:] == ("token",) and kind == "too_short":
        return f"is shorter than {SHORTEST_TOKEN} characters; `openssl rand -hex 24` makes a good one"
    if kind == "literal_error":
        return f"is {given!r}; it is {context['expected']}" + _nearest(str(given), context["expected"].split("'")[1::2])
    if kind == "value_error":
        return f"cannot be used: {context['error']}"
    if kind == "string_pattern_mismatch" and context.get("pattern") == NAME_PATTERN:
        return f"is {given!r}; a name has up to 64 letters, digits, '_', '-' and '.', and begins with a letter or digit"
    if kind == "string_type" and isinstance(given, int | float | bool):
        return f"is the {'truth value' if isinstance(given, bool) else 'number'} {given}; put a text in quotes"
    if kind in ("tuple_type", "list_type"):
        return f"is {given!r}; it is a list, as [1, 2] or with a line that begins with '-' for each"
    if kind in ("model_type", "dataclass_type", "dict_type"):
        keys = sorted(_keys(top, at))
        known = f": {', '.join(keys)}" if keys else ", as {key: value}"
        return f"is {'a list' if isinstance(given, list) else 'a single value'}; it is a group of keys{known}"
    if kind in ("too_long", "too_short"):
        wanted = (
            f"at {'most' if kind == 'too_long' else 'least'} {context.get('max_length', context.get('min_length'))}"
        )
        return f"has {context['actual_length']} values; right are {wanted}"
    if kind == "string_pattern_mismatch":
        return f"is {given!r}; it " + _PATTERNS.get(context["pattern"], f"fits {context['pattern']!r}")
    if kind == "string_too_short":
        return "is empty"
    if isinstance(given, float) and math.isnan(given):
        return f"is .nan, which is no number; it {_said(item)}"
    # What should be secret must not be shown because it is too short.
    is_shown = at[-1:] != ("token",) and not isinstance(given, dict | list)
    message = _said(item)
    return f"is {given!r}; it {message}" if is_shown else message[0].lower() + message[1:]


def _said(item: ErrorDetails) -> str:
    """Return what pydantic says of a value, as it goes on behind "it"."""
    message = item["msg"].removeprefix("Input ").replace("<class 'pathlib.Path'>", "a file")
    return message.partition(", unable to parse")[0]


def _unknown_key(key: str, known: list[str]) -> str:
    if not known:
        return "is no key that is known here"
    if nearest := difflib.get_close_matches(key.lower().replace("-", "_"), known, n=1, cutoff=0.5):
        return f"is no key; the nearest that is right is {nearest[0]!r} (of {', '.join(known)})"
    return f"is no key; right are {', '.join(known)}"


def _nearest(given: str, known: list[str]) -> str:
    nearest = difflib.get_close_matches(given, known, n=1, cutoff=0.5)
    return f"; the nearest is {nearest[0]!r}" if nearest else ""


def _keys(top: Any, at: Location) -> set[str]:
    """Return the keys that are right at a location, of all kinds of value that are right there."""
    return {name for kind in _kinds(top, at) for name in _fields(kind)}


def _kinds(top: Any, at: Location) -> list[Any]:
    """Return the kinds of value that are right at a location."""
    kinds = _alternatives(top)
    for part in at:
        kinds = [inner for kind in kinds for inner in _inside(kind, part)]
    return kinds


def empty_paths(data: Any, top: Any, at: Location = ()) -> Iterator[Location]:
    """Give the places of empty texts where a file or folder is wanted: they would be the present one."""
    if isinstance(data, dict | list):
        for part, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from empty_paths(value, top, (*at, part))
    elif isinstance(data, str) and not data.strip() and Path in _kinds(top, at):
        yield at


def _fields(kind: Any) -> dict[str, Any]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {name: field.annotation for name, field in kind.model_fields.items()}
    if is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        return {field.name: hints[field.name] for field in fields(kind)}
    return {}


def _inside(kind: Any, part: str | int) -> list[Any]:
    """Return the kinds of value that a key or an item may have."""
    if isinstance(part, int):
        return [inner for argument in get_args(kind)[:1] for inner in _alternatives(argument)]
    known = _fields(kind)
    return _alternatives(known[part]) if part in known else []


def _alternatives(annotation: Any) -> list[Any]:
    if get_origin(annotation) is Annotated:
        return _alternatives(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return [inner for argument in get_args(annotation) for inner in _alternatives(argument)]
    return [annotation]
