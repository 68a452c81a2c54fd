"""A run with a model, and the same video replayed from its recording: what comes behind says the same."""

import gi
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from playing import end_of, stats_of
from sluice import elements

MODEL = '''
import numpy as np
from sluice import Detections

class Moving:
    """A box that moves with the frame's number, of another size on each stream."""

    labels = ("ball",)

    def infer(self, frames):
        return [
            Detections(
                [[10 + 6 * frame.number, 40, 30 + 6 * frame.number + frame.stream, 60]], [0.9], [0],
                angles=[5.0 * frame.number], embeddings=[[frame.number, 0.5]],
                attributes=[{"colour": "red"}], keypoints=[[[1.5, frame.number, 0.25]]],
            )
            for frame in frames
        ]
'''
LINES = """[property]
config-width=320
config-height=240
osd-mode=0
[line-crossing-stream-0]
line-crossing-middle=100;0;200;0;80;0;80;240
[roi-filtering-stream-1]
roi-left=0;0;160;0;160;240;0;240
"""


@pytest.fixture(autouse=True)
def registered():
    elements.register_all()


def run(description):
    """Run to the end, and return the counters of the element ``file``; an error of the pipeline fails."""
    error, counted = played(description)
    assert error is None, error
    return counted


def played(description):
    pipeline = Gst.parse_launch(description)
    pipeline.set_state(Gst.State.PLAYING)
    try:
        message = end_of(pipeline)
        counted = stats_of(pipeline.get_by_name("file"))
    finally:
        pipeline.set_state(Gst.State.NULL)
    failed = message.type == Gst.MessageType.ERROR
    return message.parse_error()[0].message if failed else None, counted


def source(pad, frames):
    return (
        f"videotestsrc num-buffers={frames} pattern=ball ! video/x-raw,format=I420,width=320,height=240,framerate=25/1 "
        f"! m.sink_{pad} "
    )


def lines_by_stream(path):
    """The messages of each stream in their order; batches may be put together in another way."""
    found = {}
    for line in path.read_text().splitlines():
        found.setdefault(line.partition('"stream":')[2][0], []).append(line)
    return found


def test_what_comes_behind_says_the_same(tmp_path):
    model, config = tmp_path / "moving.py", tmp_path / "lines.txt"
    model.write_text(MODEL)
    config.write_text(LINES)
    recording, live, replayed = (tmp_path / name for name in ("run.jsonl", "live.jsonl", "replayed.jsonl"))
    streams = source(0, 30) + source(1, 20)
    behind = f"sluiceanalytics config-file={config} ! sluicemsgconv embeddings=true ! sluicemsgbroker"
    first = run(
        f"sluicemux name=m batch-size=2 ! sluiceinfer model={model} ! sluicetracker ! "
        f"sluicemetafile name=file record-to={recording} ! {behind} location={live} {streams}"
    )
    second = run(
        f"sluicemux name=m batch-size=2 ! sluicemetafile name=file replay-from={recording} ! {behind} "
        f"location={replayed} {streams}"
    )
    nothing = {"dropped": 0, "left-out": 0, "mismatched": 0}
    assert first == second == {"frames": 50, **nothing}
    assert len(recording.read_text().splitlines()) == 51
    said = lines_by_stream(live)
    assert {stream: len(lines) for stream, lines in said.items()} == {"0": 30, "1": 20}
    assert sum('"crossings":[{"line":"middle"' in line for line in said["0"]) == 1
    assert without_clock(said) == without_clock(lines_by_stream(replayed))


def without_clock(said):
    """The messages without the wall-clock time, which differs between runs."""
    return {
        stream: [line.partition('"utc":"')[0] + line.partition('"utc":"')[2].partition('"')[2] for line in lines]
        for stream, lines in said.items()
    }


def test_the_wrong_video_is_named(tmp_path):
    recording = tmp_path / "run.jsonl"
    element = "sluicemux name=m batch-size=1 ! sluicemetafile name=file"
    run(f"{element} record-to={recording} ! fakesink {source(0, 3)}")
    with pytest.raises(AssertionError, match=r"stream 0, frame 3: the recording .* has no such frame"):
        run(f"{element} replay-from={recording} ! fakesink {source(0, 9)}")
