"""What exporters write into network files, as texts: class numbers become numbers, what is none stays a text."""

import pytest

from sluice.runtimes.base import metadata_texts


def test_class_numbers_become_numbers_again():
    assert metadata_texts({"names": {"0": "a", "12": "b"}}) == {"names": "{0: 'a', 12: 'b'}"}


@pytest.mark.parametrize("key", ["\u00b2", "9" * 5000, "-1", "one"])
def test_keys_that_are_no_class_number_stay_texts(key):
    assert metadata_texts({"names": {key: "a"}}) == {"names": str({key: "a"})}
