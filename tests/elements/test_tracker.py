"""sluicetracker: fields written, streams apart, discontinuities, frames without inference, and what is refused."""

import ctypes
import gc

import gi
import numpy as np
import pytest

from elements.batch_feed import HEIGHT, NONE, WIDTH, Feed, Given, Gst, make_buffer, objects, texts

gi.require_version("GLib", "2.0")
from gi.repository import GLib

from playing import stats_of
from sluice.contract import gstref
from sluice.contract.layout import layout
from sluice.contract.metadata import UNTRACKED, BatchMeta, Lease
from sluice.elements import events
from sluice.elements.tracker_setup import parse_class_ids
from waiting import until

PERSON = [10.0, 8.0, 20.0, 30.0, 0.875]


def stats(feed, name="t"):
    return stats_of(feed.get(name))


def ids(buffer, frame=0):
    return objects(buffer, frame).object_id.tolist()


def test_an_object_is_removed_until_its_track_is_confirmed_and_then_has_an_id():
    with Feed("sluicetracker name=t") as feed:
        assert ids(feed.push(Given([PERSON]))) == []
        assert ids(feed.push(Given([PERSON], number=1))) == [0]
        assert stats(feed) == {
            "frames": 2,
            "tracked": 1,
            "predicted": 0,
            "removed": 1,
            "embeddings": 0,
            "jumps": 0,
            "tracks": 1,
            "streams": 1,
        }


def test_every_field_that_nvtracker_writes():
    over_the_edge = [-5.0, 40.0, 30.0, 20.0, 0.75]
    with Feed("sluicetracker") as feed:
        feed.push(Given([PERSON, over_the_edge]))
        buffer = feed.push(Given([PERSON, over_the_edge], number=1))
    found = objects(buffer)
    assert found.object_id.tolist() == [0, 1]
    assert found.boxes.tolist() == [[10, 8, 20, 30], [0, 40, 25, HEIGHT - 40]]
    assert found.tracker_boxes.tolist() == [PERSON[:4], over_the_edge[:4]]
    assert found.detector_boxes.tolist() == [PERSON[:4], over_the_edge[:4]]
    assert found.tracker_confidence.tolist() == found.confidence.tolist() == [0.875, 0.75]
    assert found.labels == ["person", "person"]
    assert found.unique_component_id.tolist() == [3, 3]
    assert texts(buffer) == [("person 0", 10, 0), ("person 1", 0, 20)]
    with Lease() as lease:
        frame = BatchMeta.of(buffer, lease).frames[0]
        text = frame.objects[0].text
        assert (text.font_name, text.font_size, text.set_bg_clr) == ("Serif", 10, True)
        assert frame.infer_done


def test_the_text_stays_when_ids_are_not_to_be_shown():
    with Feed("sluicetracker display-tracking-id=false") as feed:
        feed.push(Given([PERSON]))
        assert texts(feed.push(Given([PERSON]))) == [("person", 10, 0)]


def test_unconfirmed_objects_can_be_kept_without_an_id():
    with Feed("sluicetracker keep-unconfirmed=true") as feed:
        buffer = feed.push(Given([PERSON]))
    assert ids(buffer) == [UNTRACKED]
    assert texts(buffer) == [("person", 10, 0)]


def test_a_tracked_object_outside_the_frame_is_removed_in_any_case():
    outside = [WIDTH + 1.0, 0.0, 10.0, 10.0, 0.9]
    with Feed("sluicetracker keep-unconfirmed=true") as feed:
        feed.push(Given([outside]))
        assert len(objects(feed.push(Given([outside])))) == 0


def test_a_rotated_box_keeps_its_shape_at_the_edge():
    box = [-5.0, 10.0, 30.0, 10.0, 0.9]
    with Feed("sluicetracker") as feed:
        feed.push(Given([box], rotation=[30.0]))
        found = objects(feed.push(Given([box], rotation=[30.0])))
    assert found.boxes.tolist() == [box[:4]]
    assert found.rotation.tolist() == [30.0]


