"""sluicetiler: geometry, pixels of every format, metadata mapped into the picture, sources that come and go."""

import ctypes
import gc
from collections.abc import Callable

import gi
import numpy as np
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst
from osd_streams import Stream, add_frame, add_object, planes, raw_buffer, raw_caps

from contract.leftovers import nothing_is_left
from sluice.contract import counters, infer_meta, user_meta
from sluice.contract.batching import make_batch, surface_caps
from sluice.contract.formats import FrameFormat
from sluice.contract.layout import layout
from sluice.contract.metadata import BatchMeta
from sluice.contract.surface import SurfaceBatch, writable_raw
from sluice.drawing.canvas import Canvas
from sluice.elements import events
from sluice.elements.tiler_grid import Area, Grid, fit, parse_tiles
from sluice.errors import ConfigurationError
from sluice.models.pixels import to_packed
from waiting import until

COLORS = [(200, 40, 40, 255), (40, 200, 40, 255), (40, 40, 200, 255), (200, 200, 40, 255), (200, 40, 200, 255)]


@pytest.mark.parametrize(
    ("count", "shape"), [(1, (1, 1)), (2, (1, 2)), (3, (2, 2)), (4, (2, 2)), (5, (2, 3)), (7, (3, 3)), (10, (3, 4))]
)
def test_an_automatic_grid_is_nearly_square(count: int, shape: tuple[int, int]) -> None:
    grid = Grid(1920, 1080)
    for source in range(0, 3 * count, 3):
        grid.add(source)
    assert grid.shape == shape
    tiles = [grid.tile(source) for source in grid.sources]
    assert len({(tile.left, tile.top) for tile in tiles}) == count
    assert all(tile.left + tile.width <= 1920 and tile.top + tile.height <= 1080 for tile in tiles)


def test_a_given_grid_places_by_source_number_and_grows_as_nvmultistreamtiler() -> None:
    grid = Grid(1000, 600, 2, 2)
    grid.add(3)
    assert grid.tile(3) == Area(500, 300, 500, 300)
    assert not grid.add(0)
    assert grid.tile(0) == Area(0, 0, 500, 300)
    # rows = floor(sqrt(5 + 1)), columns = ceil(6 / 2)
    assert grid.add(5)
    assert grid.shape == (2, 3)
    assert grid.tile(5) == Area(664, 300, 332, 300)


def test_one_given_side_leaves_the_other_free() -> None:
    grid = Grid(1000, 600, rows=1)
    assert [grid.add(source) for source in (0, 1, 2)] == [False, True, True]
    assert grid.shape == (1, 3)
    assert grid.remove(0)
    assert grid.shape == (1, 2)
    assert not grid.remove(7)


def test_too_many_tiles_are_refused_by_name() -> None:
    grid = Grid(16, 16, 1, 100)
    grid.add(0)
    with pytest.raises(ConfigurationError, match="16x16 has no room for 1 rows of 100 tiles"):
        grid.tile(0)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((160, 90), Area(100, 50, 320, 180)),
        ((100, 100), Area(170, 50, 180, 180)),
        ((1000, 10), Area(100, 138, 320, 2)),
        ((3, 900), Area(258, 50, 2, 180)),
    ],
)
def test_a_frame_keeps_its_shape_in_the_middle_of_its_tile(size: tuple[int, int], expected: Area) -> None:
    assert fit(Area(100, 50, 320, 180), *size) == expected


def batch_of(frames: "Frames", pts: int = 0) -> Gst.Buffer:
    """A batch with a frame of one colour per source, each with an object (class: source) and a display meta."""
    buffers = []
    for source, shape in frames.items():
        buffer, known = raw_buffer(raw_caps(*shape))
        with writable_raw(buffer, known) as surface:
            Canvas.of(surface).fill(0, 0, surface.width, surface.height, COLORS[source])
        buffers.append((buffer, known))
    batch = make_batch(buffers, 8)
    meta = BatchMeta.attach(batch, 8)
    for index, (source, (_, width, height)) in enumerate(frames.items()):
        frame = add_frame(meta, index, pad_index=source, source_id=source, ntp_timestamp=1000 + source)
        parent = add_object(frame, (0.0, 0.0, float(width), float(height)), f"source {source}")
        parent.class_id = source
        child = add_object(frame, (width / 4, height / 2, width / 2, height / 4))
        child.class_id, child.parent = 10 + source, parent
        child.add_classifier(7, "colour").add_label("blue")
        display = frame.add_display()
        display.num_lines = 1
        display.lines[0].x2, display.lines[0].y2 = width, height
    batch.pts = pts
    return batch


