"""sluiceosd in whole pipelines: what it draws on, and above all what it must not write to."""

import gc
from pathlib import Path

import gi
import numpy as np
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst
from osd_streams import Stream, add_frame, add_object, planes, raw_buffer, raw_caps

from contract.leftovers import nothing_is_left
from sluice.contract import counters, gstref, infer_meta
from sluice.contract.batching import make_batch, original_buffer, surface_caps
from sluice.contract.formats import FORMATS
from sluice.contract.metadata import BatchMeta
from sluice.contract.surface import SurfaceBatch, writable_raw
from sluice.drawing.canvas import Canvas
from sluice.drawing.collect import Selection, collect
from sluice.drawing.painter import Painter
from sluice.elements import events, register
from waiting import until

BOX = (10.0, 12.0, 30.0, 20.0)


def frame_with_object(caps: Gst.Caps) -> Gst.Buffer:
    """A grey frame with one labelled box."""
    buffer, _ = raw_buffer(caps)
    add_object(add_frame(BatchMeta.attach(buffer, 1), 0), BOX, "person 3")
    return buffer


@pytest.mark.parametrize("pixel_format", FORMATS)
@pytest.mark.parametrize(("width", "height"), [(128, 96), (101, 57)])
def test_single_frames_of_every_format(pixel_format: str, width: int, height: int) -> None:
    caps = raw_caps(pixel_format, width, height)
    expected, known = raw_buffer(caps)
    metadata = frame_with_object(caps)
    overlay = collect(BatchMeta.of(metadata).frames[0], Selection())
    with writable_raw(expected, known) as surface:
        Painter().draw(Canvas.of(surface), overlay)
    with Stream("sluiceosd", caps) as stream:
        stream.push(frame_with_object(caps))
        stream.play()
        (sample,) = stream.finish()
    found = planes(sample.get_buffer(), caps)
    assert all((a == b).all() for a, b in zip(found, planes(expected, caps), strict=True))
    assert any((plane != 100).any() for plane in found)
    assert sample.get_caps().is_equal(caps)


def test_an_unshared_buffer_is_drawn_on_in_place() -> None:
    caps = raw_caps("I420", 64, 48)
    buffer = frame_with_object(caps)
    address, copies = gstref.address(buffer), counters.copies()
    with Stream("sluiceosd", caps) as stream:
        stream.push(buffer)
        del buffer
        stream.play()
        (sample,) = stream.finish()
    assert gstref.address(sample.get_buffer()) == address
    assert counters.copies() == copies


def test_the_other_branch_of_a_tee_sees_the_pixels_unchanged() -> None:
    caps = raw_caps("NV12", 64, 48)
    other: list[list[np.ndarray]] = []
    with Stream("tee name=t ! queue ! fakesink name=other signal-handoffs=true async=false t. ! queue ! sluiceosd",
                caps) as stream:  # fmt: skip
        kept = frame_with_object(caps)
        stream.pipeline.get_by_name("other").connect(
            "handoff", lambda _sink, buffer, _pad: other.append(planes(buffer, caps))
        )
        stream.push(kept)
        copies = counters.copies()
        stream.play()
        (sample,) = stream.finish()
    assert counters.copies() == copies + 1
    assert (planes(sample.get_buffer(), caps)[0] != 100).any()
    assert len(other) == 1
    assert all((plane == 100).all() for plane in (*other[0], *planes(kept, caps)))
    assert len(BatchMeta.of(sample.get_buffer()).frames[0].objects) == 1


