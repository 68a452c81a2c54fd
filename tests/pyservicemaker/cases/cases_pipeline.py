"""Programs as people write them for NVIDIA's package, on real pipelines."""

import gc
import weakref

import gi
import numpy as np
import pytest

gi.require_version("Gst", "1.0")
gi.require_version("GstBase", "1.0")
from gi.repository import Gst, GstBase

from sluice.contract import gstref
from sluice.contract.batching import SURFACE_FEATURE
from sluice.pyservicemaker import (
    ApiError,
    BatchMetadataOperator,
    Buffer,
    BufferObserver,
    BufferOperator,
    Probe,
    StaleBufferError,
    osd,
)

SOURCE = "videotestsrc num-buffers={n} pattern=black ! video/x-raw,format=RGB,width=64,height=48,framerate=25/1"
ONE = f"{SOURCE} ! sluicemux batch-size=1 ! identity name=a ! identity name=b ! fakesink name=sink"
TWO = (
    f"sluicemux name=m batch-size=2 ! identity name=a ! identity name=b ! sluiceosd ! identity name=c ! fakesink "
    f"{SOURCE} ! m.sink_0 {SOURCE.replace('black', 'white')} ! m.sink_1"
)


class Detector(BatchMetadataOperator):
    """Appends one car and its plate to every frame, and marks the frame as seen."""

    def handle_metadata(self, batch_meta):
        for frame_meta in batch_meta.frame_items:
            car, plate = batch_meta.acquire_object_meta(), batch_meta.acquire_object_meta()
            for object_meta, label, box in ((car, "car", (10, 8, 30, 20)), (plate, "plate", (20, 20, 8, 4))):
                object_meta.class_id, object_meta.label, object_meta.confidence = 0, label, 0.9
                object_meta.unique_component_id = 1
                rect = object_meta.rect_params
                rect.left, rect.top, rect.width, rect.height = box
                rect.border_width, rect.border_color = 2, osd.Color(1.0, 0.0, 0.0, 1.0)
            plate.parent = car
            user_meta = batch_meta.acquire_user_meta()
            user_meta.set_user_data_json({"frame": frame_meta.frame_number, "source": frame_meta.source_id}, 9000)
            car.append(user_meta)
            frame_meta.append(car)
            frame_meta.append(plate)
            frame_meta.infer_done = True


class ObjectCounter(BatchMetadataOperator):
    """Counts objects by label and writes the number on the frame."""

    def __init__(self):
        super().__init__()
        self.counts, self.notes = {}, []

    def handle_metadata(self, batch_meta):
        for frame_meta in batch_meta.frame_items:
            cars = 0
            for object_meta in frame_meta.object_items:
                self.counts[object_meta.label] = self.counts.get(object_meta.label, 0) + 1
                cars += object_meta.label == "car"
                self.notes += [user.get_user_data_json() for user in object_meta.user_meta_items(9000)]
            display_meta = batch_meta.acquire_display_meta()
            text = osd.Text()
            text.display_text = f"cars={cars}".encode()
            text.x_offset, text.y_offset = 1, max(0, 30)
            text.font.name, text.font.size = osd.FontFamily.Serif, 8
            text.font.color = osd.Color(0.0, 1.0, 0.0, 1.0)
            text.set_bg_color, text.bg_color = True, osd.Color(0.0, 0.0, 1.0, 1.0)
            display_meta.add_text(text)
            circle = osd.Circle()
            circle.xc, circle.yc, circle.radius = 54, 38, 6
            circle.has_bg_color, circle.bg_color = 1, osd.Color(0.0, 1.0, 0.0, 1.0)
            display_meta.add_circle(circle)
            frame_meta.append(display_meta)


class Pictures(BufferOperator):
    """Keeps a copy of each frame's pixels, by source."""

    def __init__(self):
        super().__init__()
        self.pictures = {}

    def handle_buffer(self, buffer):
        for frame_meta in buffer.batch_meta.frame_items:
            tensor = buffer.extract(frame_meta.batch_id)
            if tensor:
                self.pictures.setdefault(frame_meta.pad_index, []).append(np.from_dlpack(tensor.clone()))
        return True


