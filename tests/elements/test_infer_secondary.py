"""sluiceinfer on objects and on regions: what the model is given, and what is written where."""

import gi
import numpy as np
import pytest

from elements import secondary_models
from elements.batch_feed import Feed

gi.require_version("Gst", "1.0")
gi.require_version("GstVideo", "1.0")
from gi.repository import Gst, GstVideo

from sluice.contract import batching, bulk, infer_meta
from sluice.contract.metadata import UNTRACKED, BatchMeta, Lease
from sluice.elements import events, register

Gst.init(None)
WIDTH, HEIGHT = 64, 48
#: left, top, width, height, brightness, class id
CAR, PERSON, TINY = (4, 6, 20, 16, 40, 1), (32, 8, 24, 30, 90, 0), (0, 40, 4, 4, 200, 1)


@pytest.fixture(autouse=True)
def calls():
    secondary_models.CALLS.clear()
    register("sluiceinfer")
    return secondary_models.CALLS


def buffer_of(*frames, ids=None, number=0, unique_id=3, size=(WIDTH, HEIGHT)):
    """A host batch whose frames show the objects given, each a rectangle of its brightness on black.

    Args:
        frames: of each frame of the batch its objects; stream i has the i-th frame.
        ids: of each frame the objects' ids; None for objects that no tracker has seen.
        number: number of the frames.
        unique_id: who detected the objects.
        size: width and height of the pictures.
    """
    width, height = size
    info = GstVideo.VideoInfo.new_from_caps(
        Gst.Caps.from_string(
            f"video/x-raw,format=GRAY8,width={width},height={height},framerate=25/1,colorimetry=1:1:0:0"
        )
    )
    pictures = []
    for items in frames:
        picture = np.zeros((height, width), np.uint8)
        for left, top, across, down, level, _ in items:
            picture[top : top + down, left : left + across] = level
        pictures.append((Gst.Buffer.new_wrapped(picture.tobytes()), info))
    buffer = batching.make_batch(pictures, len(frames))
    with Lease() as lease:
        batch = BatchMeta.attach(buffer, len(frames), lease)
        rows = np.zeros(len(frames), bulk.FRAME_ROW)
        rows["pad_index"] = rows["source_id"] = np.arange(len(frames))
        rows["frame_num"] = number
        bulk.fill_frames(batch, rows)
        for stream, (meta, items) in enumerate(zip(batch.frames, frames, strict=True)):
            table = np.array(items, np.float32).reshape(-1, 6)
            classes = table[:, 5].astype(np.int32)
            labels = [("person", "car")[c] for c in classes]
            addresses = bulk.write_objects(meta, table[:, :4], table[:, 4], classes, labels, unique_id=unique_id)
            if ids is not None:
                boxes = table[:, :4]
                bulk.update_tracked(meta, addresses, ids[stream], boxes, boxes, table[:, 4], show_ids=False)
    return buffer


class Cascade(Feed):
    """``appsrc ! sluiceinfer process-mode=secondary ! appsink``."""

    def __init__(self, model, properties="", mode="process-mode=secondary"):
        super().__init__(
            f"sluiceinfer name=infer unique-id=9 model=elements.secondary_models:{model} {mode} {properties}"
        )

    def run(self, *frames, **options):
        """Push a batch; return its buffer as it came out."""
        self.give([buffer_of(*frames, **options)])
        sample = self.sink.try_pull_sample(10 * Gst.SECOND)
        assert sample is not None, self.error() or "nothing came out"
        return sample.get_buffer()

    def stats(self):
        structure = self.get("infer").get_property("stats")
        return [structure.get_value(name) for name in ("frames", "inferred", "errors", "objects")]


def results(buffer, frame=0):
    """Of each object, in the order of writing: label, classifier results, embeddings."""
    with Lease() as lease:
        return [
            (
                item.label,
                [
                    (c.unique_component_id, c.classifier_type, [(x.class_id, x.label) for x in c.labels])
                    for c in reversed(item.classifiers)
                ],
                [e.features.tolist() for e in infer_meta.embeddings(item)],
            )
            for item in reversed(BatchMeta.of(buffer, lease).frames[frame].objects)
        ]


def level(number, label):
    return (label, [(9, "brightness", [(number, f"level {number}")])], [[number, 1]])


def levels(buffer, frame=0):
    """The brightness that was attached to each object."""
    return [classifiers[0][2][0][0] if classifiers else None for _, classifiers, _ in results(buffer, frame)]


