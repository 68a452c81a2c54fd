"""What exporters write into network files, as texts: class numbers stay numbers, what is broken is refused in words."""

import pytest

from sluice.errors import ModelError
from sluice.runtimes.base import json_texts, metadata_texts


def test_class_numbers_become_numbers_again():
    assert json_texts('{"names": {"0": "a", "12": "b"}}', "m") == {"names": "{0: 'a', 12: 'b'}"}
    assert json_texts(b"", "m") == {}


@pytest.mark.parametrize("key", ["\u00b2", "9" * 5000, "-1", "one"])
def test_keys_that_are_no_class_number_stay_texts(key):
    assert metadata_texts({"names": {key: "a"}}) == {"names": str({key: "a"})}


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", "is no JSON"), ("[" * 3000, "is no JSON"), (b"\xff", "is no JSON"), ("[]", "is list")],
)
def test_what_is_no_json_object_is_refused(text, said):
    with pytest.raises(ModelError, match=f"m.torchscript: config.txt {said}"):
        json_texts(text, "m.torchscript: config.txt")
