"""Networks that give nothing, or numbers that are none: refused by name, never a crash and never a wrong box."""

from __future__ import annotations

import numpy as np
import pytest
from array_surfaces import noise
from constant_networks import constant_network
from layouts import HEIGHT, WIDTH, Layout, input_of, layouts

from sluice.errors import ConfigurationError, ModelError
from sluice.models.decoders import DECODERS
from sluice.models.decoders.base import HIGHEST_CLASS, best_classes, check_boxes, input_size, metadata_names, sure
from sluice.models.decoders.yolo_pose import keypoint_shape
from sluice.models.frame import Frame
from sluice.models.inspection import inspect_model
from sluice.models.letterbox import Letterbox
from sluice.models.loading import load_model
from sluice.models.postprocess import to_detections
from sluice.models.preprocess import Preprocessing
from sluice.runtimes.base import NetworkInfo, TensorInfo

LAYOUTS = layouts()


def info_of(layout):
    outputs = tuple(TensorInfo(name, np.shape(v), str(np.asarray(v).dtype)) for name, v in layout.outputs.items())
    return NetworkInfo((TensorInfo("images", layout.shape, layout.dtype),), outputs, layout.metadata)


def picture_metadata(**metadata):
    return NetworkInfo((TensorInfo("images", (1, 3, None, None), "float32"),), (), metadata)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30])
@pytest.mark.parametrize("key", LAYOUTS)
def test_outputs_of_one_value(key, value):
    """Whatever all numbers are: finite boxes, none at all, or an error that says what is wrong with them."""
    layout = LAYOUTS[key]
    info, size = info_of(layout), input_of(layout)
    decoder = DECODERS[layout.decoder](info, *size)
    outputs = [
        np.full_like(array, value) if array.dtype.kind == "f" else array
        for array in map(np.asarray, layout.outputs.values())
    ]
    try:
        with np.errstate(all="ignore"):
            raw = check_boxes(decoder.decode(outputs, 0, 0.3))
            box = Letterbox.fit(size, size)
            iou = 0.45 if decoder.needs_nms else None
            found = to_detections(raw, box, size, iou=iou, class_agnostic=False, max_detections=300)
    except ModelError:
        return
    found.validate(size)
    assert (np.abs(found.class_ids.astype(int)) <= HIGHEST_CLASS).all()
    assert not np.isnan(value), "a head without a single number that is one has to be named"


def test_a_score_that_is_nan_is_said_and_not_left_out():
    scores = np.array([[0.9, 0.1], [np.nan, 0.2]], np.float32)
    with pytest.raises(ModelError, match="scores are NaN"):
        best_classes(scores, 0.5)
    with pytest.raises(ModelError, match="scores are NaN"):
        sure(scores[:, 0], 0.5)
    assert sure(np.empty(0, np.float32), 0.5).tolist() == []


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38, 2e6])
def test_a_class_that_no_network_has_is_said(bad):
    """It would become class -2147483648."""
    layout = LAYOUTS["yolo end to end"]
    decoder = DECODERS[layout.decoder](info_of(layout), *input_of(layout))
    [values] = [np.array(values) for values in layout.outputs.values()]
    assert len(check_boxes(decoder.decode([values], 0, 0.3)).xyxy)
    values[0, int(values[0, :, 4].argmax()), 5] = bad
    with (
        np.errstate(invalid="ignore"),
        pytest.raises(ModelError, match=r"the class of a box is .*right is 0 to 1000000"),
    ):
        check_boxes(decoder.decode([values], 0, 0.3))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_box_that_is_no_box_names_file_and_value(tmp_path, bad):
    layout = LAYOUTS["yolov8 with names"]
    outputs = {name: np.array(values) for name, values in layout.outputs.items()}
    [values] = outputs.values()
    cell = int(values[0, 4:].max(axis=0).argmax())
    values[0, 2, cell] = bad
    path = constant_network(tmp_path / "broken.onnx", Layout(layout.decoder, outputs, layout.metadata))
    model = load_model(path, device="cpu", confidence=0.3)
    with pytest.raises(ModelError, match=r"broken\.onnx: a box is .*right are finite numbers"):
        model.infer([Frame(noise("RGB", WIDTH, HEIGHT), stream=0, number=0, pts=None)])


@pytest.mark.parametrize(
    ("decoder", "value"), [("classification", np.nan), ("classification", np.inf), ("segmentation", np.nan)]
)
def test_probabilities_that_are_no_numbers(tmp_path, decoder, value):
    shape = (1, 5) if decoder == "classification" else (1, 5, HEIGHT, WIDTH)
    layout = Layout(decoder, {"output": np.full(shape, value, np.float32)})
    model = load_model(constant_network(tmp_path / "m.onnx", layout), device="cpu", options={"decoder": decoder})
    with pytest.raises(ModelError, match="NaN"):
        model.infer([Frame(noise("RGB", WIDTH, HEIGHT), stream=0, number=0, pts=None)])


def test_a_head_that_gives_no_rows_is_no_dense_head(tmp_path):
    path = constant_network(tmp_path / "m.onnx", Layout("", {"output0": np.empty((1, 0, 6), np.float32)}))
    found = inspect_model(path)
    assert found.decoder == "yolo-end2end"
    assert found.rejected["yolox"]


def test_a_batch_beyond_any_memory_is_refused_before_it_is_made(tmp_path):
    layout = LAYOUTS["yolov8 with names"]
    huge = Layout(layout.decoder, layout.outputs, layout.metadata, shape=(10**6, 3, HEIGHT, WIDTH))
    path = constant_network(tmp_path / "m.onnx", huge)
    with pytest.raises(ModelError, match=r"batch is fixed at 1000000; right is 1 to 1024"):
        load_model(path, device="cpu").load()
    assert "1000000" in inspect_model(path).why


@pytest.mark.parametrize(
    "names", ["{'a': 0}", "{-1: 'a', 0: 'b'}", "{0: 'a', 2000000000: 'b'}", "[" * 100_000, "3", ""]
)
def test_metadata_that_names_no_classes(names):
    assert metadata_names(picture_metadata(names=names)) == ()


def test_numbers_without_a_name_are_their_own():
    assert metadata_names(picture_metadata(names="{0: 'a', 2: 'c'}")) == ("a", "1", "c")


@pytest.mark.parametrize("size", ["['a', 'b']", "[1.5, 2]", "[640]", "640"])
def test_a_size_in_the_metadata_that_is_none(size):
    assert input_size(picture_metadata(imgsz=size)) == (None, None, True)


@pytest.mark.parametrize("shape", ["['x', None]", "[17, 4]", "[17, 0]", "17"])
def test_a_form_of_key_points_that_is_none(shape):
    assert keypoint_shape(picture_metadata(kpt_shape=shape), 51) == (17, 3)


@pytest.mark.parametrize(
    "wrong",
    [{"pad": 256}, {"pad": -1}, {"std": (0.0, 1.0, 1.0)}, {"scale": float("nan")}, {"mean": (float("inf"), 0.0, 0.0)}],
)
def test_a_normalisation_that_gives_no_numbers_is_refused(wrong):
    with pytest.raises(ConfigurationError, match="right"):
        Preprocessing(32, 32, **wrong)
