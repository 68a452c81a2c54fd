"""The bulk calls: equal to the golden table of what nvinfer writes, to single writes, and all or nothing."""

import ctypes
import math
import threading

import numpy as np
import pytest

from sluice.contract import bulk
from sluice.contract._native import library
from sluice.contract.bulk import (
    LabelTable,
    add_tracked,
    fill_frames,
    read_objects,
    remove_objects,
    update_tracked,
    write_batch,
    write_objects,
)
from sluice.contract.metadata import UNTRACKED, BatchMeta, ObjectMeta
from sluice.contract.packed_masks import PackedMasks
from sluice.contract.provider import provider
from sluice.contract.user_meta import attach_text
from sluice.errors import ContractError, StaleBufferError

BOXES = np.array([[10, 4, 30, 40], [-5, 100, 20, 20], [50.5, 60.25, 7, 8]], np.float32)
SCORES = np.array([0.5, 0.25, 1.0], np.float32)
CLASSES = np.array([0, 2, 1], np.int32)
LABELS = ["person", None, "Straße " + "x" * 119 + "é"]
WHITE, BLACK, RED = (1, 1, 1, 1), (0, 0, 0, 1), (1, 0, 0, 1)


def golden(row: int) -> dict[str, object]:
    """What nvinfer writes for one detection (its sources, DeepStream 9.1), text kept inside the frame."""
    left, top, width, height = map(float, BOXES[row])
    label = LABELS[row]
    return {
        "unique_component_id": 5,
        "confidence": float(SCORES[row]),
        "object_id": UNTRACKED,
        "class_id": int(CLASSES[row]),
        "rect_params.left": left,
        "rect_params.top": top,
        "rect_params.width": width,
        "rect_params.height": height,
        "rect_params.rotation_angle": 0.0,
        "rect_params.border_width": 3,
        "rect_params.border_color": RED,
        "rect_params.has_bg_color": 0,
        "rect_params.bg_color": (0, 0, 0, 0),
        "rect_params.reserved": 0,
        "rect_params.has_color_info": 0,
        "rect_params.color_id": 0,
        "detector_bbox_info.org_bbox_coords.left": left,
        "detector_bbox_info.org_bbox_coords.top": top,
        "detector_bbox_info.org_bbox_coords.width": width,
        "detector_bbox_info.org_bbox_coords.height": height,
        "tracker_bbox_info.org_bbox_coords.left": 0.0,
        "tracker_bbox_info.org_bbox_coords.top": 0.0,
        "tracker_bbox_info.org_bbox_coords.width": 0.0,
        "tracker_bbox_info.org_bbox_coords.height": 0.0,
        "tracker_confidence": 0.0,
        "mask_params.data": 0,
        "mask_params.size": 0,
        "mask_params.threshold": 0.0,
        "mask_params.width": 0,
        "mask_params.height": 0,
        "text_params.display_text": label,
        "text_params.x_offset": max(0, int(left)),
        "text_params.y_offset": max(0, int(top - 10)),
        "text_params.font_params.font_name": "Serif",
        "text_params.font_params.font_size": 11,
        "text_params.font_params.font_color": WHITE,
        "text_params.set_bg_clr": 1,
        "text_params.text_bg_clr": BLACK,
        "obj_label": "" if label is None else label[:126] if row == 2 else label,
        "parent": 0,
        "classifier_meta_list": 0,
        "obj_user_meta_list": 0,
        "misc_obj_info": (0, 0, 0, 0),
        "reserved": (0, 0, 0, 0),
    }


def leaves(name: str, prefix: str = "") -> list[str]:
    """All fields of a struct that hold numbers, but for the base; colours count as one."""
    table = provider().layout
    found = []
    for field, entry in table.struct(name).fields.items():
        inner = entry.type in table.structs and entry.type != "NvOSD_ColorParams"
        found += leaves(entry.type, f"{prefix}{field}.") if inner else [prefix + field]
    return [path for path in found if not path.startswith("base_meta")]


