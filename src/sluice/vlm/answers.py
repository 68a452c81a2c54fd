"""What counts as an answer: a text, JSON that fits a schema, or one of some labels.

``jsonschema`` checks, as it is the reference implementation in Python; references to other files are not followed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from sluice.errors import ConfigurationError
from sluice.vlm.failures import NoAnswer, Reason

MODES = ("auto", "text", "json", "labels")

_FENCE = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL)
_THINKING = re.compile(r"<think>.*?</think>", re.DOTALL)
_MOST_SCHEMA_BYTES = 1 << 20
_SHOWN = 120


class Check(Protocol):
    """Says what an answer must be, and whether a text is one.

    Attributes:
        mode: "text", "json" or "labels".
        instructions: what the prompt says of it besides, "" for nothing.
        schema: a JSON Schema that an endpoint may hold the model to, or None.
    """

    mode: str
    instructions: str
    schema: Any

    def value(self, text: str) -> Any:
        """Return the value of an answer.

        Raises:
            NoAnswer: it is none (`Reason.INVALID_ANSWER`).
        """


class TextCheck:
    """Any text but an empty one."""

    mode = "text"
    instructions = ""
    schema: Any = None

    def value(self, text: str) -> None:
        """A text has no value besides itself."""
        if not text:
            raise NoAnswer(Reason.INVALID_ANSWER, "the answer is empty")


class LabelsCheck:
    """Exactly one of some labels, perhaps in a sentence that names no other."""

    mode = "labels"
    schema: Any = None

    def __init__(self, labels: Sequence[str]) -> None:
        """Take the labels.

        Raises:
            ConfigurationError: there are fewer than two, or two that differ in nothing but case.
        """
        self._labels = [label.strip() for label in labels if label.strip()]
        folded = {label.casefold() for label in self._labels}
        if len(self._labels) < 2 or len(folded) != len(self._labels):
            raise ConfigurationError(f"labels is {'; '.join(labels)!r}; right are two or more different ones")
        self.instructions = f"Answer with exactly one of these, and nothing else: {', '.join(self._labels)}"

    def value(self, text: str) -> str:
        """The label that the text names."""
        said = text.casefold()
        # The longest first, and each taken out where it was found: "not safe" names no "safe".
        named = []
        for label in sorted(self._labels, key=len, reverse=True):
            said, count = re.subn(rf"(?<!\w){re.escape(label.casefold())}(?!\w)", " ", said)
            named += [label] if count else []
        if len(named) != 1:
            found = " and ".join(named) if named else "none of them"
            raise NoAnswer(
                Reason.INVALID_ANSWER,
                f"the answer {_shown(text)} names {found}; right is one of {', '.join(self._labels)}",
            )
        return named[0]


class JsonCheck:
    """A JSON value, one that fits a schema if there is one."""

    mode = "json"

    def __init__(self, schema: Any = None) -> None:
        """Take a JSON Schema (2020-12 unless it names another), or None for any JSON.

        Raises:
            ConfigurationError: it is no JSON Schema, or jsonschema is not installed.
        """
        self.schema = schema
        self.instructions = "Answer with one JSON value and nothing else."
        self._validator = None
        if schema is not None:
            self._validator = _validator(schema)
            self.instructions = (
                "Answer with one JSON value that fits this JSON Schema, and nothing else: "
                f"{json.dumps(schema, ensure_ascii=False)}"
            )

    def value(self, text: str) -> Any:
        """The JSON value in the text, which may be in a code fence or have words around it."""
        value = _json_in(text)
        if self._validator is not None:
            try:
                fault = next(iter(self._validator.iter_errors(value)), None)
            except Exception as error:  # a $ref that leads nowhere, a pattern that Python cannot compile
                raise NoAnswer(Reason.INVALID_ANSWER, f"the schema cannot be used: {error}") from error
            if fault is not None:
                raise NoAnswer(
                    Reason.INVALID_ANSWER,
                    f"the answer {_shown(text)} does not fit the schema at {fault.json_path}: {fault.message[:200]}",
                )
        return value


def make_check(mode: str, labels: Sequence[str], schema: Any) -> Check:
    """Return the check for a mode; "auto" goes by what is given.

    Raises:
        ConfigurationError: an unknown mode, or one that does not go with what is given.
    """
    if mode not in MODES:
        raise ConfigurationError(f"answer-mode is {mode!r}; there are {', '.join(MODES)}")
    if labels and schema is not None:
        raise ConfigurationError("both labels and a schema are given; an answer is one or the other")
    if mode == "auto":
        mode = "labels" if labels else "json" if schema is not None else "text"
    if (labels and mode != "labels") or (schema is not None and mode != "json"):
        raise ConfigurationError(f"answer-mode is {mode!r}, which takes no {'labels' if labels else 'schema'}")
    return LabelsCheck(labels) if mode == "labels" else JsonCheck(schema) if mode == "json" else TextCheck()


def read_schema(path: str | Path) -> Any:
    """Read a JSON Schema from a file.

    Raises:
        ConfigurationError: there is none in it.
    """
    try:
        data = Path(path).read_bytes()
        if len(data) > _MOST_SCHEMA_BYTES:
            raise ValueError(f"it has {len(data)} bytes, more than {_MOST_SCHEMA_BYTES}")
        schema = json.loads(data)
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"the JSON Schema {str(path)!r} cannot be read: {error}") from error
    if not isinstance(schema, dict | bool):
        raise ConfigurationError(f"{str(path)!r} holds a {type(schema).__name__}, no JSON Schema; right is an object")
    return schema


def cleaned(text: str) -> str:
    """Return an answer without what a model thought aloud, white space at its ends, and halves of surrogate pairs.

    A thought may lack its first mark, which chat templates of thinking models put into the prompt, or, cut off by the
    limit of tokens, its last one.
    """
    said = _THINKING.sub("", text).rpartition("</think>")[2].partition("<think>")[0]
    return said.strip().encode("utf-8", "replace").decode("utf-8")


def _validator(schema: Any) -> Any:
    try:
        import jsonschema
        from referencing import Registry
    except ImportError as error:
        raise ConfigurationError(
            f"answers are checked with the package jsonschema, which cannot be imported: {error}; "
            "pip install 'sluice-video[vlm]'"
        ) from error
    if not isinstance(schema, dict | bool):
        raise ConfigurationError(f"the schema is a {type(schema).__name__}, no JSON Schema; right is an object")
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise ConfigurationError(
            f"the schema is no JSON Schema, at {error.json_path}: {error.message[:200]}"
        ) from error
    # A registry of its own: by default jsonschema fetches references from the network.
    return kind(schema, registry=Registry())


def _json_in(text: str) -> Any:
    fenced = _FENCE.search(text)
    candidates = [text, *([fenced[1]] if fenced else [])]
    begins = min((place for place in (text.find("{"), text.find("[")) if place >= 0), default=None)
    ends = max(text.rfind("}"), text.rfind("]"))
    if begins is not None and ends > begins:
        candidates.append(text[begins : ends + 1])
    fault: Exception | None = None
    for candidate in candidates:
        try:
            return json.loads(candidate, parse_constant=_refuse, parse_float=_finite)
        except (ValueError, RecursionError) as error:
            fault = fault or error
    raise NoAnswer(Reason.INVALID_ANSWER, f"the answer {_shown(text)} is no JSON: {fault}")


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(text)


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
