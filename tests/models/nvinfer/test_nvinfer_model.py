"""Configuration files run as models: real networks against recorded results, and what contradicts a network."""

from __future__ import annotations

import json
import logging

import cv2
import numpy as np
import pytest
from array_surfaces import from_rgb
from processor import int8_saturates
from tiny_networks import save, tensor

from sluice.app.options import Options
from sluice.errors import ConfigurationError, ModelError
from sluice.models.frame import Frame
from sluice.models.inspection import inspect_model
from sluice.models.loading import load_model
from sluice.models.network import NetworkModel
from sluice.models.nvinfer import files as nvinfer_files
from sluice.models.nvinfer import input as nvinfer_input
from sluice.models.nvinfer import model as nvinfer_model
from sluice.models.nvinfer.model import NvinferModel
from sluice.runtimes import onnxruntime as onnxruntime_network

onnx_helper = pytest.importorskip("onnx").helper

DETECTOR = """
[property]
onnx-file={models}/{file}
labelfile-path={models}/coco80_labels.txt
num-detected-classes=80
cluster-mode=2
scaling-filter=1
maintain-aspect-ratio=1
crop-objects-to-roi-boundary=1
parse-bbox-func-name=NvDsInferParseYolo
custom-lib-path=nvdsinfer_custom_impl_Yolo/libnvdsinfer_custom_impl_Yolo.so
{lines}
[class-attrs-all]
pre-cluster-threshold={confidence}
nms-iou-threshold=0.45
"""
BY_OPENCV = pytest.mark.usefixtures("by_opencv")
YOLOX = {
    "file": "yolox_nano_416x416.onnx",
    "lines": "net-scale-factor=1\nmodel-color-format=1\nsymmetric-padding=0",
    "confidence": 0.4,
}
YOLO11 = {
    "file": "yolo11n_256_coco80_int8_qdq.onnx",
    "lines": "net-scale-factor=0.0039215697906911373\nsymmetric-padding=1",
    "confidence": 0.3,
}


def frame_of(rgb, name="RGB"):
    return Frame(from_rgb(np.ascontiguousarray(rgb), name), stream=0, number=0, pts=None)


@pytest.fixture
def by_opencv(monkeypatch):
    """Linear interpolation as the results were recorded with, which is half a scale off from NVIDIA's."""
    monkeypatch.setitem(nvinfer_input.FILTERS, 1, cv2.INTER_LINEAR)


@pytest.fixture
def pictures(data):
    """Each picture as a frame by its name."""
    folder = data / "models/images"
    return {path.name: frame_of(cv2.imread(str(path))[..., ::-1]) for path in folder.iterdir() if path.is_file()}


@pytest.fixture
def expected(data):
    return json.loads((data / "models/expected_detections.json").read_text())


def model_of(tmp_path, text, name="config.txt", **arguments):
    path = tmp_path / name
    path.write_text(text)
    model = NvinferModel(path, **arguments)
    model.load()
    return model


def detector(tmp_path, data, values, **arguments):
    return model_of(tmp_path, DETECTOR.format(models=data / "models", **values), **arguments)


def overlap(a, b):
    """Intersection over union of every box of `a` with every box of `b`."""
    size = np.minimum(a[:, None, 2:], b[None, :, 2:]) - np.maximum(a[:, None, :2], b[None, :, :2])
    inter = np.clip(size, 0, None).prod(axis=2)
    areas = [(boxes[:, 2:] - boxes[:, :2]).prod(axis=1) for boxes in (a, b)]
    return inter / (areas[0][:, None] + areas[1][None] - inter)


def assert_found(found, entries, labels, frame, iou, score):
    """As many boxes as recorded, each overlapping its own by `iou`, with a score that differs by less than `score`."""
    assert len(found) == len(entries)
    for entry in entries:
        same = [i for i, number in enumerate(found.class_ids.tolist()) if labels[number] == entry["label"]]
        assert same, f"no {entry['label']}"
        box = np.clip(np.array([entry["xyxy"]], np.float32), 0, [frame.width, frame.height] * 2)
        overlaps = overlap(box, found.xyxy[same])[0]
        best = int(overlaps.argmax())
        assert overlaps[best] >= iou
        assert found.scores[same[best]] == pytest.approx(entry["score"], abs=score)


