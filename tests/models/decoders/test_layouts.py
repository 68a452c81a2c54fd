"""Every layout that an exporter writes: recognised by one decoder or refused by name, and read to the object."""

from __future__ import annotations

import numpy as np
import pytest
from array_surfaces import noise
from constant_networks import constant_network
from layouts import HEIGHT, NAMES, WIDTH, Layout, input_of, layouts

from sluice.errors import ModelError
from sluice.models.decoders import DECODERS, FAMILIES
from sluice.models.frame import Frame
from sluice.models.inspection import inspect_model
from sluice.models.network import NetworkModel

LAYOUTS = layouts()
WHOLE = {"classification", "embedding", "segmentation", "fastestdet"}  # tested by themselves


def open_layout(tmp_path, layout, **options):
    if layout.named:
        options["decoder"] = layout.decoder
    model = NetworkModel(constant_network(tmp_path / "m.onnx", layout), **{"confidence": 0.3, **options})
    model.load()
    return model


def infer(model, width=WIDTH, height=HEIGHT):
    [found] = model.infer([Frame(noise("RGB", width, height), stream=0, number=0, pts=None)])
    return found.validate((width, height))


@pytest.mark.parametrize("key", LAYOUTS)
def test_the_objects_of_a_layout(tmp_path, key):
    layout = LAYOUTS[key]
    model = open_layout(tmp_path, layout)
    assert model.head.decoder == layout.decoder
    found = infer(model, *input_of(layout))
    assert found.class_ids.tolist() == list(layout.classes)
    assert found.scores.tolist() == pytest.approx(layout.scores, abs=1e-3)
    assert np.allclose(found.xyxy, layout.boxes, atol=0.02)
    if layout.angles is None:
        assert found.angles is None
    else:
        assert found.angles.tolist() == pytest.approx(layout.angles, abs=1e-3)
    if layout.points is None:
        assert found.keypoints is None
    else:
        assert np.allclose(found.keypoints, layout.points, atol=0.02)


@pytest.mark.parametrize("key", LAYOUTS)
def test_a_frame_without_objects(tmp_path, key):
    layout = LAYOUTS[key]
    found = infer(open_layout(tmp_path, layout, confidence=0.999), *input_of(layout))
    assert len(found) == 0
    assert found.xyxy.shape == (0, 4)


@pytest.mark.parametrize("key", LAYOUTS)
def test_a_layout_is_recognised_by_one_decoder_or_refused_with_those_to_name(tmp_path, key):
    layout = LAYOUTS[key]
    path = constant_network(tmp_path / "m.onnx", layout)
    found = inspect_model(path)
    assert set(found.rejected) == set(DECODERS) - {found.decoder}
    assert all(len(why) > 20 for why in [found.why, *found.rejected.values()])
    if not layout.named:
        assert found.decoder == layout.decoder
        assert found.fragment.startswith(f"gst-launch-1.0 ... ! sluiceinfer model={path}")
        return
    assert found.decoder is None
    assert "name the right one with the model option" in found.why
    assert f"decoder={layout.decoder}" in found.why
    with pytest.raises(ModelError, match=f"name the right one .*decoder={layout.decoder}"):
        NetworkModel(path).load()


def test_every_decoder_has_a_layout():
    assert {layout.decoder for layout in LAYOUTS.values()} | WHOLE == set(DECODERS)


def test_every_family_names_decoders_that_there_are():
    assert all(name in DECODERS for names in FAMILIES.values() for name in names)
    assert all(names[0] == family for family, names in FAMILIES.items() if family in DECODERS)


@pytest.mark.parametrize(
    ("family", "key"),
    [
        ("yolo11", "yolov8 with names"),
        ("yolo26", "yolo end to end"),
        ("yolov10", "yolo end to end obb"),
        ("yolov7", "yolov7 raw maps"),
        ("yolov7", "yolov5"),
        ("d-fine", "rtdetr and d-fine finished"),
        ("rtdetr", "rtdetr of ultralytics"),
        ("rtdetr", "rtdetr of ultralytics, end to end"),
        ("picodet", "picodet suppressed"),
        ("mask-rcnn", "mask r-cnn of torchvision"),
    ],
)
def test_a_family_can_be_named_too(tmp_path, family, key):
    model = NetworkModel(constant_network(tmp_path / "m.onnx", LAYOUTS[key]), decoder=family)
    model.load()
    assert model.head.decoder == LAYOUTS[key].decoder


