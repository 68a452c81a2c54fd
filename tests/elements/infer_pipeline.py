"""Runs a launch line with a sluiceinfer named ``infer`` and writes down what leaves it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from playing import stats_of
from sluice.contract import gstref
from sluice.contract.metadata import BatchMeta, Lease
from sluice.elements import register
from sluice.elements.base import push
from sluice.elements.events import event_type

BUFFER = -1  # stands for a buffer among the types of events
MODELS = Path(__file__).with_name("infer_models.py")
RAW = "videotestsrc num-buffers={n} ! video/x-raw,format={format},width=64,height=48,framerate=25/1"


@dataclass
class Found:
    """One object as it left the element."""

    box: tuple[float, ...]
    class_id: int
    label: str
    component: int


@dataclass
class Left:
    """One frame as it left the element."""

    address: int
    refcount: int
    stream: int
    number: int
    pts: int
    infer_done: bool
    objects: list[Found]


@dataclass
class Run:
    """What a pipeline did until EOS, an error or the time limit."""

    frames: list[Left] = field(default_factory=list)
    entered: list[int] = field(default_factory=list)
    events: list[int] = field(default_factory=list)
    warnings: list[tuple[str, str]] = field(default_factory=list)
    error: tuple[str, str] | None = None
    details: Any = None
    stats: dict[str, Any] = field(default_factory=dict)


def frames_of(buffer: Gst.Buffer) -> list[Left]:
    """Read a buffer's metadata into plain values."""
    address = gstref.buffer_address(buffer)
    with Lease() as lease:
        batch = BatchMeta.of(buffer, lease)
        return [
            Left(
                address,
                gstref.refcount(address),
                frame.source_id,
                frame.frame_num,
                frame.buf_pts,
                frame.infer_done,
                [Found(o.box, o.class_id, o.label, o.unique_component_id) for o in reversed(frame.objects)],
            )
            for frame in batch.frames
        ]


def watch(element: Gst.Element, run: Run) -> None:
    """Write down what enters and leaves an element; what leaves is looked at on the next element's sink pad."""

    def entered(_pad, info):
        run.entered.append(gstref.buffer_address(info.get_buffer()))
        return Gst.PadProbeReturn.OK

    def left(_pad, info):
        if info.type & Gst.PadProbeType.BUFFER:
            run.frames += frames_of(info.get_buffer())
            run.events.append(BUFFER)
        else:
            run.events.append(event_type(info.get_event()))
        return Gst.PadProbeReturn.OK

    element.get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, entered)
    both = Gst.PadProbeType.BUFFER | Gst.PadProbeType.EVENT_DOWNSTREAM
    element.get_static_pad("src").get_peer().add_probe(both, left)


def model(name: str) -> str:
    """The ``model`` property for a class of infer_models.py."""
    return f"model={MODELS}:{name}"


def launch(line: str) -> Gst.Pipeline:
    """Parse a launch line after registering the elements it may name."""
    register("sluiceinfer")
    return Gst.parse_launch(line)


def run(line: str, limit: float = 30) -> Run:
    """Run a launch line to its end; the element named ``infer`` is watched.

    Raises:
        TimeoutError: neither EOS nor an error came within ``limit`` seconds.
    """
    pipeline = launch(line)
    result = Run()
    element = pipeline.get_by_name("infer")
    watch(element, result)
    pipeline.set_state(Gst.State.PLAYING)
    try:
        collect(pipeline, result, limit)
        result.stats = stats_of(element)
    finally:
        pipeline.set_state(Gst.State.NULL)
    return result


def collect(pipeline: Gst.Pipeline, result: Run, limit: float = 30) -> None:
    """Read the bus until EOS or an error."""
    kinds = Gst.MessageType.EOS | Gst.MessageType.ERROR | Gst.MessageType.WARNING
    while True:
        message = pipeline.get_bus().timed_pop_filtered(int(limit * Gst.SECOND), kinds)
        if message is None:
            raise TimeoutError(f"no EOS and no error within {limit} s")
        if message.type == Gst.MessageType.WARNING:
            error, debug = message.parse_warning()
            result.warnings.append((error.message, debug))
            continue
        if message.type == Gst.MessageType.ERROR:
            error, debug = message.parse_error()
            result.error, result.details = (error.message, debug), message.parse_error_details()
        return


class Driver:
    """Pushes grey frames and events into a ``sluiceinfer`` from the caller's thread, in an order that is certain."""

    CAPS = "video/x-raw,format=GRAY8,width=64,height=48,framerate=25/1"

    def __init__(self, properties: str, tail: str = "fakesink async=false") -> None:
        self.pipeline = launch(f"sluiceinfer name=infer {properties} ! {tail}")
        self.run = Run()
        self.infer = self.pipeline.get_by_name("infer")
        watch(self.infer, self.run)
        self.pad = Gst.Pad.new("driver", Gst.PadDirection.SRC)
        self.pad.set_active(True)
        self.pad.link(self.infer.get_static_pad("sink"))

    def __enter__(self) -> "Driver":
        assert self.pipeline.set_state(Gst.State.PLAYING) != Gst.StateChangeReturn.FAILURE
        segment = Gst.Segment()
        segment.init(Gst.Format.TIME)
        self.event(Gst.Event.new_stream_start("driver"))
        self.event(Gst.Event.new_caps(Gst.Caps.from_string(self.CAPS)))
        self.event(Gst.Event.new_segment(segment))
        return self

    def __exit__(self, *_: object) -> None:
        self.pipeline.set_state(Gst.State.NULL)
        self.pad.set_active(False)

    def event(self, event: Gst.Event) -> bool:
        """Push an event."""
        return self.pad.push_event(event)

    def push(self, pts: int = 0) -> Gst.FlowReturn:
        """Push a frame."""
        held = [Gst.Buffer.new_allocate(None, 64 * 48, None)]
        held[0].pts = pts
        return push(self.pad, held)

    def push_from(self, pool: Gst.BufferPool) -> Gst.FlowReturn:
        """Push a frame of a pool, waiting until one is free."""
        held = [pool.acquire_buffer(None)[1]]
        return push(self.pad, held)

    def end(self) -> Run:
        """Push EOS and return what left until it arrived."""
        self.event(Gst.Event.new_eos())
        collect(self.pipeline, self.run)
        return self.run