Frames = dict[int, tuple[str, int, int]]
Step = Frames | Gst.Event | Callable[[], Gst.Buffer]


def tiled(properties: str, *steps: Step, format: str = "RGB") -> list[Gst.Sample]:
    """Push batches (40 ns apart when given as frames) and events through the tiler; the pictures that come out.

    The source copies its first buffer if anybody else holds it, so that one is made and let go before the start.
    """
    elements = f"sluicetiler {properties} ! video/x-raw,format={format}"
    with Stream(elements, surface_caps(8, (25, 1)), ["sluicetiler"]) as stream:
        pad, out, playing = stream.source.get_static_pad("src"), [], False
        for step in steps:
            if isinstance(step, Gst.Event):
                stream.play()
                pad.push_event(step)
                continue
            stream.push(batch_of(step, 40 * len(out)) if isinstance(step, dict) else step())
            if not playing:
                stream.play()
                playing = True
            out.append(stream.pull())
        assert stream.finish() == []
    return out


def rgb(sample: Gst.Sample) -> np.ndarray:
    """The picture as [h, w, 3] RGB."""
    known = FrameFormat.from_caps(sample.get_caps())
    return np.array(to_packed(SurfaceBatch.of_raw(sample.get_buffer(), known)[0], "RGB"))


FOUR = {0: ("I420", 64, 48), 1: ("RGB", 101, 57), 2: ("YUY2", 80, 60), 3: ("NV12", 320, 241)}


