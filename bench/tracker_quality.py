"""How well objects are tracked: HOTA, MOTA and IDF1 on sequences with ground truth, as a table in Markdown.

    python bench/tracker_quality.py DATA [--write docs/tracking.md]

DATA is a folder with ``mot/<sequence>/{gt/gt.txt,det/det.txt,seqinfo.ini,trackers/*.txt}`` and
``mot/reference_metrics.json``. The evaluation is TrackEval's (``trackeval``, the evaluation code of MOTChallenge): of
MOT17 the pedestrians, with the distractors taken out, of MOT15 everything. That it is used rightly is shown first, on
results of other trackers whose metrics are known. Every algorithm then tracks the detections with its default
options and the sequence's frame rate; a row is an object once it has an id, with the detection's box.
"""

import argparse
import configparser
import contextlib
import io
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from sluice.tracking import UNTRACKED, Detected, Settings, stream_tracker

ALGORITHMS = {
    "sort": {},
    "bytetrack": {},
    "ocsort": {},
    "botsort": {"enable_cmc": False},
    "cbiou": {},
    "iou": {},
    "deepsort": {},
}
METRICS = ("HOTA", "MOTA", "IDF1", "IDSW")
BEGIN, END = "<!-- made by bench/tracker_quality.py -->", "<!-- end -->"
# Frames/s of the MOT15 sequences whose seqinfo.ini does not tell (https://motchallenge.net/data/MOT15/).
FRAME_RATE = 25.0


def evaluate(truth: Path, results: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """Return the metrics of some results of one sequence, in percent; IDSW is a count.

    Args:
        truth: the sequence's folder.
        results: by name, the contents of a file of results in MOTChallenge's format.
    """
    import trackeval

    info = sequence_info(truth)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        for name, text in results.items():
            place = Path(folder, name, "data", f"{truth.name}.txt")
            place.parent.mkdir(parents=True)
            place.write_text(text)
        benchmark = "MOT17" if truth.name.startswith("MOT17") else "MOT15"
        dataset = trackeval.datasets.MotChallenge2DBox(
            {
                "GT_FOLDER": str(truth.parent),
                "TRACKERS_FOLDER": folder,
                "TRACKERS_TO_EVAL": list(results),
                "BENCHMARK": benchmark,
                "DO_PREPROC": benchmark == "MOT17",
                "SEQ_INFO": {truth.name: int(info["seqLength"])},
                "SKIP_SPLIT_FOL": True,
                "PRINT_CONFIG": False,
            }
        )
        quiet = ("PRINT_RESULTS", "PRINT_CONFIG", "TIME_PROGRESS", "OUTPUT_SUMMARY", "OUTPUT_DETAILED", "PLOT_CURVES")
        evaluator = trackeval.Evaluator({"BREAK_ON_ERROR": True, **dict.fromkeys(quiet, False)})
        threshold = {"THRESHOLD": 0.5, "PRINT_CONFIG": False}
        metrics = [trackeval.metrics.HOTA(), trackeval.metrics.CLEAR(threshold), trackeval.metrics.Identity(threshold)]
        found, _ = evaluator.evaluate([dataset], metrics)
    return {name: _numbers(found["MotChallenge2DBox"][name][truth.name]["pedestrian"]) for name in results}


def _numbers(found: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, float]:
    return {
        "HOTA": 100 * float(np.mean(found["HOTA"]["HOTA"])),
        "MOTA": 100 * float(found["CLEAR"]["MOTA"]),
        "IDF1": 100 * float(found["Identity"]["IDF1"]),
        "IDSW": float(found["CLEAR"]["IDSW"]),
    }


def sequence_info(folder: Path) -> Mapping[str, str]:
    """Return what seqinfo.ini tells."""
    parser = configparser.ConfigParser()
    parser.optionxform = str
    parser.read(folder / "seqinfo.ini")
    return parser["Sequence"]


def detections(folder: Path) -> Iterator[tuple[int, Detected]]:
    """Yield the number and the detections of each frame of a sequence."""
    table = np.loadtxt(folder / "det" / "det.txt", delimiter=",", ndmin=2)
    for number in range(1, int(sequence_info(folder)["seqLength"]) + 1):
        rows = table[table[:, 0] == number][:, 2:7].astype(np.float32)
        zeros = np.zeros(len(rows), np.int32)
        yield number, Detected(rows[:, :4], rows[:, 4], zeros, zeros + 1, ["person"] * len(rows))


def track(folder: Path, algorithm: str, options: Mapping[str, object], implementation: str = "auto") -> str:
    """Return the results of an algorithm on a sequence's detections, in MOTChallenge's format."""
    rate = float(sequence_info(folder).get("frameRate", FRAME_RATE))
    settings = Settings(algorithm, {"frame_rate": rate, **options}, implementation=implementation)
    tracker = stream_tracker(settings)
    lines = []
    for number, rows in detections(folder):
        ids = tracker.update(rows)
        for row in np.flatnonzero(ids != UNTRACKED):
            box = ",".join(f"{value:.3f}" for value in rows.boxes[row])
            lines.append(f"{number},{ids[row] + 1},{box},1,-1,-1,-1\n")
    return "".join(lines)


def check(data: Path, sequences: Sequence[Path]) -> list[str]:
    """Return the table of known results: what is published, and what comes out here."""
    known = json.loads((data / "mot" / "reference_metrics.json").read_text())
    lines = ["| sequence | tracker | HOTA | MOTA | IDF1 | the same as known |", "|---|---|---|---|---|---|"]
    for folder in sequences:
        files = sorted((folder / "trackers").glob("*.txt"))
        got = evaluate(folder, {file.stem: file.read_text() for file in files})
        for name, numbers in got.items():
            expected = known[folder.name][name]
            same = all(abs(numbers[key] - expected[key]) < 0.001 for key in METRICS)
            cells = " | ".join(f"{numbers[key]:.1f}" for key in METRICS[:3])
            lines.append(f"| {folder.name} | {name} | {cells} | {'yes' if same else f'no: {expected}'} |")
    return lines


def compare(sequences: Sequence[Path]) -> list[str]:
    """Return the table of the algorithms."""
    lines = ["| sequence | algorithm | HOTA | MOTA | IDF1 | switches |", "|---|---|---|---|---|---|"]
    for folder in sequences:
        results = {name: track(folder, name, options) for name, options in ALGORITHMS.items()}
        for name, numbers in evaluate(folder, results).items():
            cells = " | ".join(f"{numbers[key]:.1f}" for key in METRICS[:3])
            lines.append(f"| {folder.name} | {name} | {cells} | {numbers['IDSW']:.0f} |")
    return lines


def main() -> None:
    """Print the tables, or write them into a document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--write", type=Path, help="a document with a place for the tables")
    given = parser.parse_args()
    sequences = sorted(path.parent.parent for path in (given.data / "mot").glob("*/gt/gt.txt"))
    text = "\n".join(
        [*compare(sequences), "", "Known results, evaluated in the same way:", "", *check(given.data, sequences)]
    )
    if given.write is None:
        print(text)
        return
    document = given.write.read_text()
    before, rest = document.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    given.write.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


if __name__ == "__main__":
    main()
