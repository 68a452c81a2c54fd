"""Under 32 streams: a model that keeps every tensor, a change of model, and one that does not fit into the memory."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="the GPU path needs torch")

from test_gpu_pipelines import HERE, NVMM, line, run

STREAMS = 32
BOXES = f"model={HERE / 'seeing_models.py'}:Boxes"
OPTIONS = "decoder=yolo-end2end\\;width=64\\;height=64\\;fit=stretch"
NETWORK = f"{BOXES} model-options={OPTIONS}\\;prepare={STREAMS} confidence-threshold=0 in-flight=3"


def test_tensors_kept_for_five_seconds_keep_their_pixels(clip, tmp_path):
    """Decoders wait for their memory meanwhile; no frame is ever another one's."""
    path = tmp_path / "kept"
    model = f'model={HERE / "seeing_models.py"}:Hoarding model-options="path={path}"'
    run(line(clip, NVMM, STREAMS, model), frames=STREAMS * 25, seconds=40)
    notes = [json.loads(text) for text in path.read_text().splitlines()]
    assert len(notes) > STREAMS * 5
    of_number: dict[int, set[str]] = {}
    for note in notes:
        assert note["sums"] == note["later"], f"stream {note['stream']}, frame {note['number']} changed while kept"
        of_number.setdefault(note["number"], set()).add(str(note["sums"]))
    assert all(len(found) == 1 for found in of_number.values()), "a frame is not that of the other streams"
    assert len({next(iter(found)) for found in of_number.values()}) == len(of_number), "the pictures do not change"


def change(clip, model, streams=STREAMS):
    """What `swap_pipeline.py` says of a change to a model."""
    command = [sys.executable, str(HERE / "swap_pipeline.py"), str(streams * 60), "80"]
    command += [line(clip, NVMM, streams, NETWORK), f"{HERE / 'seeing_models.py'}:{model}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(next(text for text in done.stdout.splitlines() if text.startswith("{")))
    print(json.dumps(result))
    assert result["error"] is None, (result, done.stderr[-2000:])
    return result


def test_a_change_of_model_under_load_loses_no_frame(clip):
    result = change(clip, "OtherBoxes")
    assert result["updates"][0][0] == 0, result
    assert (result["streams"], result["whole"], result["without_model"]) == (STREAMS, True, 0)


def test_a_model_that_does_not_fit_leaves_the_old_one_at_work(clip):
    result = change(clip, "Greedy")
    assert result["updates"][0][0] != 0, result
    assert "out of memory" in " ".join(result["warnings"]).lower(), result["warnings"]
    assert (result["streams"], result["whole"], result["without_model"]) == (STREAMS, True, 0)