def value(obj: ObjectMeta, path: str) -> object:
    """One field of an object, read from its bytes."""
    table = provider().layout
    entry = table.struct("NvDsObjectMeta").field(path)
    address = obj.address + entry.offset
    if entry.type == "NvOSD_ColorParams":
        return tuple((ctypes.c_double * 4).from_address(address))
    if entry.type == "char":
        return ctypes.string_at(address).decode()
    if path.endswith(("display_text", "font_name")):
        text = ctypes.c_char_p.from_address(address).value
        return None if text is None else text.decode()
    kind = table.struct("NvDsObjectMeta").ctype(path)
    return tuple((kind * entry.count).from_address(address)) if entry.count > 1 else kind.from_address(address).value


def content(obj: ObjectMeta) -> dict[str, object]:
    return {path: value(obj, path) for path in leaves("NvDsObjectMeta")}


def write(frame, **more):
    arguments = {"boxes": BOXES, "scores": SCORES, "class_ids": CLASSES, "labels": LABELS, "unique_id": 5, **more}
    return write_objects(frame, **arguments)


def test_every_field_equals_the_golden_table(frame):
    addresses = write(frame)
    objects = frame.objects
    assert [obj.address for obj in objects] == addresses[::-1].tolist()
    assert frame.infer_done
    assert frame.num_objects == 3
    for row, obj in enumerate(reversed(objects)):
        assert content(obj) == golden(row)
    assert set(golden(0)) == set(leaves("NvDsObjectMeta")), "the table names every field"


def test_one_write_of_n_equals_n_writes_of_one(batch):
    whole, single = batch.frames
    rotation = np.array([0, 30, -45], np.float32)
    masks = [np.eye(3, dtype=np.float32), None, np.zeros((2, 5))]
    colors = np.array([[0, 0, 1, 1], [0, 1, 0, 0.5], [1, 1, 1, 0]])
    write(whole, rotation=rotation, masks=masks, border_color=colors, bg_color=colors[::-1])
    for row in range(3):
        write_objects(
            single,
            BOXES[row : row + 1],
            SCORES[row : row + 1],
            CLASSES[row : row + 1],
            LABELS[row : row + 1],
            unique_id=5,
            rotation=rotation[row : row + 1],
            masks=masks[row : row + 1],
            border_color=tuple(colors[row]),
            bg_color=colors[2 - row],
        )
    for one, other in zip(whole.objects, single.objects, strict=True):
        first, second = content(one), content(other)
        assert bool(first.pop("mask_params.data")) == bool(second.pop("mask_params.data"))
        assert first == second
        assert (one.mask is None) == (other.mask is None)
    assert np.array_equal(whole.objects[2].mask, np.eye(3))
    assert whole.objects[0].mask.shape == (2, 5)
    assert [obj.rotation for obj in whole.objects] == [-45, 30, 0]
    assert whole.objects[2].rect.border_color == (0, 0, 1, 1)
    assert whole.objects[2].rect.bg_color == (1, 1, 1, 0)
    assert whole.objects[2].rect.has_bg_color


def packed(*masks):
    """Masks of 0 and 1 as bits, each beginning at a byte."""
    shapes = np.array([mask.shape for mask in masks], np.int64).reshape(-1, 2)
    parts = [np.packbits(mask.astype(bool), bitorder="little") for mask in masks]
    starts = np.cumsum([0, *map(len, parts)], dtype=np.int64)[: len(parts)]
    bits = np.concatenate(parts) if parts else np.zeros(0, np.uint8)
    return PackedMasks(bits, starts, shapes[:, 1], shapes[:, 0])


def random_masks(*shapes):
    random = np.random.default_rng(len(shapes))
    return [random.integers(0, 2, shape).astype(np.float32) for shape in shapes]


ODD_SHAPES = [(1, 1), (3, 5), (1, 8), (7, 1), (9, 9), (160, 160), (33, 159), (2, 4)]


def test_bits_become_the_floats_that_they_stand_for(frame):
    masks = random_masks(*ODD_SHAPES)
    count = len(masks)
    write(
        frame,
        boxes=np.ones((count, 4)),
        scores=np.ones(count),
        class_ids=np.zeros(count, int),
        labels=None,
        masks=packed(*masks),
        mask_threshold=0.25,
    )
    for obj, mask in zip(reversed(frame.objects), masks, strict=True):
        assert obj.mask.tobytes() == mask.tobytes()
        assert obj.mask.shape == mask.shape
        assert obj.mask_threshold == 0.25
        assert value(obj, "mask_params.size") == mask.nbytes


