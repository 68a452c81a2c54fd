"""sluiceanalyticsbridge: objects as GStreamer's analytics metadata and back; refused where GStreamer has none."""

import math

import gi
import numpy as np
import pytest

from elements.batch_feed import Feed, Given, Gst, grey, make_buffer
from sluice import elements
from sluice.contract import bulk, gstref
from sluice.contract.metadata import UNTRACKED, BatchMeta, Lease
from sluice.elements.analyticsbridge_frames import upright

gi.require_version("GLib", "2.0")
from gi.repository import GLib

try:
    gi.require_version("GstAnalytics", "1.0")
    from gi.repository import GstAnalytics
except (ValueError, ImportError):
    GstAnalytics = None

needs_analytics = pytest.mark.skipif(GstAnalytics is None, reason="this GStreamer has no GstAnalytics")
ROTATES = GstAnalytics is not None and hasattr(GstAnalytics.RelationMeta, "add_oriented_od_mtd")
RAW = "video/x-raw,format=GRAY8,width=64,height=48,framerate=25/1"
BOX = [10.0, 8.0, 20.0, 30.0, 0.875]


@pytest.fixture(autouse=True)
def registered():
    for name in ("sluiceanalyticsbridge", "sluicemux", "sluicedemux", "sluicetracker"):
        elements.register(name)


@pytest.mark.skipif(GstAnalytics is not None, reason="this GStreamer has GstAnalytics")
def test_an_older_gstreamer_is_named():
    assert "GStreamer 1.24 and newer (Debian 13) have" in Feed("sluiceanalyticsbridge").refusal().message


def test_an_unknown_direction_is_named():
    refusal = Feed("sluiceanalyticsbridge direction=sideways").refusal()
    assert "direction is 'sideways'; there are to-gst, from-gst" in refusal.message


def test_the_upright_box_around_a_rotated_one():
    assert upright((10.0, 20.0, 30.0, 40.0), 90.0) == pytest.approx((5.0, 25.0, 40.0, 30.0))
    assert upright((0.0, 0.0, 10.0, 10.0), -45.0)[2] == pytest.approx(10 * math.sqrt(2))


def described(buffer):
    """Return each detection as name, place, radians, confidence, track and classes."""
    relations = GstAnalytics.buffer_get_analytics_relation_meta(buffer)
    found = []
    for index in range(0 if relations is None else GstAnalytics.relation_get_length(relations)):
        is_detection, detection = relations.get_od_mtd(index)
        if not is_detection:
            continue
        place = (
            tuple(detection.get_oriented_location())[1:] if ROTATES else (*tuple(detection.get_location())[1:5], 0.0)
        )
        track, classes = None, []
        for other in range(GstAnalytics.relation_get_length(relations)):
            if relations.get_relation(index, other) != GstAnalytics.RelTypes.RELATE_TO:
                continue
            is_tracking, tracking = relations.get_tracking_mtd(other)
            if is_tracking:
                track = tuple(tracking.get_info())[1:4]
            is_class, classification = relations.get_cls_mtd(other)
            if is_class:
                classes.append(
                    [
                        (GLib.quark_to_string(classification.get_quark(number)), classification.get_level(number))
                        for number in range(classification.get_length())
                    ]
                )
        confidence = detection.get_confidence_lvl()[1]
        found.append(
            (GLib.quark_to_string(detection.get_obj_type()), place[:4], round(place[4], 5), confidence, track, classes)
        )
    return found


def full():
    """Return one frame with a tracked, classified object and one that only a tracker has."""
    buffer = make_buffer([Given([BOX, [1.4, 2.6, 10.0, 10.0, 0.5]], number=0, pts=0)])
    buffer.pts = 40
    with Lease() as lease:
        frame = BatchMeta.of(buffer, lease).frames[0]
        first, second = frame.objects[::-1]
        first.object_id, first.rotation = 2**40 + 1, 30.0
        classifier = first.add_classifier(2, "color")
        classifier.add_label("red", class_id=3, probability=0.75)
        classifier.add_label("dark", class_id=4, probability=0.25)
        second.confidence, second.label, second.class_id = -0.1, "", 7
    return buffer