def test_objects_of_all_streams_are_cut_out_and_given_in_one_call(calls):
    with Cascade("Brightness") as cascade:
        buffer = cascade.run([CAR, PERSON], [], [TINY])
        assert cascade.stats() == [3, 3, 0, 0]
    assert calls == [
        [
            (0, 0, (4, 6), (20, 16), 40, (None, "car")),
            (0, 0, (32, 8), (24, 30), 90, (None, "person")),
            (2, 0, (0, 40), (4, 4), 200, (None, "car")),
        ]
    ]
    assert results(buffer) == [level(40, "car"), level(90, "person")]
    assert results(buffer, 1) == []
    assert results(buffer, 2) == [level(200, "car")]


def test_a_batch_size_splits_the_objects_not_the_frames(calls):
    with Cascade("Brightness", "batch-size=2") as cascade:
        buffer = cascade.run([CAR], [PERSON], [TINY])
    assert [len(call) for call in calls] == [2, 1]
    assert [levels(buffer, i) for i in range(3)] == [[40], [90], [200]]


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ("infer-on-class-ids=1", [40, None, 200]),
        ("infer-on-class-ids=0:1", [40, 90, 200]),
        ("infer-on-gie-id=3", [40, 90, 200]),
        ("infer-on-gie-id=4", [None, None, None]),
        ("input-object-min-width=20", [40, 90, None]),
        ("input-object-min-height=17", [None, 90, None]),
        ("input-object-max-width=20", [40, None, 200]),
        ("input-object-max-height=16 infer-on-class-ids=1", [40, None, 200]),
    ],
)
def test_which_objects_the_model_is_given(properties, expected):
    with Cascade("Brightness", properties) as cascade:
        assert levels(cascade.run([CAR, PERSON, TINY])) == expected


def test_an_object_without_an_id_is_inferred_on_every_frame(calls):
    with Cascade("Brightness", "interval=5") as cascade:
        for number in range(3):
            assert levels(cascade.run([CAR], number=number)) == [40]
    assert len(calls) == 3, "interval is for frames"


def test_a_tracked_object_is_classified_once_and_keeps_its_result(calls):
    with Cascade("Brightness") as cascade:
        buffers = [cascade.run([CAR, PERSON], ids=[[5, 6]], number=number) for number in range(4)]
    assert len(calls) == 1
    for buffer in buffers:
        assert results(buffer) == [level(40, "car"), level(90, "person")]


def test_a_tracked_object_is_inferred_again_when_it_grew_and_after_an_interval(calls):
    near = (4, 6, 24, 20, 60, 1)
    with Cascade("Brightness", "secondary-reinfer-interval=3") as cascade:
        found = [levels(cascade.run([CAR], ids=[[5]], number=n)) for n in range(2)]
        found += [levels(cascade.run([near], ids=[[5]], number=n)) for n in range(2, 7)]
    assert found == [[40], [40], [60], [60], [60], [60], [60]]
    assert [call[0][1] for call in calls] == [0, 2, 6]


@pytest.mark.parametrize(
    "event", [events.stream_eos(0), events.pad_deleted(0), events.stream_reset(0)], ids=["eos", "deleted", "reset"]
)
def test_a_stream_that_ended_leaves_no_results_behind(calls, event):
    with Cascade("Brightness") as cascade:
        cascade.run([CAR], [CAR], ids=[[5], [5]])
        cascade.event(event)
        dark = (*CAR[:4], 20, 1)
        buffer = cascade.run([dark], [dark], ids=[[5], [5]], number=1)
    assert (levels(buffer), levels(buffer, 1)) == ([20], [40])


def test_a_detector_sees_every_frame_and_its_boxes_are_children_in_surface_pixels(calls):
    with Cascade("Parts") as cascade:
        for number in range(3):
            buffer = cascade.run([CAR], ids=[[5]], number=number)
    assert len(calls) == 3
    with Lease() as lease:
        frame = BatchMeta.of(buffer, lease).frames[0]
        edge, middle, car = frame.objects
        assert [item.parent for item in (edge, middle, car)] == [car, car, None]
        assert middle.box == middle.detector_box == (9, 10, 5, 4)
        assert edge.box == (14, 6, 30, 16), "what reaches over the part stays; what reaches over the surface is cut"
        assert (middle.label, middle.unique_component_id, middle.object_id) == ("middle", 9, UNTRACKED)
        assert [infer_meta.keypoints(item)[0].points.tolist() for item in (middle, edge)] == [[[5, 8]], [[7, 10]]]