def test_objects_are_appended_counted_and_drawn(play):
    counter, pictures = ObjectCounter(), Pictures()

    def prepare(pipeline):
        Probe("detector", Detector()).attach(pipeline.get_by_name("a"))
        Probe("counter", counter).attach(pipeline.get_by_name("b"), tips="src")
        Probe("pictures", pictures).attach(pipeline.get_by_name("c"))

    assert play(TWO.format(n=5), prepare) is None
    assert counter.counts == {"car": 10, "plate": 10}
    assert sorted((note["source"], note["frame"]) for note in counter.notes) == [
        (s, f) for s in (0, 1) for f in range(5)
    ]
    for source, background in ((0, 0), (1, 255)):
        assert len(pictures.pictures[source]) == 5
        for picture in pictures.pictures[source]:
            assert picture.shape == (48, 64, 3)
            assert picture[18, 10].tolist() == [255, 0, 0]
            assert picture[14, 25].tolist() == [background] * 3
            assert picture[38, 54].tolist() == [0, 255, 0]
            assert (picture[30:45, 1:30] == [0, 0, 255]).all(axis=2).any()


def test_a_probe_leaves_the_buffer_alone(play):
    seen = []

    def at(place):
        def note(_pad, info):
            address = gstref.buffer_address(info.get_buffer())
            seen.append((place, address, gstref.refcount(address)))
            return Gst.PadProbeReturn.OK

        return note

    def prepare(pipeline):
        a, b = pipeline.get_by_name("a"), pipeline.get_by_name("b")
        a.get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, at("before"))
        Probe("detector", Detector()).attach(a)
        Probe("pictures", Pictures()).attach(a)
        b.get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, at("after"))

    assert play(ONE.format(n=3), prepare) is None
    assert [place for place, _, _ in seen] == ["before", "after"] * 3
    assert [count for _, _, count in seen] == [1] * 6
    assert [seen[i][1] for i in (0, 2, 4)] == [seen[i][1] for i in (1, 3, 5)]


class Sparse(BufferOperator):
    """Drops every second buffer, in one of two ways."""

    def __init__(self, refusal):
        super().__init__()
        self.refusal, self.count = refusal, 0

    def handle_buffer(self, buffer):
        self.count += 1
        return True if self.count % 2 else self.refusal