def test_a_buffer_with_nothing_to_draw_passes_even_when_it_is_shared() -> None:
    caps = raw_caps("I420", 64, 48)
    bare, _ = raw_buffer(caps)
    empty, _ = raw_buffer(caps)
    add_frame(BatchMeta.attach(empty, 1), 0)
    drawn = frame_with_object(caps)
    copies = counters.copies()
    with Stream("sluiceosd", caps) as stream:
        # The source itself copies the first buffer, to mark it as the start of the stream.
        for buffer in (bare, bare, empty, drawn, bare):
            stream.push(buffer)
        stream.play()
        out = [gstref.address(sample.get_buffer()) for sample in stream.finish()[1:]]
    before = [gstref.address(buffer) for buffer in (bare, empty, drawn, bare)]
    assert [a == b for a, b in zip(before, out, strict=True)] == [True, True, False, True]
    assert counters.copies() == copies + 1
    assert (planes(bare, caps)[0] == 100).all()


MIXED = (("I420", 64, 48), ("RGB", 101, 57), ("YUY2", 80, 60))


def mixed_batch(frames: list[tuple[Gst.Buffer, object]]) -> Gst.Buffer:
    """A batch whose frame i has an object of class i at x = 10 * i, and metadata frames in reverse order."""
    batch = make_batch(frames, 4)
    meta = BatchMeta.attach(batch, 4)
    for index in reversed(range(len(frames))):
        frame = add_frame(meta, index)
        for number in range(3):
            add_object(frame, (10.0 * index, 5.0, 9.0, 9.0)).class_id = 10 * index + number
    return batch


def test_each_frame_of_a_batch_is_drawn_on_its_own_surface() -> None:
    batch = mixed_batch([raw_buffer(raw_caps(*shape)) for shape in MIXED])
    address, copies = gstref.address(batch), counters.copies()
    order = [item.class_id for frame in BatchMeta.of(batch).frames for item in frame.objects]
    with Stream("sluiceosd", surface_caps(4)) as stream:
        stream.push(batch)
        del batch
        stream.play()
        (sample,) = stream.finish()
    out = sample.get_buffer()
    assert gstref.address(out) == address
    assert counters.copies() == copies
    assert [item.class_id for frame in BatchMeta.of(out).frames for item in frame.objects] == order
    for index, surface in enumerate(SurfaceBatch.of(out)):
        first = surface.host_plane(0)
        changed = (first if first.ndim == 2 else first[:, :, 0]) != 100
        columns = np.nonzero(changed.any(axis=0))[0]
        assert (columns.min(), columns.max()) == (max(10 * index - 1, 0), 10 * index + 9)


def test_a_frame_of_a_batch_that_others_hold_is_copied_and_only_that() -> None:
    frames = [raw_buffer(raw_caps(*shape)) for shape in MIXED]
    held = frames[1][0]
    batch = mixed_batch(frames)
    addresses = [gstref.address(buffer) for buffer, _ in frames]
    del frames
    copies = counters.copies()
    with Stream("sluiceosd", surface_caps(4)) as stream:
        stream.push(batch)
        del batch
        stream.play()
        (sample,) = stream.finish()
    assert counters.copies() == copies + 1
    assert (planes(held, raw_caps(*MIXED[1]))[0] == 100).all()
    out = sample.get_buffer()
    same = [gstref.address(original_buffer(out, index)) == addresses[index] for index in range(3)]
    assert same == [True, False, True]
    assert (SurfaceBatch.of(out)[1].host_plane(0) != 100).any()


def test_the_other_branch_of_a_tee_sees_an_undrawn_batch() -> None:
    elements = "tee name=t ! queue ! sluiceosd ! queue ! fakesink async=false t. ! queue ! sluiceosd display-bbox=false"
    copies = counters.copies()
    with Stream(elements, surface_caps(4)) as stream:
        stream.push(mixed_batch([raw_buffer(raw_caps(*shape)) for shape in MIXED]))
        stream.play()
        (sample,) = stream.finish()
    assert counters.copies() == copies + len(MIXED)
    other = SurfaceBatch.of(sample.get_buffer())
    assert len(other) == len(MIXED)
    assert all((plane == 100).all() for surface in other for plane in surface.host_planes())


