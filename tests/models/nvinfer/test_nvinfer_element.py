"""What a configuration file says to the element, and what goes before it."""

from __future__ import annotations

import pytest

from sluice.elements.infer_properties import BY_NAME
from sluice.models.nvinfer.element import ELEMENT_PROPERTIES, element_values

SECONDARY = """[property]
onnx-file=net.onnx
network-type=1
gie-unique-id=4
process-mode=2
batch-size=16
operate-on-gie-id=1
operate-on-class-ids=0;2;
input-object-min-width=40
secondary-reinfer-interval=90
classifier-async-mode=1
"""


@pytest.fixture
def path(tmp_path):
    (tmp_path / "sgie.txt").write_text(SECONDARY)
    return tmp_path / "sgie.txt"


def test_a_file_sets_properties(path):
    assert element_values(path, ()) == {
        "unique-id": 4,
        "process-mode": "secondary",
        "batch-size": 16,
        "infer-on-gie-id": 1,
        "infer-on-class-ids": "0:2",
        "input-object-min-width": 40,
        "secondary-reinfer-interval": 90,
        "classifier-async-mode": True,
    }


def test_properties_that_were_set_go_before(path):
    values = element_values(path, {"unique-id", "batch-size", "infer-on-class-ids", "input-object-min-width"})
    assert {"unique-id", "batch-size", "infer-on-class-ids", "infer-on-gie-id"}.isdisjoint(values)
    assert values["input-object-min-width"] == 40  # of these the file is always right, in nvinfer as here
    assert values["process-mode"] == "secondary"


def test_never_again_is_the_default(path):
    path.write_text("[property]\nonnx-file=n\nnetwork-type=1\nsecondary-reinfer-interval=2147483647\n")
    assert element_values(path, ()) == {"secondary-reinfer-interval": -1}


def test_the_properties_exist():
    assert set(BY_NAME) >= ELEMENT_PROPERTIES