@needs_analytics
def test_objects_become_gstreamers_metadata():
    with Feed("sluiceanalyticsbridge name=b direction=to-gst") as feed:
        found = described(feed.pass_on([full()]))
        assert feed.get("b").get_property("stats").get_value("objects") == 2
    place = (10, 8, 20, 30) if ROTATES else tuple(round(value) for value in upright((10.0, 8.0, 20.0, 30.0), 30.0))
    assert found == [
        (
            "person",
            place,
            round(math.radians(30), 5) if ROTATES else 0.0,
            0.875,
            (2**40 + 1, 40, 40),
            [[("red", 0.75), ("dark", 0.25)]],
        ),
        ("class 7", (1, 3, 10, 10), 0.0, 0.0, None, []),
    ]


@needs_analytics
def test_a_track_keeps_its_first_appearance():
    with Feed("sluiceanalyticsbridge direction=to-gst") as feed:
        feed.pass_on([full()])
        later = full()
        later.pts = 80
        held = [later]
        del later
        assert described(feed.pass_on(held))[0][4] == (2**40 + 1, 40, 80)


@needs_analytics
def test_zero_objects_add_nothing():
    with Feed("sluiceanalyticsbridge direction=to-gst") as feed:
        assert GstAnalytics.buffer_get_analytics_relation_meta(feed.pass_on([make_buffer([Given()])])) is None


@needs_analytics
def test_a_shared_buffer_is_left_as_it_is():
    buffer = full()
    with Feed("sluiceanalyticsbridge direction=to-gst") as feed:
        feed.sink.set_property("enable-last-sample", False)
        gstref.ref(gstref.address(buffer))
        feed.give([buffer])
        out = feed.sink.try_pull_sample(10 * Gst.SECOND).get_buffer()
        assert sorted(name for name, *_ in described(out)) == ["class 7", "person"]
    assert described(buffer) == []


@needs_analytics
def test_a_batch_of_many_is_refused_by_name():
    with Feed("sluiceanalyticsbridge direction=to-gst") as feed:
        feed.give([make_buffer([Given(), Given(stream=1)])])
        assert "this buffer carries 2; sluicedemux" in feed.error(10)


def theirs(*, width=64, height=48):
    """Return a raw frame with GStreamer's metadata, as another element leaves it."""
    buffer, _ = grey(width, height)
    relations = GstAnalytics.buffer_add_analytics_relation_meta(buffer)
    car, person = (GLib.quark_from_string(name) for name in ("car", "person"))
    if ROTATES:
        relations.add_oriented_od_mtd(car, 5, 6, 20, 10, math.radians(30), 0.5)
    else:
        relations.add_od_mtd(car, 5, 6, 20, 10, 0.5)
    _, detection = relations.add_od_mtd(person, -4, 30, 20, 40, 0.75)
    relations.add_od_mtd(person, 100, 100, 5, 5, 0.9)
    _, tracking = relations.add_tracking_mtd(2**40, 0)
    _, color = relations.add_cls_mtd([0.25, 0.75], [GLib.quark_from_string("red"), GLib.quark_from_string("blue")])
    relations.set_relation(GstAnalytics.RelTypes.RELATE_TO, detection.id, tracking.id)
    relations.set_relation(GstAnalytics.RelTypes.RELATE_TO, color.id, detection.id)
    return buffer


def check_theirs(buffer, frame_number):
    with Lease() as lease:
        (frame,) = BatchMeta.of(buffer, lease).frames
        assert (frame.frame_num, frame.infer_done) == (frame_number, True)
        rows = bulk.read_objects(frame)
        assert rows.labels == ["person", "car"]
        assert rows.class_id.tolist() == [0, 1]
        assert rows.boxes.tolist() == [[0, 30, 16, 18], [5, 6, 20, 10]]
        np.testing.assert_allclose(rows.rotation, [0, 30 if ROTATES else 0], atol=1e-4)
        assert rows.confidence.tolist() == [0.75, 0.5]
        assert rows.object_id.tolist() == [2**40, UNTRACKED]
        assert rows.unique_component_id.tolist() == [9, 9]
        person, car = frame.objects
        (classifier,) = person.classifiers
        assert [(label.label, label.class_id, label.probability) for label in classifier.labels[::-1]] == [
            ("red", 0, 0.25),
            ("blue", 1, 0.75),
        ]
        assert car.classifiers == []