def test_a_family_of_other_shapes_is_refused_with_the_reason_of_each_form(tmp_path):
    path = constant_network(tmp_path / "m.onnx", LAYOUTS["yolox"])
    with pytest.raises(ModelError, match=r"does not fit the decoder 'yunet': yunet: needs cls_8.*; yunet-2021: needs"):
        NetworkModel(path, decoder="yunet").load()


def test_labels_decide_between_heads_of_different_numbers_of_classes(tmp_path):
    """[1, 3 x (5 + 3), h, w] could be anchors of 3 classes; with 64 + 11 channels it could be bins and 11 classes."""
    maps = {
        name: np.full((1, 75, HEIGHT // s, WIDTH // s), -6, np.float32)
        for name, s in zip("abc", (8, 16, 32), strict=True)
    }
    layout = LAYOUTS["yolov8 plain"]
    path = constant_network(tmp_path / "m.onnx", type(layout)("", maps))
    with pytest.raises(ModelError, match="decoder=yolov8-raw or decoder=yolov3-raw or decoder=yolov5-raw"):
        NetworkModel(path).load()
    model = NetworkModel(path, labels=[str(i) for i in range(11)])
    model.load()
    assert model.head.decoder == "yolov8-raw"
    assert "11 labels were given" in model.head.verdicts["yolov8-raw"].why
    with pytest.raises(ModelError, match="decoder=yolov3-raw or decoder=yolov5-raw or decoder=yolov7-raw"):
        NetworkModel(path, labels=[str(i) for i in range(20)]).load()


def test_values_rule_out_what_shapes_allow(tmp_path):
    """Rows of class, score, corners have the shape of YOLO26's, but not its values."""
    rows = np.zeros((1, 20, 6), np.float32)
    rows[0, :, :] = [2, 0.5, 10, 12, 30, 44.5]
    layout = LAYOUTS["yolo end to end, plain"]
    path = constant_network(tmp_path / "m.onnx", type(layout)("", {"output0": rows}))
    found = inspect_model(path)
    assert found.decoder is None
    assert "no whole class number" in found.rejected["yolo-end2end"]


@pytest.mark.parametrize("decoder", ["rtdetr-end2end", "yolo-end2end"])
@pytest.mark.parametrize("metadata", [{}, {"task": "detect"}])
def test_finished_rows_that_may_be_centres_or_corners_are_refused_until_one_is_named(tmp_path, decoder, metadata):
    """Two boxes in the left upper part, as large as their centre is far from the corner: corners as well."""
    rows = np.array([[[0.25, 0.25, 0.5, 0.5, 0.9, 1], [0.2, 0.2, 0.3, 0.4, 0.8, 2]]], np.float32)
    path = constant_network(tmp_path / "m.onnx", Layout("", {"output0": rows}, metadata))
    with pytest.raises(ModelError, match="decoder=yolo-end2end or decoder=rtdetr-end2end:"):
        NetworkModel(path).load()
    model = NetworkModel(path, decoder=decoder)
    model.load()
    first = {"rtdetr-end2end": [0, 0, 48, 32], "yolo-end2end": [24, 16, 48, 32]}[decoder]
    assert infer(model).xyxy[0].tolist() == pytest.approx(first)


def test_many_finished_rows_of_which_none_can_be_no_corners_are_corners(tmp_path):
    rows = np.tile(np.array([0.25, 0.25, 0.5, 0.5, 0.9, 1], np.float32), (1, 300, 1))
    path = constant_network(tmp_path / "m.onnx", Layout("", {"output0": rows}))
    assert inspect_model(path).decoder == "yolo-end2end"


def test_a_decoder_named_against_the_files_own_word_is_refused(tmp_path):
    layout = LAYOUTS["rtdetr of ultralytics, end to end"]
    path = constant_network(tmp_path / "m.onnx", layout)
    with pytest.raises(ModelError, match="head is RTDETRDecoder, whose rows are centre and size"):
        NetworkModel(path, decoder="yolo-end2end").load()
    other = constant_network(tmp_path / "n.onnx", Layout("", layout.outputs, {**layout.metadata, "head": "Detect"}))
    with pytest.raises(ModelError, match=r"of a head RTDETRDecoder; has .* of Detect"):
        NetworkModel(other, decoder="rtdetr-end2end").load()


@pytest.mark.parametrize("key", ["rtdetr of ultralytics", "rtdetr of ultralytics, end to end"])
def test_rtdetr_of_ultralytics_is_stretched(tmp_path, key):
    assert open_layout(tmp_path, LAYOUTS[key]).head.preprocessing.fit == "stretch"


@pytest.mark.parametrize("key", ["yolov8-seg", "yolov5-seg", "yolo end to end seg", "mask r-cnn of torchvision"])
def test_masks_over_the_boxes(tmp_path, key):
    """The first object has the left half of the picture for a mask, the second the upper half."""
    found = infer(open_layout(tmp_path, LAYOUTS[key]))
    assert found.mask_threshold == 0.5
    for (left, top, right, bottom), mask, vertical in zip(found.xyxy, found.box_masks, (False, True), strict=True):
        lines, columns = mask.shape
        assert (lines, columns) == (round(bottom - top), round(right - left))
        for i in range(0, lines, 3):
            for j in range(0, columns, 3):
                x, y = left + (j + 0.5), top + (i + 0.5)
                place, middle = (y, HEIGHT / 2) if vertical else (x, WIDTH / 2)
                if abs(place - middle) > 4:  # the edge is as soft as a prototype's cell is wide
                    assert (mask[i, j] > 0.5) == (place < middle), (i, j)


def test_masks_of_rf_detr(tmp_path):
    layout = LAYOUTS["rf-detr"]
    masks = np.full((1, 100, 16, 24), -5, np.float32)
    masks[0, 3, :, :5] = 5  # cells of 4 x 4: x below 20
    named = type(layout)("rf-detr", {**layout.outputs, "masks": masks})
    found = infer(open_layout(tmp_path, named))
    first, second = found.box_masks
    assert (first[:, :9] > 0.5).all()
    assert (first[:, 11:] < 0.5).all()
    assert (second < 0.5).all()


def test_masks_of_mmdeploy_are_of_the_box_or_of_the_input(tmp_path):
    layout = LAYOUTS["rtmdet by mmdeploy"]
    of_box = np.zeros((1, 2, 28, 28), np.float32)
    of_box[0, :, :14] = 0.8
    of_input = np.zeros((1, 2, HEIGHT, WIDTH), np.float32)
    of_input[0, :, :28] = 0.8  # rows 0 to 27: the upper half of the first box, which reaches from 12 to 44
    for masks in (of_box, of_input):
        named = type(layout)("mmdeploy", {**layout.outputs, "masks": masks})
        mask = infer(open_layout(tmp_path, named)).box_masks[0]
        assert (mask[: len(mask) // 2 - 1] > 0.5).all()
        assert (mask[len(mask) // 2 + 1 :] < 0.5).all()


@pytest.mark.parametrize("key", ["yolov8 with names", "yolo pose", "yolo obb", "rtdetr of ultralytics", "yolox"])
def test_half_precision_outputs_and_inputs(tmp_path, key):
    layout = LAYOUTS[key]
    halves = {name: np.asarray(values, np.float16) for name, values in layout.outputs.items()}
    half = type(layout)(layout.decoder, halves, layout.metadata, dtype="float16")
    found = infer(open_layout(tmp_path, half))
    assert found.xyxy.dtype == np.float32
    assert np.allclose(found.xyxy, layout.boxes, atol=0.3)


@pytest.mark.parametrize(("shape", "dtype"), [((1, HEIGHT, WIDTH, 3), "float32"), ((1, 3, HEIGHT, WIDTH), "uint8")])
def test_channels_last_and_bytes_as_input(tmp_path, shape, dtype):
    layout = LAYOUTS["yolov8 with names"]
    model = open_layout(tmp_path, type(layout)("yolov8", layout.outputs, layout.metadata, shape, dtype))
    assert (model.head.preprocessing.layout, model.head.preprocessing.dtype) == (
        "NHWC" if shape[3] == 3 else "NCHW",
        dtype,
    )
    assert model.head.preprocessing.neutral == (dtype == "uint8")
    assert np.allclose(infer(model).xyxy, layout.boxes, atol=0.02)


@pytest.mark.parametrize("key", ["yolov8 with names", "yolo end to end", "rtdetr of transformers", "efficientnms"])
def test_a_batch_gives_each_frame_its_own_objects(tmp_path, key):
    """Two frames with the same outputs, but that the second's scores are halved."""
    layout = LAYOUTS[key]
    two = {}
    for name, values in layout.outputs.items():
        second = values * np.float32(0.5) if name in ("det_scores",) else values
        two[name] = np.concatenate([values, second]).astype(values.dtype)
    if key == "yolov8 with names":
        two["output0"][1, 4:] *= 0.5
    if key == "yolo end to end":
        two["output0"][1, :, 4] *= 0.5
    if key == "rtdetr of transformers":
        two["logits"][1] -= 1
    model = open_layout(tmp_path, type(layout)("", two, layout.metadata, (2, 3, HEIGHT, WIDTH)))
    frames = [Frame(noise("RGB", WIDTH, HEIGHT), stream=0, number=i, pts=None) for i in range(3)]
    first, second, third = model.infer(frames)
    assert first.scores.tolist() == third.scores.tolist() == pytest.approx(layout.scores, abs=1e-3)
    assert (second.scores < first.scores[: len(second)] - 0.05).all()
    assert np.allclose(second.xyxy, layout.boxes[: len(second)], atol=0.02)


def test_outputs_of_one_picture_are_asked_for_one_by_one(tmp_path):
    """torchvision's detectors leave the batch open in some exports, but speak of one picture."""
    layout = LAYOUTS["torchvision"]
    model = open_layout(tmp_path, type(layout)("torchvision", layout.outputs, shape=("batch", 3, HEIGHT, WIDTH)))
    assert model.head.batch == 1
    frames = [Frame(noise("RGB", WIDTH, HEIGHT), stream=0, number=i, pts=None) for i in range(2)]
    assert [len(found) for found in model.infer(frames)] == [2, 2]


def test_overriding_what_a_family_wants_of_its_input(tmp_path):
    layout = LAYOUTS["damo-yolo"]
    usual = open_layout(tmp_path, layout)
    assert (usual.head.preprocessing.fit, usual.head.preprocessing.pad) == ("top-left", 0)
    other = open_layout(tmp_path, layout, fit="stretch", order="BGR", scale=0.5, mean="1,2,3")
    spec = other._inputs[0].preprocessor.spec
    assert (spec.fit, spec.order, spec.scale, spec.mean) == ("stretch", "BGR", 0.5, (1, 2, 3))


def test_labels_as_a_text(tmp_path):
    layout = LAYOUTS["yolov8 plain"]
    model = open_layout(tmp_path, layout, labels="red car; a person, dog")
    assert model.labels == ("red car", "a person", "dog")
    with pytest.raises(ModelError, match="2 labels were given"):
        open_layout(tmp_path, layout, labels="red car;dog")


def test_faces_are_labelled_and_names_of_the_file_are_used(tmp_path):
    assert open_layout(tmp_path, LAYOUTS["yunet"]).labels == ("face",)
    assert open_layout(tmp_path, LAYOUTS["yolo obb"]).labels == ("cat", "dog", "bird")
    assert NAMES == "{0: 'cat', 1: 'dog', 2: 'bird'}"


def test_raw_outputs_on_request(tmp_path):
    layout = LAYOUTS["yolo end to end"]
    plain, both = infer(open_layout(tmp_path, layout)), infer(open_layout(tmp_path, layout, output_tensor_meta=True))
    assert plain.whole is None
    assert len(both) == len(plain)
    outputs = both.whole.outputs
    assert (outputs.width, outputs.height, outputs.keeps_aspect, outputs.centred) == (WIDTH, HEIGHT, True, True)
    [layer] = outputs.layers
    assert layer.name == "output0"
    assert np.array_equal(layer.values, layout.outputs["output0"][0])


def test_sizes_as_a_second_input_are_those_of_the_networks_input(tmp_path):
    """RT-DETR and D-FINE scale boxes by orig_target_sizes (width, height) in their graph."""
    from onnx import TensorProto, helper, numpy_helper, save

    fractions = np.array([[[0.1, 0.25, 0.5, 0.75]]], np.float32)
    nodes = [
        helper.make_node("Cast", ["orig_target_sizes"], ["sizes"], to=TensorProto.FLOAT),
        helper.make_node("Concat", ["sizes", "sizes"], ["four"], axis=1),
        helper.make_node("Mul", ["fractions", "four"], ["boxes"]),
        helper.make_node("Identity", ["label"], ["labels"]),
        helper.make_node("Identity", ["score"], ["scores"]),
    ]
    weights = {"fractions": fractions, "label": np.array([[1]]), "score": np.array([[0.8]], np.float32)}
    graph = helper.make_graph(
        nodes,
        "finished",
        [
            helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, HEIGHT, WIDTH]),
            helper.make_tensor_value_info("orig_target_sizes", TensorProto.INT64, [1, 2]),
        ],
        [
            helper.make_tensor_value_info("labels", TensorProto.INT64, [1, 1]),
            helper.make_tensor_value_info("boxes", TensorProto.FLOAT, [1, 1, 4]),
            helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 1]),
        ],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "d.onnx")
    model = NetworkModel(tmp_path / "d.onnx")
    model.load()
    assert model.head.decoder == "detr-finished"
    found = infer(model, 2 * WIDTH, 2 * HEIGHT)
    assert found.xyxy.tolist() == [pytest.approx([19.2, 32, 96, 96])]