@pytest.mark.parametrize("output", ["I420", "NV12", "RGBA", "BGRA", "RGBx", "BGRx", "RGB", "BGR"])
def test_frames_of_any_format_lie_in_their_tiles_in_any_format(output: str) -> None:
    (sample,) = tiled("width=640 height=480 keep-aspect-ratio=false", FOUR, format=output)
    picture = rgb(sample)
    assert picture.shape == (480, 640, 3)
    for source in range(4):
        tile = picture[source // 2 * 240 : source // 2 * 240 + 240, source % 2 * 320 : source % 2 * 320 + 320]
        # Neighbouring tiles share no chroma sample, so even the outermost pixels have the right colour.
        assert np.abs(tile.astype(int) - COLORS[source][:3]).max() <= 5
    assert sample.get_caps()[0].get_fraction("framerate") == (True, 25, 1)


@pytest.mark.parametrize("full_range", [False, True])
@pytest.mark.parametrize("matrix", ["bt601", "bt709"])
@pytest.mark.parametrize("output", ["I420", "RGB"])
def test_matrix_and_range_of_a_source_are_respected(matrix: str, full_range: bool, output: str) -> None:
    number = {"bt601": 4, "bt709": 3}[matrix]
    caps = raw_caps("I420", 64, 48, f", colorimetry=(string){1 if full_range else 2}:{number}:0:0")
    buffer, known = raw_buffer(caps)
    assert (known.matrix, known.full_range) == (number, full_range)
    with writable_raw(buffer, known) as surface:
        Canvas.of(surface).fill(0, 0, 64, 48, COLORS[0])
    batch = make_batch([(buffer, known)], 1)
    add_frame(BatchMeta.attach(batch, 1), 0)
    (sample,) = tiled("width=64 height=48", lambda: batch, format=output)
    assert np.abs(rgb(sample).astype(int) - COLORS[0][:3]).max() <= 5


def test_grey_frames_are_grey() -> None:
    buffer, known = raw_buffer(raw_caps("GRAY8", 64, 48), 77)
    batch = make_batch([(buffer, known)], 1)
    add_frame(BatchMeta.attach(batch, 1), 0)
    for output in ("NV12", "BGRx"):
        (sample,) = tiled("width=64 height=48", lambda: batch, format=output)
        assert np.abs(rgb(sample).astype(int) - (77 if known.full_range else (77 - 16) * 255 // 219)).max() <= 2


def test_the_shape_is_kept_with_black_beside() -> None:
    (sample,) = tiled("width=400 height=200", {0: ("RGB", 100, 100)})
    picture = rgb(sample)
    assert (picture[:, :100] == 0).all()
    assert (picture[:, 300:] == 0).all()
    assert (picture[:, 100:300] == COLORS[0][:3]).all()


def test_metadata_is_mapped_into_one_frame_in_order() -> None:
    (sample,) = tiled("width=640 height=480 keep-aspect-ratio=false", {1: FOUR[1], 3: ("RGB", 100, 60)})
    (frame,) = BatchMeta.of(sample.get_buffer()).frames
    assert (frame.batch_id, frame.pad_index, frame.buf_pts, frame.ntp_timestamp) == (0, 0, 0, 1003)
    assert (frame.source_width, frame.source_height) == (640, 480)
    objects = frame.objects
    # Sources in the order of their tiles, each with its objects in its own order: the last added first.
    assert [item.class_id for item in objects] == [11, 1, 13, 3]
    assert frame.num_objects == 4
    assert objects[3].box == pytest.approx((320, 0, 320, 480))
    assert objects[2].box == pytest.approx((400, 240, 160, 120))
    assert [item.parent.class_id if item.parent else None for item in objects] == [1, None, 3, None]
    assert objects[3].text.display_text == "source 3"
    assert (objects[3].text.x_offset, objects[3].text.y_offset) == (320, 0)
    assert [one.classifier_type for one in objects[2].classifiers] == ["colour"]
    assert objects[2].classifiers[0].labels[0].label == "blue"
    lines = [display.lines[0] for display in frame.display_metas]
    assert [(line.x1, line.y1, line.x2, line.y2) for line in lines] == [(0, 0, 320, 480), (320, 0, 640, 480)]


def test_detector_boxes_are_mapped_and_odd_places_survive() -> None:
    def batch() -> Gst.Buffer:
        made = batch_of({0: ("RGB", 100, 100)})
        first, second = BatchMeta.of(made).frames[0].objects
        first.detector_box = (10.0, 20.0, 30.0, 40.0)
        first.text.x_offset, first.text.y_offset = 2**32 - 10, 5
        # Other elements may leave what the view would refuse to write.
        left = second.rect.address + layout().offset("NvOSD_RectParams.left")
        ctypes.c_float.from_address(left).value = float("nan")
        return made

    (sample,) = tiled("width=400 height=200", batch)
    objects = BatchMeta.of(sample.get_buffer()).frames[0].objects
    assert objects[0].detector_box == pytest.approx((120, 40, 60, 80))
    assert objects[0].tracker_box == (0.0, 0.0, 0.0, 0.0)
    assert (objects[0].text.x_offset, objects[0].text.y_offset) == (80, 10)
    assert np.isnan(objects[1].box[0])


def test_a_source_without_a_frame_keeps_its_last_picture_and_metadata() -> None:
    both = {0: ("I420", 64, 48), 1: ("RGB", 64, 48)}
    first, second, third = tiled(
        "width=640 height=480",
        both,
        {1: both[1]},
        {0: both[0]},
        format="I420",
    )
    for sample in (first, second, third):
        assert (np.abs(rgb(sample).astype(int)[240, 160] - COLORS[0][:3]) <= 5).all()
        assert (np.abs(rgb(sample).astype(int)[240, 480] - COLORS[1][:3]) <= 5).all()
        (frame,) = BatchMeta.of(sample.get_buffer()).frames
        assert [item.class_id for item in frame.objects] == [10, 0, 11, 1]
    frames = [BatchMeta.of(sample.get_buffer()).frames[0] for sample in (first, second, third)]
    assert [(frame.frame_num, frame.buf_pts) for frame in frames] == [(0, 0), (1, 40), (2, 80)]
    assert [sample.get_buffer().pts for sample in (first, second, third)] == [0, 40, 80]


def test_sources_come_end_and_go() -> None:
    one, two = {0: ("RGB", 64, 48)}, {0: ("RGB", 64, 48), 1: ("RGB", 64, 48)}
    alone, paired, ended, gone = tiled(
        "width=640 height=480 keep-aspect-ratio=false",
        events.pad_added(0),
        one,
        events.pad_added(1),
        two,
        events.stream_eos(1),
        one,
        events.pad_deleted(1),
        one,
    )
    assert (rgb(alone) == COLORS[0][:3]).all()
    assert (rgb(paired)[:, :320] == COLORS[0][:3]).all()
    assert (rgb(paired)[:, 320:] == COLORS[1][:3]).all()
    assert (rgb(ended)[:, 320:] == 0).all(), "the tile of an ended source stays its own, in black"
    assert (rgb(ended)[:, :320] == COLORS[0][:3]).all()
    assert [item.class_id for item in BatchMeta.of(ended.get_buffer()).frames[0].objects] == [10, 0]
    assert (rgb(gone) == COLORS[0][:3]).all()


def test_one_source_can_be_shown_alone() -> None:
    (sample,) = tiled("width=640 height=480 show-source=1 keep-aspect-ratio=false", FOUR)
    assert (rgb(sample) == COLORS[1][:3]).all()
    assert [item.class_id for item in BatchMeta.of(sample.get_buffer()).frames[0].objects] == [11, 1]


def warnings_of(pipeline: Gst.Pipeline) -> list[str]:
    bus = pipeline.get_bus()
    return [
        message.parse_warning()[0].message for message in iter(lambda: bus.pop_filtered(Gst.MessageType.WARNING), None)
    ]


def test_sources_have_their_own_tiles_where_told() -> None:
    both = {0: ("RGB", 64, 48), 1: ("RGB", 64, 48)}
    (sample,) = tiled("tiles=0:0,0,0.75,1;1:0.75,0.5,0.25,0.5 width=640 height=480 keep-aspect-ratio=false", both)
    picture = rgb(sample)
    assert (picture[:, :480] == COLORS[0][:3]).all()
    assert (picture[:240, 480:] == 0).all()
    assert (picture[240:, 480:] == COLORS[1][:3]).all()
    boxes = {item.class_id: item.box for item in BatchMeta.of(sample.get_buffer()).frames[0].objects}
    assert (boxes[0], boxes[1]) == ((0, 0, 480, 480), (480, 240, 160, 240))


def test_a_c_program_tells_tiles_by_the_address_of_a_struct() -> None:
    class Tile(ctypes.Structure):
        _fields_ = (("source", ctypes.c_uint32), *((name, ctypes.c_float) for name in "xywh"))

    class Config(ctypes.Structure):
        _fields_ = (("tiles", ctypes.POINTER(Tile)), ("length", ctypes.c_uint32))

    config = Config((Tile * 2)(Tile(1, 0.0, 0.0, 0.5, 0.5), Tile(0, 0.8, 0.0, 0.5, 1.0)), 2)
    caps = surface_caps(8)
    elements = "sluicetiler name=tiler width=640 height=480 keep-aspect-ratio=false ! video/x-raw,format=RGB"
    with Stream(elements, caps, ["sluicetiler"]) as stream:
        tiler = stream.pipeline.get_by_name("tiler")
        g_object_set = ctypes.CDLL("libgobject-2.0.so.0").g_object_set
        g_object_set.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p]
        g_object_set(hash(tiler), b"custom-tile-config", ctypes.addressof(config), None)
        stream.push(batch_of({0: ("RGB", 64, 48), 1: ("RGB", 64, 48)}))
        stream.play()
        picture = rgb(stream.pull())
        (told,) = warnings_of(stream.pipeline)
    assert (picture[:240, :320] == COLORS[1][:3]).all()
    assert (picture[300:, :320] == COLORS[0][:3]).all(), "a tile beyond the picture is not taken"
    assert "of source 0 is not taken: it reaches beyond the picture; it lies in the grid" in told


@pytest.mark.parametrize("text", ["0", "0:0,0,1", "a:0,0,1,1", "0:0,0,1,1;0:0,0,1,1", "-1:0,0,1,1"])
def test_tiles_that_are_none_are_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigurationError, match="tiles: "):
        parse_tiles(text)


def test_a_grid_that_is_too_small_and_a_source_that_is_not_there_are_told_once() -> None:
    elements = "sluicetiler rows=1 columns=2 width=640 height=480 name=tiler ! video/x-raw,format=RGB"
    with Stream(elements, surface_caps(8), ["sluicetiler"]) as stream:
        stream.push(batch_of(FOUR))
        stream.play()
        stream.pull()
        stream.push(batch_of(FOUR))
        assert len({tuple(pixel) for pixel in rgb(stream.pull())[::60, ::80].reshape(-1, 3)}) >= 4
        (told,) = warnings_of(stream.pipeline)
        assert told.startswith("rows=1 columns=2 have no tile for source 3; the tiles are 2 rows of 2 now")
        stream.pipeline.get_by_name("tiler").set_property("show-source", 7)
        for _ in range(2):
            stream.push(batch_of(FOUR))
            stream.pull()
        assert warnings_of(stream.pipeline) == ["show-source=7: there is no such source, but 0, 1, 2, 3"]


def test_the_incoming_batch_is_left_as_it_was() -> None:
    batch = batch_of(FOUR)
    copies = counters.copies()
    tiled("width=640 height=480", FOUR, lambda: batch)
    assert counters.copies() == copies
    frames = BatchMeta.of(batch).frames
    assert [item.class_id for frame in frames for item in frame.objects] == [10, 0, 11, 1, 12, 2, 13, 3]
    assert frames[0].objects[1].box == (0.0, 0.0, 64.0, 48.0)


def test_drawing_behind_the_tiler_finds_the_objects() -> None:
    elements = "sluicetiler width=640 height=480 ! sluiceosd"
    with Stream(elements, surface_caps(8), ["sluicetiler", "sluiceosd"]) as stream:
        copies = counters.copies()
        stream.push(batch_of(FOUR))
        stream.play()
        (sample,) = stream.finish()
    assert counters.copies() == copies, "the picture belongs to the tiler alone, so it is drawn on in place"
    luma = planes(sample.get_buffer(), sample.get_caps())[0]
    # The red border of the object that covers the frame of source 0, and its text's black background.
    assert luma[100, 0] == 63
    assert luma[4, 4] == 16


def test_batches_without_metadata_are_refused_by_name() -> None:
    with Stream("sluicetiler", surface_caps(1), ["sluicetiler"]) as stream:
        stream.push(make_batch([raw_buffer(raw_caps("RGB", 8, 8))], 1))
        stream.play()
        assert stream.sink.emit("try-pull-sample", 5 * Gst.SECOND) is None
        assert "put sluicemux before" in (stream.error() or "")


def test_many_batches_leave_nothing_behind() -> None:
    with nothing_is_left("live_batches", "live_frames"):
        with Stream("sluicetiler width=64 height=48", surface_caps(8), ["sluicetiler"]) as stream:
            stream.play()
            for number in range(200):
                stream.push(batch_of({number % 3: ("I420", 32, 24)}))
            assert len(stream.finish()) == 200
        del stream


def test_the_element_is_finalised() -> None:
    gone: list[str] = []
    with Stream("sluicetiler name=tiler", surface_caps(8), ["sluicetiler"]) as stream:
        stream.pipeline.get_by_name("tiler").weak_ref(gone.append, "tiler")
        stream.push(batch_of(FOUR))
        stream.play()
        stream.finish()
    del stream
    until(lambda: gc.collect() >= 0 and gone == ["tiler"])


def test_key_points_are_mapped_and_the_sources_own_stay() -> None:
    batch = batch_of({0: ("RGB", 100, 50), 1: ("RGB", 100, 50)})
    frame = BatchMeta.of(batch).frames[1]
    infer_meta.attach_keypoints(frame.objects[0], [[10, 20, 0.5]], unique_id=4)
    infer_meta.attach_keypoints(frame, [[100, 50]], unique_id=4)
    (sample,) = tiled("rows=1 columns=2 width=400 height=100", lambda: batch)
    (tile,) = BatchMeta.of(sample.get_buffer()).frames
    points = [found.points.tolist() for item in tile.objects for found in infer_meta.keypoints(item)]
    assert points == [[[220, 40, 0.5]]]
    assert [found.points.tolist() for found in infer_meta.keypoints(tile)] == [[[400, 100]]]
    assert infer_meta.keypoints(frame)[0].points.tolist() == [[100, 50]]


def test_the_batch_size_is_one_behind_the_tiler() -> None:
    with Stream("sluicetiler name=tiler", surface_caps(8), ["sluicetiler"]) as stream:
        stream.push(batch_of(FOUR))
        stream.play()
        stream.pull()
        sink = stream.sink.get_static_pad("sink")
        assert events.ask_batch_size(sink) == 1
        assert sink.peer_query(Gst.Query.new_latency()), "other queries go on upstream"


def test_the_tiles_of_a_sequential_grid_have_no_gaps() -> None:
    grid = Grid(800, 800, 1, 2, sequential=True)
    for source in (9, 4):
        grid.add(source)
    assert [grid.tile(source) for source in (4, 9)] == [Area(0, 0, 400, 800), Area(400, 0, 400, 800)]
    assert grid.add(6), "a third source makes the grid grow"
    assert grid.shape == (2, 3)
    assert [grid.tile(source).left for source in (4, 6, 9)] == [0, 266, 532]
    assert grid.remove(4)
    assert (grid.shape, grid.tile(6).left, grid.tile(9).left) == ((1, 2), 0, 400)


def test_an_ended_source_leaves_a_sequential_grid_and_comes_back_with_its_next_frame() -> None:
    both = {1: ("RGB", 64, 48), 4: ("RGB", 64, 48)}
    paired, ended, again = tiled(
        "rows=1 columns=2 square-seq-grid=true width=640 height=480 keep-aspect-ratio=false",
        both,
        events.stream_eos(1),
        {4: both[4]},
        both,
    )
    assert (rgb(paired)[:, :320] == COLORS[1][:3]).all()
    assert (rgb(paired)[:, 320:] == COLORS[4][:3]).all()
    assert (rgb(ended)[:, :320] == COLORS[4][:3]).all()
    assert (rgb(ended)[:, 320:] == 0).all()
    assert (rgb(again) == rgb(paired)).all()


def test_the_source_shown_can_change_while_playing() -> None:
    elements = "sluicetiler name=tiler width=640 height=480 keep-aspect-ratio=false ! video/x-raw,format=RGB"
    with Stream(elements, surface_caps(8), ["sluicetiler"]) as stream:
        stream.push(batch_of(FOUR))
        stream.play()
        first, tiler = rgb(stream.pull()), stream.pipeline.get_by_name("tiler")
        for source in (2, 0):
            tiler.set_property("show-source", source)
            stream.push(batch_of(FOUR))
            sample = stream.pull()
            assert (np.abs(rgb(sample).astype(int) - COLORS[source][:3]) <= 5).all()
            assert [item.class_id for item in BatchMeta.of(sample.get_buffer()).frames[0].objects] == [
                10 + source,
                source,
            ]
        tiler.set_property("show-source", 5)
        stream.push(batch_of(FOUR))
        assert (rgb(stream.pull()) == 0).all(), "a source that does not exist is black"
        tiler.set_property("show-source", -1)
        stream.push(batch_of(FOUR))
        assert (rgb(stream.pull()) == first).all()


def test_user_metas_of_the_batch_go_on_in_order() -> None:
    batch = batch_of({0: ("RGB", 64, 48)})
    for value in (1, 2):
        user_meta.attach_json(BatchMeta.of(batch), "TEST.BATCH", {"number": value})
    (sample,) = tiled("width=64 height=48", lambda: batch)
    before, after = (user_meta.find(BatchMeta.of(one), "TEST.BATCH") for one in (batch, sample.get_buffer()))
    assert [user_meta.payload_json(user)["number"] for user in after] == [
        user_meta.payload_json(user)["number"] for user in before
    ]
    assert len(after) == 2
    assert {user.data for user in after}.isdisjoint(user.data for user in before)


def test_class_maps_of_the_sources_become_one_of_the_picture() -> None:
    batch = batch_of({0: ("RGB", 100, 100), 1: ("RGB", 100, 100)})
    left, right = BatchMeta.of(batch).frames
    infer_meta.attach_segmentation(left, [[1, 2]], classes=3, unique_id=4)
    infer_meta.attach_segmentation(right, [[3], [0]], classes=5, unique_id=4)
    infer_meta.attach_segmentation(right, [[7]], classes=8, unique_id=6)
    (sample,) = tiled("rows=1 columns=2 width=400 height=100", lambda: batch)
    (frame,) = BatchMeta.of(sample.get_buffer()).frames
    first, second = sorted(infer_meta.segmentations(frame), key=lambda found: found.component)
    assert (first.component, first.classes, first.class_map.shape) == (4, 5, (50, 200))
    assert (second.component, second.classes) == (6, 8)
    # In cells of 2 x 2 pixels the frames of 100 x 100 lie in the middle of their tiles of 200 x 100.
    expected = np.full((50, 200), -1)
    expected[:, 25:50], expected[:, 50:75] = 1, 2
    expected[:25, 125:175], expected[25:, 125:175] = 3, 0
    assert (first.class_map == expected).all()
    assert (second.class_map[:, 125:175] == 7).all()
    assert (second.class_map[:, :125] == -1).all()
    assert len(infer_meta.segmentations(right)) == 2, "the source's own stay"