@pytest.mark.parametrize(
    ("values", "iou", "score"), [(YOLOX, 0.94, 0.14), (YOLO11, 0.92, 0.06)], ids=["yolox", "yolo11"]
)
@pytest.mark.parametrize("picture", ["bus.jpg", "zidane.jpg"])
@BY_OPENCV
def test_detectors_find_what_was_recorded(tmp_path, data, pictures, expected, values, iou, score, picture):
    """The recording padded with gray 114, nvinfer pads with black, which moves boxes at the edge of the picture."""
    if values is YOLO11 and int8_saturates():
        pytest.skip("ONNX Runtime's int8 kernels for this processor (x86-64 without VNNI) give other numbers")
    model = detector(tmp_path, data, values)
    (found,) = model.infer([pictures[picture]])
    assert_found(found, expected[values["file"]][picture], model.labels, pictures[picture], iou, score)


@pytest.mark.parametrize(("values", "fit"), [(YOLOX, "top-left"), (YOLO11, "centre")], ids=["yolox", "yolo11"])
@BY_OPENCV
def test_detectors_find_what_the_network_alone_finds(tmp_path, data, pictures, values, fit):
    """With the same padding and filter, the same boxes as the network file as a model of its own."""
    frames = [pictures["bus.jpg"], pictures["zidane.jpg"]]
    found = detector(tmp_path, data, values).infer(frames)
    alone = NetworkModel(data / "models" / values["file"], confidence=values["confidence"], iou=0.45, pad=0, fit=fit)
    alone.load()
    for ours, theirs in zip(found, alone.infer(frames), strict=True):
        assert sorted(ours.class_ids.tolist()) == sorted(theirs.class_ids.tolist())
        best = overlap(theirs.xyxy, ours.xyxy).max(axis=1)
        assert best.min() > 0.98
        np.testing.assert_allclose(np.sort(ours.scores), np.sort(theirs.scores), atol=2e-3)


def test_order_is_class_then_score(tmp_path, data, pictures):
    (found,) = detector(tmp_path, data, YOLOX).infer([pictures["bus.jpg"]])
    rows = list(zip(found.class_ids.tolist(), (-found.scores).tolist(), strict=True))
    assert rows == sorted(rows)


FACES = """
[property]
onnx-file={models}/version-RFB-320.onnx
net-scale-factor=0.0078125
offsets=127;127;127
num-detected-classes=1
cluster-mode=2
scaling-filter=1
{function}
[class-attrs-all]
pre-cluster-threshold=0.6
nms-iou-threshold=0.45
"""


@BY_OPENCV
def test_faces_by_a_decoder_that_is_named(tmp_path, data, pictures, expected):
    """The parse function is nobody's but this team's, so the decoder has to be named."""
    text = FACES.format(models=data / "models", function="parse-bbox-func-name=NvDsInferParseOurFaces")
    with pytest.raises(ConfigurationError, match="one that fits the outputs: model-options=decoder=rfb"):
        model_of(tmp_path, text)
    model = model_of(tmp_path, text, decoder="ssd", labels=["face"])  # the family's name will do
    for name, entries in expected["version-RFB-320.onnx"].items():
        (found,) = model.infer([pictures[name]])
        assert_found(found, entries, model.labels, pictures[name], 0.97, 0.01)


