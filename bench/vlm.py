"""What sluicevlm costs the streams it watches, on a processor, beside an endpoint that takes its time.

    python bench/vlm.py [--streams 8] [--seconds 20] [--delay 2.0]

Printed are processor time per frame without and with the element (by `time.process_time`, the least of some runs, so
that other programs on the machine count little), and what became of the segments in the last.
"""

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "vlm"))

from chat_server import ChatServer, Reply

import sluice


def run(streams: int, frames: int, size: str, vlm: dict | None) -> tuple[float, dict]:
    """Run test patterns as fast as they go; return processor seconds per frame, and the segments."""
    sources = [f"test:black?frames={frames}&size={size}&fps=25" for _ in range(streams)]
    began = time.process_time()
    with sluice.Pipeline(sources, model=None, tracker=None, vlm=vlm) as pipeline:
        summary = pipeline.run()
    took = time.process_time() - began
    assert all(stream.frames_out == frames for stream in summary.streams)
    return took / (streams * frames), summary.segments


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=20, help="of video per stream")
    parser.add_argument("--delay", type=float, default=2.0, help="seconds that the endpoint takes")
    parser.add_argument("--size", default="1280x720")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    frames = int(options.seconds * 25)
    run(options.streams, 50, options.size, None)  # imports, first buffers
    with ChatServer(answer=lambda _: Reply(text="a street", delay=options.delay)) as server:
        common = {"backend": server.url, "model": "m", "policy": "newest"}
        cases = {
            "without sluicevlm": None,
            "nothing selected": {**common, "every": 0},
            "one picture every 10 s": {**common, "every": 10},
            "one picture every second": {**common, "every": 1},
            "eight pictures every second": {**common, "every": 1, "frames": 8},
        }
        for name, vlm in cases.items():
            runs = [run(options.streams, frames, options.size, vlm) for _ in range(options.repeats)]
            cost, segments = min(cost for cost, _ in runs), runs[-1][1]
            print(f"{name}: {cost * 1e6:.0f} us of processor time per frame, {json.dumps(segments)}", flush=True)


if __name__ == "__main__":
    main()