def test_everything_that_is_said_of_an_object_is_written_to_it():
    with Cascade("Everything") as cascade:
        buffer = cascade.run([CAR])
    with Lease() as lease:
        frame = BatchMeta.of(buffer, lease).frames[0]
        (car,) = frame.objects
        assert {c.classifier_type: c.labels[0].label for c in car.classifiers} == {None: "one", "text": "B-XY 1"}
        assert infer_meta.embeddings(car)[0].features.tolist() == [1, 2, 3]
        assert infer_meta.keypoints(car)[0].points.tolist() == [[5, 8, 0.5]]
        assert infer_meta.segmentations(car)[0].class_map.tolist() == [[1, 0], [0, 1]]
        assert frame.user_metas == []


def test_raw_outputs_of_a_tracked_object_are_those_of_every_frame(calls):
    with Cascade("Raw") as cascade:
        buffers = [cascade.run([CAR], ids=[[5]], number=number) for number in range(3)]
    assert len(calls) == 3
    for buffer in buffers:
        with Lease() as lease:
            ((component, layers),) = infer_meta.outputs(BatchMeta.of(buffer, lease).frames[0].objects[0])
        assert (component, layers["out"].tolist()) == (9, [0, 1, 2])


def test_a_model_behind_sees_what_the_models_before_it_said(calls):
    told = "sluiceinfer process-mode=secondary model=elements.secondary_models:Told"
    with Cascade("Everything", f"! {told}") as cascade:
        cascade.run([CAR])
    assert calls[-1] == [({"": "one", "text": "B-XY 1"}, [1, 2, 3], [[5, 8, 0.5]])]


def test_frames_without_objects_pass_without_a_call(calls):
    with Cascade("Brightness") as cascade:
        for number in range(3):
            cascade.run([], [], number=number)
        assert cascade.stats() == [6, 0, 0, 0]
    assert calls == []


def test_objects_on_which_the_model_failed_are_inferred_again(calls):
    with Cascade("Failing", "on-error=skip") as cascade:
        found = [levels(cascade.run([CAR, (*PERSON[:4], 180, 0)], ids=[[5, 6]], number=n)) for n in range(3)]
        assert cascade.stats() == [3, 2, 1, 0]
        warning = cascade.message(Gst.MessageType.WARNING)
    assert found == [[40, None], [40, 180], [40, 180]]
    assert warning is not None
    assert "too bright" in warning.parse_warning()[0].message


def test_a_failure_names_stream_and_frame():
    with Cascade("Failing") as cascade:
        cascade.give([buffer_of([CAR], [(*PERSON[:4], 180, 0)], ids=[[5], [6]], number=7)])
        message = cascade.message(Gst.MessageType.ERROR)
    assert message is not None
    assert "too bright" in message.parse_error()[0].message
    details = message.parse_error_details()
    assert (details.get_value("stream"), details.get_value("frame")) == (1, 7)


def test_buffers_do_not_wait_for_a_model_that_classifies_asynchronously(calls):
    with Cascade("Slow", "classifier-async-mode=true") as cascade:
        first = cascade.run([CAR, PERSON], ids=[[5, UNTRACKED]])
        assert levels(first) == [None, None]
        number = 0
        while (found := levels(cascade.run([CAR, PERSON], ids=[[5, UNTRACKED]], number=(number := number + 1)))) == [
            None,
            None,
        ]:
            assert number < 10_000
    assert found == [40, None], "an object without an id is passed over"
    assert [len(call) for call in calls] == [1]


def test_a_new_model_is_tried_on_objects_and_asked_about_those_that_the_old_one_knew(calls):
    with Cascade("Brightness") as cascade:
        cascade.run([CAR], ids=[[5]])
        cascade.get("infer").set_property("model", "elements.secondary_models:Named")
        found = []
        for number in range(1, 10_000):
            found.append(results(cascade.run([CAR], ids=[[5]], number=number))[0][1][0])
            if found[-1][1] == "named":
                break
        last = results(cascade.run([CAR], ids=[[5]], number=number + 1))
    assert set(map(repr, found[:-1])) <= {repr((9, "brightness", [(40, "level 40")]))}
    assert last == [("car", [(9, "named", [(1, "car")])], [])]