def test_streams_in_one_batch_are_apart_and_frames_of_one_stream_are_in_order():
    first = [Given([PERSON], stream=0, number=0), Given([PERSON], stream=1), Given([PERSON], stream=0, number=1)]
    with Feed("sluicetracker name=t") as feed:
        buffer = feed.push(*first)
        assert [ids(buffer, frame) for frame in range(3)] == [[], [], [0]]
        buffer = feed.push(Given([PERSON], stream=1), Given([PERSON], stream=0, number=2))
        assert [ids(buffer, frame) for frame in range(2)] == [[0], [0]]
        assert stats(feed)["streams"] == 2


def test_ids_can_be_unique_over_all_streams():
    with Feed("sluicetracker global-ids=true") as feed:
        feed.push(Given([PERSON], stream=0), Given([PERSON], stream=3))
        buffer = feed.push(Given([PERSON], stream=0), Given([PERSON], stream=3))
    assert [ids(buffer, frame) for frame in range(2)] == [[0], [3 << 32]]


def test_other_classes_are_left_alone():
    two = [PERSON, [40.0, 5.0, 10.0, 10.0, 0.9]]
    with Feed("sluicetracker operate-on-class-ids=2;5;") as feed:
        feed.push(Given(two, class_ids=[0, 2]))
        buffer = feed.push(Given(two, class_ids=[0, 2]))
    assert ids(buffer) == [UNTRACKED, 0]
    assert texts(buffer)[0] == ("person", 10, 0)


def test_a_frame_that_the_model_did_not_see_gets_the_tracks_and_does_not_age_them():
    with Feed("sluicetracker name=t tracker-options=lost_track_buffer=1") as feed:
        feed.push(Given([PERSON], number=0))
        feed.push(Given([PERSON], number=1))
        for number in range(2, 8):
            buffer = feed.push(Given(number=number, seen=False))
            found = objects(buffer)
            assert found.object_id.tolist() == [0]
            assert found.confidence.tolist() == pytest.approx([-0.1])
            assert found.boxes.tolist() == [pytest.approx(PERSON[:4], abs=0.5)]
            assert found.tracker_boxes.tolist() == [pytest.approx(PERSON[:4], abs=0.5)]
            assert found.detector_boxes.tolist() == [[0, 0, 0, 0]]
            assert found.tracker_confidence.tolist() == [0.875]
            assert found.unique_component_id.tolist() == [3]
            assert found.labels == ["person"]
            assert texts(buffer) == [("person 0", 10, 0)]
        assert ids(feed.push(Given([PERSON], number=8))) == [0]
        assert stats(feed)["predicted"] == 6


def test_objects_of_a_detector_that_does_not_set_infer_done_are_tracked():
    with Feed("sluicetracker") as feed:
        feed.push(Given([PERSON], seen=False))
        assert ids(feed.push(Given([PERSON], seen=False))) == [0]


def test_empty_frames_and_batches_go_through():
    with Feed("sluicetracker name=t") as feed:
        feed.push(Given())
        feed.push()
        assert len(objects(feed.push(Given()))) == 0
        assert stats(feed)["frames"] == 2


def test_the_buffer_and_its_metadata_are_not_copied():
    seen = []

    def note(pad, info):
        with Lease() as lease:
            batch = BatchMeta.of(info.get_buffer(), lease).address
        seen.append((gstref.address(info.get_buffer()), batch))
        return Gst.PadProbeReturn.OK

    with Feed("tee name=tee tee. ! fakesink async=false tee. ! sluicetracker name=t") as feed:
        for name in ("sink", "src"):
            feed.get("t").get_static_pad(name).add_probe(Gst.PadProbeType.BUFFER, note)
        feed.push(Given([PERSON]))
    assert len(seen) == 2
    assert seen[0] == seen[1]


def confirmed(feed, start=0, **options):
    feed.push(Given([PERSON], number=start, **options))
    return ids(feed.push(Given([PERSON], number=start + 1, **options)))


def test_a_jump_back_in_time_ends_the_tracks_of_that_stream_only():
    with Feed("sluicetracker name=t") as feed:
        for number in range(2):
            feed.push(Given([PERSON], pts=1000 + number), Given([PERSON], stream=1, pts=number))
        buffer = feed.push(Given([PERSON], pts=5), Given([PERSON], stream=1, pts=9))
        assert [ids(buffer, frame) for frame in range(2)] == [[], [0]]
        assert stats(feed)["jumps"] == 1