def test_instances_with_masks(tmp_path, data, pictures, expected):
    """Without clustering, as network-type 3 has it: the parse function suppresses boxes itself."""
    file = "yolov8n_seg_320_coco80_int8_qdq.onnx"
    text = DETECTOR.format(
        models=data / "models",
        file=file,
        lines="net-scale-factor=0.0039215697906911373\nsymmetric-padding=1\nnetwork-type=3\noutput-instance-mask=1\n"
        "parse-bbox-instance-mask-func-name=NvDsInferParseYoloSeg",
        confidence=0.3,
    ).replace("cluster-mode=2", "cluster-mode=4")
    model = model_of(tmp_path, text)
    frame = pictures["zidane.jpg"]
    (found,) = model.infer([frame])
    entries = expected[file]["zidane.jpg"]
    assert_found(found, entries, model.labels, frame, 0.86, 0.06)
    for entry in entries:
        i = int(overlap(np.array([entry["xyxy"]], np.float32), found.xyxy).argmax())
        width, height = found.xyxy[i, 2:] - found.xyxy[i, :2]
        area = (found.box_masks[i] > found.mask_threshold).mean() * width * height
        assert area == pytest.approx(entry["mask_area_px_in_box"], rel=0.05)


@BY_OPENCV
def test_segmentation_is_as_recorded(tmp_path, data, pictures, expected):
    file = "deeplab_v3_1_default_1.onnx"
    model = model_of(
        tmp_path,
        f"""
property:
  onnx-file: {data}/models/{file}
  labelfile-path: {data}/models/voc21_labels.txt
  net-scale-factor: 0.00784313725490196
  offsets: 127.5;127.5;127.5
  network-type: 2
  network-input-order: 1
  num-detected-classes: 21
  segmentation-output-order: 1
  scaling-filter: 1
""",
        "config.yml",
    )
    for name, shares in expected[file].items():
        (found,) = model.infer([pictures[name]])
        assert len(found) == 0
        cells = found.whole.segmentation.class_map
        assert cells.shape == (257, 257)
        for label, share in shares.items():
            assert (cells == model.labels.index(label)).mean() == pytest.approx(share, abs=0.002)


def test_classification_is_as_recorded(tmp_path, data, pictures, expected):
    """The network wants a deviation per channel, for which nvinfer has one factor; the best class is the same."""
    labels = (data / "models/imagenet1001_labels.txt").read_text().split("\n")[1:1001]
    (tmp_path / "labels.txt").write_text(";".join(labels) + ";\n")
    file = "mobilenet_v2_quant.onnx"
    model = model_of(
        tmp_path,
        f"""
[property]
onnx-file={data}/models/{file}
labelfile-path=labels.txt
net-scale-factor=0.0173520735727919486
offsets=123.675;116.28;103.53
network-type=1
classifier-threshold=0.3
classifier-type=things
parse-classifier-func-name=NvDsInferClassiferParseCustomSoftmax
scaling-filter=1
""",
    )
    (found,) = model.infer([pictures["orange.png"]])
    best = expected[file]["orange.png"][0]
    (result,) = found.whole.classification
    assert (result.label, result.class_id, result.name) == (best["label"], best["class_id"], "things")
    assert result.score == pytest.approx(best["softmax"], abs=0.02)


def test_load_model_takes_the_file_with_its_own_settings_on_top(tmp_path, data, pictures):
    (tmp_path / "pgie.txt").write_text(DETECTOR.format(models=data / "models", **YOLOX))
    model = load_model(tmp_path / "pgie.txt", confidence=0.85, classes=["bus"], options={"decoder": "yolox"})
    (found,) = model.infer([pictures["bus.jpg"]])
    assert [model.labels[i] for i in found.class_ids] == ["bus"]
    with pytest.raises(ModelError) as caught:
        load_model(tmp_path / "pgie.txt", options={"decodr": "yolox"})
    assert str(caught.value) == (
        f"{tmp_path}/pgie.txt has no option 'decodr' (did you mean 'decoder'?); its options are: decoder, "
        "output_tensor_meta, precision, threads"
    )
    with pytest.raises(ModelError, match="has no option 'overrides'"):
        load_model(tmp_path / "pgie.txt", options={"overrides": "interval=1"})
    with pytest.raises(ModelError, match="there is no model file"):
        load_model(tmp_path / "none.yml")