def test_no_bits_for_no_objects(frame):
    assert len(write_objects(frame, [], [], [], unique_id=1, masks=packed())) == 0
    assert frame.infer_done


@pytest.mark.parametrize("kind", [packed, lambda *masks: list(masks)])
def test_masks_of_a_batch_go_to_their_frames(batch, kind):
    masks = random_masks((3, 5), (8, 8), (1, 13))
    counts = [1, 2]
    assert write_batch(batch.frames, counts, BOXES, SCORES, CLASSES, unique_id=5, masks=kind(*masks)) == 3
    written = [obj.mask for frame in batch.frames for obj in reversed(frame.objects)]
    assert [mask.tolist() for mask in written] == [mask.tolist() for mask in masks]


def test_a_batch_whose_masks_are_missing_in_places(batch):
    write_batch(batch.frames, [1, 2], BOXES, SCORES, CLASSES, unique_id=5, masks=[None, np.ones((2, 3)), None])
    written = [obj.mask for frame in batch.frames for obj in reversed(frame.objects)]
    assert [mask is None for mask in written] == [True, False, True]


def test_bits_that_are_picked_and_joined(frame):
    masks = random_masks((3, 5), (8, 8), (1, 13), (2, 2))
    first, second = packed(*masks[:2]), packed(*masks[2:])
    joined = PackedMasks.joined([first, second])
    picked = joined.pick(np.array([True, False, True, True]))
    write(frame, masks=picked)
    wanted = [masks[0], masks[2], masks[3]]
    assert [mask.tolist() for mask in picked] == [mask.tolist() for mask in wanted]
    assert [obj.mask.tolist() for obj in reversed(frame.objects)] == [mask.tolist() for mask in wanted]


def test_labels_by_class(frame):
    write(frame, labels=LabelTable(["zero", "one"]))
    assert [obj.label for obj in frame.objects] == ["one", "", "zero"]
    assert [obj.text.display_text for obj in frame.objects] == ["one", None, "zero"]


def test_texts_instead_of_labels(frame):
    write(frame, texts=["a", None, "c"])
    assert [obj.text.display_text for obj in frame.objects] == ["c", None, "a"]
    assert frame.objects[2].label == "person"


def test_parents(frame):
    car = write_objects(frame, [[0, 0, 9, 9]], [1], [0], unique_id=1)
    plate = write_objects(frame, BOXES, SCORES, CLASSES, unique_id=2, parents=[car[0], 0, car[0]])
    by_address = {obj.address: obj for obj in frame.objects}
    assert [by_address[int(a)].parent for a in plate] == [by_address[int(car[0])], None, by_address[int(car[0])]]


@pytest.mark.parametrize("empty", [np.zeros((0, 4), np.float32), []])
def test_no_detections_is_still_a_result(frame, empty):
    assert len(write_objects(frame, empty, [], [], [], unique_id=1)) == 0
    assert frame.infer_done
    assert len(read_objects(frame)) == 0


def test_infer_done_can_be_left(frame):
    write(frame, infer_done=None)
    assert not frame.infer_done


def packed_as(starts, columns, lines, bits=np.zeros(3, np.uint8)):  # noqa: B008 - which nobody writes to
    return PackedMasks(bits, *map(np.array, (starts, columns, lines)))


