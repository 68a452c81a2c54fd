"""modelpipe: its detector on ONNX Runtime and its tracker, one branch per clip, analytics as chunks."""

import json
import os
import re
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
import numpy as np
from clock import begin
from gi.repository import Gst

SIZE = 256
CHUNK = b"GST-ANALYTICS:"  # what its analytics begin with, JSON in a memory of the buffer behind the picture's

model, sources, clock = begin()
Gst.init(None)


def tracked(buffer: Gst.Buffer) -> list[int]:
    """The ids of a frame's objects; its tracker writes them at the end of the labels."""
    for index in range(1, buffer.n_memory()):
        with buffer.peek_memory(index).map(Gst.MapFlags.READ) as chunk:
            data = bytes(chunk.data)
        if data.startswith(CHUNK):
            labels = [found["label"] for found in json.loads(data[len(CHUNK) :])["objects"]]
            return [int(match[1]) for label in labels if (match := re.search(r"_id_(\d+)$", label))]
    return []


def picture(buffer: Gst.Buffer) -> np.ndarray:
    """The pixels that the detector saw."""
    with buffer.peek_memory(0).map(Gst.MapFlags.READ) as pixels:
        return np.frombuffer(pixels.data, np.uint8, SIZE * SIZE * 3).reshape(SIZE, SIZE, 3).copy()


branch = (
    "uridecodebin uri={uri} ! queue ! videoconvert ! videoscale ! video/x-raw,format=RGB,width=256,height=256 "
    "! mp_objectdetector engine-name=onnx model-name={model} device=cpu input-format=nchw post-process=anchor_free "
    "! mp_tracker ! fakesink name=sink_{stream} sync=false signal-handoffs=true"
)
uris = [source if "://" in source else Path(source).as_uri() for source in sources]
pipeline = Gst.parse_launch(
    " ".join(branch.format(uri=uri, model=model, stream=stream) for stream, uri in enumerate(uris))
)
for stream in range(len(sources)):
    pipeline.get_by_name(f"sink_{stream}").connect(
        "handoff",
        lambda _sink, buffer, _pad, number: clock.frame(number, tracked(buffer), lambda: picture(buffer)),
        stream,
    )
pipeline.set_state(Gst.State.PLAYING)
message = pipeline.get_bus().timed_pop_filtered(Gst.CLOCK_TIME_NONE, Gst.MessageType.EOS | Gst.MessageType.ERROR)
if message.type == Gst.MessageType.ERROR:
    print(message.parse_error(), flush=True)
pipeline.set_state(Gst.State.NULL)
clock.report()
