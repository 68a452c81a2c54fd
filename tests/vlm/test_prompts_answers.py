"""Prompts are filled in, answers are checked."""

import json

import pytest

from sluice.errors import ConfigurationError
from sluice.vlm.answers import JsonCheck, LabelsCheck, TextCheck, cleaned, make_check, read_schema
from sluice.vlm.failures import NoAnswer, Reason
from sluice.vlm.prompts import Prompt, Situation

SITUATION = Situation(
    stream=2,
    name="gate",
    pts=3_723_500_000_000,
    utc=1_769_851_800_480_000_000,
    duration=8_000_000_000,
    frames=5,
    labels=["person", "car", "person", ""],
    cause="line:exit",
)


def test_every_placeholder() -> None:
    text = "{stream} {name} {time} {pts} {duration} {frames} {count} {count:person} {count:dog} {labels} {cause} {{x}}"
    assert Prompt(text).fill(SITUATION) == (
        "2 gate 2026-01-31 09:30:00 UTC 3723.500 8.0 5 4 2 0 person, car,  line:exit {x}"
    )
    assert Prompt("{objects}").fill(SITUATION) == "2 person, 1 car, 1 object"


def test_what_is_not_known() -> None:
    nothing = Situation(stream=0, name="0")
    assert Prompt("{time} {pts} {objects} {labels}").fill(nothing) == "unknown unknown nothing none"
    assert Prompt("{time}").fill(Situation(0, "0", pts=3_723_000_000_000)) == "1:02:03"


@pytest.mark.parametrize(
    "text",
    ["{nme}", "{}", "{0}", "{name.x}", "{name!r}", "{name:>9}", "{count[a]}", "{", "a } b", '{"a": 1}', "{__class__}"],
)
def test_prompts_that_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="brace that is meant itself is written twice"):
        Prompt(text)


def test_labels_from_a_model_are_text_and_not_placeholders() -> None:
    assert Prompt("{labels}").fill(Situation(0, "0", labels=["{name}"])) == "{name}"


def test_what_a_model_thought_is_no_answer() -> None:
    assert cleaned("<think>hm\nhm</think>\n yes \ud800") == "yes ?"
    assert cleaned("hm, a van\n</think>\n\nyes") == "yes"  # the chat template ended with the first mark
    assert cleaned("<think>hm, a van, or perhaps") == ""  # the limit of tokens came before an answer
    assert cleaned("2 < 3 <think>hm</think>> 1") == "2 < 3 > 1"


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Safe", "safe"),
        ("**not safe**.", "not safe"),
        ("The scene is NOT SAFE", "not safe"),
        ("safely", None),
        ("safe or not safe", None),
        ("", None),
        ("nothing of it", None),
    ],
)
def test_one_of_some_labels(text: str, label: str | None) -> None:
    check = LabelsCheck(["safe", " not safe ", ""])
    if label is None:
        with pytest.raises(NoAnswer, match="right is one of safe, not safe") as caught:
            check.value(text)
        assert caught.value.reason is Reason.INVALID_ANSWER
    else:
        assert check.value(text) == label
    assert check.instructions.endswith("safe, not safe")


SCHEMA = {
    "type": "object",
    "properties": {"people": {"type": "integer", "minimum": 0}, "what": {"type": "string"}},
    "required": ["people"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "text",
    [
        '{"people": 2}',
        ' {"people": 2}\n',
        '```json\n{"people": 2}\n```',
        'Here it is:\n```\n{"people": 2}\n```\nBye',
        'The answer is {"people": 2}.',
    ],
)
def test_json_that_fits(text: str) -> None:
    assert JsonCheck(SCHEMA).value(text) == {"people": 2}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "two",
        '{"people": -1}',
        '{"people": "2"}',
        '{"people": 2, "more": 1}',
        '{"people": NaN}',
        '{"people": 1e999}',
        "[]",
        '{"people": 2',
        "[" * 100_000,
        "9" * 10_000,
        '{"what": "\ud800"}',
    ],
)
def test_json_that_does_not_fit(text: str) -> None:
    with pytest.raises(NoAnswer) as caught:
        JsonCheck(SCHEMA).value(text)
    assert caught.value.reason is Reason.INVALID_ANSWER
    assert len(str(caught.value)) < 600


def test_any_json_without_a_schema() -> None:
    assert make_check("json", [], None).value("[1, 2]") == [1, 2]


def test_a_schema_is_said_to_the_model_and_never_fetched_from_a_network() -> None:
    check = JsonCheck({"$ref": "http://127.0.0.1:1/schema.json"})
    assert "http://127.0.0.1:1/schema.json" in check.instructions
    with pytest.raises(NoAnswer, match="the schema cannot be used"):
        check.value("{}")


def test_texts() -> None:
    TextCheck().value("a street")
    with pytest.raises(NoAnswer, match="empty"):
        TextCheck().value("")


def test_the_mode_goes_by_what_is_given(tmp_path) -> None:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(SCHEMA))
    modes = [make_check("auto", *given).mode for given in (([], None), (["a", "b"], None), ([], read_schema(path)))]
    assert modes == ["text", "labels", "json"]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (("yes", [], None), "there are auto, text, json, labels"),
        (("auto", ["a", "b"], {}), "one or the other"),
        (("json", ["a", "b"], None), "takes no labels"),
        (("text", [], {}), "takes no schema"),
        (("labels", [], None), "two or more"),
        (("auto", ["a", "A"], None), "two or more different"),
        (("auto", [], {"type": "strnig"}), "no JSON Schema"),
        (("auto", [], 7), "no JSON Schema"),
    ],
)
def test_checks_that_are_refused(given, text) -> None:
    with pytest.raises(ConfigurationError, match=text):
        make_check(*given)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'"text"', b"\xff", b"[" * 100_000, b" " * (1 << 21)])
def test_schema_files_that_are_refused(tmp_path, content) -> None:
    path = tmp_path / "schema.json"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"schema\.json"):
        read_schema(path)
    with pytest.raises(ConfigurationError, match="no-such"):
        read_schema(tmp_path / "no-such.json")
