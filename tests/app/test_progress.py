"""Progress where there is no terminal, and what a summary looks like."""

import io
import json
from pathlib import Path

from sluice.app.accounts import Progress
from sluice.app.progress import Lines, show_progress
from sluice.app.summary import StreamSummary, Summary


def test_lines_say_what_each_stream_does() -> None:
    stream = io.StringIO()
    Lines(list, stream).show([Progress("a", 30, 0.5, "running"), Progress("camera", 7, None, "failed")])
    first, second = stream.getvalue().splitlines()
    assert first.startswith("a: 30 frames (50%), ")
    assert first.endswith(" frames/s, running")
    assert second.startswith("camera: 7 frames, ")
    assert second.endswith("failed")


def test_the_last_look_is_always_shown() -> None:
    stream = io.StringIO()
    frames = [1]
    with show_progress(lambda: [Progress("a", frames[0], None, "ended")], stream):
        frames[0] = 99
    assert "a: 99 frames" in stream.getvalue()


def test_quiet_shows_nothing() -> None:
    stream = io.StringIO()
    with show_progress(lambda: [Progress("a", 1, None, "ended")], stream, quiet=True):
        pass
    assert stream.getvalue() == ""


def test_summary_is_ok_only_if_every_stream_ended_well(tmp_path: Path) -> None:
    fine = StreamSummary("a.mp4", frames_in=3, frames_out=3, damaged=True, warnings=["a gap"])
    failed = StreamSummary("b.mp4", errors=["b.mp4: no"])
    assert Summary([fine]).ok
    assert not Summary([fine, failed]).ok
    assert not Summary([fine], errors=["the model"]).ok
    Summary([fine, failed], fps=12.5, model="people").write(tmp_path / "s.json")
    found = json.loads((tmp_path / "s.json").read_text())
    assert [stream["uri"] for stream in found["streams"]] == ["a.mp4", "b.mp4"]
    assert (found["fps"], found["model"]) == (12.5, "people")
    assert "damaged; warning: a gap)" in str(Summary([fine]))
    assert "warning: a gap, and 2 more)" in str(Summary([StreamSummary("a.mp4", warnings=["a gap", "b", "c"])]))
    assert str(Summary([fine], errors=["it broke\nTraceback"])).endswith("\nerror: it broke")
    assert "(failed: no)" in str(Summary([failed]))
