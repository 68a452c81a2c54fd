"""Frames per second of NVIDIA's decoder alone, and with Sluice behind it, on a machine with an NVIDIA GPU.

Every stream plays the same H.264 or H.265 elementary stream in a loop. The forms, in the order of the table:

* ``decode``: the decoder, each stream into a sink of its own;
* ``nothing``: decoder, sluicemux, sluiceinfer with a model that does nothing;
* ``model``: the same with YOLO26n in half precision (random weights, the 20 best boxes of every frame);
* ``all``: the same with sluicetracker, sluicemsgconv and sluicemsgbroker (JSON into a file) behind it;
* ``article``: the article's loop (bench/article.py) in the place of sluiceinfer.

And without a pipeline: ``network``, YOLO26n alone as a CUDA graph, on an input that lies on the GPU, and
``letterbox``, the kernel that makes this input of 1080p NV12 surfaces. Frames are counted by the sinks' own
statistics (decode alone), by the inference element's counter, or by the article's element, between two moments of the
steady state. ``us_per_batch`` is the processor time of every thread per batch, which bounds what it holds the
interpreter's lock; ``decoder_use`` is nvidia-smi's.

    python3 bench/gpu.py CLIP.h264 --streams 1 8 32 --seconds 15 --out result.json
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

FORMS = ["decode", "nothing", "letterbox", "network", "model", "all", "article"]
HERE = Path(__file__).resolve().parent

NOTHING = """
class Nothing:
    labels = ["nothing"]

    def infer(self, frames):
        return [None] * len(frames)
"""


def source(clip: Path) -> str:
    """Return the launch text that decodes `clip` for ever into NVMM memory."""
    codec = "h265" if clip.suffix in (".h265", ".hevc") else "h264"
    caps = f"video/x-{codec},stream-format=byte-stream,framerate=30/1"
    return (
        f"multifilesrc location={clip} loop=true caps={caps} ! {codec}parse ! "
        # Frames that wait, are in a batch or are being inferred are the decoder's own surfaces.
        "nvv4l2decoder num-extra-surfaces=16 ! queue max-size-buffers=4"
    )


def decode_only(clip: Path, streams: int) -> str:
    """Launch text: each stream is decoded into a sink of its own."""
    return " ".join(f"{source(clip)} ! fakesink name=sink{i} sync=false" for i in range(streams))


def with_mux(clip: Path, streams: int, behind: str) -> str:
    """Launch text: every stream into one mux, then what is `behind` it."""
    head = (
        f"sluicemux name=mux batch-size={streams} batched-push-timeout=33000 ! {behind} ! "
        "fakesink name=sink0 sync=false"
    )
    return " ".join([head, *(f"{source(clip)} ! mux.sink_{i}" for i in range(streams))])


def infer(model: str, in_flight: int, options: str = "") -> str:
    """Launch text of the inference element."""
    return f"sluiceinfer name=infer model={model} in-flight={in_flight} {options}"


def forms(arguments: argparse.Namespace, streams: int, folder: Path) -> dict[str, str]:
    """Launch texts by the form's name."""
    nothing = folder / "nothing_model.py"
    nothing.write_text(NOTHING)
    options = f"decoder=yolo-end2end;max_detections=20;prepare={streams};compile={arguments.compile}"
    yolo = infer(
        f"{HERE}/yolo26.py:Yolo26n", arguments.in_flight, f'confidence-threshold=0.0001 model-options="{options}"'
    )
    behind = (
        "queue max-size-buffers=2 ! sluicetracker ! queue max-size-buffers=2 ! sluicemsgconv ! "
        f"sluicemsgbroker location={folder}/messages.jsonl"
    )
    return {
        "decode": decode_only(arguments.clip, streams),
        "nothing": with_mux(arguments.clip, streams, infer(f"{nothing}:Nothing", arguments.in_flight)),
        "model": with_mux(arguments.clip, streams, yolo),
        # The broker ends the line: it is a sink.
        "all": with_mux(arguments.clip, streams, f"{yolo} ! {behind}").replace(
            " ! fakesink name=sink0 sync=false", "", 1
        ),
        "article": with_mux(arguments.clip, streams, "articleloop name=infer"),
    }


