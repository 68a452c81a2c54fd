"""Live outputs behind whole pipelines: what triggers clips, the view of all streams, streams that come and go."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live_stream import count_frames, decode, files

import sluice
from sluice.app.outputs import ClipOptions, HlsOptions, LiveBranch, LiveOutputs, OutputOptions, RecordOptions
from sluice.app.outputs.relay import Relay, Target
from sluice.app.outputs.stage import Stage
from waiting import until

LINES = """
[property]
enable=1
config-width=160
config-height=120

[line-crossing-stream-0]
enable=1
line-crossing-gate=40;60;120;60;80;10;80;110
class-id=-1
extended=0
mode=loose
"""


class Walker:
    """A thing that walks to the right, four pixels a frame, from frame 20 on."""

    labels = ("thing",)

    def __init__(self) -> None:
        self._frames = 0

    def infer(self, frames: list[Any]) -> list[sluice.Detections | None]:
        return [self._find() for _ in frames]

    def _find(self) -> sluice.Detections | None:
        self._frames += 1
        left = 4 * (self._frames - 20)
        if not 0 <= left <= 130:
            return None
        return sluice.Detections(xyxy=[[left, 40, left + 20, 80]], scores=[0.9], class_ids=[0])


@pytest.fixture
def outputs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LiveOutputs]:
    found = LiveOutputs(request.param(tmp_path))
    yield found
    found.close()


@pytest.mark.parametrize(
    "outputs",
    # Its end is so late that a busy machine has time to put it off, as each sight of the thing does.
    [lambda folder: OutputOptions(clips=ClipOptions(folder, before=0.4, after=1.5, classes=("thing",)))],
    indirect=True,
)
def test_an_object_of_a_class_triggers_a_clip(outputs: LiveOutputs, tmp_path: Path) -> None:
    with sluice.Pipeline(
        ["test:ball?live=1&size=160x120&fps=25&frames=120"], model=Walker(), tracker=None, branches=outputs
    ) as pipeline:
        pipeline.run()
    outputs.close()
    (path,) = files(tmp_path, "mp4")
    assert path.name.endswith("_thing.mp4")
    assert 30 <= count_frames(path) <= 110  # the thing is there for 33 frames
    kinds = [event.kind for event in pipeline.events.since()]
    assert kinds.count("clip-started") == kinds.count("clip-finished") == 1


@pytest.mark.parametrize(
    "outputs",
    [lambda folder: OutputOptions(clips=ClipOptions(folder, before=0.2, after=0.2, lines=("gate",)))],
    indirect=True,
)
def test_a_line_that_is_crossed_triggers_a_clip(outputs: LiveOutputs, tmp_path: Path) -> None:
    config = tmp_path / "lines.txt"
    config.write_text(LINES)
    with sluice.Pipeline(
        ["test:ball?live=1&size=160x120&fps=25&frames=120"],
        model=Walker(),
        tracker="sort",
        analytics=config,
        branches=outputs,
    ) as pipeline:
        pipeline.run()
    outputs.close()
    (path,) = files(tmp_path, "mp4")
    assert path.name.endswith("_line-gate.mp4")


@pytest.mark.parametrize(
    "outputs", [lambda _: OutputOptions(tiled=True, tiled_size=(320, 120), overlay=False)], indirect=True
)
def test_all_streams_are_in_one_view(outputs: LiveOutputs) -> None:
    sources = ["test:white?live=1&size=160x120", "test:red?live=1&size=160x120"]
    pipeline = sluice.Pipeline(sources, model=None, tracker=None, branches=outputs, service=True)
    pipeline.start()
    until(lambda: all(stream.frames_out > 3 for stream in pipeline.streams))
    assert not outputs.stats()["tiled"]["draw-active"]  # nobody looks, nothing is tiled

    def seen() -> list[np.ndarray]:
        jpeg = outputs.snapshot("tiled")
        pictures = [] if jpeg is None else [decode(jpeg)]
        return [picture for picture in pictures if picture[60, 40].min() > 200 and picture[60, 200].max() > 150]

    (picture,) = until(seen, what="both streams in the view")
    assert picture.shape == (120, 320, 3)
    blue, green, red = picture[60, 200].tolist()
    assert red > 150 > max(blue, green) + 50
    # Each stream alone too, while the view is looked at.
    assert decode(until(lambda: outputs.snapshot("test_white"))).min() > 200
    pipeline.stop()


def census() -> dict[str, int]:
    gc.collect()
    everything = gc.get_objects()
    return {
        kind.__name__: sum(isinstance(item, kind) for item in everything) for kind in (LiveBranch, Stage, Relay, Target)
    }


@pytest.mark.parametrize(
    "outputs",
    [
        lambda folder: OutputOptions(
            tiled=True,
            record=RecordOptions(folder / "r"),
            hls=HlsOptions(folder / "h"),
            clips=ClipOptions(folder / "c", classes=("x",)),
        )
    ],
    indirect=True,
)
def test_streams_that_come_and_go_leave_nothing_but_their_files(outputs: LiveOutputs, tmp_path: Path) -> None:
    pipeline = sluice.Pipeline(["test:ball?live=1&size=64x48"], model=None, branches=outputs, service=True)
    pipeline.start()

    def cycle(number: int) -> None:
        name = pipeline.add("test:snow?live=1&size=64x48", name=f"guest-{number}")
        until(lambda: outputs.stats().get(name, {}).get("record-frames", 0) > 2)
        until(lambda: outputs.snapshot(name), "a picture")
        pipeline.remove(name)

    until(lambda: outputs.stats()["test_ball"]["record-frames"] > 2)
    gc.collect()
    before = census()
    cycle(0)
    until(lambda: census() == before, what="the same objects as before")
    open_files = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for number in range(1, 9):
        cycle(number)
    until(lambda: census() == before, what="the same objects as before")
    until(lambda: len(os.listdir("/proc/self/fd")) <= open_files + 4, "no more open files")  # noqa: PTH208
    assert outputs.names() == ["tiled", "test_ball"]
    pipeline.stop()
    outputs.close()
    for number in range(9):
        (path,) = files(tmp_path / "r" / f"guest-{number}", "mp4")
        assert count_frames(path) > 2