WRONG = {
    "boxes of 5": ({"boxes": np.zeros((3, 5))}, r"boxes has shape \(3, 5\); it needs \(3, 4\)"),
    "boxes of text": ({"boxes": np.full((3, 4), "1")}, "boxes has dtype <U1"),
    "a NaN box": ({"boxes": np.where(np.eye(3, 4) > 0, math.nan, 1)}, r"boxes\[0\] is not finite"),
    "an infinite box": ({"boxes": [[0, 0, 1, 1]] * 2 + [[0, 0, math.inf, 1]]}, r"boxes\[2\] is not finite"),
    "a box beyond float32": ({"boxes": [[0, 0, 1, 1]] * 2 + [[0, 0, 1e39, 1]]}, r"boxes\[2\] is not finite"),
    "a negative width": ({"boxes": [[0, 0, 1, 1], [0, 0, -1, 1], [0, 0, 1, 1]]}, r"boxes\[1\] has a negative width"),
    "two scores": ({"scores": SCORES[:2]}, r"scores has shape \(2,\); it needs \(3,\)"),
    "a NaN score": ({"scores": [0, 0, math.nan]}, r"scores\[2\] is not finite"),
    "complex scores": ({"scores": np.zeros(3, complex)}, "scores has dtype complex128"),
    "float classes": ({"class_ids": np.ones(3)}, "class_ids has dtype float64; it needs int32 or another integer"),
    "half a class": ({"class_ids": [0.5, 1, 2]}, "class_ids holds something that is not an integer"),
    "a huge class": ({"class_ids": [0, 1, 2**31]}, "class_ids has values outside"),
    "two labels": ({"labels": ["a", "b"]}, "labels has 2 entries for 3 boxes"),
    "a number as label": ({"labels": ["a", 5, "c"]}, "labels holds something that is neither a str nor None"),
    "a NUL in a label": ({"labels": ["a", "b\0c", "d"]}, "contains a NUL"),
    "a NaN rotation": ({"rotation": [0, math.nan, 0]}, r"rotation\[1\] is not finite"),
    "a parent elsewhere": ({"parents": [0, 4096, 0]}, r"parents\[1\] is not the address of an object of this frame"),
    "a negative parent": ({"parents": [0, -1, 0]}, "parents has values outside"),
    "a flat mask": ({"masks": [None, np.zeros(4, np.float32), None]}, r"masks\[1\] has shape \(4,\)"),
    "a NaN mask": ({"masks": [None, None, np.full((2, 2), math.nan)]}, r"masks\[2\] has shape"),
    "two masks": ({"masks": [None, None]}, "masks has 2 entries"),
    "two packed masks": ({"masks": packed(*random_masks((2, 2), (2, 2)))}, "masks has 2 entries"),
    "masks beside a wrong parent": (
        {"masks": packed(*random_masks((9, 9), (9, 9), (9, 9))), "parents": [0, 4096, 0]},
        r"parents\[1\] is not the address",
    ),
    "bits that are missing": ({"masks": packed_as([0, 1, 2], [3, 3, 3], [3, 3, 3])}, "within the 3 bytes"),
    "bits before the first": ({"masks": packed_as([0, -1, 0], [1, 1, 1], [1, 1, 1])}, "within the 3 bytes"),
    "a mask without columns": ({"masks": packed_as([0, 0, 0], [1, 0, 1], [1, 1, 1])}, "fewer columns or lines than 1"),
    "a mask of endless lines": ({"masks": packed_as([0, 0, 0], [1, 1, 1], [1, 1, 1 << 62])}, "more than 31 bits"),
    "bits in numbers": ({"masks": packed_as([0, 0, 0], [1] * 3, [1] * 3, np.zeros(3))}, "bits has dtype float64"),
    "starts in float": ({"masks": packed_as([0.0, 0, 0], [1] * 3, [1] * 3)}, "starts has dtype float64"),
    "columns of one": ({"masks": packed_as([0, 0, 0], [1], [1] * 3)}, r"columns has dtype int64 and shape \(1,\)"),
    "a mask of 4 GiB": (
        {"masks": packed_as([0, 0, 0], [1, 1, 1 << 15], [1, 1, 1 << 15], np.zeros(1 << 27, np.uint8))},
        r"masks\[2\] has 4 GiB or more",
    ),
    "a bright colour": ({"border_color": (2.0, 0, 0, 1)}, "border_color holds a value outside 0 to 1"),
    "two colours": ({"bg_color": np.ones((2, 4))}, r"bg_color has shape \(2, 4\); it needs \(3, 4\)"),
    "two texts": ({"texts": ["a", "b"]}, "texts has 2 entries"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_fault_in_one_row_writes_nothing(batch, frame, pools, name):
    before = pools(batch)
    more, message = WRONG[name]
    with pytest.raises(ContractError, match=message):
        write(frame, **more)
    assert pools(batch) == before, "nothing was acquired"
    assert not frame.infer_done
    assert frame.objects == []


def test_a_stale_frame_is_refused(batch, pools):
    frame = batch.frames[0]
    address = batch.address
    frame.lease.end()
    for call in (
        lambda: write(frame),
        lambda: read_objects(frame),
        lambda: remove_objects(frame, []),
        lambda: fill_frames(batch, [(0,) * 9]),
    ):
        with pytest.raises(StaleBufferError):
            call()
    assert address


def test_nothing_stays_unattached(batch, frame, pools):
    for count in (1, 50, 300):
        write_objects(frame, np.ones((count, 4)), np.ones(count), np.zeros(count, int), unique_id=1)
    assert pools(batch)["obj_meta_pool"][2] == frame.num_objects == len(frame.objects) == 351
    provider().clear_objects(frame.address)
    assert pools(batch)["obj_meta_pool"][2] == 0


@pytest.mark.parametrize("call", [write, read_objects, lambda frame: frame.add_object()])
def test_a_call_waits_for_whoever_has_the_lock(batch, frame, call):
    """And without the GIL: this thread goes on meanwhile."""
    done = threading.Event()
    thread = threading.Thread(target=lambda: (call(frame), done.set()))
    provider().lock(batch.address)
    try:
        thread.start()
        assert not done.wait(0.1)
    finally:
        provider().unlock(batch.address)
    assert done.wait(10)
    thread.join()


def test_reading_into_arrays(frame):
    addresses = write(frame, rotation=[1, 2, 3])
    objects = read_objects(frame)
    assert len(objects) == 3
    assert objects.address.tolist() == addresses[::-1].tolist()
    assert np.array_equal(objects.boxes, BOXES[::-1])
    assert np.array_equal(objects.detector_boxes, BOXES[::-1])
    assert not objects.tracker_boxes.any()
    assert np.array_equal(objects.confidence, SCORES[::-1])
    assert not objects.tracker_confidence.any()
    assert objects.class_id.tolist() == [1, 2, 0]
    assert objects.object_id.tolist() == [UNTRACKED] * 3
    assert objects.unique_component_id.tolist() == [5] * 3
    assert objects.rotation.tolist() == [3, 2, 1]
    assert objects.parent.tolist() == [0, 0, 0]
    assert objects.labels == [LABELS[2][:126], "", "person"]
    frame.lease.end()
    assert objects.class_id.tolist() == [1, 2, 0], "arrays outlive the lease"


def test_reading_more_objects_than_were_counted(frame, monkeypatch):
    write(frame)
    monkeypatch.setattr(type(frame), "num_objects", 1)
    assert read_objects(frame).class_id.tolist() == [1, 2, 0]


def test_tracked_objects(frame):
    addresses = write(frame)
    clipped = BOXES.copy()
    clipped[1] = [0, 100, 15, 20]
    ids = np.array([7, 2**40, 2**64 - 2], np.uint64)
    update_tracked(frame, addresses, ids, clipped, BOXES, [0.25, 0.5, 1])
    for row, obj in enumerate(reversed(frame.objects)):
        expected = golden(row) | {
            "object_id": int(ids[row]),
            "tracker_confidence": [0.25, 0.5, 1][row],
            "text_params.font_params.font_size": 10,
            "text_params.x_offset": int(clipped[row][0]),
            "text_params.y_offset": max(0, int(clipped[row][1] - 20)),
        }
        for index, side in enumerate(("left", "top", "width", "height")):
            expected[f"rect_params.{side}"] = float(clipped[row][index])
            expected[f"tracker_bbox_info.org_bbox_coords.{side}"] = float(BOXES[row][index])
        texts = ["person 7", str(2**40), (LABELS[2] + " ").encode()[:127].decode("utf-8", "ignore")]
        expected["text_params.display_text"] = texts[row]
        assert content(obj) == expected


def test_tracked_objects_may_keep_their_text(frame):
    addresses = write(frame)
    update_tracked(frame, addresses, [1, 2, 3], BOXES * [1, 1, 1, 1], BOXES, SCORES, show_ids=False)
    assert [obj.text.display_text for obj in reversed(frame.objects)] == LABELS
    assert [obj.object_id for obj in frame.objects] == [3, 2, 1]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"addresses": [1, 2, 3]}, r"addresses\[0\] is not the address of an object of this frame"),
        ({"object_ids": [1, 2]}, "object_ids has shape"),
        ({"object_ids": [-1, 2, 3]}, "object_ids has values outside"),
        ({"boxes": BOXES * [1, 1, -1, 1]}, "negative width"),
        ({"tracker_boxes": np.full((3, 4), np.nan)}, r"tracker_boxes\[0\] is not finite"),
        ({"confidences": [0, math.inf, 0]}, r"confidences\[1\] is not finite"),
    ],
)
def test_wrong_tracks_change_nothing(frame, more, message):
    arguments = {
        "addresses": write(frame),
        "object_ids": [1, 2, 3],
        "boxes": BOXES,
        "tracker_boxes": BOXES,
        "confidences": SCORES,
        **more,
    }
    with pytest.raises(ContractError, match=message):
        update_tracked(frame, **arguments)
    assert [content(obj) for obj in reversed(frame.objects)] == [golden(row) for row in range(3)]