@pytest.mark.parametrize(
    ("mode", "event", "expected"),
    [
        (1, events.stream_reset, 1),
        (2, events.stream_reset, 0),
        (1, events.stream_eos, 1),
        (2, events.stream_eos, 0),
        (0, events.pad_deleted, 0),
    ],
)
def test_stream_events_end_tracks_as_the_reset_mode_says(mode, event, expected):
    with Feed(f"sluicetracker tracking-id-reset-mode={mode}") as feed:
        assert confirmed(feed) == [0]
        sent = event(0)
        feed.event(sent)
        feed.event(event(1))
        assert confirmed(feed) == [expected]
        # A repeated sticky event is no new one.
        feed.event(sent)
        assert ids(feed.push(Given([PERSON]))) == [expected]


def test_an_ended_stream_is_freed_while_others_go_on():
    with Feed("sluicetracker name=t") as feed:
        feed.push(Given([PERSON]), Given([PERSON], stream=1))
        feed.event(events.stream_eos(0))
        feed.push(Given([PERSON], stream=1))
        assert stats(feed)["streams"] == 1


def test_a_flush_and_the_end_free_everything():
    with Feed("sluicetracker name=t") as feed:
        assert confirmed(feed) == [0]
        pad = feed.get("t").get_static_pad("sink")
        pad.send_event(Gst.Event.new_flush_start())
        pad.send_event(Gst.Event.new_flush_stop(False))
        assert stats(feed)["streams"] == 0
        segment = Gst.Segment()
        segment.init(Gst.Format.TIME)
        feed.event(Gst.Event.new_segment(segment))
        feed.push(Given([PERSON]))
        assert feed.end().type == Gst.MessageType.EOS
        assert stats(feed)["streams"] == 0


@pytest.mark.parametrize("algorithm", ["sort", "ocsort", "cbiou", "botsort", "mcbyte"])
def test_every_algorithm_follows_an_object(algorithm):
    with Feed(f"sluicetracker algorithm={algorithm} tracker-options=minimum_consecutive_frames=2") as feed:
        for number in range(5):
            buffer = feed.push(Given([PERSON], number=number))
    assert ids(buffer) == [0]


def test_an_algorithm_that_reads_pixels_leaves_the_memory_unshared():
    counts = []
    for algorithm in ("sort", "botsort", "mcbyte"):
        with Feed(f"sluicetracker algorithm={algorithm}") as feed:
            counts.append(feed.push(Given([PERSON])).peek_memory(0).mini_object.refcount)
    assert counts[1:] == counts[:1] * 2


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ("algorithm=fairmot", "algorithm 'fairmot' is not known; there are: bytetrack"),
        ("algorithm=sort tracker-options=speed=3", "sort has no option 'speed'"),
        ("tracker-options=lost_track_buffer=-1", "lost_track_buffer must be greater than or equal to 0"),
        ("operate-on-class-ids=0;car", "operate-on-class-ids holds 'car'; class ids such as 0;2"),
        ("ll-config-file=none.yml", "ll-config-file none.yml cannot be read: No such file"),
        ("ll-config-file=a.yml;b.yml", "ll-config-file names 2 files, one per sub-batch"),
        ("ll-lib-file=/opt/lib.so", "ll-lib-file is /opt/lib.so, but low-level trackers are not loaded here"),
        ("implementation=fast", "implementation is 'fast'; right are auto, batched, library"),
        ("algorithm=cbiou implementation=batched", "implementation=batched: cbiou"),
        ("algorithm=iou implementation=library", "implementation=library: the trackers library has no iou"),
        ("algorithm=cbiou output-shadow-tracks=true", "need a batched algorithm, which cbiou"),
        ("algorithm=deepsort tracker-options=minimum_appearance_similarity=2", "minimum_appearance_similarity must be"),
    ],
)
def test_wrong_properties_are_refused_by_name(properties, words):
    error = Feed(f"sluicetracker {properties}").refusal()
    assert words in error.message
    assert error.matches(Gst.LibraryError.quark(), Gst.LibraryError.SETTINGS)


def test_a_buffer_without_metadata_is_an_error_that_says_what_is_missing():
    with Feed("sluicetracker") as feed:
        from elements.batch_feed import grey
        from sluice.contract import batching

        feed.source.push_buffer(batching.make_batch([grey()], 1))
        assert "sluicemux or sluiceinfer must stand before sluicetracker" in feed.error(10)


