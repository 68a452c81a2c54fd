"""Frames per second of NVIDIA's decoder alone, and with Sluice behind it, on a machine with an NVIDIA GPU.

Every stream plays the same H.264 or H.265 elementary stream in a loop, and ends after ``--frames`` frames. The forms:

* ``decode``: the decoder, each stream into a sink of its own;
* ``nothing``: decoder, sluicemux, sluiceinfer with a model that does nothing;
* ``model``: the same with a network (YOLO26n in half precision, random weights, the 20 best boxes of every frame);
* ``all``: the same with sluicetracker, sluicemsgconv and sluicemsgbroker (JSON into a file) behind it;
* ``article``: the loop of articles (bench/article.py) in the place of sluiceinfer, ``article-compiled``: with the
  compiled network;
* ``network``: the network alone, as a CUDA graph on an input that lies on the GPU.

A rate counts from the 100th frame of the slowest stream to the first end of a stream, of all processes together.
``decoder`` is the use of the decoders and of the GPU that nvidia-smi shows, in per cent, half way.

    python3 bench/gpu.py CLIP.h264 --streams 8 32 --forms decode model all --processes 1 4 --out result.json
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_line import HERE, STEADY, Order

FORMS = ("decode", "nothing", "network", "model", "all", "article", "article-compiled")
PROCESSES = ("model", "all")
"""Forms that are measured with several processes too."""
DECODERS = {"yolo26.py:Yolo26n": "yolo-end2end", "yolo26.py:Yolo26nSeg": "yolo-end2end", "yolo26.py:RtDetr": "rtdetr"}


@dataclass
class Worker:
    """A process of a run and what it said."""

    process: subprocess.Popen[str]
    samples: list[dict[str, Any]] = field(default_factory=list)
    report: dict[str, Any] = field(default_factory=dict)

    def listen(self) -> None:
        """Read until the process ends."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            said = json.loads(line)
            if "at" in said:
                self.samples.append(said)
            else:
                self.report = said

    def wait_ready(self) -> None:
        """Wait until everything is loaded."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.strip() == "ready":
                return
        sys.exit(f"a process ended before it was ready: {self.process.wait()}")

    def go(self) -> None:
        """Let it play."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()


def nvidia_smi(query: str) -> str:
    """One line of nvidia-smi, or why it is not known."""
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        return f"unknown: {error}"


def orders(arguments: argparse.Namespace, form: str, streams: int, processes: int, folder: str) -> list[Order]:
    """What each process is to do; the streams are shared out evenly."""
    network = str(HERE / arguments.network)
    size = streams // processes
    options = f"decoder={DECODERS[arguments.network]};max_detections=20;prepare={size}"
    options += ";compile=true" if arguments.compile else ""
    frames = arguments.frames if not form.startswith("article") else min(arguments.frames, arguments.article_frames)
    return [
        Order(
            form=form,
            clip=str(arguments.clip.resolve()),
            first=number * size,
            streams=size,
            frames=frames,
            network=network,
            options=options,
            in_flight=arguments.in_flight,
            paced=arguments.paced,
            folder=folder,
        )
        for number in range(processes)
    ]


def measure(arguments: argparse.Namespace, form: str, streams: int, processes: int) -> dict[str, Any]:
    """Run one form and return its numbers."""
    with tempfile.TemporaryDirectory() as folder:
        workers = []
        for number, order in enumerate(orders(arguments, form, streams, processes, folder)):
            path = Path(folder) / f"order{number}.json"
            order.write(path)
            command = [sys.executable, str(HERE / "gpu_line.py"), str(path)]
            workers.append(Worker(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)))
        for worker in workers:
            worker.wait_ready()
        threads = [threading.Thread(target=worker.listen) for worker in workers]
        for worker, thread in zip(workers, threads, strict=True):
            worker.go()
            thread.start()
        decoder = []
        while all(thread.is_alive() for thread in threads):
            time.sleep(0.5)
            decoder.append(nvidia_smi("utilization.decoder,utilization.gpu"))
        # The window ends with the first stream; the other processes have nothing to tell any more.
        for thread in threads:
            thread.join(3)
        for worker in workers:
            worker.process.kill()
            worker.process.wait()
        for thread in threads:
            thread.join()
        if any(not worker.samples for worker in workers):
            return {"what": form, "streams": streams, "processes": processes, "failed": True}
        return {"what": form, "streams": streams, "processes": processes} | numbers(workers, decoder, streams)