def test_a_view_that_a_model_still_holds_keeps_its_pixels() -> None:
    batch = mixed_batch([raw_buffer(raw_caps(*shape)) for shape in MIXED])
    view = SurfaceBatch.of(batch)[0].host_plane(0)
    with Stream("sluiceosd", surface_caps(4)) as stream:
        stream.push(batch)
        del batch
        stream.play()
        (sample,) = stream.finish()
    assert (view == 100).all()
    assert (SurfaceBatch.of(sample.get_buffer())[0].host_plane(0) != 100).any()


def test_properties_choose_what_is_drawn() -> None:
    caps = raw_caps("GRAY8", 200, 80)

    def changed(properties: str) -> int:
        buffer = frame_with_object(caps)
        item = BatchMeta.of(buffer).frames[0].objects[0]
        item.mask = np.ones((4, 4), np.float32)
        if "keypoints" in properties:
            infer_meta.attach_keypoints(item, [[100, 40]], unique_id=1)
        del item
        with Stream(f"sluiceosd {properties}", caps) as stream:
            stream.push(buffer)
            stream.play()
            (sample,) = stream.finish()
        return int((planes(sample.get_buffer(), caps)[0] != 100).sum())

    nothing = "display-bbox=false display-text=false"
    assert changed(nothing) == 0
    box, text = changed("display-text=false"), changed("display-bbox=false")
    # The border of 2 pixels lies on a box of 30x20.
    assert box == 2 * 2 * (30 + 20)
    assert text > 500
    assert changed("") > max(box, text)
    assert changed(f"{nothing} display-mask=true") == 30 * 20
    assert 12 < changed(f"{nothing} display-keypoints=true") < 40, "a dot of radius 2, soft at its edge"
    assert changed(f"{nothing} display-keypoints=false") == 0
    assert changed(f"{nothing} display-clock=true clock-color=4294967295 x-clock-offset=5") > 100
    assert changed(f"{nothing} display-clock=true clock-font-size=0") == 0


def test_display_metas_are_drawn_in_their_kinds() -> None:
    caps = raw_caps("GRAY8", 100, 100)
    buffer, _ = raw_buffer(caps)
    display = add_frame(BatchMeta.attach(buffer, 1), 0).add_display()
    display.num_lines = display.num_circles = display.num_arrows = display.num_rects = 1
    line, circle, arrow, rect = display.lines[0], display.circles[0], display.arrows[0], display.rects[0]
    line.x1, line.y1, line.x2, line.y2, line.line_width = 10, 90, 40, 90, 2
    circle.xc, circle.yc, circle.radius, circle.circle_width = 80, 20, 10, 2
    # A place left of the picture, as unsigned fields hold it.
    arrow.x1, arrow.y1, arrow.x2, arrow.y2, arrow.arrow_width, arrow.arrow_head = 2**32 - 10, 50, 30, 50, 2, 1
    rect.box, rect.border_width = (60.0, 60.0, 20.0, 20.0), 2
    line.line_color = circle.circle_color = arrow.arrow_color = rect.border_color = (1.0, 1.0, 1.0, 1.0)
    with Stream("sluiceosd display-bbox=false", caps) as stream:
        stream.push(buffer)
        stream.play()
        (sample,) = stream.finish()
    pixels = planes(sample.get_buffer(), caps)[0]
    assert (pixels[[90, 50, 10], [20, 0, 80]] > 200).all()
    assert (pixels[55:85, 55:85] == 100).all(), "rectangles are boxes, which are switched off"


def test_the_clock_is_drawn_on_every_frame_without_metadata() -> None:
    batch = make_batch([raw_buffer(raw_caps("I420", 320, 48)), raw_buffer(raw_caps("RGB", 320, 48))], 2)
    with Stream("sluiceosd display-clock=true", surface_caps(2)) as stream:
        stream.push(batch)
        del batch
        stream.play()
        (sample,) = stream.finish()
    assert all((surface.host_plane(0) != 100).any() for surface in SurfaceBatch.of(sample.get_buffer()))


