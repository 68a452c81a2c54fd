"""The settings of single streams, from YAML."""

import json

import pytest

from sluice.errors import ConfigurationError
from sluice.vlm.config import read_settings
from sluice.vlm.prompts import DEFAULT_PROMPT, Situation

HERE = Situation(0, "gate")


def written(tmp_path, text):
    path = tmp_path / "vlm.yml"
    path.write_text(text)
    return path


def test_without_a_file() -> None:
    settings = read_settings({"prompt": "What?", "every": 3.0, "labels": "a;b"})
    one = settings.of(4, "gate")
    assert (one.prompt.fill(HERE), one.selection.every, one.check.mode) == ("What?", 3.0, "labels")
    assert read_settings({}).default.prompt.text == DEFAULT_PROMPT


def test_streams_by_name_and_number(tmp_path) -> None:
    (tmp_path / "schema.json").write_text(json.dumps({"type": "array"}))
    path = written(
        tmp_path,
        """
prompt: Is the gate open?
labels: [open, closed]
streams:
  gate: {every: 1, frames: 4, overlap: 2}
  1: {prompt: "How full, {name}?", labels: [empty, full], trigger: "object:truck"}
  yard: {schema-file: schema.json}
  roof: {schema: {type: integer}, every: 2.5}
""",
    )
    settings = read_settings({"prompt": "not this", "every": 7.0}, path)
    gate, first, yard, roof, other = (
        settings.of(*at) for at in ((0, "gate"), (1, "b"), (2, "yard"), (3, "roof"), (4, "x"))
    )
    assert (gate.prompt.text, gate.selection.every, gate.selection.overlap) == ("Is the gate open?", 1.0, 2)
    assert first.prompt.fill(HERE) == "How full, gate?"
    assert first.check.instructions.endswith("empty, full")
    assert str(first.selection.triggers[0]) == "object:truck"
    assert (yard.check.mode, yard.check.value("[]")) == ("json", [])
    assert (roof.check.value("3"), roof.selection.every) == (3, 2.5)
    assert (other.selection.every, other.check.mode) == (7.0, "labels")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("promt: x", "no key 'promt'; did you mean 'prompt'"),
        ("streams: {gate: {evry: 1}}", "stream gate: there is no key 'evry'; did you mean 'every'"),
        ("streams: [gate]", "streams is a list"),
        ("streams: {gate: 3}", "stream gate: is a int"),
        ("every: fast", "every is 'fast'; right is a number"),
        ("frames: 2.5", "right is a whole number"),
        ("frames: true", "right is a whole number"),
        ("prompt: [a]", "prompt is"),
        ("streams: {gate: {prompt: '{x}'}}", "stream gate: the prompt has the unknown placeholder"),
        ("streams: {gate: {schema: {type: 3}}}", "stream gate: the schema is no JSON Schema"),
        ("{schema: {}, schema-file: a.json}", "both schema and schema-file"),
        ("labels: [yes, no]", "labels holds True, which YAML makes of words such as yes"),
        ("streams: {gate: {labels: [null, a]}}", "stream gate: labels holds None"),
        ("- a", "holds a list"),
        ("a: [", "no YAML"),
        ("[" * 5000, "no YAML"),
        ("!!python/object:os.system {}", "no YAML"),
    ],
)
def test_what_is_refused_by_name(tmp_path, text, says) -> None:
    with pytest.raises(ConfigurationError, match=r"vlm\.yml") as caught:
        read_settings({}, written(tmp_path, text))
    assert says in str(caught.value)


def test_files_that_are_missing_or_endless(tmp_path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_settings({}, tmp_path / "no-such.yml")
    with pytest.raises(ConfigurationError, match="at most"):
        read_settings({}, written(tmp_path, " " * (2 << 20)))
