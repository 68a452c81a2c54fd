"""What the properties say of the objects and regions that a model is given."""

import pytest

from sluice.elements.infer_properties import PROPERTIES
from sluice.elements.infer_scope import Scope, parse_class_ids
from sluice.errors import ConfigurationError

DEFAULTS = {entry.name: entry.default for entry in PROPERTIES}


def scope(**values: object) -> Scope:
    return Scope.from_values(DEFAULTS | {name.replace("_", "-"): value for name, value in values.items()})


def test_the_default_is_whole_frames():
    assert scope() == Scope()


@pytest.mark.parametrize(
    ("mode", "secondary"), [("primary", False), ("1", False), ("secondary", True), ("2", True), (" Secondary", True)]
)
def test_the_mode_by_name_and_by_nvinfers_number(mode, secondary):
    assert scope(process_mode=mode).secondary is secondary


def test_every_value_has_its_place():
    found = scope(
        process_mode="secondary",
        infer_on_gie_id=0,
        infer_on_class_ids="0:2",
        input_object_min_width=1,
        input_object_min_height=2,
        input_object_max_width=3,
        input_object_max_height=4,
        secondary_reinfer_interval=0,
        classifier_async_mode=True,
    )
    assert found == Scope(True, 0, frozenset({0, 2}), (1, 2), (3, 4), 0, True)
    regions = scope(roi_params="0=1;2;3;4", clip_object_outside_roi=False, output_tensor_meta=True)
    assert regions == Scope(regions="0=1;2;3;4", clip=False, outputs=True)


@pytest.mark.parametrize(
    ("text", "expected"), [(None, None), ("", None), ("0:2:3", {0, 2, 3}), ("7", {7}), ("1;-2,30 4", {1, 30, 4})]
)
def test_class_ids_are_read_as_nvinfer_does(text, expected):
    assert parse_class_ids(text) == expected


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"process_mode": "both"}, "process-mode is 'both'"),
        ({"process_mode": None}, "process-mode is None"),
        ({"infer_on_class_ids": "car"}, "infer-on-class-ids is 'car'"),
        ({"classifier_async_mode": True}, "needs process-mode=secondary"),
        ({"classifier_async_mode": True, "process_mode": "2", "output_tensor_meta": True}, "one of them"),
        ({"roi_params": "0=0;0;9;9", "process_mode": "2"}, "regions are parts of frames"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(values, said):
    with pytest.raises(ConfigurationError, match=said):
        scope(**values)
