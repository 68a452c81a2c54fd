"""sluicedemux: the buffers that came in, each with its own metadata, events and end."""

import gc
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import gi
import numpy as np
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

Gst.init(None)

from contract.leftovers import nothing_is_left
from playing import play, reaches_its_end, stats_of, stopping
from sluice.contract import bulk, counters, gstref
from sluice.contract.batching import frame_buffer, make_batch
from sluice.contract.formats import FrameFormat
from sluice.contract.metadata import BatchMeta, FrameMeta, Lease
from sluice.contract.provider import provider
from sluice.contract.surface import SurfaceBatch
from sluice.elements import demux_frames, events, register
from sluice.errors import ContractError
from waiting import until

register("sluicemux")
register("sluicedemux")


class Watch:
    """A pipeline with mux m and demux d, sources behind identities i0, i1.., sinks f0, f1.."""

    def __init__(self, line: str) -> None:
        self.pipeline = Gst.parse_launch(line)
        self.incoming: dict[int, list[tuple[int, int]]] = {}
        self.outgoing: dict[int, list[tuple[int, int]]] = {}
        self.references: Counter[int] = Counter()
        self.events: dict[int, list[int]] = {}
        self.look: Callable[[int, FrameMeta], None] = lambda stream, frame: None
        for stream in range(8):
            for prefix, pad, note in (("i", "src", self._in), ("f", "sink", self._out)):
                element = self.pipeline.get_by_name(f"{prefix}{stream}")
                if element is not None:
                    kinds = Gst.PadProbeType.BUFFER | Gst.PadProbeType.EVENT_DOWNSTREAM
                    element.get_static_pad(pad).add_probe(kinds, note, stream)

    def _in(self, _pad: Gst.Pad, info: Gst.PadProbeInfo, stream: int) -> Gst.PadProbeReturn:
        if info.type & Gst.PadProbeType.BUFFER:
            buffer = info.get_buffer()
            self.incoming.setdefault(stream, []).append((gstref.address(buffer), buffer.pts))
        return Gst.PadProbeReturn.OK

    def _out(self, _pad: Gst.Pad, info: Gst.PadProbeInfo, stream: int) -> Gst.PadProbeReturn:
        if info.type & Gst.PadProbeType.BUFFER:
            buffer = info.get_buffer()
            # The wrapper holds one of them.
            self.references[gstref.refcount(gstref.address(buffer)) - 1] += 1
            self.outgoing.setdefault(stream, []).append((gstref.address(buffer), buffer.pts))
            frames = BatchMeta.of(buffer).frames
            assert len(frames) == 1
            self.look(stream, frames[0])
        else:
            self.events.setdefault(stream, []).append(events.event_type(info.get_event()))
        return Gst.PadProbeReturn.OK

    def run(self) -> None:
        self.pipeline.set_state(Gst.State.PLAYING)
        reaches_its_end(self.pipeline)

    def stats(self) -> dict[str, int]:
        return stats_of(self.pipeline.get_by_name("d"))


@pytest.fixture
def watch() -> Iterator[Callable[[str], Watch]]:
    with stopping(Watch) as make:
        yield make


CAPS = ["format=I420,width=64,height=48,framerate=30/1", "format=RGB,width=33,height=17,framerate=10/1"]


def line(frames: list[int], *, outputs: list[int], mux: str = "batch-size=4", between: str = "") -> str:
    sources = "".join(
        f"videotestsrc num-buffers={count} ! video/x-raw,{CAPS[stream % 2]} ! identity name=i{stream} ! "
        f"m.sink_{stream} "
        for stream, count in enumerate(frames)
    )
    sinks = "".join(f"d.src_{stream} ! queue ! fakesink name=f{stream} async=false " for stream in outputs)
    return f"sluicemux name=m {mux} ! {between} sluicedemux name=d {sources} {sinks}"