def regions(text, model="Parts"):
    return Cascade(model, f'roi-params="{text}" iou-threshold=0.3', mode="")


def test_the_model_is_given_regions_in_place_of_the_frame(calls):
    with regions("0=0;0;32;48;32;0;32;48,1=10;20;9.5;7") as cascade:
        buffer = cascade.run([], [], [])
        assert cascade.stats()[:2] == [3, 4]
    seen = [[call[:4] for call in batch] for batch in calls]
    assert seen == [
        [
            (0, 0, (0, 0), (32, 48)),
            (0, 0, (32, 0), (32, 48)),
            (1, 0, (10, 20), (8, 6)),
            (2, 0, (0, 0), (WIDTH, HEIGHT)),
        ]
    ]
    with Lease() as lease:
        frames = BatchMeta.of(buffer, lease).frames
        assert all(frame.infer_done for frame in frames)
        boxes = [sorted((o.label, *o.box) for o in frame.objects) for frame in frames]
    assert boxes[0] == [
        ("edge", 16, 0, 16, 48),
        ("edge", 48, 0, 16, 48),
        ("middle", 8, 12, 8, 12),
        ("middle", 40, 12, 8, 12),
    ]
    assert boxes[1] == [("edge", 14, 20, 4, 6), ("middle", 12, 21.5, 2, 1.5)]
    assert boxes[2] == [("edge", 32, 0, 32, 48), ("middle", 16, 12, 16, 12)]


def test_what_two_regions_have_in_common_is_found_once():
    with regions("0=0;0;40;48;4;0;40;48") as cascade:
        buffer = cascade.run([])
    with Lease() as lease:
        assert sorted(o.label for o in BatchMeta.of(buffer, lease).frames[0].objects) == ["edge", "middle"]


def test_boxes_may_reach_over_their_region_when_asked_for():
    with Cascade("Parts", 'roi-params="0=0;0;32;48" clip-object-outside-roi=false', mode="") as cascade:
        buffer = cascade.run([])
    with Lease() as lease:
        boxes = {item.label: item.box for item in BatchMeta.of(buffer, lease).frames[0].objects}
    assert boxes["edge"] == (16, 0, 48, 48)


def test_a_classification_of_a_region_is_an_object_there():
    with regions("0=32;8;24;30;4;6;20;16", "Brightness") as cascade:
        buffer = cascade.run([CAR, PERSON])
    with Lease() as lease:
        found = [
            (o.class_id, o.box, o.classifiers[0].labels[0].label)
            for o in BatchMeta.of(buffer, lease).frames[0].objects[:2]
        ]
    assert found == [(-1, (4, 6, 20, 16), "level 40"), (-1, (32, 8, 24, 30), "level 90")]


def test_a_region_outside_the_picture_is_refused_by_name():
    with regions("0=64;0;10;10") as cascade:
        cascade.give([buffer_of([])])
        error = cascade.error(10)
    assert error is not None
    assert "stream 0 lies outside its picture of 64x48" in error


def test_of_a_picture_that_shrinks_the_model_is_given_the_regions_it_still_has_else_the_whole(calls):
    with regions("0=0;0;32;48;40;0;20;48,1=48;0;8;8") as cascade:
        for number, size in enumerate([(64, 48), (48, 48), (36, 48), (36, 48), (64, 48)]):
            cascade.run([], [], number=number, size=size)
        warnings = []
        while (message := cascade.message(Gst.MessageType.WARNING, seconds=0)) is not None:
            warnings.append(message.parse_warning()[0].message)
    assert [[(call[0], call[2], call[3]) for call in batch] for batch in calls] == [
        [(0, (0, 0), (32, 48)), (0, (40, 0), (20, 48)), (1, (48, 0), (8, 8))],
        [(0, (0, 0), (32, 48)), (0, (40, 0), (8, 48)), (1, (0, 0), (48, 48))],  # one is cut, one is gone
        *[[(0, (0, 0), (32, 48)), (1, (0, 0), (36, 48))]] * 2,
        [(0, (0, 0), (32, 48)), (0, (40, 0), (20, 48)), (1, (48, 0), (8, 8))],
    ]
    assert [text.partition(" of ")[2] for text in warnings] == [
        "stream 1 lies outside its picture of 48x48; the model is given the whole picture until it is larger again",
        "stream 0 lies outside its picture of 36x48; the model is given its other regions until it is larger again",
        "stream 1 lies outside its picture of 36x48; the model is given the whole picture until it is larger again",
    ]