class Watcher(BufferObserver):
    """Writes down timestamps."""

    def __init__(self):
        super().__init__()
        self.timestamps, self.last = [], None

    def handle_buffer(self, buffer):
        self.timestamps.append(buffer.timestamp // Gst.MSECOND)
        self.last = buffer


@pytest.mark.parametrize("refusal", [False, None])
def test_a_buffer_operator_drops_and_an_observer_does_not(play, refusal):
    watcher = Watcher()

    def prepare(pipeline):
        Probe("sparse", Sparse(refusal)).attach(pipeline.get_by_name("a"))
        Probe("watcher", watcher).attach(pipeline.get_by_name("sink"))

    assert play(ONE.format(n=6), prepare) is None
    assert watcher.timestamps == [0, 80, 160]
    with pytest.raises(StaleBufferError):
        _ = watcher.last.timestamp


class Broken(BatchMetadataOperator):
    """Raises on the third buffer."""

    count = 0

    def handle_metadata(self, batch_meta):
        self.count += 1
        if self.count == 3:
            raise KeyError("no such camera")


@pytest.mark.parametrize(
    ("operator", "reason"),
    [
        (Broken(), "no such camera"),
        (BufferOperator(), "no handle_buffer"),
        (BatchMetadataOperator(), "handle_metadata"),
    ],
)
def test_an_exception_in_an_operator_is_an_error_of_the_pipeline(play, operator, reason):
    watcher = Watcher()

    def prepare(pipeline):
        Probe("broken", operator).attach(pipeline.get_by_name("a"))
        Probe("watcher", watcher).attach(pipeline.get_by_name("b"))

    error, details = play(ONE.format(n=100), prepare)
    assert reason in error.message
    assert "Traceback" in details
    assert len(watcher.timestamps) == (2 if isinstance(operator, Broken) else 0)


def test_a_metadata_operator_sees_only_buffers_with_metadata(play):
    broken = Broken()
    line = SOURCE.format(n=5) + " ! identity name=a ! fakesink"
    assert play(line, lambda pipeline: Probe("p", broken).attach(pipeline.get_by_name("a"))) is None
    assert broken.count == 0


def test_where_a_probe_can_be_attached(play):
    watchers = [Watcher() for _ in range(4)]

    def prepare(pipeline):
        a = pipeline.get_by_name("a")
        Probe("element", watchers[0]).attach(a)
        Probe("pad", watchers[1]).attach(a.get_static_pad("sink"))
        Probe("named", watchers[2]).attach(a, "sink")
        a.get_static_pad("src").add_probe(Gst.PadProbeType.BUFFER, Probe("function", watchers[3]))
        detached = Probe("detached", Broken()).attach(a)
        detached.detach()
        with pytest.raises(ApiError, match="no pad nosuch"):
            Probe("x", Watcher()).attach(a, "nosuch")
        with pytest.raises(ApiError, match="attached already"):
            detached.attach(a)
        with pytest.raises(TypeError, match=r"Gst\.Element"):
            Probe("x", Watcher()).attach("a")
        with pytest.raises(TypeError, match="BatchMetadataOperator"):
            Probe("x", prepare)

    assert play(ONE.format(n=5), prepare) is None
    assert [len(watcher.timestamps) for watcher in watchers] == [5, 5, 5, 5]


def test_elements_and_operators_are_finalised_after_use(play):
    gone = []
    operators = []

    def prepare(pipeline):
        element, operator = pipeline.get_by_name("a"), Detector()
        element.weak_ref(gone.append, "element")
        operators.append(weakref.ref(operator))
        Probe("detector", operator).attach(element)

    assert play(ONE.format(n=3), prepare) is None
    gc.collect()
    assert gone == ["element"]
    assert operators[0]() is None


class SampleFrames(GstBase.BaseTransform):
    """An element that samples frames, written as such elements are written for NVIDIA's package."""

    __gstmetadata__ = ("Samples frames", "Filter/Video", "Keeps copies of frames", "The Sluice developers")
    CAPS = Gst.Caps.from_string(f"video/x-raw({SURFACE_FEATURE})")
    __gsttemplates__ = (
        Gst.PadTemplate.new("sink", Gst.PadDirection.SINK, Gst.PadPresence.ALWAYS, CAPS),
        Gst.PadTemplate.new("src", Gst.PadDirection.SRC, Gst.PadPresence.ALWAYS, CAPS),
    )
    kept: list = []  # noqa: RUF012 - the test reads it after the element is gone

    def do_transform_ip(self, gst_buffer):
        buffer = Buffer(gst_buffer)
        batch_meta = buffer.batch_meta
        if batch_meta.n_frames == 0:
            return Gst.FlowReturn.OK
        for frame_meta in batch_meta.frame_items:
            tensor = buffer.extract(frame_meta.batch_id)
            frame = np.from_dlpack(tensor)
            if frame.size:
                self.kept.append((frame_meta.pad_index, frame_meta.buffer_pts, frame.copy()))
        return Gst.FlowReturn.OK


def test_an_element_that_wraps_its_buffers_itself(play):
    Gst.Element.register(None, "samplepsmframes", Gst.Rank.NONE, SampleFrames)
    counts = []

    def note(_pad, info):
        counts.append(gstref.refcount(gstref.buffer_address(info.get_buffer())))
        return Gst.PadProbeReturn.OK

    def prepare(pipeline):
        SampleFrames.kept.clear()
        pipeline.get_by_name("b").get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, note)

    line = f"{SOURCE} ! sluicemux batch-size=1 ! samplepsmframes ! identity name=b ! fakesink".format(n=4)
    assert play(line, prepare) is None
    assert [(pad, pts // Gst.MSECOND) for pad, pts, _ in SampleFrames.kept] == [(0, 0), (0, 40), (0, 80), (0, 120)]
    assert all(frame.shape == (48, 64, 3) for _, _, frame in SampleFrames.kept)
    assert counts == [1] * 4


def test_metadata_pass_a_tee_and_queues(play):
    counters = [ObjectCounter(), ObjectCounter()]

    def prepare(pipeline):
        Probe("detector", Detector()).attach(pipeline.get_by_name("a"))
        for name, counter in zip("xy", counters, strict=True):
            Probe(name, counter).attach(pipeline.get_by_name(name))

    line = (
        f"{SOURCE} ! sluicemux batch-size=1 ! identity name=a ! tee name=t ! queue ! identity name=x ! fakesink "
        "t. ! queue ! identity name=y ! fakesink"
    ).format(n=20)
    assert play(line, prepare) is None
    for counter in counters:
        assert counter.counts == {"car": 20, "plate": 20}
        assert [note["frame"] for note in counter.notes] == list(range(20))