def test_what_cannot_be_drawn_on_ends_the_stream_with_an_error() -> None:
    buffer, _ = raw_buffer(raw_caps("I420", 16, 16))
    wrong_place = make_batch([raw_buffer(raw_caps("I420", 16, 16))], 1)
    add_object(add_frame(BatchMeta.attach(wrong_place, 1), 7), BOX)
    for pushed in (buffer, wrong_place):
        with Stream("sluiceosd display-clock=true", surface_caps(1)) as stream:
            stream.push(pushed)
            stream.play()
            assert stream.sink.emit("try-pull-sample", 5 * Gst.SECOND) is None
            assert stream.error() is not None


def test_the_elements_are_finalised() -> None:
    gone: list[str] = []
    caps = raw_caps("I420", 64, 48)
    with Stream("sluiceosd name=osd", caps) as stream:
        stream.pipeline.get_by_name("osd").weak_ref(gone.append, "osd")
        stream.push(frame_with_object(caps))
        stream.play()
        stream.finish()
    del stream
    until(lambda: gc.collect() >= 0 and gone == ["osd"])


def draw_box_of_its_source(_pad: Gst.Pad, info: Gst.PadProbeInfo) -> Gst.PadProbeReturn:
    """Give each frame of a batch a white filled box of 8x8 whose place tells source and frame number."""
    for frame in BatchMeta.of(info.get_buffer()).frames:
        item = add_object(frame, (8.0 * frame.frame_num, 8.0 * frame.pad_index, 8.0, 8.0))
        item.rect.border_width, item.rect.has_bg_color, item.rect.bg_color = 0, True, (1.0, 1.0, 1.0, 1.0)
    return Gst.PadProbeReturn.OK


def test_behind_a_mux_every_frame_gets_its_own_boxes_and_nothing_is_copied() -> None:
    for name in ("sluicemux", "sluiceosd", "sluicedemux"):
        register(name)
    sources = " ".join(
        f"videotestsrc pattern=black num-buffers=10 ! {raw_caps(*shape).to_string()} ! m.sink_{index} "
        f"d.src_{index} ! queue ! appsink name=out{index} sync=false"
        for index, shape in enumerate(MIXED)
    )
    pipeline = Gst.parse_launch(
        f"sluicemux name=m batch-size=3 ! queue name=q ! sluiceosd ! queue ! sluicedemux name=d {sources}"
    )
    pipeline.get_by_name("m").get_static_pad("src").add_probe(Gst.PadProbeType.BUFFER, draw_box_of_its_source)
    copies = counters.copies()
    pipeline.set_state(Gst.State.PLAYING)
    for index, (_, width, height) in enumerate(MIXED):
        for number in range(10):
            sample = pipeline.get_by_name(f"out{index}").emit("try-pull-sample", 20 * Gst.SECOND)
            assert sample is not None, f"frame {number} of source {index} is missing"
            first = planes(sample.get_buffer(), sample.get_caps())[0]
            rows, columns = np.nonzero((first if first.ndim == 2 else first[:, :, 0]) > 200)
            assert first.shape[:2] == (height, width)
            if 8 * number < width:
                assert (columns.min(), rows.min()) == (8 * number, 8 * index)
                assert rows.size == 8 * min(8, width - 8 * number)
            else:
                assert not rows.size
    pipeline.set_state(Gst.State.NULL)
    assert counters.copies() == copies


