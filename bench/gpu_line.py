"""The pipelines of bench/gpu.py, and the process that runs one of them and tells how many frames went through it.

    python3 bench/gpu_line.py ORDER.json

The process loads everything, writes ``ready``, waits for a line, plays, and writes a sample every 50 ms: the monotonic
time, the frames that each stream brought, and the frames that came through. All are counted in C or by the elements.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

HERE = Path(__file__).resolve().parent
SAMPLE = 0.05  # seconds
FRAME = Gst.SECOND // 30
STEADY = 100
"""Frames of a stream before anything counts."""

NOTHING = """
class Nothing:
    labels = ["nothing"]

    def infer(self, frames):
        return [None] * len(frames)
"""


@dataclass(frozen=True)
class Order:
    """One process's part of a run.

    Attributes:
        form: what stands behind the decoders, see bench/gpu.py.
        clip: the elementary stream that every stream plays in a loop.
        first, streams: numbers of the streams.
        frames: after which each stream ends.
        network: ``file.py:Class`` of the network.
        options: model-options of the network.
        in_flight: batches at the same time.
        paced: whether frames come at 30 per second, and latency is measured.
        folder: for files.
        gpu: number of the GPU.
    """

    form: str
    clip: str
    first: int
    streams: int
    frames: int
    network: str
    options: str
    in_flight: int
    paced: bool
    folder: str
    gpu: int = 0

    def write(self, path: Path) -> None:
        """Write the order for a process."""
        path.write_text(json.dumps(asdict(self)))


def source(order: Order, number: int) -> str:
    """Launch text that decodes the clip for ever into NVMM memory."""
    codec = "h265" if order.clip.endswith((".h265", ".hevc")) else "h264"
    caps = f"video/x-{codec},stream-format=byte-stream,framerate=30/1"
    pace = "identity sync=true ! " if order.paced else ""
    decoder = "nvv4l2decoder num-extra-surfaces=16"
    decoder += f" gpu-id={order.gpu}" if order.gpu else ""
    # Cameras send frames in the order in which they are shown, so the decoder need not hold any back.
    decoder += " low-latency-mode=true" if order.paced else ""
    return (
        f"multifilesrc location={order.clip} loop=true caps={caps} ! {codec}parse name=parse{number} ! {pace}"
        # Frames that wait, are in a batch or are being inferred are the decoder's own surfaces.
        f"{decoder} ! queue name=in{number} max-size-buffers=4"
    )


def launch(order: Order) -> str:
    """The whole launch text."""
    numbers = range(order.first, order.first + order.streams)
    if order.form == "decode":
        return " ".join(f"{source(order, i)} ! fakesink name=sink{i} sync=false" for i in numbers)
    model = (
        f'sluiceinfer name=infer in-flight={order.in_flight} model={order.network} model-options="{order.options}"'
        f" device=cuda:{order.gpu} confidence-threshold=0.0001"
    )
    end = "fakesink name=end sync=false"
    nothing = f"sluiceinfer name=infer in-flight={order.in_flight} model={order.folder}/nothing.py:Nothing"
    behind = {
        "nothing": f"{nothing} ! {end}",
        "model": f"{model} ! {end}",
        "all": f"{model} ! queue max-size-buffers=2 ! sluicetracker ! queue max-size-buffers=2 ! "
        f"sluicemsgconv name=conv ! sluicemsgbroker name=end location={order.folder}/messages{order.first}.jsonl",
        "article": f"articleloop name=article ! {end}",
        "article-compiled": f"articleloop name=article compiled=true ! {end}",
    }[order.form]
    mux = f"sluicemux name=mux batch-size={order.streams} batched-push-timeout=33000 ! {behind}"
    return " ".join([mux, *(f"{source(order, i)} ! mux.sink_{i}" for i in numbers)])


class Line:
    """A pipeline of one process, with counters at every stream and at its end."""

    def __init__(self, order: Order) -> None:
        from sluice.app.flow import PadFlow

        self.order = order
        self.pipeline = Gst.parse_launch(launch(order))
        self.latencies: list[float] = []
        queues = [self.pipeline.get_by_name(f"in{order.first + i}") for i in range(order.streams)]
        self._flows = [PadFlow(queue.get_static_pad("src"), order.frames) for queue in queues]
        if order.paced:
            self.pipeline.get_by_name("end").get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, self._arrived)
            for i in range(order.streams):
                parser = self.pipeline.get_by_name(f"parse{order.first + i}")
                # Cameras do not begin together: each stream is a part of a frame later than the one before.
                times = itertools.count(i * FRAME // order.streams, FRAME)
                parser.get_static_pad("src").add_probe(Gst.PadProbeType.BUFFER, give_time, times)

    def load(self) -> None:
        """Load the model and start its thread, without a frame."""
        for name in ("mux", "infer", "article"):
            element = self.pipeline.get_by_name(name)
            if element is not None and element.set_state(Gst.State.READY) == Gst.StateChangeReturn.FAILURE:
                self.check()
                sys.exit(f"{name} cannot be started")

    def check(self) -> None:
        """End the program with the text of an error on the bus."""
        bus = self.pipeline.get_bus()
        while (message := bus.pop_filtered(Gst.MessageType.ERROR | Gst.MessageType.WARNING)) is not None:
            if message.type == Gst.MessageType.ERROR:
                sys.exit(f"the pipeline stopped: {message.parse_error()}")
            print(message.parse_warning()[0].message, file=sys.stderr)

    def per_stream(self) -> list[int]:
        """Frames that each stream has brought."""
        return [flow.read().buffers for flow in self._flows]

    def through(self) -> int:
        """Frames that have been through the whole."""
        if self.order.form == "decode":
            sinks = [self.pipeline.get_by_name(f"sink{self.order.first + i}") for i in range(self.order.streams)]
            return sum(sink.get_property("stats").get_value("rendered") for sink in sinks)
        if self.order.form == "all":
            return int(self.pipeline.get_by_name("conv").get_property("stats").get_value("frames"))
        article = self.pipeline.get_by_name("article")
        if article is not None:
            return int(article.frames)
        return int(self.pipeline.get_by_name("infer").get_property("stats").get_value("inferred"))

    def play(self) -> None:
        """Play until the first stream has ended, and write samples on the way."""
        self.pipeline.set_state(Gst.State.PLAYING)
        before = thread_seconds()
        while True:
            time.sleep(SAMPLE)
            self.check()
            sample = {"at": time.monotonic(), "streams": self.per_stream(), "through": self.through()}
            print(json.dumps(sample), flush=True)
            if max(sample["streams"]) >= self.order.frames or os.getppid() == 1:
                break
        used = {key: value - before.get(key, 0.0) for key, value in thread_seconds().items()}
        report: dict[str, Any] = {"threads": by_name(used), "latencies": self.latencies}
        for name in ("mux", "infer"):
            element = self.pipeline.get_by_name(name)
            if element is not None:
                report[name] = element.get_property("stats").to_string()
        print(json.dumps(report), flush=True)

    def _arrived(self, _pad: Gst.Pad, info: Gst.PadProbeInfo) -> Gst.PadProbeReturn:
        """Note how long ago each frame of a batch left the pacing element."""
        from sluice.contract.bulk_objects import read_batch
        from sluice.contract.metadata import BatchMeta, Lease

        now = self.pipeline.get_clock().get_time() - self.pipeline.get_base_time()
        with Lease() as lease:
            frames, _ = read_batch(BatchMeta.of(info.get_buffer(), lease))
        steady = frames["buf_pts"][frames["frame_num"] >= STEADY]
        self.latencies += [round((now - pts) / 1e6, 2) for pts in steady.tolist()]
        return Gst.PadProbeReturn.OK


def give_time(_pad: Gst.Pad, info: Gst.PadProbeInfo, times: Iterator[int]) -> Gst.PadProbeReturn:
    """Give a frame of the elementary stream, which has none, the next time of its stream."""
    buffer = info.get_buffer()
    buffer.pts = buffer.dts = next(times)
    return Gst.PadProbeReturn.OK


def thread_seconds() -> dict[str, float]:
    """Processor seconds used so far by each thread of this process, keyed by thread name and id."""
    tick = os.sysconf("SC_CLK_TCK")
    seconds = {}
    for task in Path("/proc/self/task").iterdir():
        text = (task / "stat").read_text()
        name, fields = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
        seconds[f"{name}:{task.name}"] = (int(fields[11]) + int(fields[12])) / tick
    return seconds


def by_name(used: dict[str, float]) -> dict[str, float]:
    """Processor seconds of the busiest threads, those of one name taken together."""
    together: dict[str, float] = {}
    for key, seconds in used.items():
        name = re.sub(r"[0-9]", "", key.rpartition(":")[0])
        together[name] = together.get(name, 0.0) + seconds
    busiest = sorted(together.items(), key=lambda item: -item[1])[:12]
    return {name: round(seconds, 2) for name, seconds in busiest if seconds > 0.05}


def main() -> None:
    """Run one order."""
    order = Order(**json.loads(Path(sys.argv[1]).read_text()))
    # Decoders write to the standard output, too: only this program's lines go on to who started it.
    sys.stdout = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    (Path(order.folder) / "nothing.py").write_text(NOTHING)
    Gst.init(None)
    import sluice.elements

    sluice.elements.register_all()
    if order.form.startswith("article"):
        import article

        article.register()
    line = Line(order)
    line.load()
    print("ready", flush=True)
    if sys.stdin.readline():
        line.play()
    # Stopping takes as long as the decoders like, and nothing is counted any more.
    os._exit(0)


if __name__ == "__main__":
    main()