def test_the_very_buffers_come_out(watch: Callable[[str], Watch]) -> None:
    before = counters.copies()
    seen = watch(line([40, 25], outputs=[0, 1]))
    seen.run()
    assert seen.outgoing == seen.incoming
    assert seen.references == {1: 65}
    assert counters.copies() == before
    assert seen.stats() == {"src_0-frames-out": 40, "src_0-dropped": 0, "src_1-frames-out": 25, "src_1-dropped": 0}


def test_each_pad_has_its_stream_s_caps_segment_and_end(watch: Callable[[str], Watch]) -> None:
    seen = watch(line([12, 5], outputs=[0, 1]))
    seen.run()
    for stream, text in enumerate(CAPS):
        caps = seen.pipeline.get_by_name(f"f{stream}").get_static_pad("sink").get_current_caps()
        assert caps.is_subset(Gst.Caps.from_string(f"video/x-raw,{text}"))
        assert caps.get_features(0).contains("memory:SystemMemory")
        own = [kind for kind in seen.events[stream] if kind in BEGIN_AND_END]
        assert own == BEGIN_AND_END


BEGIN_AND_END = [
    int(kind) for kind in (Gst.EventType.STREAM_START, Gst.EventType.CAPS, Gst.EventType.SEGMENT, Gst.EventType.EOS)
]


def test_a_stream_ends_before_the_others(watch: Callable[[str], Watch]) -> None:
    text = line([5, -1], outputs=[0, 1])
    seen = watch(text)
    seen.pipeline.set_state(Gst.State.PLAYING)
    until(lambda: Gst.EventType.EOS in seen.events.get(0, []))
    count = len(seen.outgoing[1])
    until(lambda: len(seen.outgoing[1]) > count + 10)
    assert len(seen.outgoing[0]) == 5


@pytest.mark.parametrize("own", [True, False])
def test_a_stream_s_end_can_wait_for_the_pipeline_s(watch: Callable[[str], Watch], own: bool) -> None:
    text = line([5, 40], outputs=[0, 1])
    seen = watch(text.replace("sluicedemux name=d", f"sluicedemux name=d per-stream-eos={own}"))
    ends: list[str] = []

    def note(pad: Gst.Pad, info: Gst.PadProbeInfo) -> Gst.PadProbeReturn:
        if events.event_type(info.get_event()) == Gst.EventType.EOS:
            ends.append(pad.get_name())
        return Gst.PadProbeReturn.OK

    demux = seen.pipeline.get_by_name("d")
    for name in ("sink", "src_0"):
        demux.get_static_pad(name).add_probe(Gst.PadProbeType.EVENT_DOWNSTREAM, note)
    assert demux.get_property("per-stream-eos") == own
    seen.run()
    # With ends of their own, all streams have ended, and the run with them, before the batches' end arrives.
    assert ends[0] == ("src_0" if own else "sink")


def test_frames_without_a_pad_are_dropped_and_counted(watch: Callable[[str], Watch]) -> None:
    seen = watch(line([9, 4, 6], outputs=[1]))
    seen.run()
    names = ("src_0-dropped", "src_1-frames-out", "src_2-dropped")
    # The only sink's stream ends before the others, and with it the pipeline.
    until(lambda: [seen.stats().get(name) for name in names] == [9, 4, 6])


def test_a_pad_requested_while_playing_begins_properly(watch: Callable[[str], Watch]) -> None:
    seen = watch(line([-1, -1], outputs=[1]))
    seen.pipeline.set_state(Gst.State.PLAYING)
    until(lambda: len(seen.outgoing.get(1, [])) > 3)
    sink = Gst.ElementFactory.make("fakesink")
    sink.set_property("async", False)
    kinds: list[int] = []

    def note(_pad: Gst.Pad, info: Gst.PadProbeInfo) -> Gst.PadProbeReturn:
        buffered = bool(info.type & Gst.PadProbeType.BUFFER)
        kinds.append(0 if buffered else events.event_type(info.get_event()))
        return Gst.PadProbeReturn.OK

    sink.get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER | Gst.PadProbeType.EVENT_DOWNSTREAM, note)
    seen.pipeline.add(sink)
    sink.sync_state_with_parent()
    demux = seen.pipeline.get_by_name("d")
    pad = demux.request_pad_simple("src_0")
    pad.link(sink.get_static_pad("sink"))
    until(lambda: kinds.count(0) > 3)
    assert kinds[:3] == BEGIN_AND_END[:3]
    pad.unlink(sink.get_static_pad("sink"))
    demux.release_request_pad(pad)
    sink.set_state(Gst.State.NULL)
    dropped = seen.stats()["src_0-dropped"]
    until(lambda: seen.stats()["src_0-dropped"] > dropped)