def decode(path: Path, elements: str, count: int) -> list[np.ndarray]:
    """The luma of the first frames of a clip, with one filled white box per frame in the metadata."""
    register("sluiceosd")
    pipeline = Gst.parse_launch(
        f'filesrc location="{path}" ! qtdemux ! h264parse ! avdec_h264 name=decoder {elements} ! '
        "appsink name=sink sync=false max-buffers=2"
    )

    def annotate(_pad: Gst.Pad, info: Gst.PadProbeInfo) -> Gst.PadProbeReturn:
        item = add_object(add_frame(BatchMeta.attach(info.get_buffer(), 1), 0), (0.0, 0.0, 200.0, 200.0))
        item.rect.has_bg_color, item.rect.bg_color = True, (1.0, 1.0, 1.0, 1.0)
        return Gst.PadProbeReturn.OK

    pipeline.get_by_name("decoder").get_static_pad("src").add_probe(Gst.PadProbeType.BUFFER, annotate)
    pipeline.set_state(Gst.State.PLAYING)
    frames = []
    for _ in range(count):
        sample = pipeline.get_by_name("sink").emit("try-pull-sample", 20 * Gst.SECOND)
        frames.append(planes(sample.get_buffer(), sample.get_caps())[0])
    pipeline.set_state(Gst.State.NULL)
    return frames


def test_reference_pictures_of_a_decoder_are_not_drawn_on(data: Path) -> None:
    clip = data / "videos" / "vtest_pets09_h264_b3.mp4"
    plain, drawn = decode(clip, "", 40), decode(clip, "! sluiceosd", 40)
    for before, after in zip(plain, drawn, strict=True):
        assert (after[:200, :200] == 235).mean() > 0.9
        assert (after[202:, 202:] == before[202:, 202:]).all()


def test_a_hundred_passes_leave_nothing_behind() -> None:
    with nothing_is_left("live_batches", "live_frames"):
        with Stream("sluiceosd", surface_caps(4)) as stream:
            for _ in range(100):
                stream.push(mixed_batch([raw_buffer(raw_caps(*shape)) for shape in MIXED]))
            stream.play()
            assert len(stream.finish()) == 100
        del stream


def drawn(properties: str, *buffers: Gst.Buffer, caps: Gst.Caps, events_before: tuple[Gst.Event, ...] = ()) -> list:
    """The first planes of the buffers behind sluiceosd."""
    with Stream(f"sluiceosd {properties}", caps) as stream:
        stream.play()
        out = []
        for buffer in buffers:
            for event in events_before if out else ():
                assert stream.source.get_static_pad("src").push_event(event)
            stream.push(buffer)
            sample = stream.pull()
            out.append(planes(sample.get_buffer(), sample.get_caps())[0])
        stream.finish()
    return out


def striped(caps: Gst.Caps) -> Gst.Buffer:
    """A grey frame with columns of black and white, and objects of classes 0 and 2 on it, made by component 5."""
    buffer, known = raw_buffer(caps)
    with writable_raw(buffer, known) as surface:
        surface.host_plane(0)[:, ::2] = 0
        surface.host_plane(0)[:, 1::2] = 255
    frame = add_frame(BatchMeta.attach(buffer, 1), 0)
    for class_id, left in ((0, 8.0), (2, 40.0)):
        item = add_object(frame, (left, 8.0, 16.0, 16.0))
        item.class_id, item.unique_component_id, item.rect.border_width = class_id, 5, 0
    return buffer


@pytest.mark.parametrize(
    ("properties", "hidden"),
    [
        ("", ()),
        ("blur-class-ids=2", ()),
        ("blur-bbox=1", (8, 40)),
        ("blur-bbox=2", (8, 40)),
        ("blur-bbox=1 blur-class-ids=2", (40,)),
        ("blur-bbox=1 blur-on-gie-class-ids=5,0", (8,)),
        ('blur-bbox=1 blur-on-gie-class-ids="4,0;5,2;"', (40,)),
        ("blur-bbox=1 blur-on-gie-class-ids=4,0", ()),
        ("blur-bbox=1 blur-on-gie-class-ids=5,0 blur-class-ids=2", (8, 40)),
        ("blur-bbox=1 display-bbox=false display-text=false", (8, 40)),
    ],
)
def test_objects_of_chosen_classes_are_hidden(properties: str, hidden: tuple[int, ...]) -> None:
    caps = raw_caps("I420", 64, 32)
    (luma,) = drawn(properties, striped(caps), caps=caps)
    for left in (8, 40):
        part = luma[8:24, left : left + 16].astype(int)
        assert (np.ptp(part) < 128) == (left in hidden)
    assert np.ptp(luma[:8].astype(int)) == 255