@needs_analytics
def test_gstreamers_metadata_become_objects_on_single_frames():
    with Feed("sluiceanalyticsbridge direction=from-gst unique-id=9 labels=person;car") as feed:
        feed.source.set_caps(Gst.Caps.from_string(RAW))
        for number in range(2):
            check_theirs(feed.pass_on([theirs()]), number)


@needs_analytics
def test_a_frame_without_their_metadata_has_no_objects():
    with Feed("sluiceanalyticsbridge direction=from-gst") as feed:
        feed.source.set_caps(Gst.Caps.from_string(RAW))
        buffer = feed.pass_on([grey()[0]])
    with Lease() as lease:
        (frame,) = BatchMeta.of(buffer, lease).frames
        assert (frame.objects, frame.infer_done) == ([], True)


@needs_analytics
def test_gstreamers_metadata_become_objects_on_batches():
    description = "sluicemux batch-size=1 ! sluiceanalyticsbridge direction=from-gst unique-id=9 labels=person;car"
    with Feed(description) as feed:
        feed.source.set_caps(Gst.Caps.from_string(RAW))
        buffer = theirs()
        buffer.pts, buffer.duration = 0, 40_000_000
        held = [buffer]
        del buffer
        check_theirs(feed.pass_on(held), 0)


@needs_analytics
def test_frames_that_the_mux_scaled_are_refused_by_name():
    with Feed("sluicemux batch-size=1 width=32 height=24 ! sluiceanalyticsbridge direction=from-gst") as feed:
        feed.source.set_caps(Gst.Caps.from_string(RAW))
        buffer = theirs()
        buffer.pts = 0
        held = [buffer]
        del buffer
        feed.give(held)
        assert "the mux scaled its frames" in feed.error(10)


@needs_analytics
def test_a_frame_without_our_metadata_is_refused_by_name():
    with Feed("sluiceanalyticsbridge direction=to-gst") as feed:
        feed.source.set_caps(Gst.Caps.from_string(RAW))
        feed.give([theirs()])
        assert "this buffer carries 0; sluicedemux" in feed.error(10)


@needs_analytics
@pytest.mark.skipif(Gst.ElementFactory.find("objectdetectionoverlay") is None, reason="no objectdetectionoverlay")
def test_their_overlay_draws_our_objects():
    """Behind sluicemux and sluicedemux, a box that Sluice found is drawn by GStreamer's own element."""
    description = (
        "sluicemux batch-size=1 ! identity name=model ! sluicedemux name=d d.src_0 ! sluiceanalyticsbridge ! "
        "videoconvert ! video/x-raw,format=RGBA ! objectdetectionoverlay draw-labels=false"
    )
    with Feed(description) as feed:
        feed.source.set_caps(Gst.Caps.from_string(RAW))

        def add_object(_pad, info):
            with Lease() as lease:
                frame = BatchMeta.of(info.get_buffer(), lease).frames[0]
                bulk.write_objects(frame, [[20, 10, 20, 20]], [0.9], [0], ["person"], unique_id=1)
            return Gst.PadProbeReturn.OK

        feed.get("model").get_static_pad("src").add_probe(Gst.PadProbeType.BUFFER, add_object)
        buffer, _ = grey()
        buffer.pts, buffer.duration = 0, 40_000_000
        held = [buffer]
        del buffer
        out = feed.pass_on(held)
        done, info = out.map(Gst.MapFlags.READ)
        assert done
        picture = np.frombuffer(bytes(info.data), np.uint8).reshape(48, 64, 4)
        out.unmap(info)
    changed = np.argwhere((picture[:, :, :3] != picture[0, 0, :3]).any(axis=2))
    assert len(changed) > 40
    assert (abs(changed.min(axis=0) - (10, 20)) <= 2).all()
    assert (abs(changed.max(axis=0) - (30, 40)) <= 2).all()