def network_alone(streams: int, seconds: float, compiled: bool) -> dict[str, Any]:
    """Frames per second of YOLO26n as a CUDA graph on an input of the GPU's."""
    import torch
    from yolo26 import Yolo26n

    module: Any = Yolo26n().cuda()
    if compiled:
        module = torch.compile(module, dynamic=False)
    pictures = torch.rand(streams, 3, 640, 640, device="cuda", dtype=torch.float16)
    return replayed("network", lambda: module(pictures), streams, seconds)


@dataclass
class Picture:
    """What the letterbox kernel is told of a 1080p NV12 surface."""

    address: int
    width: int = 1920
    height: int = 1080
    gpu_id: int = 0
    index: int = 0
    layout_key: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        from sluice.contract.formats import ColorFormat, Matrix, MemType
        from sluice.contract.surface import Plane

        self.mem_type, self.color_format = MemType.CUDA_DEVICE, ColorFormat.NV12_709
        self.matrix, self.full_range = Matrix.BT709, False
        self.planes = (
            Plane(1920, 1080, 2048, 0, 1, self.address),
            Plane(960, 540, 2048, 2048 * 1080, 2, self.address + 2048 * 1080),
        )


def letterbox_alone(streams: int, seconds: float) -> dict[str, Any]:
    """Frames per second of the letterbox kernel."""
    import torch

    from sluice.models.gpu.preprocess import letterbox, new_input
    from sluice.models.gpu.table import ROW, TableWriter
    from sluice.models.preprocess import Preprocessing

    spec, device = Preprocessing(640, 640, dtype="float16"), torch.device("cuda:0")
    memory = torch.randint(0, 256, (streams, 2048 * 1620), dtype=torch.uint8, device=device)
    rows = torch.zeros(streams, ROW, dtype=torch.int64)
    TableWriter(spec, 0).write(rows.numpy(), [Picture(one.data_ptr()) for one in memory])
    table, pictures = rows.to(device), new_input(spec, streams, device)
    return replayed("letterbox", lambda: letterbox(table, pictures, spec), streams, seconds)


def replayed(name: str, step: Callable[[], Any], streams: int, seconds: float) -> dict[str, Any]:
    """Capture `step` as a CUDA graph and replay it."""
    import torch

    with torch.inference_mode():
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                step()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            step()
        torch.cuda.synchronize()
        batches, started = 0, time.monotonic()
        while time.monotonic() - started < seconds:
            for _ in range(10):
                graph.replay()
            torch.cuda.synchronize()
            batches += 10
        elapsed = time.monotonic() - started
    frames = batches * streams
    return {
        "what": name,
        "streams": streams,
        "frames": frames,
        "seconds": round(elapsed, 3),
        "frames_per_second": round(frames / elapsed, 1),
    }


def rendered(pipeline: Gst.Pipeline, streams: int) -> int:
    """Sum of the buffers that the sinks say they rendered."""
    sinks = (pipeline.get_by_name(f"sink{i}") for i in range(streams))
    return sum(sink.get_property("stats").get_value("rendered") for sink in sinks if sink)


def counted(pipeline: Gst.Pipeline, streams: int) -> int:
    """Frames that have been through the whole, or through the model."""
    element = pipeline.get_by_name("infer")
    if element is None:
        return rendered(pipeline, streams)
    frames = getattr(element, "frames", None)  # the article's element
    return int(frames if frames is not None else element.get_property("stats").get_value("inferred"))


def thread_seconds() -> dict[str, float]:
    """Processor seconds used so far by each thread of this process, keyed by thread name and id."""
    tick = os.sysconf("SC_CLK_TCK")
    seconds = {}
    for task in Path("/proc/self/task").iterdir():
        text = (task / "stat").read_text()
        name, fields = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
        seconds[f"{name}:{task.name}"] = (int(fields[11]) + int(fields[12])) / tick
    return seconds