def numbers(workers: list[Worker], decoder: list[str], streams: int) -> dict[str, Any]:
    """The steady state's numbers."""
    begins = [next((s["at"] for s in worker.samples if min(s["streams"]) >= STEADY), None) for worker in workers]
    last = min(worker.samples[-1]["at"] for worker in workers)
    begin = max(at if at is not None else last for at in begins)
    frames = sum(at_time(worker.samples, last) - at_time(worker.samples, begin) for worker in workers)
    seconds = last - begin
    result: dict[str, Any] = {
        "frames": round(frames),
        "seconds": round(seconds, 3),
        "frames_per_second": round(frames / seconds, 1) if seconds > 0 else None,
        "decoder": decoder[len(decoder) // 2] if decoder else "unknown",
        "frames_per_stream": [round(s) for worker in workers for s in worker.samples[-1]["streams"]][:streams],
        "threads": [worker.report.get("threads") for worker in workers][:1],
        "infer": [worker.report.get("infer") for worker in workers][:1],
        "through": sum(worker.samples[-1]["through"] for worker in workers),
    }
    latencies = sorted(value for worker in workers for value in worker.report.get("latencies", ()))
    if latencies:
        cuts = statistics.quantiles(latencies, n=100)
        result["latency_ms"] = {
            "p50": cuts[49],
            "p90": cuts[89],
            "p99": cuts[98],
            "max": latencies[-1],
            "frames": len(latencies),
        }
    return result


def at_time(samples: list[dict[str, Any]], moment: float) -> float:
    """Frames that had come through at a moment between two samples."""
    before = samples[0]
    for sample in samples:
        if sample["at"] >= moment:
            width = sample["at"] - before["at"]
            part = (moment - before["at"]) / width if width > 0 else 1.0
            return float(before["through"] + part * (sample["through"] - before["through"]))
        before = sample
    return float(samples[-1]["through"])


def network_alone(arguments: argparse.Namespace, streams: int) -> dict[str, Any]:
    """Frames per second of the network as a CUDA graph."""
    command = [sys.executable, str(HERE / "network_alone.py"), arguments.network, str(streams)]
    command += ["--compile"] if arguments.compile else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)
        return {"what": "network", "streams": streams, "failed": True}
    return {"what": "network", "streams": streams, **json.loads(done.stdout.strip().splitlines()[-1])}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clip", type=Path)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--forms", nargs="+", default=FORMS, choices=FORMS)
    parser.add_argument("--processes", type=int, nargs="+", default=[1], help="numbers of processes for model and all")
    parser.add_argument("--frames", type=int, default=3200, help="after which a stream ends")
    parser.add_argument("--article-frames", type=int, default=800, help="the same for the articles' loop")
    parser.add_argument("--in-flight", type=int, default=4)
    parser.add_argument("--network", default="yolo26.py:Yolo26n", choices=DECODERS)
    parser.add_argument("--compile", action="store_true", help="run the network compiled")
    parser.add_argument("--paced", action="store_true", help="30 frames per second and stream, and measure latency")
    parser.add_argument("--out", type=Path, default=Path("gpu.json"))
    return parser


def main() -> None:
    """Measure every form at every number of streams and write one JSON file."""
    arguments = parser().parse_args()
    results: list[dict[str, Any]] = []
    for streams in arguments.streams:
        for form in arguments.forms:
            counts = [n for n in arguments.processes if streams % n == 0] if form in PROCESSES else [1]
            for processes in counts:
                if form == "network":
                    results.append(network_alone(arguments, streams))
                else:
                    results.append(measure(arguments, form, streams, processes))
                shown = {key: value for key, value in results[-1].items() if key != "frames_per_stream"}
                print(json.dumps(shown), flush=True)
                arguments.out.write_text(json.dumps(report(arguments, results), indent=1))


def report(arguments: argparse.Namespace, results: list[dict[str, Any]]) -> dict[str, Any]:
    """The file's content: the machine, how it was measured, and every run."""
    return {
        "clip": arguments.clip.name,
        "gpu": nvidia_smi("name,driver_version"),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "network": arguments.network,
        "in_flight": arguments.in_flight,
        "compiled": arguments.compile,
        "paced": arguments.paced,
        "runs": results,
    }


if __name__ == "__main__":
    main()
