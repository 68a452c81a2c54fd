"""HOTA, MOTA and IDF1 by TrackEval: rightly used, and not lower batched than with the library."""

import importlib.util
import json
from pathlib import Path

import pytest

pytest.importorskip("trackeval")
_spec = importlib.util.spec_from_file_location(
    "tracker_quality", Path(__file__).parents[2] / "bench/tracker_quality.py"
)
quality = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(quality)


@pytest.mark.parametrize("sequence", ["TUD-Campus", "TUD-Stadtmitte", "MOT17-05-SDP", "MOT17-11-FRCNN"])
def test_known_results_have_their_known_metrics(data, sequence):
    folder = data / "mot" / sequence
    known = json.loads((data / "mot" / "reference_metrics.json").read_text())[sequence]
    found = quality.evaluate(folder, {file.stem: file.read_text() for file in (folder / "trackers").glob("*.txt")})
    assert found.keys() == known.keys()
    for name, numbers in found.items():
        assert numbers == {key: pytest.approx(known[name][key], abs=0.001) for key in quality.METRICS}


@pytest.mark.parametrize("sequence", ["TUD-Campus", "TUD-Stadtmitte"])
def test_nothing_is_lost_against_the_library(data, sequence):
    folder = data / "mot" / sequence
    results = {
        f"{name} {implementation}": quality.track(folder, name, quality.ALGORITHMS[name], implementation)
        for name in ("sort", "bytetrack", "botsort")
        for implementation in ("batched", "library")
    }
    found = quality.evaluate(folder, results)
    for name in ("sort", "bytetrack", "botsort"):
        assert found[f"{name} batched"] == found[f"{name} library"]
        assert found[f"{name} batched"]["HOTA"] > 40


@pytest.mark.parametrize(("sequence", "least"), [("TUD-Campus", 42), ("TUD-Stadtmitte", 46)])
def test_our_own_algorithms_follow_people(data, sequence, least):
    folder = data / "mot" / sequence
    found = quality.evaluate(folder, {name: quality.track(folder, name, {}) for name in ("iou", "deepsort")})
    assert min(numbers["HOTA"] for numbers in found.values()) > least