def test_metadata_comes_out_equal(watch: Callable[[str], Watch]) -> None:
    """Objects in the same order, with parents before and behind their children, displays, classifiers, user data."""
    check_metadata(watch(line([3, 2], outputs=[0, 1])))


def test_metadata_comes_through_a_second_muxer(watch: Callable[[str], Watch]) -> None:
    """Also what was written to frames of single streams goes into their muxer's batches."""
    outputs = "e.src_0 ! queue ! fakesink name=f0 async=false e.src_1 ! queue ! fakesink name=f1 async=false"
    again = "sluicemux name=n batch-size=2 ! sluicedemux name=e"
    check_metadata(
        watch(f"{line([3, 2], outputs=[])} d.src_0 ! queue ! n.sink_0 d.src_1 ! queue ! n.sink_1 {again} {outputs}")
    )


def test_boxes_come_through_a_second_muxer_that_scales(watch: Callable[[str], Watch]) -> None:
    seen = watch(
        f"{line([3], outputs=[])} d.src_0 ! queue ! n.sink_0 sluicemux name=n batch-size=1 width=160 height=240 "
        "enable-padding=true ! sluicedemux name=e e.src_0 ! queue ! fakesink name=f0 async=false"
    )
    sizes = set()

    def write(_pad: Gst.Pad, info: Gst.PadProbeInfo) -> Gst.PadProbeReturn:
        (frame,) = BatchMeta.of(info.get_buffer()).frames
        sizes.add((frame.source_width, frame.source_height))
        boxes = np.array([[0, 0, frame.source_width, frame.source_height]], np.float32)
        bulk.write_objects(frame, boxes, np.ones(1, np.float32), np.zeros(1, np.int32), ["all"], unique_id=3)
        return Gst.PadProbeReturn.OK

    found = []
    seen.look = lambda _stream, frame: found.extend((item.label, item.box) for item in frame.objects)
    seen.pipeline.get_by_name("d").get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, write)
    seen.run()
    ((width, height),) = sizes
    fitted = 160 * height // width
    assert found == [("all", (0, (240 - fitted) // 2 // 2 * 2, 160, fitted))] * 3


def check_metadata(seen: Watch) -> None:
    wrote: dict[tuple[int, int], Any] = {}

    def describe(frame: FrameMeta) -> Any:
        objects = frame.objects
        place = {item.address: index for index, item in enumerate(objects)}
        return [
            (
                item.class_id,
                item.label,
                item.box,
                place.get(item.parent.address) if item.parent else None,
                [
                    (classifier.classifier_type, [label.label for label in classifier.labels])
                    for classifier in item.classifiers
                ],
            )
            for item in objects
        ] + [[rect.width for rect in display.rects] for display in frame.display_metas]

    def write(_pad: Gst.Pad, info: Gst.PadProbeInfo) -> Gst.PadProbeReturn:
        for frame in BatchMeta.of(info.get_buffer()).frames:
            count = 4 + frame.pad_index
            boxes = np.arange(count * 4, dtype=np.float32).reshape(count, 4) + 1 + frame.frame_num
            labels = [f"{frame.pad_index}-{frame.frame_num}-{index}" for index in range(count)]
            ids = np.arange(count, dtype=np.int32)
            bulk.write_objects(frame, boxes, np.full(count, 0.5, np.float32), ids, labels, unique_id=3)
            objects = frame.objects
            objects[0].parent = objects[2]
            objects[3].parent = objects[1]
            for name in ("colour", "make"):
                objects[1].add_classifier(4, name).add_label(f"{name}-label", class_id=0, probability=0.9)
            for width in (5, 6):
                display = frame.add_display()
                display.num_rects = 1
                display.rects[0].width = width
            wrote[frame.pad_index, frame.frame_num] = describe(frame)
        return Gst.PadProbeReturn.OK

    read: dict[tuple[int, int], Any] = {}

    def look(stream: int, frame: FrameMeta) -> None:
        read[stream, frame.frame_num] = describe(frame)
        assert (frame.pad_index, frame.batch_id, frame.infer_done) == (stream, 0, 1)

    seen.look = look
    seen.pipeline.get_by_name("d").get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, write)
    seen.run()
    assert len(read) == 5
    assert read == wrote


def test_two_demuxes_on_one_batch_do_not_meet(watch: Callable[[str], Watch]) -> None:
    seen = watch(
        line([10], outputs=[], between="tee name=t ! queue !")
        + "t. ! queue ! sluicedemux name=e d.src_0 ! queue ! fakesink name=f0 async=false "
        "e.src_0 ! queue ! fakesink name=f1 async=false"
    )
    seen.run()
    assert [pts for _, pts in seen.outgoing[0]] == [pts for _, pts in seen.outgoing[1]]
    assert not set(seen.outgoing[0]) & set(seen.outgoing[1])
    assert set(seen.references) == {1}


def test_a_failing_branch_leaves_the_others_alone(watch: Callable[[str], Watch]) -> None:
    seen = watch(line([50, 50], outputs=[0, 1]))
    sink = seen.pipeline.get_by_name("d").get_static_pad("src_0").get_peer()
    sink.set_chain_function_full(lambda pad, parent, buffer: Gst.FlowReturn.EOS, None)
    seen.pipeline.set_state(Gst.State.PLAYING)
    # One of the two may end a batch later than the other.
    until(lambda: len(seen.outgoing.get(1, [])) == 50 and seen.stats()["src_0-dropped"] == 49)
    assert seen.stats()["src_0-frames-out"] == 1


def test_a_batch_without_metadata_is_refused(watch: Callable[[str], Watch]) -> None:
    pipeline = Gst.parse_launch(
        "appsrc name=a caps=video/x-raw(memory:SluiceSurface),batch-size=1 format=time ! sluicedemux name=d d.src_0 ! "
        "fakesink async=false"
    )
    pipeline.set_state(Gst.State.PLAYING)
    pipeline.get_by_name("a").emit("push-buffer", Gst.Buffer.new_allocate(None, 4, None))
    message = pipeline.get_bus().timed_pop_filtered(5 * Gst.SECOND, Gst.MessageType.ERROR)
    pipeline.set_state(Gst.State.NULL)
    assert message.src.get_name() == "d"
    assert "NvDsBatchMeta" in message.parse_error()[0].message


def test_elements_are_finalised_after_use() -> None:
    gone = []
    with nothing_is_left("live_frames"):
        for _ in range(20):
            pipeline = Gst.parse_launch(line([2, 3], outputs=[0, 1]))
            gone.append(weakref.ref(pipeline.get_by_name("d")))
            play(pipeline)
            del pipeline
        until(lambda: gc.collect() >= 0 and [ref() for ref in gone] == [None] * 20)


@pytest.mark.parametrize("name", ["GRAY8", "I420", "RGB"])
def test_frames_that_the_mux_scaled_leave_with_the_size_they_have(name: str) -> None:
    """Behind the demuxer the caps are all that says how a frame's bytes are to be read."""
    pipeline = Gst.parse_launch(
        f"videotestsrc num-buffers=3 ! video/x-raw,format={name},width=640,height=480,pixel-aspect-ratio=4/3,"
        "framerate=5/1 ! m.sink_0 sluicemux name=m batch-size=1 width=64 height=48 ! sluicedemux name=d "
        "d.src_0 ! videoconvert ! video/x-raw,format=RGBA ! fakesink name=end"
    )
    sizes: list[int] = []

    def note(_pad: Gst.Pad, info: Gst.PadProbeInfo) -> Gst.PadProbeReturn:
        sizes.append(info.get_buffer().get_size())
        return Gst.PadProbeReturn.OK

    sink = pipeline.get_by_name("end").get_static_pad("sink")
    sink.add_probe(Gst.PadProbeType.BUFFER, note)
    pipeline.set_state(Gst.State.PLAYING)
    reaches_its_end(pipeline)
    caps = sink.get_current_caps()
    pipeline.set_state(Gst.State.NULL)
    assert sizes == [64 * 48 * 4] * 3
    wanted = "video/x-raw, width=64, height=48, pixel-aspect-ratio=1/1, framerate=5/1"
    assert caps.is_subset(Gst.Caps.from_string(wanted)), caps.to_string()


class ForeignBatches:
    """Batches as another muxer makes them: an NvBufSurface in plain memory, with the metadata of two streams."""

    caps = (
        "video/x-raw(memory:NVMM),format=NV12,width=64,height=48,framerate=25/1,batch-size=4,num-surfaces-per-frame=1"
    )

    def __init__(self) -> None:
        self.alive: list[Gst.Buffer] = []

    def make(self, streams: list[int], pts: int) -> Gst.Buffer:
        caps = Gst.Caps.from_string("video/x-raw,format=NV12,width=64,height=48,framerate=25/1")
        format = FrameFormat.from_caps(caps)
        frames = [(Gst.Buffer.new_wrapped(bytes([stream + 1]) * 4608), format) for stream in streams]
        ours = make_batch(frames, 4)
        self.alive.append(ours)
        found, mapped = ours.map(Gst.MapFlags.READ)
        assert found
        foreign = Gst.Buffer.new_wrapped(bytes(mapped.data))
        ours.unmap(mapped)
        foreign.pts = pts
        rows = np.zeros(len(streams), bulk.FRAME_ROW)
        rows["pad_index"] = rows["source_id"] = streams
        rows["buf_pts"] = [pts + stream for stream in streams]
        with Lease() as lease:
            bulk.fill_frames(BatchMeta.attach(foreign, 4, lease), rows)
        return foreign


def test_batches_of_another_muxer_are_cut_into_single_surfaces(watch: Callable[[str], Watch]) -> None:
    made = ForeignBatches()
    seen = watch(
        f"appsrc name=a caps={made.caps} format=time ! sluicedemux name=d d.src_0 ! queue ! appsink name=f0 sync=false "
        "d.src_7 ! queue ! appsink name=f7 sync=false"
    )
    source, copies = seen.pipeline.get_by_name("a"), counters.copies()
    seen.pipeline.set_state(Gst.State.PLAYING)
    for number in range(3):
        source.emit("push-buffer", made.make([7, 0], 40 * number))
    source.emit("push-buffer", made.make([0], 120))
    source.emit("end-of-stream")
    for stream, count in ((0, 4), (7, 3)):
        sink = seen.pipeline.get_by_name(f"f{stream}")
        for number in range(count):
            sample = sink.emit("try-pull-sample", 10 * Gst.SECOND)
            assert sample is not None
            buffer, caps = sample.get_buffer(), sample.get_caps()
            assert buffer.pts == 40 * number + stream
            (frame,) = BatchMeta.of(buffer).frames
            assert (frame.pad_index, frame.batch_id) == (stream, 0)
            surfaces = SurfaceBatch.of(buffer, caps)
            assert (len(surfaces), surfaces.capacity) == (1, 1)
            assert (surfaces[0].host_plane(0) == stream + 1).all()
            index = 1 if stream == 0 and number < 3 else 0
            assert surfaces[0].planes == SurfaceBatch.of(made.alive[number])[index].planes
            assert caps.is_subset(Gst.Caps.from_string("video/x-raw(memory:NVMM),format=NV12,width=64,batch-size=1"))
        assert sink.emit("try-pull-sample", 10 * Gst.SECOND) is None
        assert sink.get_property("eos")
    assert counters.copies() == copies


def test_a_slice_holds_the_foreign_batch_until_it_is_gone() -> None:
    made = ForeignBatches()
    foreign = made.make([0, 1], 5)
    address, before = gstref.address(foreign), gstref.refcount(gstref.address(foreign))
    slices = [frame_buffer(foreign, index) for index in (0, 1)]
    assert gstref.refcount(address) == before + 2
    assert [one.pts for one in slices] == [5, 5]
    assert [BatchMeta.of(one) for one in slices] == [None, None]
    del slices
    assert gstref.refcount(address) == before
    for index in (-1, 2):
        with pytest.raises(ContractError, match=f"surface {index}"):
            frame_buffer(foreign, index)
    with pytest.raises(ContractError, match="NvBufSurface"):
        frame_buffer(Gst.Buffer.new_wrapped(bytes(8)), 0)


def restoring_fails(frame: FrameMeta, _copy: FrameMeta) -> None:
    if frame.pad_index == 1:
        raise ContractError("the links are damaged")


@pytest.mark.parametrize(("index", "said"), [(2, "surface 2"), (1, "the links are damaged")])
def test_a_batch_that_cannot_be_taken_apart_leaves_no_metadata(
    monkeypatch: pytest.MonkeyPatch, index: int, said: str
) -> None:
    """The second frame has no surface, or its copy fails half-way; the first is copied by then."""
    owner, alive, made = provider(), set(), ForeignBatches()
    foreign = made.make([0, 1], 5)
    with Lease() as lease:
        BatchMeta.of(foreign, lease).frames[1].batch_id = index
    create, destroy = owner.create_batch, owner.destroy_batch

    def created(frames: int) -> int:
        alive.add(batch := create(frames))
        return batch

    def destroyed(batch: int) -> None:
        alive.remove(batch)
        destroy(batch)

    monkeypatch.setattr(owner, "create_batch", created)
    monkeypatch.setattr(owner, "destroy_batch", destroyed)
    monkeypatch.setattr(demux_frames, "_restore_links", restoring_fails)
    with pytest.raises(ContractError, match=said):
        demux_frames.split(gstref.address(foreign), lambda _stream: True, lambda _stream: None)
    assert not alive
    (part,) = demux_frames.split(gstref.address(foreign), lambda stream: stream == 0, lambda _stream: None)
    assert alive == {part.meta}
    demux_frames.discard(part)
    assert not alive


def test_a_batch_of_batches_is_cut_into_single_surfaces() -> None:
    made = ForeignBatches()
    outer = make_batch([(made.make([0, 1], 0), None), (made.make([2], 0), None)], 4)
    shades = [int(SurfaceBatch.of(frame_buffer(outer, index))[0].host_plane(0)[0, 0]) for index in range(3)]
    assert shades == [1, 2, 3]
    assert all(len(SurfaceBatch.of(frame_buffer(outer, index))) == 1 for index in range(3))


def test_what_a_demuxer_gave_can_be_batched_and_taken_apart_again(watch: Callable[[str], Watch]) -> None:
    seen = watch(
        line([6, 4], outputs=[])
        + "d.src_0 ! queue ! n.sink_1 d.src_1 ! queue ! n.sink_0 sluicemux name=n batch-size=2 ! sluicedemux name=e "
        "e.src_0 ! queue ! fakesink name=f0 async=false e.src_1 ! queue ! fakesink name=f1 async=false"
    )
    copies = counters.copies()
    streams: set[tuple[int, int]] = set()
    seen.look = lambda stream, frame: streams.add((stream, frame.pad_index))
    seen.run()
    assert streams == {(0, 0), (1, 1)}
    assert seen.outgoing == {0: seen.incoming[1], 1: seen.incoming[0]}
    assert counters.copies() == copies