def test_an_error_tells_the_stream_and_the_frame(monkeypatch):
    from sluice.tracking import StreamTracker

    def fail(*_, **__):
        raise RuntimeError("no more")

    monkeypatch.setattr(StreamTracker, "begin_frame", fail)
    with Feed("sluicetracker") as feed:
        feed.send(Given([PERSON], stream=4, number=17))
        message = feed.message(Gst.MessageType.ERROR)
    assert message.parse_error()[0].message == "stream 4, frame 17: RuntimeError: no more"
    assert "Traceback" in message.parse_error()[1]


def test_class_ids_are_read_as_nvtracker_reads_them():
    assert parse_class_ids("") == frozenset()
    assert parse_class_ids("0; 2;5;") == {0, 2, 5}


def test_a_stopped_tracker_starts_anew():
    with Feed("sluicetracker name=t") as feed:
        assert confirmed(feed) == [0]
        feed.pipeline.set_state(Gst.State.NULL)
        feed.pipeline.set_state(Gst.State.PLAYING)
        assert confirmed(feed) == [0]


def test_properties_have_the_defaults_of_nvtracker():
    element = Feed("sluicetracker name=t").get("t")
    assert element.get_property("tracker-width") == 960
    assert element.get_property("tracker-height") == 544
    assert element.get_property("tracking-id-reset-mode") == 1
    assert element.get_property("display-tracking-id") is True
    assert element.get_property("gpu-id") == 0
    assert GLib.MAXUINT32 > element.find_property("tracking-id-reset-mode").maximum == 3
    assert np.uint64(NONE) == np.uint64(UNTRACKED)


@pytest.mark.parametrize(
    "element", ["sluicetracker", "sluicemsgconv", "sluicemsgconv ! sluicemsgbroker location=/dev/null"]
)
def test_no_reference_to_the_buffer_is_left_when_it_goes_on(element):
    counts = []

    def note(pad, info):
        counts.append(gstref.refcount(gstref.address(info.get_buffer())))
        return Gst.PadProbeReturn.OK

    with Feed(f"identity name=before ! {element} ! identity name=behind") as feed:
        feed.get("before").get_static_pad("src").add_probe(Gst.PadProbeType.BUFFER, note)
        feed.get("behind").get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, note)
        for _ in range(20):
            feed.push(Given([PERSON]))
    assert len(counts) == 40
    assert counts[0::2] == counts[1::2]


def test_elements_are_finalised_after_use(tmp_path):
    gone = []

    def use():
        chain = f"sluicetracker name=t ! sluicemsgconv name=c ! sluicemsgbroker name=b location={tmp_path / 'm'}"
        with Feed(chain) as feed:
            feed.push(Given([PERSON]))
            feed.end()
            for name in "tcb":
                feed.get(name).weak_ref(gone.append, name)

    use()
    until(lambda: gc.collect() >= 0 and sorted(gone) == ["b", "c", "t"])


@pytest.mark.parametrize("algorithm", ["sort", "bytetrack", "iou", "deepsort", "ocsort", "botsort", "cbiou", "mcbyte"])
@pytest.mark.parametrize("member", ["rect_params.left", "rect_params.width", "confidence"])
def test_no_number_that_another_library_wrote_ends_the_stream(algorithm, member):
    with Feed(f"sluicetracker algorithm={algorithm} keep-unconfirmed=true") as feed:
        for number, value in enumerate([np.inf, -np.inf, np.nan, 3e38, -3e38, 1e20, 0.0, -7.0]):
            buffer = make_buffer([Given([PERSON, PERSON], number=number)])
            with Lease() as lease:
                item = BatchMeta.of(buffer, lease).frames[0].objects[0]
                place = item.address + layout().offset(f"NvDsObjectMeta.{member}")
                ctypes.c_float.from_address(place).value = value
            held = [buffer]
            del buffer
            feed.give(held)
            assert feed.sink.try_pull_sample(10 * Gst.SECOND) is not None, (value, feed.error())
        for number in range(8, 12):
            buffer = feed.push(Given([PERSON], number=number))
    assert ids(buffer) != [UNTRACKED]
