"""The example elements, run with gst-launch as their files say."""

import os
import re
import subprocess
from pathlib import Path

import gi
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.env import environment
from sluice.contract.metadata import BatchMeta, Lease
from sluice.elements import register

EXAMPLES = Path(__file__).parents[2] / "examples"
FPS = re.compile(r"rendered: (\d+), dropped: 0, current: [\d.]+, average: ([\d.]+)")


def gst_launch(line: str, registry: Path, limit: float = 60) -> subprocess.CompletedProcess[str]:
    """Run gst-launch with Sluice's elements and the examples on the plugin path, and a registry of its own."""
    variables = os.environ | environment(EXAMPLES) | {"GST_REGISTRY": str(registry / "registry.bin")}
    command = ["gst-launch-1.0", *line.split()]
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=limit, check=False)


@pytest.fixture
def elements():
    """Register both elements, and the mux, in this process."""
    import importlib.util

    register("sluicemux")
    for name in ("gstexampleplugin", "gstyoloplugin"):
        if Gst.ElementFactory.find(name) is None:
            spec = importlib.util.spec_from_file_location(name, EXAMPLES / "python" / f"{name}.py")
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            Gst.Element.register(None, *module.__gstelementfactory__)


def frames_behind(line: str) -> list[tuple[int, bool, list[tuple[str, tuple[float, ...]]]]]:
    """Run a line with a fakesink named ``end``; return (stream, bInferDone, [(label, box)]) of each frame there."""
    pipeline = Gst.parse_launch(line)
    found = []

    def look(_pad, info):
        with Lease() as lease:
            for frame in BatchMeta.of(info.get_buffer(), lease).frames:
                found.append((frame.source_id, frame.infer_done, [(o.label, o.box) for o in frame.objects]))
        return Gst.PadProbeReturn.OK

    pipeline.get_by_name("end").get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, look)
    pipeline.set_state(Gst.State.PLAYING)
    kinds = Gst.MessageType.EOS | Gst.MessageType.ERROR
    message = pipeline.get_bus().timed_pop_filtered(30 * Gst.SECOND, kinds)
    pipeline.set_state(Gst.State.NULL)
    assert message is not None, "no end"
    if message.type == Gst.MessageType.ERROR:
        raise RuntimeError(message.parse_error()[0].message, message.parse_error()[1])
    return found


def test_the_launch_line_prints_frames_per_second(data, tmp_path):
    network = data / "models" / "yolox_nano_416x416.onnx"
    clip = data / "videos" / "derived_fragmented.mp4"
    done = gst_launch(
        "-v sluicemux name=m width=1280 height=720 batch-size=1 batched-push-timeout=33000 "
        f"! gstyoloplugin model-path={network} "
        "! fpsdisplaysink text-overlay=false silent=false sync=false video-sink=fakesink "
        f"uridecodebin uri=file://{clip} ! m.sink_0",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    lines = FPS.findall(done.stdout)
    assert lines, done.stdout[-2000:]
    assert int(lines[-1][0]) <= 100
    assert float(lines[-1][1]) > 0


def test_the_example_runs_with_gst_launch(tmp_path):
    done = gst_launch("videotestsrc num-buffers=20 ! gstexampleplugin ! fakesink", tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("form", ["NV12", "RGBA", "RGB"])
def test_the_example_finds_the_white_bar_of_the_test_picture(elements, form):
    source = f"videotestsrc num-buffers=3 ! video/x-raw,format={form},width=320,height=240"
    found = frames_behind(f"{source} ! gstexampleplugin confidence-threshold=0.95 ! fakesink name=end")
    assert len(found) == 3
    for _, infer_done, objects in found:
        assert infer_done
        labels = {label for label, _ in objects}
        assert labels == {"bright"}
        # SMPTE bars: seven in the upper two thirds, the first one white.
        largest = max((box for _, box in objects), key=lambda box: box[2] * box[3])
        assert largest == pytest.approx((0, 0, 320 / 7, 160), abs=2)


def test_the_example_takes_batches(elements):
    source = "videotestsrc pattern=white num-buffers=4 ! video/x-raw,format=NV12,width={w},height=48"
    found = frames_behind(
        "sluicemux name=m batch-size=2 ! gstexampleplugin ! fakesink name=end "
        f"{source.format(w=64)} ! m.sink_0 {source.format(w=96)} ! m.sink_1"
    )
    assert sorted(stream for stream, _, _ in found) == [0] * 4 + [1] * 4
    assert {(stream, *objects) for stream, _, objects in found} == {
        (0, ("bright", (0, 0, 64, 48))),
        (1, ("bright", (0, 0, 96, 48))),
    }


def test_the_yolo_example_finds_what_is_in_the_picture(elements, data):
    network = data / "models" / "yolox_nano_416x416.onnx"
    labels = data / "models" / "coco80_labels.txt"
    assert labels.is_file()
    found = frames_behind(
        f"filesrc location={data / 'models' / 'images' / 'bus.jpg'} ! jpegdec ! videoconvert ! video/x-raw,format=RGB "
        f"! gstyoloplugin model-path={network} ! fakesink name=end"
    )
    ((_, infer_done, objects),) = found
    assert infer_done
    assert sorted(label for label, _ in objects).count("person") >= 3
    assert "bus" in {label for label, _ in objects}


@pytest.mark.parametrize(("properties", "text"), [("model-path=/nowhere/net.onnx", "/nowhere/net.onnx"), ("", "model")])
def test_a_wrong_file_is_refused_by_name(elements, properties, text):
    with pytest.raises(RuntimeError, match=text):
        frames_behind(f"videotestsrc ! gstyoloplugin {properties} ! fakesink name=end")
