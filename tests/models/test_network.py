"""Networks end to end: the way from YUV against the way from RGB, batches, labels, and files that are wrong."""

from __future__ import annotations

import gc
import os
import threading
import tracemalloc
import weakref
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
from array_surfaces import ArraySurface, from_rgb, noise
from onnx import helper as onnx_helper
from tiny_networks import BOX, brightness_detector, save, tensor

from sluice.contract.formats import Matrix, MemType
from sluice.errors import ConfigurationError, ModelError
from sluice.models import network
from sluice.models.decoders import DECODERS
from sluice.models.frame import Frame
from sluice.models.inspection import inspect_model
from sluice.models.labels import COCO_80, read_labels
from sluice.models.network import NetworkModel
from sluice.models.nvinfer.labels import read_label_lines
from sluice.runtimes import open_network
from waiting import until

#: The models with the threshold that the recorded boxes were made with.
THRESHOLDS = {
    "yolox_nano_416x416.onnx": 0.4,
    "nanodet_m_320.onnx": 0.4,
    "FastestDet.onnx": 0.5,
    "yolo11n_256_coco80_int8_qdq.onnx": 0.3,
    "yolov8n_seg_320_coco80_int8_qdq.onnx": 0.3,
    "yolo26_pose_256_qdq_int8.onnx": 0.3,
    "version-RFB-320.onnx": 0.6,
    "face_detection_yunet_120x160.onnx": 0.6,
}
PICTURES = ("bus.jpg", "zidane.jpg")
FRAMES_OF_A_CLIP, EVERY = 8, 18


def frame_of(surface, number=0):
    return Frame(surface, stream=0, number=number, pts=None)


def open_model(path, **arguments):
    model = NetworkModel(path, **arguments)
    model.load()
    return model


def frames_of_clip(path):
    """`FRAMES_OF_A_CLIP` frames, or as many as there are, `EVERY` frames apart."""
    capture, frames = cv2.VideoCapture(str(path)), []
    while len(frames) < FRAMES_OF_A_CLIP and (frame := capture.read()[1]) is not None:
        frames.append(frame)
        for _ in range(EVERY - 1):
            capture.grab()
    return frames


