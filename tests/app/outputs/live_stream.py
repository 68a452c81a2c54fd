"""A stream with live outputs behind it, and readers of what they write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import gi
import numpy as np

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from playing import reaches_its_end
from sluice.app.outputs import LiveOutputs, OutputOptions
from sluice.app.sources import parse_sources

Gst.init(None)


class Stream:
    """Test pictures into a branch of live outputs; as a context manager it is ended and its files are finished.

    Attributes:
        outputs: the `LiveOutputs`.
        branch: the stream's branch.
        events: kinds, streams, texts and details of what happened.
    """

    def __init__(
        self,
        options: OutputOptions,
        *,
        name: str = "cam 1",
        frames: int = -1,
        live: bool = True,
        size: tuple[int, int] = (160, 120),
        fps: int = 25,
    ) -> None:
        self.events: list[tuple[str, str | None, str, dict[str, Any]]] = []
        self.outputs = LiveOutputs(options, emit=lambda *event: self.events.append(event))
        self.name = name
        source = parse_sources([f"test:ball?live={int(live)}"])[0]
        self.branch = self.outputs(0, source, name)
        self.pipeline = Gst.Pipeline.new()
        self._source = Gst.parse_bin_from_description(
            f"videotestsrc name=pictures pattern=ball is-live={str(live).lower()} num-buffers={frames} ! "
            f"video/x-raw,format=I420,width={size[0]},height={size[1]},framerate={fps}/1 ! identity name=out",
            True,
        )
        self.pipeline.add(self._source)
        self.pipeline.add(self.branch.bin)
        assert self._source.link(self.branch.bin)

    def __enter__(self) -> Stream:
        self.pipeline.set_state(Gst.State.PLAYING)
        return self

    def __exit__(self, *_: object) -> None:
        self.branch.end()
        self.pipeline.set_state(Gst.State.NULL)
        self.outputs.close()

    def wait_for_end(self, seconds: float = 20) -> None:
        """Wait until the pipeline itself is through."""
        reaches_its_end(self.pipeline)

    def stats(self) -> dict[str, int]:
        return self.outputs.stats()[self.name]

    def dropped(self) -> int:
        """How many frames the machine had no time for, at all steps that are at work."""
        return sum(number for name, number in self.stats().items() if name.endswith("dropped"))

    def happened(self, kind: str) -> list[str]:
        return [text for found, _, text, _ in list(self.events) if found == kind]


def count_frames(path: Path) -> int:
    """Decode a video and count its frames."""
    capture = cv2.VideoCapture(str(path))
    count = 0
    while capture.read()[0]:
        count += 1
    capture.release()
    return count


def files(folder: Path, suffix: str) -> list[Path]:
    return sorted(folder.rglob(f"*{suffix}"))


def decode(jpeg: bytes) -> np.ndarray:
    picture = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
    assert picture is not None
    return picture
