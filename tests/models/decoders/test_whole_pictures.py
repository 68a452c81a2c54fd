"""Heads that speak of the whole picture: classes, embeddings, segmentations; and what tells them apart."""

from __future__ import annotations

import math

import numpy as np
import pytest
from array_surfaces import noise
from constant_networks import constant_network
from layouts import Layout

from sluice.errors import ModelError
from sluice.models.frame import Frame
from sluice.models.inspection import inspect_model
from sluice.models.network import NetworkModel


def open_outputs(tmp_path, outputs, metadata=None, shape=(1, 3, 64, 96), **options):
    layout = Layout("", outputs, metadata or {}, shape)
    model = NetworkModel(constant_network(tmp_path / "m.onnx", layout), **options)
    model.load()
    return model


def infer(model, width=96, height=64):
    [found] = model.infer([Frame(noise("RGB", width, height), stream=0, number=0, pts=None)])
    return found.validate((width, height)).whole


def logits():
    values = np.full((1, 1000), -2, np.float32)
    values[0, [7, 3, 900]] = 8, 7, 5
    return values


def test_logits_become_probabilities_best_first(tmp_path):
    whole = infer(open_outputs(tmp_path, {"output": logits()}, confidence=0.1))
    total = math.exp(8) + math.exp(7) + math.exp(5) + 997 * math.exp(-2)
    assert [result.class_id for result in whole.classification] == [7, 3]
    assert [result.score for result in whole.classification] == pytest.approx(
        [math.exp(8) / total, math.exp(7) / total], rel=1e-4
    )


def test_probabilities_stay_as_they_are(tmp_path):
    values = np.array([[0.1, 0.6, 0.3]], np.float32)
    whole = infer(open_outputs(tmp_path, {"output": values}))
    assert [(result.class_id, round(result.score, 6)) for result in whole.classification] == [(1, 0.6), (2, 0.3)]


def test_no_class_is_sure_enough(tmp_path):
    assert infer(open_outputs(tmp_path, {"output": logits()}, confidence=0.9)).classification == []


def test_several_attributes(tmp_path):
    outputs = {"colour": np.array([[0.1, 0.9]], np.float32), "kind": np.array([[0.2, 0.1, 0.7]], np.float32)}
    with pytest.raises(ModelError, match="decoder=classification"):
        open_outputs(tmp_path, outputs)
    whole = infer(open_outputs(tmp_path, outputs, decoder="classification", confidence=0.5))
    assert [(r.name, r.index, r.class_id) for r in whole.classification] == [("colour", 0, 1), ("kind", 1, 2)]


@pytest.mark.parametrize(
    ("count", "name", "metadata", "shape", "decoder"),
    [
        (1000, "output", {}, (1, 3, 64, 96), "classification"),
        (1001, "output", {}, (1, 64, 96, 3), "classification"),
        (7, "logits", {}, (1, 3, 64, 96), "classification"),
        (3, "output0", {"task": "classify", "names": "{0: 'a', 1: 'b', 2: 'c'}"}, (1, 3, 64, 96), "classification"),
        (512, "output", {}, (1, 3, 256, 128), "embedding"),
        (256, "embedding", {}, (1, 3, 112, 112), "embedding"),
        (512, "output", {}, (1, 3, 112, 112), None),
        (40, "output", {}, (1, 3, 256, 128), None),  # attributes of a person, or a short embedding
    ],
)
def test_classes_and_embeddings_are_told_apart_by_evidence_alone(tmp_path, count, name, metadata, shape, decoder):
    values = np.linspace(-3, 8, count, dtype=np.float32)[None]
    layout = Layout("", {name: values}, metadata, shape)
    found = inspect_model(constant_network(tmp_path / "m.onnx", layout))
    assert found.decoder == decoder
    if decoder is None:
        assert "decoder=classification or decoder=embedding" in found.why


def test_values_tell_where_shapes_do_not(tmp_path):
    unit = np.full((1, 64), 1 / 8, np.float32)
    unit[0, :3] *= -1
    assert open_outputs(tmp_path, {"output": unit}).head.decoder == "embedding"
    shares = np.full((1, 64), 1 / 64, np.float32)
    assert open_outputs(tmp_path, {"output": shares}).head.decoder == "classification"


def test_an_embedding_is_given_as_it_is(tmp_path):
    values = np.random.default_rng(0).normal(size=(1, 128, 1, 1)).astype(np.float32)
    whole = infer(open_outputs(tmp_path, {"output": values}, decoder="embedding"))
    assert np.array_equal(whole.embedding, values.ravel())


def class_map():
    """8 x 12 cells of 0, 1, 2: class 1 in the right half, class 2 in the last line."""
    cells = np.zeros((8, 12), np.int64)
    cells[:, 6:] = 1
    cells[-1] = 2
    return cells


def one_hot(high, low):
    return np.where(class_map() == np.arange(3)[:, None, None], high, low).astype(np.float32)[None]


@pytest.mark.parametrize(
    ("outputs", "probabilities"),
    [
        ({"output": one_hot(3, -3)}, False),
        ({"output": one_hot(0.8, 0.1)}, True),
        ({"output": one_hot(3, -3).transpose(0, 2, 3, 1)}, False),
        ({"output": class_map()[None]}, False),
        ({"output": class_map()[None, None].astype(np.int32)}, False),
        ({"output": class_map()[None, ..., None].astype(np.uint8)}, False),
        ({"out": one_hot(3, -3), "aux": one_hot(-3, 3)}, False),
    ],
)
def test_segmentation_in_every_form(tmp_path, outputs, probabilities):
    model = open_outputs(tmp_path, outputs)
    assert model.head.decoder == "segmentation"
    segmentation = infer(model).segmentation
    assert np.array_equal(segmentation.class_map, class_map())
    assert segmentation.classes == 3
    assert (segmentation.probabilities is not None) == probabilities


@pytest.mark.parametrize("levels", [(2, -2), (0.9, 0.1)], ids=["logits", "probabilities"])
def test_a_foreground_of_one_channel(tmp_path, levels):
    values = np.where(class_map() == 1, *levels).astype(np.float32)[None, None]
    segmentation = infer(open_outputs(tmp_path, {"output": values})).segmentation
    assert np.array_equal(segmentation.class_map, np.where(class_map() == 1, 0, -1))


def test_padding_is_cut_off_a_segmentation(tmp_path):
    """A square frame lies in the middle third of 96 x 32, 32 to 64: cells 4 to 7 of 12."""
    cells = np.arange(4 * 12).reshape(1, 4, 12)
    model = open_outputs(tmp_path, {"output": cells}, shape=(1, 3, 32, 96), fit="centre")
    assert np.array_equal(infer(model, 64, 64).segmentation.class_map, cells[0, :, 4:8])


def test_a_detector_at_a_sixteenth_is_no_segmentation(tmp_path):
    """FastestDet's probabilities are taken for a detector's; logits have to be named."""
    values = np.full((1, 8, 4, 6), 0.1, np.float32)
    assert open_outputs(tmp_path, {"output": values}).head.decoder == "fastestdet"
    with pytest.raises(ModelError, match="decoder=segmentation"):
        open_outputs(tmp_path, {"output": values - 3})
    assert open_outputs(tmp_path, {"output": values - 3}, decoder="segmentation").head.decoder == "segmentation"