def test_a_quantised_network_is_computed_in_int8_where_that_is_asked_for(tmp_path, data, pictures, monkeypatch):
    """Its activations round another way here and there; on processors without VNNI, which are let through, the more."""
    monkeypatch.setattr(onnxruntime_network, "multiplies_int8", lambda: True)
    (tmp_path / "pgie.txt").write_text(DETECTOR.format(models=data / "models", **YOLO11))
    found = {}
    for precision in (None, "int8"):
        options = {} if precision is None else {"precision": precision, "threads": "1"}
        model = load_model(tmp_path / "pgie.txt", options=options)
        [found[precision]] = model.infer([pictures["bus.jpg"]])
        assert "bus" in [model.labels[i] for i in found[precision].class_ids]
        model.close()
    assert not np.array_equal(found[None].xyxy, found["int8"].xyxy)
    (tmp_path / "float.txt").write_text(DETECTOR.format(models=data / "models", **YOLOX))
    with pytest.raises(ConfigurationError, match=r"yolox_nano_416x416\.onnx has no int8 activations"):
        load_model(tmp_path / "float.txt", options={"precision": "int8"}).load()


def test_no_engine_is_built_for_a_precision_of_another_runtime(tmp_path, monkeypatch):
    (tmp_path / "net.onnx").touch()
    (tmp_path / "pgie.txt").write_text("[property]\nonnx-file=net.onnx\nnum-detected-classes=1\ncluster-mode=2\n")
    monkeypatch.setattr(nvinfer_files, "engines_run", lambda: True)
    monkeypatch.setattr(nvinfer_files, "engines_are_built", lambda: True)
    with pytest.raises(ConfigurationError, match="it takes the precision from network-mode"):
        load_model(tmp_path / "pgie.txt", options={"precision": "int8"}).load()


def test_inspect_builds_no_engine(tmp_path, data, monkeypatch):
    (tmp_path / "net.onnx").symlink_to(data / "models" / YOLOX["file"])
    text = DETECTOR.replace("{models}/{file}", "net.onnx").format(models=data / "models", **YOLOX)
    (tmp_path / "pgie.txt").write_text(text)
    for name in ("engines_run", "engines_are_built"):
        monkeypatch.setattr(nvinfer_files, name, lambda: True)
    monkeypatch.setattr(nvinfer_model, "build_engine", lambda _: pytest.fail("an engine is built"))
    text = str(inspect_model(tmp_path / "pgie.txt"))
    assert "head    yolox" in text
    assert ".onnx_b1_gpu0_fp32.engine" in text


def test_inspect_shows_the_configuration(tmp_path, data):
    (tmp_path / "pgie.txt").write_text(DETECTOR.format(models=data / "models", **YOLOX) + "interval=2\n")
    text = str(inspect_model(tmp_path / "pgie.txt"))
    assert "(nvinfer, key-file): detector on frames (primary)" in text
    assert "head    yolox" in text
    assert "sluiceinfer model=" in text
    assert "unknown key 'interval'" in text  # it stands in [class-attrs-all]
    (tmp_path / "broken.txt").write_text("[property]\nonnx-file=none.onnx\nnum-detected-classes=1\ngie-unique-id=3\n")
    text = str(inspect_model(tmp_path / "broken.txt"))
    assert "problem onnx-file" in text
    assert "element gie-unique-id=3" in text
    assert "sluiceinfer model=" not in text


# Networks made on the spot: the mean of the input is the score.


def brightness(path, batch="batch", layout=(3, 32, 32), outputs=("output",)):
    """Outputs [batch,1,6]: a box of DeepStream-Yolo's form, whose score is the mean of the picture."""
    nodes = [
        onnx_helper.make_node("ReduceMean", ["input"], ["mean"], axes=[1, 2, 3], keepdims=1),
        onnx_helper.make_node("Reshape", ["mean", "three"], ["flat"]),
        onnx_helper.make_node("Mul", ["flat", "at_score"], ["scored"]),
    ]
    nodes += [onnx_helper.make_node("Add", ["scored", "row"], [name]) for name in outputs]
    return save(
        path,
        nodes,
        [tensor("input", [batch, *layout])],
        [tensor(name, [batch, 1, 6]) for name in outputs],
        three=np.array([-1, 1, 1], np.int64),
        at_score=np.array([[[0, 0, 0, 0, 1, 0]]], np.float32),
        row=np.array([[[4, 4, 28, 28, 0, 1]]], np.float32),
    )