def test_objects_that_only_the_tracker_has(frame):
    addresses = add_tracked(
        frame, BOXES, BOXES + 1, SCORES, CLASSES, [4, 5, 6], ["a", "b", None], texts=["a 4", "b 5", "6"]
    )
    obj = ObjectMeta(int(addresses[0]), frame.lease, provider())
    assert obj.confidence == pytest.approx(-0.1)
    assert (obj.object_id, obj.class_id, obj.label, obj.unique_component_id) == (4, 0, "a", 0)
    assert obj.box == tuple(BOXES[0])
    assert obj.tracker_box == tuple(BOXES[0] + 1)
    assert obj.detector_box == (0, 0, 0, 0)
    assert obj.tracker_confidence == 0.5
    assert (obj.text.display_text, obj.text.y_offset, obj.text.font_size) == ("a 4", 0, 10)
    assert not frame.infer_done


def test_removing_objects(batch, frame, pools):
    addresses = write(frame)
    child = write_objects(frame, [[0, 0, 1, 1]] * 2, [1, 1], [0, 0], unique_id=9, parents=[addresses[0], addresses[2]])
    with pytest.raises(ContractError, match=r"addresses\[1\] is not the address"):
        remove_objects(frame, [addresses[0], 4096])
    assert frame.num_objects == 5
    remove_objects(frame, addresses[:2])
    assert read_objects(frame).address.tolist() == [child[1], child[0], addresses[2]]
    assert read_objects(frame).parent.tolist() == [addresses[2], 0, 0], "no pointer to a removed parent is left"
    assert pools(batch)["obj_meta_pool"][2] == 3
    remove_objects(frame, [addresses[2], addresses[2]])
    assert frame.num_objects == 2
    remove_objects(frame, [])
    assert frame.num_objects == 2