def roi_update(stream, *boxes):
    fields = {
        f"{side}_{i}": value
        for i, box in enumerate(boxes)
        for side, value in zip(("left", "top", "width", "height"), box, strict=True)
    }
    return events.control_event(events.ROI_UPDATE, stream_id=stream, roi__count=len(boxes), **fields)


def test_an_event_changes_a_streams_regions_from_the_next_buffer_on(calls):
    with regions("0=0;0;32;48") as cascade:
        cascade.run([], [])
        cascade.event(roi_update("1", (10, 20, 8, 6), (20, 20, 8, 6)))
        cascade.run([], [], number=1)
        cascade.event(roi_update("0"))  # none: the whole frame again
        cascade.event(events.stream_start(1, "cam1"))
        cascade.event(roi_update("cam1", (0, 0, 4, 4)))
        cascade.run([], [], number=2)
    assert [[(call[0], call[2], call[3]) for call in batch] for batch in calls] == [
        [(0, (0, 0), (32, 48)), (1, (0, 0), (WIDTH, HEIGHT))],
        [(0, (0, 0), (32, 48)), (1, (10, 20), (8, 6)), (1, (20, 20), (8, 6))],
        [(0, (0, 0), (WIDTH, HEIGHT)), (1, (0, 0), (4, 4))],
    ]


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (
            roi_update("0", (60, 0, 100, 10), (64, 0, 10, 10)),
            "lies outside its picture of 64x48; the regions before go on",
        ),
        (roi_update("nobody", (0, 0, 9, 9)), "there is no stream 'nobody'"),
        (events.control_event(events.ROI_UPDATE, stream_id="0"), "nv-roi-update has no field roi-count"),
        (events.control_event(events.ROI_UPDATE, stream_id="0", roi__count=1, left_0=3), "has no field top_0"),
        (roi_update("0", (0, 0, 0, 10)), "right are left, top from 0 and sizes from 1"),
    ],
    ids=["outside", "stream", "count", "field", "size"],
)
def test_wrong_regions_of_an_event_are_refused_and_the_streams_go_on(calls, event, text):
    with regions("0=0;0;32;48") as cascade:
        cascade.event(event)
        cascade.run([])
        warning = cascade.message(Gst.MessageType.WARNING)
        cascade.run([], number=1)
    assert warning is not None
    assert text in warning.parse_warning()[0].message
    assert [batch[0][2:4] for batch in calls] == [((0, 0), (32, 48))] * 2


def test_wrong_regions_of_one_stream_leave_those_that_events_brought_to_others(calls):
    with regions("0=0;0;32;48") as cascade:
        cascade.event(roi_update("0", (4, 4, 8, 8)))
        cascade.event(roi_update("1", (64, 0, 10, 10)))
        for number in range(2):
            cascade.run([], [], number=number)
    assert [[(call[0], call[2], call[3]) for call in batch] for batch in calls] == [
        [(0, (4, 4), (8, 8)), (1, (0, 0), (WIDTH, HEIGHT))]
    ] * 2


def test_wrong_regions_of_an_event_do_not_disturb_a_change_of_model():
    with regions("0=0;0;32;48", "Everything") as cascade:
        cascade.run([])
        cascade.get("infer").set_property("model", "elements.secondary_models:Brightness")
        names, number = {"text"}, 0
        while "brightness" not in names:
            number += 1
            assert number < 10_000
            cascade.event(roi_update("0", (64, 0, 10, 10)))
            found = results(cascade.run([], number=number))
            names = {name for _, classifiers, _ in found for _, name, _ in classifiers}


def test_regions_are_nothing_for_a_secondary_element(calls):
    with Cascade("Brightness") as cascade:
        cascade.event(roi_update("0", (0, 0, 9, 9)))
        buffer = cascade.run([CAR])
        warning = cascade.message(Gst.MessageType.WARNING)
    assert "process-mode is secondary; the regions stay as they are" in warning.parse_warning()[0].message
    assert levels(buffer) == [40]


def test_wrong_properties_are_refused_at_start():
    refusal = Cascade("Parts", 'roi-params="0=1;2;3"', mode="").refusal()
    assert "stream 0 has 3 numbers" in refusal.message
