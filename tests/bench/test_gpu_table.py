"""The tables of GPU results: every rate in its place, shares of the right limit, nothing of other networks."""

from __future__ import annotations

import sys
from pathlib import Path

BENCH = str(Path(__file__).parents[2] / "bench")
sys.path.append(BENCH)
from gpu_table import alone, rates, table_of_rates, table_of_shares

sys.path.remove(BENCH)  # it has modules of the same names as folders of tests


def result(*runs, clip="clip.h264", network="yolo26.py:Yolo26n", compiled=True, paced=False):
    return {"result": {"clip": clip, "network": network, "compiled": compiled, "paced": paced, "runs": list(runs)}}


def run(what, streams, rate, processes=1):
    return {
        "what": what,
        "streams": streams,
        "processes": processes,
        "frames_per_second": rate,
        "decoder": "99 %, 50 %",
    }


FOUND = {
    "network-compiled": {"said": ["Opening", '{"batch": 8, "frames_per_second": 4000.0}']},
    "8": result(
        run("decode", 8, 5000.0), run("model", 8, 3600.0), run("all", 8, 2000.0), run("all", 8, 3900.0, processes=2)
    ),
    "32": result(run("decode", 32, 5300.0), run("model", 32, 5200.0), {"what": "all", "streams": 32, "failed": True}),
    "graph": result(run("model", 8, 2900.0), compiled=False),
    "seg": result(run("model", 8, 777.0), network="yolo26.py:Yolo26nSeg"),
    "paced": result(run("all", 32, 960.0), paced=True),
    "h265": result(run("decode", 8, 9000.0), run("model", 8, 3800.0), clip="clip.h265"),
    "late": {"status": "no time was left"},
}


def test_each_rate_stands_at_its_form_and_its_number_of_streams():
    lines = table_of_rates(rates(FOUND), "H.264")
    assert lines[0] == "| H.264 | 8 streams | 32 streams |"
    assert lines[2] == "| (a) the decoder alone | 5,000 (99 %, 50 %) | 5,300 (99 %, 50 %) |"
    cells = {line.split(" | ")[0]: line for line in lines[2:]}
    assert len(cells) == 5
    assert sum("2,900" in line and "a CUDA graph" in line for line in lines) == 1
    assert sum("3,900" in line and "2 processes" in line for line in lines) == 1
    assert not any("777" in line or "960" in line or "9,000" in line for line in lines)


def test_shares_are_of_the_smaller_limit_of_the_same_codec():
    lines = table_of_shares(rates(FOUND), alone(FOUND))
    assert "| (c), 1 process | 0.85 | 8, H.264 | **0.900** |" in lines  # of the network's 4,000
    assert "| (c), 1 process | 0.85 | 32, H.264 | **0.981** |" in lines  # of the decoder's 5,300
    assert "| (c), 1 process | 0.85 | 8, H.265 | **0.950** |" in lines
    assert "| (b), 1 process | 0.6 | 8, H.264 | 0.500, missed |" in lines
    assert "| (b), 2 processes | 0.95 | 8, H.264 | **0.975** |" in lines
    assert len(lines) == 2 + 5