def test_user_data_of_an_object_that_is_removed_is_let_go(frame):
    addresses, before = write(frame), library().sluice_live_payloads()
    attach_text(ObjectMeta(int(addresses[1]), frame.lease, frame.provider), "SLUICE.TEST.TEXT", "of the second")
    remove_objects(frame, addresses[:1])
    assert library().sluice_live_payloads() == before + 1
    remove_objects(frame, addresses[1:])
    assert library().sluice_live_payloads() == before
    assert frame.num_objects == 0


def test_filling_frames(buffer):
    batch = BatchMeta.attach(buffer, 3)
    rows = np.zeros(2, bulk.FRAME_ROW)
    rows[0] = (2**63, 2**62, 3, 4, 5, 1920, 1080, 640, 360)
    rows["frame_num"][1] = 9
    addresses = fill_frames(batch, rows)
    first, second = batch.frames
    assert [first.address, second.address] == addresses.tolist()
    assert (first.buf_pts, first.ntp_timestamp, first.pad_index, first.source_id) == (2**63, 2**62, 3, 4)
    assert (first.frame_num, first.source_width, first.source_height) == (5, 1920, 1080)
    assert (first.pipeline_width, first.pipeline_height, first.num_surfaces_per_frame) == (640, 360, 1)
    assert (first.surface_type, first.surface_index, first.infer_done) == (0, 0, False)
    assert [first.batch_id, second.batch_id] == [0, 1]
    with pytest.raises(ContractError, match="2 more frames do not fit into a batch of 3 that has 2"):
        fill_frames(batch, rows)
    for wrong in (np.zeros(1), [(1, 2)], [(1, 2, 3, 4, 5, 6, 7, 8, "x")]):
        with pytest.raises(ContractError, match="rows"):
            fill_frames(batch, wrong)
    assert batch.num_frames == 2
    fill_frames(batch, rows[:1])
    assert batch.frames[2].batch_id == 2
