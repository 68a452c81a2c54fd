"""Metadata and buffers for the tests of sluiceosd and sluicetiler, written without any other element of Sluice."""

from collections.abc import Sequence
from typing import Any

import gi
import numpy as np

gi.require_version("Gst", "1.0")
gi.require_version("GstVideo", "1.0")
from gi.repository import Gst, GstVideo

from playing import reaches_its_end
from sluice.contract.formats import FrameFormat
from sluice.contract.metadata import BatchMeta, FrameMeta, ObjectMeta
from sluice.contract.provider import provider
from sluice.contract.surface import SurfaceBatch
from sluice.elements import register

WAIT = 20 * Gst.SECOND


def add_frame(batch: BatchMeta, index: int, **fields: Any) -> FrameMeta:
    """Append a frame with this batch_id to a batch's metadata."""
    owner = provider()
    owner.add_frame(batch.address, owner.acquire_frame(batch.address))
    frame = batch.frames[-1]
    frame.batch_id = frame.pad_index = frame.source_id = index
    for name, value in fields.items():
        setattr(frame, name, value)
    return frame


def add_object(frame: FrameMeta, box: tuple[float, float, float, float], text: str | None = None) -> ObjectMeta:
    """Add an object with a red border of 2 pixels and, if given, a text with a black background."""
    owner = provider()
    owner.add_object(frame.address, owner.acquire_object(frame.batch.address), 0)
    item = frame.objects[0]
    item.box = box
    item.rect.border_width = 2
    item.rect.border_color = (1.0, 0.0, 0.0, 1.0)
    if text is not None:
        item.text.display_text = text
        item.text.x_offset, item.text.y_offset = (max(int(value), 0) for value in box[:2])
        item.text.font_name, item.text.font_size = "Sans", 11
        item.text.font_color = (1.0, 1.0, 1.0, 1.0)
        item.text.set_bg_clr = True
        item.text.text_bg_clr = (0.0, 0.0, 0.0, 1.0)
    return item


def raw_caps(pixel_format: str, width: int, height: int, extra: str = "") -> Gst.Caps:
    """Caps of single frames at 25 per second."""
    return Gst.Caps.from_string(
        f"video/x-raw, format={pixel_format}, width={width}, height={height}, framerate=25/1{extra}"
    )


def raw_buffer(caps: Gst.Caps, value: int = 100) -> tuple[Gst.Buffer, FrameFormat]:
    """A buffer with every byte set to `value`, and what the contract calls its format."""
    info = GstVideo.VideoInfo.new_from_caps(caps)
    return Gst.Buffer.new_wrapped(bytes([value]) * info.size), FrameFormat.from_caps(caps)


def planes(buffer: Gst.Buffer, caps: Gst.Caps) -> list[np.ndarray]:
    """Copies of the planes of a single frame."""
    known = FrameFormat.from_caps(caps)
    return [plane.copy() for plane in SurfaceBatch.of_raw(buffer, known)[0].host_planes()]


class Stream:
    """``appsrc ! elements ! appsink``: push buffers, pull what comes out, fail on an error message."""

    def __init__(self, elements: str, caps: Gst.Caps, names: Sequence[str] = ("sluiceosd",)) -> None:
        for name in names:
            register(name)
        self.pipeline = Gst.parse_launch(
            f"appsrc name=source format=time max-bytes=0 ! {elements} ! appsink name=sink sync=false"
        )
        self.source = self.pipeline.get_by_name("source")
        self.sink = self.pipeline.get_by_name("sink")
        self.source.set_property("caps", caps)

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.pipeline.set_state(Gst.State.NULL)

    def play(self) -> None:
        """Start; buffers pushed before have no holder but the pipeline by now."""
        self.pipeline.set_state(Gst.State.PLAYING)

    def push(self, buffer: Gst.Buffer) -> None:
        """Give a buffer to the source, which takes a reference of its own."""
        assert self.source.emit("push-buffer", buffer) == Gst.FlowReturn.OK

    def pull(self) -> Gst.Sample:
        """The next sample; fails with the pipeline's error when none comes."""
        sample = self.sink.emit("try-pull-sample", WAIT)
        assert sample is not None, self.error()
        return sample

    def finish(self) -> list[Gst.Sample]:
        """End the stream and return all samples that have not been pulled, once every sink has seen the end."""
        self.source.emit("end-of-stream")
        samples = []
        while (sample := self.sink.emit("try-pull-sample", WAIT)) is not None:
            samples.append(sample)
        reaches_its_end(self.pipeline)
        return samples

    def error(self) -> str | None:
        """The first error message on the bus."""
        message = self.pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR)
        return None if message is None else str(message.parse_error()[0])
