"""What networks of every kind leave in the metadata of a real clip, and that a copy of the buffer has it too."""

import traceback
from collections.abc import Callable
from pathlib import Path

import gi
import numpy as np
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from playing import play
from sluice.contract import infer_meta
from sluice.contract.metadata import BatchMeta, FrameMeta, Lease
from sluice.elements import register_all

Gst.init(None)
Look = Callable[[FrameMeta], None]


STREET, SIGNING = ("mmtracking_demo.mp4", 8), ("asl_walk.mkv", 89)  # ten people far away; one woman close by


def run(data: Path, properties: str, look: Look, clip: tuple[str, int] = STREET) -> None:
    """Show a network a clip; call `look` on each of its frames, and on a copy of it."""
    register_all()
    pipeline = Gst.parse_launch(
        f"sluicemux name=mux batch-size=1 ! sluiceinfer {properties} ! fakesink name=end sync=false "
        f"filesrc location={data}/videos/{clip[0]} ! decodebin ! mux.sink_0"
    )
    failures: list[str] = []  # texts: a traceback would keep buffers, and with them the pipeline
    frames = 0

    def probe(_pad: Gst.Pad, info: Gst.PadProbeInfo) -> Gst.PadProbeReturn:
        nonlocal frames
        frames += 1
        buffer = info.get_buffer()
        everything = Gst.BufferCopyFlags.META | Gst.BufferCopyFlags.MEMORY | Gst.BufferCopyFlags.FLAGS
        for given in (buffer, buffer.copy_region(everything, 0, 2**64 - 1)):
            try:
                with Lease() as lease:
                    (frame,) = BatchMeta.of(given, lease).frames
                    assert frame.infer_done
                    look(frame)
            except BaseException:
                failures.append(traceback.format_exc())
        return Gst.PadProbeReturn.OK

    pipeline.get_by_name("end").get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, probe)
    play(pipeline)
    assert not failures, failures[0]
    assert frames == clip[1]


def test_instance_masks_lie_over_their_boxes(data: Path) -> None:
    seen: list[float] = []

    def look(frame: FrameMeta) -> None:
        for item in frame.objects:
            assert item.mask is not None, item.label
            assert item.mask.max() <= 1
            inside = (item.mask > item.mask_threshold).mean()
            if item.label == "person":
                seen.append(inside)

    model = data / "models" / "yolov8n_seg_320_coco80_int8_qdq.onnx"
    run(data, f"model={model} confidence-threshold=0.3", look)
    assert len(seen) >= 16
    assert 0.3 < np.median(seen) < 0.95, "a person fills part of his box"


def test_key_points_lie_about_their_boxes(data: Path) -> None:
    found: list[np.ndarray] = []

    def look(frame: FrameMeta) -> None:
        for item in frame.objects:
            (keypoints,) = infer_meta.keypoints(item)
            assert keypoints.component == 15
            assert keypoints.points.shape == (17, 3)
            left, top, width, height = item.box
            x, y, confidence = keypoints.points[keypoints.points[:, 2] > 0.5].T
            about = (left - width / 4 <= x) & (x <= left + width * 1.25)
            about &= (top - height / 4 <= y) & (y <= top + height * 1.25)
            assert about.all()
            found.append(confidence)

    model = data / "models" / "yolo26_pose_256_qdq_int8.onnx"
    run(data, f"model={model} confidence-threshold=0.3", look, SIGNING)
    assert len(found) >= 2 * 80
    assert np.median([len(seen) for seen in found]) >= 8


def test_a_class_map_is_on_the_frame(data: Path) -> None:
    classes: set[int] = set()

    def look(frame: FrameMeta) -> None:
        (found,) = infer_meta.segmentations(frame)
        assert (found.component, found.classes) == (15, 21)
        assert found.class_map.shape[0] > 64
        assert found.class_map.min() >= -1
        assert found.class_map.max() < 21
        classes.update(np.unique(found.class_map).tolist())
        assert frame.objects == []

    run(data, f"model={data}/models/deeplab_v3_1_default_1.onnx", look)
    assert 15 in classes, "VOC's person"


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("yolox_nano_416x416", [(3549, 85)]),
        ("osnet_x0_25_msmt17", [(512,)]),
        ("version-RFB-320", [(4420, 2), (4420, 4)]),
    ],
)
def test_raw_outputs_where_asked_for(data: Path, name: str, shapes: list[tuple[int, ...]]) -> None:
    def look(frame: FrameMeta) -> None:
        ((component, layers),) = infer_meta.outputs(frame)
        assert component == 15
        assert sorted(values.shape for values in layers.values()) == sorted(shapes)
        assert all(np.isfinite(values).all() for values in layers.values())
        assert all(values.any() for values in layers.values())

    run(data, f"model={data}/models/{name}.onnx output-tensor-meta=true", look)


def test_raw_outputs_are_of_network_files(data: Path) -> None:
    register_all()
    element = Gst.ElementFactory.make("sluiceinfer")
    element.set_property("model", "people")
    element.set_property("output-tensor-meta", True)
    bus = Gst.Bus()
    element.set_bus(bus)
    assert element.set_state(Gst.State.READY) == Gst.StateChangeReturn.FAILURE
    message = bus.timed_pop_filtered(Gst.SECOND, Gst.MessageType.ERROR)
    element.set_state(Gst.State.NULL)
    assert message is not None
    assert "output_tensor_meta" in message.parse_error()[0].message
