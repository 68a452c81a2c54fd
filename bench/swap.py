"""What replacing a model costs the stream: the longest gap between two batches, and memory over many swaps.

    python bench/swap.py [--swaps 100] [--model net.onnx] [--policy beside]

Four test streams run at full speed through sluicemux and sluiceinfer while the model is replaced over and over. Without
a model file, a Python model is used that takes 5 ms for a batch, as a network does, and 30 ms of Python to load, with
20 MB of weights. Goals, for the policy "beside": the longest gap at most 3 batch times, no growth of memory over the
second half of the swaps.
"""

import argparse
import os
import queue
import statistics
import sys
import time
from pathlib import Path

import gi
import numpy as np

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.elements import register

SOURCE = "videotestsrc pattern=black ! video/x-raw,format=I420,width=320,height=240"
CALL_SECONDS, LOAD_SECONDS, WEIGHTS = 0.005, 0.03, 20_000_000


class Network:
    """Takes as long as a small network and finds nothing; loads as Python does, holding the GIL."""

    def load(self) -> None:
        self.weights = np.ones(WEIGHTS, np.uint8)
        end = time.perf_counter() + LOAD_SECONDS
        while time.perf_counter() < end:
            pass

    def infer(self, frames: list) -> list:
        time.sleep(CALL_SECONDS)
        return [None for _ in frames]


class OnCard:
    """Sums the luma of each frame on its own GPU; has 500 MB of weights there. Needs PyTorch and frames on a GPU."""

    def load(self) -> None:
        import torch

        self.torch = torch
        self.weights = torch.ones(500_000_000, dtype=torch.uint8, device="cuda")

    def infer(self, frames: list) -> list:
        for frame in frames:
            self.torch.from_dlpack(frame.planes()[0]).sum().item()
        return [None for _ in frames]


def on_card() -> str:
    """What PyTorch has allocated on the GPU; nothing where it is not in use."""
    torch = sys.modules.get("torch")
    return f"; {torch.cuda.memory_allocated() / 1e6:.0f} MB allocated on the GPU" if torch is not None else ""


def resident() -> float:
    """Memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--swaps", type=int, default=100)
    parser.add_argument("--model", default=f"{Path(__file__).resolve()}:Network", help="what is swapped for itself")
    parser.add_argument("--options", default="", help="its model-options")
    parser.add_argument("--policy", default="beside", choices=["beside", "in-place"])
    parser.add_argument("--in-flight", type=int, default=2)
    parser.add_argument("--source", default=SOURCE, help="launch text of each of the four streams")
    asked = parser.parse_args()
    for name in ("sluicemux", "sluiceinfer"):
        register(name)
    sources = " ".join(f"{asked.source} ! m.sink_{i}" for i in range(4))
    pipeline = Gst.parse_launch(
        f'sluicemux name=m batch-size=4 ! sluiceinfer name=infer model={asked.model} model-options="{asked.options}" '
        f"swap-policy={asked.policy} in-flight={asked.in_flight} ! fakesink name=end {sources}"
    )
    infer = pipeline.get_by_name("infer")
    ended: queue.Queue[int] = queue.Queue()
    infer.connect("model-updated", lambda _element, status, _path: ended.put(status))
    times: list[float] = []

    def leaves(_pad: Gst.Pad, _info: Gst.PadProbeInfo) -> Gst.PadProbeReturn:
        times.append(time.perf_counter())
        return Gst.PadProbeReturn.OK

    pipeline.get_by_name("end").get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, leaves)
    pipeline.set_state(Gst.State.PLAYING)
    if pipeline.get_state(60 * Gst.SECOND)[0] != Gst.StateChangeReturn.SUCCESS:
        sys.exit(str(pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR).parse_error()))
    ended.get()
    time.sleep(2)
    steady = np.diff(times)
    times.clear()
    memory = []
    began = time.perf_counter()
    for _ in range(asked.swaps):
        infer.set_property("model", asked.model)
        if status := ended.get(timeout=120):
            sys.exit(f"a swap ended with status {status}")
        memory.append(resident())
    seconds = time.perf_counter() - began
    gaps = np.diff(times)
    pipeline.set_state(Gst.State.NULL)
    batch, half = statistics.median(steady), asked.swaps // 2
    slope = np.polyfit(np.arange(half), memory[-half:], 1)[0] if half > 1 else 0.0
    print(
        f"a batch takes {batch * 1e3:.2f} ms; the longest gap without swaps is {steady.max() / batch:.1f} batch times"
    )
    print(
        f"{asked.swaps} swaps in {seconds:.1f} s, {len(gaps)} batches: the longest gap is {gaps.max() / batch:.1f} "
        f"batch times, the 99th percentile {np.percentile(gaps, 99) / batch:.1f}"
    )
    print(
        f"memory: {memory[0]:.0f} MB after the first, {memory[half - 1]:.0f} after half, {memory[-1]:.0f} at the end; "
        f"slope over the last {half}: {slope * 1e3:+.1f} kB per swap{on_card()}"
    )


if __name__ == "__main__":
    main()