def yuv_with_rgb(bgr):
    """A picture as I420 with OpenCV's RGB of it, and as NV12 of another matrix and range with the RGB of `Frame`."""
    height, width = (side // 2 * 2 for side in bgr.shape[:2])
    packed = cv2.cvtColor(bgr[:height, :width], cv2.COLOR_BGR2YUV_I420)
    planes = packed.reshape(-1)
    luma = planes[: height * width].reshape(height, width)
    u, v = planes[height * width :].reshape(2, height // 2, width // 2)
    yield ArraySurface([luma, u, v], "I420", width, height), cv2.cvtColor(packed, cv2.COLOR_YUV2RGB_I420)
    other = ArraySurface([luma, np.stack([u, v], axis=2)], "NV12", width, height, Matrix.BT709, True)
    yield other, frame_of(other).rgb()


@pytest.fixture(scope="module")
def pairs_of_frames(data):
    """Frames in YUV, each with the same frame as a full-size RGB picture: two pictures and frames of three clips."""
    pictures = [cv2.imread(str(data / "models/images" / name)) for name in PICTURES]
    for clip in ("vtest_pets09_h264_b3", "mmtracking_demo", "Retail02_first7s"):
        pictures += frames_of_clip(data / f"videos/{clip}.mp4")
    return [
        (frame_of(surface), frame_of(ArraySurface([rgb], "RGB", surface.width, surface.height)))
        for picture in pictures
        for surface, rgb in yuv_with_rgb(picture)
    ]


@pytest.mark.parametrize("name", THRESHOLDS)
def test_yuv_frames_give_the_boxes_of_opencvs_rgb_to_the_bit(data, name, pairs_of_frames):
    """Nothing less will do: a change of 1 in a fifth of the pixels' values moves 1 in 100 of YOLOX-nano's boxes."""
    model = open_model(data / "models" / name, confidence=THRESHOLDS[name])
    boxes = 0
    for yuv, rgb in pairs_of_frames:
        [found], [expected] = model.infer([yuv]), model.infer([rgb])
        boxes += len(expected)
        assert np.array_equal(found.xyxy, expected.xyxy)
        assert np.array_equal(found.scores, expected.scores)
        assert np.array_equal(found.class_ids, expected.class_ids)
    assert boxes > 5


def bright(value, name="I420", size=(64, 48)):
    rgb = np.full((size[1], size[0], 3), value, np.uint8)
    return from_rgb(rgb, name)


@pytest.mark.parametrize(("batch", "counts"), [("batch", (1, 3, 7, 2)), (1, (1, 3)), (4, (3, 4, 9))])
def test_each_frame_of_a_batch_gets_its_own_boxes(tmp_path, batch, counts):
    """Whatever batch the network takes: the score is the brightness of the frame itself."""
    model = open_model(brightness_detector(tmp_path / "m.onnx", batch), confidence=0.01, fit="stretch")
    for count in counts:
        levels = [20 + 17 * i for i in range(count)]
        results = model.infer([frame_of(bright(level, size=(64 + 2 * i, 48))) for i, level in enumerate(levels)])
        assert [float(result.scores[0]) for result in results] == pytest.approx([v / 255 for v in levels], abs=0.006)


@pytest.mark.parametrize(("class_agnostic", "left"), [(False, [0.9, 0.8]), (True, [0.9])])
def test_one_object_seen_as_two_classes(tmp_path, class_agnostic, left):
    """A YOLOv8 head that gives the same box twice, as class 0 and as class 1."""
    rows = np.zeros((1, 6, 21), np.float32)  # 21 = cells of strides 8, 16, 32 at 32x32
    rows[0, :4] = 16
    rows[0, 4, 3], rows[0, 5, 5] = 0.9, 0.8
    nodes = [
        onnx_helper.make_node("ReduceMean", ["images"], ["mean"], axes=[0, 1, 2, 3], keepdims=0),
        onnx_helper.make_node("Mul", ["mean", "zero"], ["nothing"]),
        onnx_helper.make_node("Add", ["rows", "nothing"], ["output0"]),
    ]
    ends = [tensor("images", [1, 3, 32, 32])], [tensor("output0", [1, 6, 21])]
    path = save(tmp_path / "twice.onnx", nodes, *ends, rows=rows, zero=np.float32(0))
    [result] = open_model(path, class_agnostic=class_agnostic).infer([frame_of(noise("RGB", 32, 32))])
    assert result.scores.tolist() == pytest.approx(left)


def test_no_frames_no_results(tmp_path):
    assert open_model(brightness_detector(tmp_path / "m.onnx")).infer([]) == []


def test_one_frame_each_of_400_sizes_leaves_nothing_behind(tmp_path):
    """What is kept for a size (which rows are read, where the padding is) is bounded, however many sizes come.

    The largest comes first: of the memory that rows are converted in, as much as it needs is kept.
    """
    model = open_model(brightness_detector(tmp_path / "m.onnx", size=64))
    sizes = [(64 + 3 * i, 48 + 5 * (i % 90)) for i in reversed(range(400))]
    sizes.insert(0, (max(width for width, _ in sizes), max(height for _, height in sizes)))
    held = []
    tracemalloc.start()
    try:
        for i, size in enumerate(sizes):
            model.infer([frame_of(noise("I420", *size)), frame_of(noise("NV12", *size))])
            if i in (199, 399):
                gc.collect()
                held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert held[1] - held[0] < 200_000, "as much as 200 sizes more would keep"


def test_boxes_come_back_in_pixels_of_the_frame(tmp_path):
    model = open_model(brightness_detector(tmp_path / "m.onnx"), confidence=0.01)
    [result] = model.infer([frame_of(bright(200, size=(64, 32)))])
    # 64x32 lies in 32x32 at half size, 8 lines down; the box reaches into the padding and ends at the frame's edge.
    assert BOX == (4, 4, 28, 28)
    assert result.xyxy.tolist() == [[8, 0, 56, 32]]


def test_open_input_size_is_640_or_what_is_asked_for(tmp_path):
    path = brightness_detector(tmp_path / "m.onnx", size="size")
    assert open_model(path).head.preprocessing.width == 640
    head = open_model(path, width=96, height=64).head
    assert (head.preprocessing.width, head.preprocessing.height) == (96, 64)
    exported = brightness_detector(tmp_path / "e.onnx", size="size", imgsz="[64, 128]")
    assert (open_model(exported).head.width, open_model(exported).head.height) == (128, 64)


def test_labels_from_metadata_file_or_nowhere(tmp_path):
    plain = brightness_detector(tmp_path / "plain.onnx")
    named = brightness_detector(tmp_path / "named.onnx", names="{0: 'dark', 1: 'bright'}")
    table = tmp_path / "labels.txt"
    table.write_text("night\nday\n")
    assert open_model(plain).labels == ()
    assert open_model(named).labels == ("dark", "bright")
    assert open_model(named, labels=table).labels == ("night", "day")
    with pytest.raises(ModelError, match=r"3 labels were given for .*whose head has 2 classes"):
        open_model(named, labels=["a", "b", "c"])


def test_inspect_marks_where_a_text_of_the_file_is_cut_off(tmp_path):
    path = brightness_detector(tmp_path / "m.onnx", description="two\nlines", author="a" * 200)
    lines = str(inspect_model(path)).splitlines()
    assert "  meta    description: two lines" in lines
    assert f"  meta    author: {'a' * 100}…" in lines


def test_a_file_that_is_another_when_it_is_loaded_again_has_its_own_labels(tmp_path):
    path = brightness_detector(tmp_path / "m.onnx", names="{0: 'dark', 1: 'bright'}")
    model = open_model(path)
    model.close()
    brightness_detector(path, names="{0: 'red', 1: 'blue'}")
    model.load()
    assert model.labels == ("red", "blue")


def test_a_network_that_cannot_be_used_is_freed_at_once(tmp_path, monkeypatch):
    """The exception, which somebody may keep, would keep it too."""
    opened = []

    def noted(*arguments, **more):
        opened.append(open_network(*arguments, **more))
        return opened[0]

    monkeypatch.setattr(network, "open_network", noted)
    with pytest.raises(ModelError, match="whose head has 2 classes"):
        open_model(brightness_detector(tmp_path / "m.onnx", names="{0: 'dark', 1: 'bright'}"), labels=["one"])
    assert not hasattr(opened[0], "_session")


def test_label_files(tmp_path):
    path = tmp_path / "labels.txt"
    for text in ("a b\nc\n\n", "a b\r\nc", "a b\rc", "a b;c", "a b;c;\n", "\ufeffa b\nc"):
        path.write_bytes(text.encode())
        assert read_labels(path) == ("a b", "c")
    path.write_text("")
    with pytest.raises(ModelError, match="is empty"):
        read_labels(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ModelError, match="not UTF-8"):
        read_labels(path)
    with pytest.raises(ModelError, match="cannot read the label file"):
        read_labels(tmp_path / "none.txt")
    with pytest.raises(ModelError, match="cannot read the label file"):
        read_labels(tmp_path)


@pytest.mark.parametrize("read", [read_labels, read_label_lines])
def test_a_label_file_that_never_ends_is_not_read(tmp_path, read):
    os.mkfifo(tmp_path / "pipe")
    for endless in ("/dev/zero", tmp_path / "pipe"):
        with pytest.raises(ModelError, match="a pipe or a device"):
            read(endless)


def test_labels_as_a_text_longer_than_any_file_name():
    assert read_labels(", ".join(COCO_80)) == COCO_80


def test_coco_is_the_default_only_for_80_classes(data):
    model = open_model(data / "models/yolox_nano_416x416.onnx")
    assert model.labels == COCO_80
    assert "80 classes" in model.head.labels_from


def test_a_named_decoder_that_does_not_fit_is_refused_with_the_reason(tmp_path):
    path = brightness_detector(tmp_path / "m.onnx")
    assert open_model(path, decoder="yolo-end2end").head.decoder == "yolo-end2end"
    with pytest.raises(ModelError, match=r"does not fit the decoder 'yolox': yolox: needs an output \[batch, 21, 5"):
        open_model(path, decoder="yolox")


def test_an_unknown_head_is_refused_with_every_decoders_reason(tmp_path):
    nodes = [onnx_helper.make_node("Reshape", ["images", "shape"], ["odd"])]
    ends = [tensor("images", [1, 3, 32, 32])], [tensor("odd", [1, 1, 3, 32, 32])]
    path = save(tmp_path / "odd.onnx", nodes, *ends, shape=np.array([1, 1, 3, 32, 32]))
    with pytest.raises(ModelError, match="no decoder recognises") as caught:
        open_model(path)
    assert "yolov8: needs an output [batch, channels, 21], the network has [1, 1, 3, 32, 32]" in str(caught.value)
    assert "fastestdet:" in str(caught.value)
    found = inspect_model(path)
    assert (found.decoder, found.fragment) == (None, None)
    assert "not recognised: no decoder recognises the outputs" in str(found)
    assert len([line for line in str(found).splitlines() if line.startswith("  not     ")]) == len(DECODERS)
    assert "odd float32 [1, 1, 3, 32, 32]" in str(found)


def test_inputs_that_are_no_picture_are_refused(tmp_path):
    node = onnx_helper.make_node("Identity", ["x"], ["y"])
    path = save(tmp_path / "v.onnx", [node], [tensor("x", [1, 7])], [tensor("y", [1, 7])])
    with pytest.raises(ModelError, match=r"the input x float32 \[1, 7\] is no picture"):
        open_model(path)
    add = onnx_helper.make_node("Add", ["a", "b"], ["y"])
    path = save(tmp_path / "a.onnx", [add], [tensor("a", [1, 7]), tensor("b", [1, 7])], [tensor("y", [1, 7])])
    with pytest.raises(ModelError, match="has 2 inputs"):
        open_model(path)


def test_a_network_without_outputs_is_refused(tmp_path):
    graph = onnx_helper.make_graph(
        [onnx_helper.make_node("Identity", ["x"], ["y"])], "g", [tensor("x", [1, 3, 8, 8])], []
    )
    made = onnx_helper.make_model(graph, opset_imports=[onnx_helper.make_opsetid("", 13)], ir_version=8)
    (tmp_path / "deaf.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(ModelError, match="has no outputs; right is one or more"):
        open_model(tmp_path / "deaf.onnx")


def test_a_size_that_the_network_does_not_take_is_refused(tmp_path):
    with pytest.raises(ModelError, match="width 64 was asked for, but the network's input has 32"):
        open_model(brightness_detector(tmp_path / "m.onnx"), width=64)


def test_a_size_that_no_picture_has_is_refused_before_memory_is_taken(tmp_path):
    with pytest.raises(ModelError, match="the input's width would be 1000000; right is 1 to"):
        open_model(brightness_detector(tmp_path / "m.onnx", size=1_000_000))
    with pytest.raises(ModelError, match="the input's height would be -8; right is 1 to"):
        open_model(brightness_detector(tmp_path / "o.onnx", size="size"), height=-8)


def test_outputs_that_hold_fewer_frames_than_went_in_are_refused(tmp_path):
    node = onnx_helper.make_node("Identity", ["row"], ["output0"])
    shapes = tensor("images", ["batch", 3, 32, 32]), tensor("output0", ["batch", 1, 6])
    row = np.array([[[*BOX, 0.9, 0]]], np.float32)
    model = open_model(save(tmp_path / "one.onnx", [node], [shapes[0]], [shapes[1]], row=row), decoder="yolo-end2end")
    frame = frame_of(noise("RGB", 32, 32))
    assert len(model.infer([frame])) == 1
    with pytest.raises(ModelError, match=r"one.onnx: the outputs output0 \[1, .* for frame 1 of the batch"):
        model.infer([frame] * 4)


def test_a_run_that_fails_names_the_file(tmp_path):
    with pytest.raises(ModelError, match=r"ONNX Runtime cannot run .*empty\.onnx: .*Got: 640 Expected: 0"):
        open_model(brightness_detector(tmp_path / "empty.onnx", size=0))


def test_use_before_load_and_after_close_is_refused(tmp_path):
    model = NetworkModel(brightness_detector(tmp_path / "m.onnx"))
    with pytest.raises(ModelError, match="is not loaded"):
        model.infer([frame_of(noise("RGB", 8, 8))])
    model.load()
    model.warm_up()
    model.close()
    with pytest.raises(ModelError, match="is not loaded"):
        model.infer([frame_of(noise("RGB", 8, 8))])


def test_inspection_says_what_why_and_why_not(data):
    found = inspect_model(data / "models/yolov8n_seg_320_coco80_int8_qdq.onnx")
    assert found.decoder == "yolov8"
    assert "2100 = cells of strides 8, 16, 32 at 320x320" in found.why
    assert set(found.rejected) == set(DECODERS) - {"yolov8"}
    assert all(len(why) > 20 for why in found.rejected.values())
    assert "COCO" in found.labels_from
    assert found.fragment == f"gst-launch-1.0 ... ! sluiceinfer model={found.path} ! ..."
    text = str(found)
    assert "output1 float32 [1, 32, 80, 80]" in text
    assert "320x320 NCHW float32, RGB, aspect kept, centre, padded with 114" in text
    assert f"use     {found.fragment}" in text
    others = len(DECODERS) - 1
    assert text.endswith(f"  not     {others} other decoders; --verbose says why")
    told = str(inspect_model(found.path, verbose=True)).splitlines()
    assert len([line for line in told if line.startswith("  not     ")]) == others


@pytest.fixture
def network_on_gpu(tmp_path, monkeypatch):
    """A network that says it is PyTorch's and on a GPU, where triton is not installed."""
    model = NetworkModel(brightness_detector(tmp_path / "net.onnx"), confidence=0.0)
    network = model._open_network()
    network.on_device = SimpleNamespace(device=SimpleNamespace(type="cuda"))
    monkeypatch.setattr(model, "_open_network", lambda: network)
    monkeypatch.setattr("sluice.models.network.find_spec", lambda name: None)
    model.load()
    return model


def test_without_triton_a_network_on_a_gpu_takes_frames_in_system_memory(network_on_gpu):
    surface = noise("NV12", 64, 64)
    surface.mem_type = MemType.SYSTEM
    assert len(network_on_gpu.infer([frame_of(surface)])[0]) == 1


def test_without_triton_frames_in_gpu_memory_are_refused_with_what_is_missing(network_on_gpu):
    surface = noise("NV12", 64, 64)
    surface.mem_type = MemType.CUDA_DEVICE
    with pytest.raises(ConfigurationError, match=r"frames in GPU memory need triton.*pip install triton"):
        network_on_gpu.infer([frame_of(surface)])


@pytest.mark.parametrize("value", ["8,x", "0", "8;-1"])
def test_batch_sizes_to_prepare_are_checked(tmp_path, value):
    with pytest.raises(ConfigurationError, match="prepare is"):
        NetworkModel(brightness_detector(tmp_path / "net.onnx"), prepare=value)


def test_a_model_that_nobody_closes_is_freed_with_its_threads(tmp_path):
    before = set(threading.enumerate())  # of which some may end meanwhile
    model = open_model(brightness_detector(tmp_path / "m.onnx"))
    assert len(model.infer([frame_of(noise("RGB", 8, 8))] * 3)) == 3
    assert len(set(threading.enumerate()) - before) == (2 if len(os.sched_getaffinity(0)) > 1 else 0)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
    until(lambda: not set(threading.enumerate()) - before, "the end of its threads")