def decoder_use() -> str:
    """Decoder use as nvidia-smi gives it, in per cent, or why it is not known."""
    query = ["nvidia-smi", "--query-gpu=utilization.decoder,utilization.gpu", "--format=csv,noheader"]
    try:
        return subprocess.run(query, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        return f"unknown: {error}"


def bus_error(pipeline: Gst.Pipeline, seconds: float) -> None:
    """Wait `seconds`; stop the program with the text of an error that reaches the bus meanwhile."""
    message = pipeline.get_bus().timed_pop_filtered(
        int(seconds * Gst.SECOND), Gst.MessageType.ERROR | Gst.MessageType.EOS
    )
    if message is not None:
        text = message.parse_error() if message.type == Gst.MessageType.ERROR else "end of stream"
        pipeline.set_state(Gst.State.NULL)
        sys.exit(f"the pipeline stopped: {text}")


def by_element(used: dict[str, float], batches: float) -> dict[str, int]:
    """Processor microseconds per batch of the busiest threads, those of one name taken together."""
    together: dict[str, float] = {}
    for key, seconds in used.items():
        name = re.sub(r"[0-9]", "", key.rpartition(":")[0])
        together[name] = together.get(name, 0.0) + seconds
    busiest = sorted(together.items(), key=lambda item: -item[1])[:12]
    return {name: round(seconds / batches * 1e6) for name, seconds in busiest if seconds > 0.01}


def measure(name: str, launch: str, streams: int, warm_up: float, seconds: float) -> dict[str, Any]:
    """Run `launch` and return its steady-state numbers; the warm-up begins with the first frame counted."""
    pipeline = Gst.parse_launch(launch)
    pipeline.set_state(Gst.State.PLAYING)
    while not counted(pipeline, streams):
        bus_error(pipeline, 0.2)
    bus_error(pipeline, warm_up)
    frames, started, threads = counted(pipeline, streams), time.monotonic(), thread_seconds()
    bus_error(pipeline, seconds / 2)
    decoder = decoder_use()
    bus_error(pipeline, seconds / 2)
    frames, elapsed = counted(pipeline, streams) - frames, time.monotonic() - started
    used = {key: value - threads.get(key, 0.0) for key, value in thread_seconds().items()}
    busiest = sorted(used.items(), key=lambda item: -item[1])[:8]
    result: dict[str, Any] = {
        "what": name,
        "streams": streams,
        "frames": frames,
        "seconds": round(elapsed, 3),
        "frames_per_second": round(frames / elapsed, 1),
        "decoder_use": decoder,
        "cpu_cores": round(sum(used.values()) / elapsed, 2),
        "cpu": {key: round(value / elapsed, 2) for key, value in busiest},
        "us_per_batch": by_element(used, max(frames / streams, 1)),
    }
    element = pipeline.get_by_name("infer")
    if element is not None and name != "article":
        result["infer"] = element.get_property("stats").to_string()
    pipeline.set_state(Gst.State.NULL)
    return result


def main() -> None:
    """Measure every form at every number of streams and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clip", type=Path)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument(
        "--forms", nargs="+", default=["decode", "nothing", "letterbox", "network", "model", "all", "article"]
    )
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--warm-up", type=float, default=5.0)
    parser.add_argument("--in-flight", type=int, default=4)
    parser.add_argument("--compile", action="store_true", help="compile the network with torch.compile")
    parser.add_argument("--out", type=Path, default=Path("gpu.json"))
    arguments = parser.parse_args()
    Gst.init(None)
    import sluice.elements

    sluice.elements.register_all()
    if "article" in arguments.forms:
        import article

        article.register()
    results: list[dict[str, Any]] = []
    for streams in arguments.streams:
        launch = forms(arguments, streams, arguments.out.resolve().parent)
        for name in arguments.forms:
            if name == "network":
                results.append(network_alone(streams, arguments.seconds / 4, arguments.compile))
            elif name == "letterbox":
                results.append(letterbox_alone(streams, arguments.seconds / 8))
            else:
                results.append(measure(name, launch[name], streams, arguments.warm_up, arguments.seconds))
            print(json.dumps(results[-1]), flush=True)
            arguments.out.write_text(json.dumps(report(arguments, results), indent=1))


def report(arguments: argparse.Namespace, results: list[dict[str, Any]]) -> dict[str, Any]:
    """The file's content: the machine, how it was measured, and every run."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        gpu = subprocess.run(query, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        gpu = f"unknown: {error}"
    return {
        "clip": arguments.clip.name,
        "gpu": gpu,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "gstreamer": Gst.version_string(),
        "in_flight": arguments.in_flight,
        "compiled": arguments.compile,
        "runs": results,
    }


if __name__ == "__main__":
    main()