TINY = """
[property]
onnx-file=net.onnx
net-scale-factor=0.00392156862745098
num-detected-classes=2
cluster-mode=4
parse-bbox-func-name=NvDsInferParseYolo
{lines}
[class-attrs-all]
pre-cluster-threshold=0
"""


def tiny(tmp_path, lines="", **arguments):
    return model_of(tmp_path, TINY.format(lines=lines), **arguments)


def gray(level):
    return frame_of(np.full((64, 64, 3), level, np.uint8))


@pytest.mark.parametrize("batch", ["batch", 1, 2])
def test_frames_keep_their_places_in_any_batch(tmp_path, batch):
    brightness(tmp_path / "net.onnx", batch)
    levels = [10, 200, 90, 140, 30]
    found = tiny(tmp_path, "batch-size=2").infer([gray(level) for level in levels])
    assert [item.scores[0] for item in found] == pytest.approx([level / 255 for level in levels], abs=1e-5)
    assert found[0].xyxy.tolist() == [[8, 8, 56, 56]]


def test_a_box_that_reaches_into_the_padding_goes_as_in_nvinfer(tmp_path):
    """The picture fills the upper half of the input, and the box ends below it."""
    brightness(tmp_path / "net.onnx")
    wide = frame_of(np.full((32, 64, 3), 255, np.uint8))
    assert len(tiny(tmp_path, "maintain-aspect-ratio=1").infer([wide])[0]) == 0
    (found,) = tiny(tmp_path, "maintain-aspect-ratio=1\ncrop-objects-to-roi-boundary=1").infer([wide])
    assert found.xyxy.tolist() == [[8, 8, 56, 32]]


def test_no_frames(tmp_path):
    brightness(tmp_path / "net.onnx")
    assert tiny(tmp_path).infer([]) == []


def test_raw_outputs_where_they_are_asked_for(tmp_path):
    brightness(tmp_path / "net.onnx", outputs=("one", "two"))
    model = tiny(tmp_path, "network-type=100\noutput-blob-names=two:0\nmaintain-aspect-ratio=1")
    dark, light = model.infer([gray(51), gray(255)])
    outputs = light.whole.outputs
    assert ([layer.name for layer in outputs.layers], outputs.width, outputs.keeps_aspect) == (["two"], 32, True)
    assert outputs.layers[0].values[0].tolist() == [4, 4, 28, 28, pytest.approx(1), 1]
    assert dark.whole.outputs.layers[0].values[0, 4] == pytest.approx(0.2)
    (with_boxes,) = tiny(tmp_path, "output-tensor-meta=1\noutput-blob-names=two").infer([gray(255)])
    assert len(with_boxes) == 1
    assert with_boxes.whole.outputs is not None
    (without,) = tiny(tmp_path, "output-blob-names=two").infer([gray(255)])
    assert without.whole is None


def test_settings_go_before_the_files(tmp_path):
    brightness(tmp_path / "net.onnx")
    model = tiny(tmp_path, confidence=0.5, labels=["a", "b"])
    assert [len(found) for found in model.infer([gray(100), gray(200)])] == [0, 1]
    assert model.labels == ("a", "b")


def test_colours_of_the_classes(tmp_path):
    brightness(tmp_path / "net.onnx")
    text = TINY.format(lines="")
    (found,) = model_of(tmp_path, text + "[class-attrs-1]\nborder-color=0;1;0;1\nbg-color=0;0;1;0.5\n").infer([gray(9)])
    assert found.border_colors.tolist() == [[0, 1, 0, 1]]
    assert found.fill_colors.tolist() == [[0, 0, 1, 0.5]]
    (found,) = model_of(tmp_path, text).infer([gray(9)])
    assert (found.border_colors, found.fill_colors) == (None, None)


