"""Frames per second of a network alone, as a CUDA graph on an input of the GPU's, a line of JSON for each batch size.

Compiled, all sizes are compiled at once, so that it also fills the cache for the pipelines; see bench/gpu.py.
"""

from __future__ import annotations

import argparse
import faulthandler
import functools
import importlib
import json
import time
from pathlib import Path
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst  # noqa: F401 - as in a pipeline, before PyTorch

import sluice.models.network  # noqa: F401 - likewise; it brings OpenCV
from sluice.runtimes.torch import DeviceModule, torch


def main() -> None:
    """Measure one network."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network", help="file.py:Class in this folder")
    parser.add_argument("batches", type=int, nargs="+")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--seconds", type=float, default=2.0)
    arguments = parser.parse_args()
    faulthandler.enable()
    file, _, name = arguments.network.partition(":")
    module = getattr(importlib.import_module(Path(file).stem), name)().eval().cuda()
    step = DeviceModule(torch.device("cuda:0"), module)
    inputs = [torch.rand(batch, 3, 640, 640, device="cuda", dtype=torch.float16) for batch in arguments.batches]
    took = 0.0
    if arguments.compile:
        step, began = step.compiled(name), time.monotonic()
        step.prepare(inputs)
        took = time.monotonic() - began
    for pictures in inputs:
        frames, seconds = replayed(functools.partial(step, pictures), len(pictures), arguments.seconds)
        found = {"batch": len(pictures), "frames": frames, "seconds": seconds, "prepared_in": round(took, 1)}
        print(json.dumps({**found, "frames_per_second": round(frames / seconds, 1)}), flush=True)


def replayed(step: Any, batch: int, wanted: float) -> tuple[int, float]:
    """Capture a step as a CUDA graph and replay it; return frames and seconds."""
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
        for _ in range(20):
            graph.replay()
        torch.cuda.synchronize()
        batches, started = 0, time.monotonic()
        while time.monotonic() - started < wanted:
            for _ in range(10):
                graph.replay()
            torch.cuda.synchronize()
            batches += 10
        return batches * batch, time.monotonic() - started


if __name__ == "__main__":
    main()
