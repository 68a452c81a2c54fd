"""modelpipe: its detector on ONNX Runtime and its tracker, one branch per clip, analytics as chunks."""

import os
import site
import tempfile
from importlib.util import find_spec
from pathlib import Path

os.environ["MP_ANALYTICS"] = "chunk"
(folder,) = find_spec("modelpipe").submodule_search_locations
os.environ["GST_PLUGIN_PATH"] = str(Path(folder) / "plugins")
# As its own launcher does: GStreamer's scanner runs the system's Python, which does not know this environment.
os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(folder) / "plugins" / "python"), *site.getsitepackages()])
os.environ["GST_REGISTRY"] = str(Path(tempfile.mkdtemp()) / "registry.bin")

import gi

gi.require_version("Gst", "1.0")
from clock import Clock, arguments
from gi.repository import Gst

clip, model, streams = arguments()
clock = Clock(streams)
Gst.init(None)
branch = (
    "uridecodebin uri=file://{clip} ! queue ! videoconvert ! videoscale ! video/x-raw,format=RGB,width=256,height=256 "
    "! mp_objectdetector engine-name=onnx model-name={model} device=cpu input-format=nchw post-process=anchor_free "
    "! mp_tracker ! fakesink name=sink_{stream} sync=false signal-handoffs=true"
)
pipeline = Gst.parse_launch(" ".join(branch.format(clip=clip, model=model, stream=i) for i in range(streams)))
for stream in range(streams):
    sink = pipeline.get_by_name(f"sink_{stream}")
    sink.connect("handoff", lambda _sink, _buffer, _pad, number: clock.frame(number, 0), stream)
pipeline.set_state(Gst.State.PLAYING)
message = pipeline.get_bus().timed_pop_filtered(Gst.CLOCK_TIME_NONE, Gst.MessageType.EOS | Gst.MessageType.ERROR)
pipeline.set_state(Gst.State.NULL)
if message.type == Gst.MessageType.ERROR:
    raise SystemExit(str(message.parse_error()))
clock.report()
