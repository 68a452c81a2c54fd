"""Frames per second of NVIDIA's decoder alone, and with Sluice behind it, on a machine with an NVIDIA GPU.

Every stream plays the same H.264 or H.265 elementary stream in a loop. Frames are counted by the sinks' own statistics
(decode alone) or the inference element's counter (with Sluice, where the sink counts batches), between two moments of
the steady state; no Python of the benchmark runs on the measured path. ``cpu`` lists the threads that used the most
processor time in between, as a share of one core, so that it shows where the time goes.

    python3 bench/gpu.py CLIP.h264 --streams 1 8 32 --seconds 15 --out result.json
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

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
        f"multifilesrc location={clip} loop=true caps={caps} ! {codec}parse ! nvv4l2decoder ! queue max-size-buffers=4"
    )


def decode_only(clip: Path, streams: int) -> str:
    """Launch text: each stream is decoded into a sink of its own."""
    return " ".join(f"{source(clip)} ! fakesink name=sink{i} sync=false" for i in range(streams))


def with_sluice(clip: Path, streams: int, model: str, in_flight: int) -> str:
    """Launch text: every stream into one mux, then inference with a model that does nothing."""
    head = (
        f"sluicemux name=mux batch-size={streams} batched-push-timeout=33000 ! "
        f"sluiceinfer name=infer model={model} in-flight={in_flight} ! fakesink name=sink0 sync=false"
    )
    return " ".join([head, *(f"{source(clip)} ! mux.sink_{i}" for i in range(streams))])


def rendered(pipeline: Gst.Pipeline, streams: int) -> int:
    """Sum of the buffers that the sinks say they rendered."""
    sinks = (pipeline.get_by_name(f"sink{i}") for i in range(streams))
    return sum(sink.get_property("stats").get_value("rendered") for sink in sinks if sink)


def inferred(pipeline: Gst.Pipeline) -> int:
    """Frames that have been through the model."""
    return int(pipeline.get_by_name("infer").get_property("stats").get_value("inferred"))


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


def measure(name: str, launch: str, streams: int, warm_up: float, seconds: float) -> dict[str, Any]:
    """Run `launch` and return its steady-state numbers."""
    pipeline = Gst.parse_launch(launch)
    pipeline.set_state(Gst.State.PLAYING)
    bus_error(pipeline, warm_up)
    count = (lambda: inferred(pipeline)) if "sluicemux" in launch else (lambda: rendered(pipeline, streams))
    frames, started, threads = count(), time.monotonic(), thread_seconds()
    bus_error(pipeline, seconds / 2)
    decoder = decoder_use()
    bus_error(pipeline, seconds / 2)
    frames, elapsed = count() - frames, time.monotonic() - started
    used = {key: (value - threads.get(key, 0.0)) / elapsed for key, value in thread_seconds().items()}
    busiest = sorted(used.items(), key=lambda item: -item[1])[:8]
    result: dict[str, Any] = {
        "what": name,
        "streams": streams,
        "frames": frames,
        "seconds": round(elapsed, 3),
        "frames_per_second": round(frames / elapsed, 1),
        "decoder_use": decoder,
        "cpu_cores": round(sum(used.values()), 2),
        "cpu": {key: round(value, 2) for key, value in busiest},
    }
    if "sluicemux" in launch:
        result["batches"] = rendered(pipeline, 1)
        result["infer"] = pipeline.get_by_name("infer").get_property("stats").to_string()
    pipeline.set_state(Gst.State.NULL)
    return result


def main() -> None:
    """Measure every form at every number of streams and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clip", type=Path)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--warm-up", type=float, default=5.0)
    parser.add_argument("--in-flight", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("gpu.json"))
    arguments = parser.parse_args()
    Gst.init(None)
    import sluice.elements

    sluice.elements.register_all()
    model = arguments.out.with_name("nothing_model.py")
    model.write_text(NOTHING)
    results: list[dict[str, Any]] = []
    for streams in arguments.streams:
        forms = {
            "decode": decode_only(arguments.clip, streams),
            "decode, sluicemux, sluiceinfer": with_sluice(
                arguments.clip, streams, f"{model}:Nothing", arguments.in_flight
            ),
        }
        for name, launch in forms.items():
            results.append(measure(name, launch, streams, arguments.warm_up, arguments.seconds))
            print(json.dumps(results[-1]), flush=True)
            report = {
                "clip": arguments.clip.name,
                "machine": platform.processor() or platform.machine(),
                "runs": results,
            }
            arguments.out.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
