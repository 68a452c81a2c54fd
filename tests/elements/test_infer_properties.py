"""The properties of sluiceinfer: how their values are read and refused."""

import pytest

from sluice.elements.infer_properties import ALIASES, BY_NAME, PROPERTIES, Settings, declarations, property_name
from sluice.errors import ConfigurationError


def values(**changes):
    """The defaults of all properties with some changed; an underscore stands for the hyphen."""
    changed = {name.replace("_", "-"): value for name, value in changes.items()}
    assert changed.keys() <= BY_NAME.keys()
    return {entry.name: entry.default for entry in PROPERTIES} | changed


def test_defaults_mean_the_models_own():
    settings = Settings.from_values(values(model="net.onnx"))
    assert (settings.confidence, settings.iou, settings.max_detections, settings.classes) == (None, None, None, None)
    assert (settings.runtime, settings.device, settings.unique_id, settings.instance_id) == ("auto", "auto", 15, None)


def test_zero_is_a_value_not_a_default():
    settings = Settings.from_values(values(model="net.onnx", confidence_threshold=0.0, iou_threshold=0.0))
    assert (settings.confidence, settings.iou) == (0.0, 0.0)


@pytest.mark.parametrize("nothing", [None, ""])
def test_a_model_must_be_named(nothing):
    with pytest.raises(ConfigurationError, match=r"model is not set.*model=none"):
        Settings.from_values(values(model=nothing))


@pytest.mark.parametrize("wrong", ["Fail", "ignore", "", None])
def test_on_error_takes_two_words(wrong):
    with pytest.raises(ConfigurationError, match="'fail' or 'skip'"):
        Settings.from_values(values(model="m", on_error=wrong))


@pytest.mark.parametrize(
    ("text", "classes"),
    [
        (None, None),
        (" ; ", None),
        ("0;2", (0, 2)),
        ("0:2:3", (0, 2, 3)),
        ("person, traffic light", ("person", "traffic light")),
        ("2,person", (2, "person")),
    ],
)
def test_classes_are_ids_or_labels(text, classes):
    assert Settings.from_values(values(model="m", classes=text)).classes == classes


def test_options_are_pairs():
    settings = Settings.from_values(values(model="m", model_options="threads=2; expression=a=b;"))
    assert settings.options == (("threads", "2"), ("expression", "a=b"))


@pytest.mark.parametrize("text", ["threads", "=2", "threads:2"])
def test_an_option_without_key_or_value_is_refused(text):
    with pytest.raises(ConfigurationError, match="key=value"):
        Settings.from_values(values(model="m", model_options=text))


def test_every_property_is_declared_with_a_text():
    declared = declarations()
    assert declared.keys() == {*BY_NAME, *ALIASES, "stats"}
    assert all(entry[1] == name and len(entry[2]) > 15 for name, entry in declared.items())


def test_an_alias_is_kept_under_the_propertys_name():
    assert {property_name(alias) for alias in ("model-engine", "model-path", "model-engine-file")} == {"model"}
    assert property_name("unique-id") == "unique-id"