@pytest.mark.parametrize(
    "property", ["blur-class-ids=people", "blur-on-gie-class-ids=1", "blur-on-gie-class-ids=1,2,3"]
)
def test_a_list_of_classes_that_is_none_is_refused_by_name(property: str) -> None:
    with Stream(f"sluiceosd blur-bbox=1 {property}", raw_caps("I420", 64, 32)) as stream:
        assert stream.pipeline.set_state(Gst.State.PLAYING) == Gst.StateChangeReturn.FAILURE
        assert property.partition("=")[0] in (stream.error() or "")


def test_class_maps_are_tinted_with_display_mask() -> None:
    caps = raw_caps("GRAY8", 64, 32)

    def with_map() -> Gst.Buffer:
        buffer, _ = raw_buffer(caps)
        frame = add_frame(BatchMeta.attach(buffer, 1), 0)
        probabilities = np.zeros((3, 1, 2), np.float32)
        infer_meta.attach_segmentation(frame, np.array([[0, 2]], np.int32), probabilities, classes=3, unique_id=1)
        return buffer

    (off,) = drawn("", with_map(), caps=caps)
    assert (off == 100).all()
    (on,) = drawn("display-mask=true", with_map(), caps=caps)
    assert (on[:, :32] == 100).all()
    assert (on[:, 32:] != 100).all()
    (other,) = drawn("display-mask=true mask-background-class=2", with_map(), caps=caps)
    assert (other[:, :32] != 100).all()
    assert (other[:, 32:] == 100).all()


def moving(caps: Gst.Caps, frames: int) -> list[Gst.Buffer]:
    """Track 9 going right by 8 pixels a frame, from (8, 16), with no border."""
    buffers = []
    for number in range(frames):
        buffer, _ = raw_buffer(caps)
        item = add_object(add_frame(BatchMeta.attach(buffer, 1), 0), (4.0 + 8 * number, 12.0, 8.0, 8.0))
        item.object_id, item.rect.border_width = 9, 0
        buffers.append(buffer)
    return buffers


def test_tracks_leave_trails_of_their_length() -> None:
    caps = raw_caps("GRAY8", 96, 32)
    for properties in ("", "trail-length=1"):
        assert all((plane == 100).all() for plane in drawn(properties, *moving(caps, 3), caps=caps))
    first, *_, last = drawn("trail-length=3", *moving(caps, 6), caps=caps)
    assert (first == 100).all()
    _, columns = np.nonzero(last != 100)
    assert columns.min() in range(30, 33), "three places: x = 32, 40 and 48"
    assert columns.max() in range(47, 51)


@pytest.mark.parametrize(("ended", "drawn_on"), [(events.stream_eos(0), False), (events.stream_eos(1), True)])
def test_a_stream_that_ends_takes_its_trails_with_it(ended: Gst.Event, drawn_on: bool) -> None:
    caps = raw_caps("GRAY8", 96, 32)
    _, second = drawn("trail-length=9", *moving(caps, 2), caps=caps, events_before=(ended,))
    assert (second != 100).any() == drawn_on


def test_the_process_mode_is_changed_by_event() -> None:
    caps = raw_caps("GRAY8", 64, 32)
    with Stream("sluiceosd name=osd", caps) as stream:
        stream.play()
        osd, pad = stream.pipeline.get_by_name("osd"), stream.source.get_static_pad("src")
        stream.push(frame_with_object(caps))
        stream.pull()
        for mode, expected in ((1, 1), (7, 1), (0, 0)):
            pad.push_event(events.control_event(events.OSD_PROCESS_MODE_UPDATE, stream_id="0", process_mode=mode))
            stream.push(frame_with_object(caps))
            stream.pull()
            assert osd.get_property("process-mode") == expected
        stream.finish()
