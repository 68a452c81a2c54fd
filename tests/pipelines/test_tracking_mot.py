"""Whole pipelines on MOT detections: ids and boxes behind sluicetracker equal the library's own, row by row."""

import json

import gi
import numpy as np
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice import elements
from sluice.contract import bulk
from sluice.contract.metadata import UNTRACKED, BatchMeta, Lease
from tracking.mot import read_detections, run_library

# Each detection of a sequence's file becomes one detection of the model, in the file's order.
MODEL = """
import numpy as np
from sluice import Detections

TABLES = [dict(np.load(path)) for path in {tables}]

class Recorded:
    labels = ["person"]

    def infer(self, frames):
        return [self.found(frame) for frame in frames]

    def found(self, frame):
        rows = TABLES[frame.stream][str(frame.number + 1)]
        xyxy = np.concatenate([rows[:, :2], rows[:, :2] + rows[:, 2:4]], axis=1)
        return Detections(xyxy=xyxy, scores=rows[:, 4], class_ids=np.zeros(len(rows), np.int32))
"""

SIZES = {
    "TUD-Campus": (640, 480),
    "TUD-Stadtmitte": (640, 480),
    "MOT17-05-SDP": (640, 480),
    "MOT17-11-FRCNN": (1920, 1080),
    "PETS09-S2L1": (768, 576),
}
FRAMES = 120


def inside(frames, size):
    """Keep the rows that a surface of this size shows whole, so that nothing is clipped before the tracker sees it."""

    def keep(rows):
        right, bottom = (rows[:, :2] + rows[:, 2:4]).T
        return rows[(rows[:, :2] >= 0).all(axis=1) & (right <= size[0]) & (bottom <= size[1])]

    return {number: keep(rows) for number, rows in frames.items()}


def sequence(data, name):
    return inside(read_detections(data / "mot" / name / "det" / "det.txt", FRAMES), SIZES[name])


def run(tmp_path, names, frames, tracker, tail="fakesink"):
    """Run the sequences as streams of one pipeline; return, by stream, each frame's (ids, boxes) in the rows' order."""
    paths = []
    for stream, tables in enumerate(frames):
        path = tmp_path / f"{stream}.npz"
        np.savez(path, **{str(number): rows for number, rows in tables.items()})
        paths.append(str(path))
    model = tmp_path / "recorded.py"
    model.write_text(MODEL.format(tables=paths))
    for name in ("sluicemux", "sluiceinfer", "sluicetracker", "sluicemsgconv", "sluicemsgbroker"):
        elements.register(name)
    sources = " ".join(
        f"videotestsrc pattern=black num-buffers={len(tables)} "
        f"! video/x-raw,format=GRAY8,width={SIZES[name][0]},height={SIZES[name][1]},framerate=25/1 ! m.sink_{stream}"
        for stream, (name, tables) in enumerate(zip(names, frames, strict=True))
    )
    pipeline = Gst.parse_launch(
        f"sluicemux name=m batch-size={len(names)} ! sluiceinfer model={model}:Recorded ! {tracker} name=t ! {tail} "
        + sources
    )
    found = [[] for _ in names]

    def collect(pad, info):
        with Lease() as lease:
            for frame in BatchMeta.of(info.get_buffer(), lease).frames:
                rows = bulk.read_objects(frame).rows[::-1].copy()
                assert frame.frame_num == len(found[frame.pad_index])
                found[frame.pad_index].append(rows)
        return Gst.PadProbeReturn.OK

    pipeline.get_by_name("t").get_static_pad("src").add_probe(Gst.PadProbeType.BUFFER, collect)
    pipeline.set_state(Gst.State.PLAYING)
    message = pipeline.get_bus().timed_pop_filtered(60 * Gst.SECOND, Gst.MessageType.EOS | Gst.MessageType.ERROR)
    pipeline.set_state(Gst.State.NULL)
    assert message is not None
    assert message.type == Gst.MessageType.EOS, message.parse_error()
    return found


def check(found, frames, expected):
    """Compare every row of every frame with the library's; rows without a track must carry no id."""
    assert len(found) == len(frames)
    for rows, given, ids in zip(found, frames.values(), expected, strict=True):
        assert np.array_equal(rows["object_id"].astype(np.int64), ids)
        assert np.allclose(rows["box"], given[:, :4], atol=1e-3)
        assert np.array_equal(rows["box"], rows["tracker_box"] if len(rows) and (ids >= 0).all() else rows["box"])


@pytest.mark.parametrize("name", SIZES)
def test_bytetrack_on_a_sequence(data, tmp_path, name):
    frames = sequence(data, name)
    (found,) = run(tmp_path, [name], [frames], "sluicetracker keep-unconfirmed=true")
    expected = run_library(frames, "ByteTrackTracker")
    check(found, frames, expected)
    assert max(ids.max(initial=-1) for ids in expected) > 3


def test_unconfirmed_rows_are_the_only_ones_that_go(data, tmp_path):
    frames = sequence(data, "PETS09-S2L1")
    (found,) = run(tmp_path, ["PETS09-S2L1"], [frames], "sluicetracker")
    expected = run_library(frames, "ByteTrackTracker")
    confirmed = {number: rows[ids >= 0] for (number, rows), ids in zip(frames.items(), expected, strict=True)}
    check(found, confirmed, [ids[ids >= 0] for ids in expected])


def test_streams_of_one_pipeline_are_tracked_as_if_alone(data, tmp_path):
    names = ["TUD-Campus", "PETS09-S2L1", "PETS09-S2L1"]
    frames = [sequence(data, name) for name in names]
    tracker = "sluicetracker algorithm=ocsort tracker-options=lost_track_buffer=15 keep-unconfirmed=true"
    for found, tables in zip(run(tmp_path, names, frames, tracker), frames, strict=True):
        check(found, tables, run_library(tables, "OCSORTTracker", lost_track_buffer=15))


def test_messages_tell_the_tracks(data, tmp_path):
    frames = sequence(data, "TUD-Stadtmitte")
    path = tmp_path / "m.jsonl"
    tail = f"sluicemsgconv ! sluicemsgbroker location={path}"
    (found,) = run(tmp_path, ["TUD-Stadtmitte"], [frames], "sluicetracker", tail)
    told = [json.loads(line) for line in path.read_text().splitlines()]
    assert [message["frame"] for message in told] == list(range(len(frames)))
    for message, rows in zip(told, found, strict=True):
        assert [object_["id"] for object_ in message["objects"]] == rows["object_id"].tolist()
        boxes = np.array([object_["box"] for object_ in message["objects"]], dtype=np.float32).reshape(-1, 4)
        assert np.array_equal(boxes, rows["box"])
    assert UNTRACKED not in np.concatenate(found)["object_id"]