def test_open_sizes_come_from_infer_dims(tmp_path):
    brightness(tmp_path / "net.onnx", layout=(3, "height", "width"))
    with pytest.raises(ConfigurationError, match="right is infer-dims=c;h;w"):
        tiny(tmp_path)
    with pytest.raises(ConfigurationError, match="would be 32x1000000; right are sides of 1 to 16384"):
        tiny(tmp_path, "infer-dims=3;1000000;32")
    model = tiny(tmp_path, "infer-dims=3;64;32\noutput-tensor-meta=1")
    (found,) = model.infer([gray(255)])
    assert (found.whole.outputs.height, found.whole.outputs.width) == (64, 32)
    assert found.xyxy.tolist() == [[8, 4, 56, 28]]


@pytest.mark.parametrize(
    ("layout", "lines", "message"),
    [
        ((3, 32, 32), "infer-dims=3;64;64", "infer-dims is 3;64;64, but the network's input is input float32"),
        ((32, 32, 3), "", "right is network-input-order=1"),
        ((3, 32, 32), "network-input-order=1", "gives 3 channels, but the network's input has 32"),
        ((3, 32, 32), "model-color-format=2", "model-color-format is 2"),
        ((3, 32, 32), "output-blob-names=boxes", "output-blob-names lists boxes; the network's outputs are output"),
        ((3, 32, 32), "network-type=1\nparse-classifier-func-name=NvDsOwn", "parse-classifier-func-name is 'NvDsOwn'"),
        ((3, 32, 32), "network-type=2\nnum-detected-classes=2", "num-detected-classes is 2, but the output"),
    ],
)
def test_what_contradicts_the_network(tmp_path, layout, lines, message):
    brightness(tmp_path / "net.onnx", layout=layout)
    with pytest.raises(ConfigurationError) as caught:
        tiny(tmp_path, lines)
    assert message in str(caught.value)
    assert str(tmp_path / "config.txt") in str(caught.value)


def test_decoders_are_for_detectors(tmp_path):
    brightness(tmp_path / "net.onnx")
    with pytest.raises(ConfigurationError, match="decoder=yolox is for detectors, network-type is 1"):
        tiny(tmp_path, "network-type=1", decoder="yolox")


def test_warnings_are_logged(tmp_path, caplog):
    brightness(tmp_path / "net.onnx")
    with caplog.at_level(logging.INFO, "sluice.models"):
        tiny(tmp_path, "no-such-key=1\nmodel-engine-file=net.engine")
    assert "unknown key 'no-such-key'" in caplog.text
    assert "is run by onnxruntime; not model-engine-file" in caplog.text


def test_a_missing_engine_is_built_before_it_is_opened(tmp_path, monkeypatch):
    """What is opened is what was built, on the file's GPU."""
    brightness(tmp_path / "net.onnx")
    calls = []
    monkeypatch.setattr(nvinfer_files, "engines_run", lambda: True)
    monkeypatch.setattr(nvinfer_files, "engines_are_built", lambda: True)
    monkeypatch.setattr(nvinfer_model, "build_engine", calls.append)

    def opened(path, runtime, device, **_options):
        calls.append((path, runtime, device))
        raise ModelError("no engine can be opened here")

    monkeypatch.setattr(nvinfer_model, "open_network", opened)
    with pytest.raises(ModelError, match="no engine can be opened here"):
        tiny(tmp_path, "gpu-id=1\nbatch-size=4")
    assert calls == [calls[0], (tmp_path.resolve() / "net.onnx_b4_gpu1_fp32.engine", "auto", "cuda:1")]
    assert (calls[0].max_batch, calls[0].gpu) == (4, 1)


