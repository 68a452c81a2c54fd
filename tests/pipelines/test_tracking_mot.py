"""Whole pipelines on MOT detections: ids and boxes behind sluicetracker equal the library's own, row by row."""

import json

import gi
import numpy as np
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from playing import play
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
        rows = TABLES[frame.stream].get(str(frame.number + 1), np.zeros((0, 5), np.float32))
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


AS_THE_LIBRARY = "keep-unconfirmed=true track-threshold=-1"


def run(tmp_path, names, frames, tracker, tail="fakesink", clip=None):
    """Run the sequences as streams of one pipeline; return, by stream, each frame's objects in the rows' order.

    The pictures are black, or those of a clip.
    """
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
    if clip is not None:
        sources = f"filesrc location={clip} ! decodebin ! m.sink_0"
    pipeline = Gst.parse_launch(
        f"sluicemux name=m batch-size={len(names)} ! sluiceinfer model={model}:Recorded ! {tracker} name=t ! {tail} "
        + sources
    )
    found = [[] for _ in names]

    def collect(pad, info):
        with Lease() as lease:
            for frame in BatchMeta.of(info.get_buffer(), lease).frames:
                if clip is not None and frame.frame_num >= len(frames[0]):
                    pipeline.post_message(Gst.Message.new_eos(pipeline))
                    return Gst.PadProbeReturn.DROP
                rows = bulk.read_objects(frame).rows[::-1].copy()
                assert frame.frame_num == len(found[frame.pad_index])
                found[frame.pad_index].append(rows)
        return Gst.PadProbeReturn.OK

    pipeline.get_by_name("t").get_static_pad("src").add_probe(Gst.PadProbeType.BUFFER, collect)
    play(pipeline)
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
    (found,) = run(tmp_path, [name], [frames], f"sluicetracker {AS_THE_LIBRARY}")
    expected = run_library(frames, "ByteTrackTracker")
    check(found, frames, expected)
    assert max(ids.max(initial=-1) for ids in expected) > 3


def test_unconfirmed_rows_are_the_only_ones_that_go(data, tmp_path):
    frames = sequence(data, "PETS09-S2L1")
    (found,) = run(tmp_path, ["PETS09-S2L1"], [frames], "sluicetracker track-threshold=-1")
    expected = run_library(frames, "ByteTrackTracker")
    confirmed = {number: rows[ids >= 0] for (number, rows), ids in zip(frames.items(), expected, strict=True)}
    check(found, confirmed, [ids[ids >= 0] for ids in expected])


def test_streams_of_one_pipeline_are_tracked_as_if_alone(data, tmp_path):
    names = ["TUD-Campus", "PETS09-S2L1", "PETS09-S2L1"]
    frames = [sequence(data, name) for name in names]
    tracker = f"sluicetracker algorithm=ocsort tracker-options=lost_track_buffer=15 {AS_THE_LIBRARY}"
    for found, tables in zip(run(tmp_path, names, frames, tracker), frames, strict=True):
        check(found, tables, run_library(tables, "OCSORTTracker", lost_track_buffer=15))


@pytest.mark.parametrize(
    ("name", "class_name", "options"),
    [("sort", "SORTTracker", {}), ("botsort", "BoTSORTTracker", {"enable_cmc": False})],
)
def test_batched_algorithms_on_streams_of_one_pipeline(data, tmp_path, name, class_name, options):
    names = ["TUD-Campus", "PETS09-S2L1", "TUD-Stadtmitte"]
    frames = [sequence(data, name) for name in names]
    text = ",".join(f"{key}={value}" for key, value in options.items())
    tracker = f'sluicetracker algorithm={name} implementation=batched tracker-options="{text}" {AS_THE_LIBRARY}'
    for found, tables in zip(run(tmp_path, names, frames, tracker), frames, strict=True):
        check(found, tables, run_library(tables, class_name, **options))


def test_people_of_a_clip_are_followed_by_their_looks_and_by_motion(data, tmp_path):
    """PETS09-S2L1 with its pictures: a ReID network of a cascade makes the embeddings that deepsort compares."""
    clip = data / "videos" / "vtest_pets09_h264_b3.mp4"
    reid = data / "models" / "person-reidentification-retail-0248.onnx"
    frames = {number: rows for number, rows in sequence(data, "PETS09-S2L1").items() if number <= 60}
    cascade = f"sluiceinfer unique-id=2 process-mode=secondary model={reid}"
    lengths = {}
    for name, chain in {
        "bytetrack": "sluicetracker",
        "deepsort": f"{cascade} ! sluicetracker algorithm=deepsort reid-component-id=2",
    }.items():
        (found,) = run(tmp_path, ["PETS09-S2L1"], [frames], chain, clip=clip)
        assert len(found) == 60
        ids = np.concatenate([rows["object_id"] for rows in found])
        assert (ids != UNTRACKED).all()
        lengths[name] = np.unique(ids, return_counts=True)[1]
    detections = sum(len(rows) for rows in frames.values())
    for name, counts in lengths.items():
        # 4 to 8 people are in view: most detections belong to a few long tracks.
        assert counts.sum() > 0.9 * detections, name
        assert np.sort(counts)[-4:].sum() > 0.5 * detections, name
    assert len(lengths["deepsort"]) <= len(lengths["bytetrack"])


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