def test_before_load_and_after_close(tmp_path):
    brightness(tmp_path / "net.onnx")
    model = tiny(tmp_path)
    model.warm_up()
    model.close()
    model.close()
    with pytest.raises(ModelError, match="is not loaded"):
        model.infer([gray(1)])


def test_a_missing_label_file_is_named(tmp_path):
    brightness(tmp_path / "net.onnx")
    with pytest.raises(ModelError, match="labelfile-path: cannot read"):
        tiny(tmp_path, "labelfile-path=none.txt")


def test_the_summary_of_a_run_names_what_executes_the_network(tmp_path):
    brightness(tmp_path / "net.onnx")
    (tmp_path / "pgie.txt").write_text(TINY.format(lines=""))
    assert Options(model=str(tmp_path / "pgie.txt")).runtime_name == "onnxruntime"


def constant(path, values):
    """A network whose only output is always the same, for inputs of 32x32."""
    nodes = [
        onnx_helper.make_node("ReduceMean", ["input"], ["mean"], axes=[1, 2, 3], keepdims=1),
        onnx_helper.make_node("Reshape", ["mean", "shape"], ["flat"]),
        onnx_helper.make_node("Mul", ["flat", "zero"], ["nothing"]),
        onnx_helper.make_node("Add", ["nothing", "values"], ["output0"]),
    ]
    return save(
        path,
        nodes,
        [tensor("input", [1, 3, 32, 32])],
        [tensor("output0", list(values.shape))],
        shape=np.array([1, 1, 1], np.int64),
        zero=np.zeros(1, np.float32),
        values=values,
    )


def test_rotated_boxes_keep_their_angle_and_are_suppressed_by_their_function(tmp_path):
    """YOLO-OBB: centre, size, two classes, angle. The second box lies on the first, the third elsewhere."""
    cells = np.zeros((1, 7, 21), np.float32)
    cells[0, :2] = np.linspace(2, 30, 21)
    cells[0, :, 3] = [16, 16, 12, 6, 0, 0.9, np.pi / 6]
    cells[0, :, 4] = [16, 16, 12, 7, 0, 0.8, np.pi / 6]
    cells[0, :, 5] = [6, 6, 4, 4, 0.7, 0, 0]
    constant(tmp_path / "net.onnx", cells)
    text = TINY.replace("NvDsInferParseYolo", "NvDsInferParseCustomYoloV11OBB").replace("threshold=0", "threshold=0.5")
    model = model_of(tmp_path, text.format(lines=""))
    (found,) = model.infer([gray(1)])
    assert model.parser == "yolo-obb"
    assert sorted(found.class_ids.tolist()) == [0, 1]
    turned = found[found.class_ids == 1]
    assert turned.angles.tolist() == pytest.approx([30], abs=1e-3)
    assert turned.xyxy[0].tolist() == pytest.approx([20, 26, 44, 38], abs=1e-3)


def test_outputs_that_hold_fewer_frames_than_went_in_are_refused(tmp_path):
    node = onnx_helper.make_node("Identity", ["row"], ["output0"])
    shapes = tensor("images", ["batch", 3, 32, 32]), tensor("output0", ["batch", 1, 6])
    save(tmp_path / "net.onnx", [node], [shapes[0]], [shapes[1]], row=np.array([[[4, 4, 28, 28, 0.9, 0]]], np.float32))
    config = tmp_path / "config.txt"
    config.write_text("[property]\nonnx-file=net.onnx\nbatch-size=2\nnum-detected-classes=1\ncluster-mode=4\n")
    model = load_model(config, options={"decoder": "yolo-end2end"})
    frame = Frame(from_rgb(np.zeros((32, 32, 3), np.uint8), "RGB"), stream=0, number=0, pts=0)
    assert len(model.infer([frame])[0]) == 1
    with pytest.raises(
        ModelError, match=r"config\.txt: the outputs \[1, 1, 6\] hold nothing .* for frame 1 of the batch"
    ):
        model.infer([frame, frame])
