"""Pools, lists, copies and the GstMeta: what NVIDIA's library does, the portable one must do."""

import ctypes
import gc
import threading

import gi
import numpy as np
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract import gstref
from sluice.contract.bulk import fill_frames, read_objects, write_objects
from sluice.contract.metadata import UNTRACKED, BatchMeta, Lease, ObjectMeta, UserMeta
from sluice.contract.provider import DEEPSTREAM, META_LIBRARY, open_provider, provider, wheel_folder
from sluice.contract.user_meta import attach_text, payload
from sluice.errors import ContractError, StaleBufferError


def struct(view, name=None):
    """The bytes of a view's struct as a numpy record."""
    table = view.provider.layout
    name = name or view.struct
    return np.frombuffer(ctypes.string_at(view.address, table.struct(name).size), table.dtype(name))[0]


def test_new_pools(batch, pools):
    counts = pools(batch)
    assert counts["frame_meta_pool"] == (4, 2, 2)
    assert [counts[name][0] for name in ("obj_meta_pool", "classifier_meta_pool", "label_info_meta_pool")] == [32] * 3
    assert [counts[name][0] for name in ("display_meta_pool", "user_meta_pool")] == [8, 8]


def test_a_pool_grows_by_twice_its_size_up_to_128(pools):
    batch = BatchMeta(provider().create_batch(1), Lease(), provider())
    sizes = []
    for _ in range(210):
        provider().acquire_frame(batch.address)
        sizes.append(pools(batch)["frame_meta_pool"][0])
    assert sorted(set(sizes)) == [1, 3, 9, 27, 81, 209, 337]
    provider().destroy_batch(batch.address)


def test_a_new_batch_is_empty_but_for_its_base(buffer):
    batch = BatchMeta.attach(buffer, 3)
    row = struct(batch)
    assert row["base_meta"]["batch_meta"] == batch.address
    assert row["base_meta"]["meta_type"] == 1
    assert row["base_meta"]["copy_func"]
    assert row["base_meta"]["release_func"]
    assert (batch.max_frames, batch.num_frames, batch.frames, batch.user_metas) == (3, 0, [], [])
    assert not row["misc_batch_info"].any()


def test_a_batch_needs_room():
    with pytest.raises(ContractError, match="at least 1 frame, not 0"):
        provider().create_batch(0)


@pytest.mark.parametrize("kind", ["frame", "object", "classifier", "label", "display", "user"])
def test_an_acquired_element_is_zero_but_for_its_base(batch, kind):
    names = {
        "frame": ("NvDsFrameMeta", 2),
        "object": ("NvDsObjectMeta", 3),
        "classifier": ("NvDsClassifierMeta", 5),
        "label": ("NvDsLabelInfo", 6),
        "display": ("NvDsDisplayMeta", 4),
        "user": ("NvDsUserMeta", 7),
    }
    name, meta_type = names[kind]
    address = getattr(provider(), f"acquire_{kind}")(batch.address)
    size = provider().layout.struct(name).size
    content = ctypes.string_at(address, size)
    base = np.frombuffer(content[:40], provider().layout.dtype("NvDsBaseMeta"))[0]
    assert (base["batch_meta"], base["meta_type"], base["copy_func"]) == (batch.address, meta_type, 0)
    assert bool(base["release_func"]) == (kind != "user")
    assert not any(content[40:])


def test_order_of_lists(batch, frame):
    objects = [frame.add_object() for _ in range(3)]
    assert [view.address for view in frame.objects] == [view.address for view in reversed(objects)]
    assert frame.num_objects == 3
    displays = [frame.add_display() for _ in range(3)]
    assert frame.display_metas == displays[::-1]
    classifiers = [objects[0].add_classifier(i) for i in range(3)]
    assert objects[0].classifiers == classifiers[::-1]
    labels = [classifiers[0].add_label(str(i)) for i in range(3)]
    assert classifiers[0].labels == labels[::-1]
    assert classifiers[0].num_labels == 3
    assert [f.batch_id for f in batch.frames] == [0, 1]
    for owner, add, newest_first in (
        (batch, provider().add_user_to_batch, False),
        (frame, provider().add_user_to_frame, True),
        (objects[0], provider().add_user_to_object, True),
    ):
        users = [UserMeta(provider().acquire_user(batch.address), frame.lease, provider()) for _ in range(3)]
        for user in users:
            user.release_func = user.copy_func = 0
            add(owner.address, user.address)
        assert owner.user_metas == (users[::-1] if newest_first else users)


def test_a_removed_object_is_zeroed_and_reused_first(batch, frame, pools):
    kept, gone = frame.add_object(), frame.add_object()
    gone.label, gone.class_id, gone.text.display_text = "gone", 7, "text"
    gone.mask = np.ones((2, 3))
    gone.add_classifier(1).add_label("a label")
    provider().remove_object(frame.address, gone.address)
    assert frame.objects == [kept]
    assert frame.num_objects == 1
    assert pools(batch)["obj_meta_pool"] == (32, 31, 1)
    assert pools(batch)["classifier_meta_pool"][2] == pools(batch)["label_info_meta_pool"][2] == 0
    again = provider().acquire_object(batch.address)
    assert again == gone.address
    assert not any(ctypes.string_at(again + 40, 552 - 40))
    provider().add_object(frame.address, again, 0)


def test_a_recycled_user_meta_is_dirty(batch, frame):
    user = UserMeta(provider().acquire_user(batch.address), frame.lease, provider())
    user.meta_type, user.context = 9000, 77
    provider().add_user_to_frame(frame.address, user.address)
    provider().remove_user_from_frame(frame.address, user.address)
    again = UserMeta(provider().acquire_user(batch.address), frame.lease, provider())
    assert (again.address, again.meta_type, again.context) == (user.address, 9000, 77)
    provider().add_user_to_frame(frame.address, again.address)


def test_clearing(batch, frame, pools):
    for _ in range(40):
        frame.add_object().add_classifier(1).add_label("x")
    displays = [frame.add_display() for _ in range(10)]
    displays[0].num_labels = 1
    displays[0].texts[0].display_text = "text"
    provider().clear_objects(frame.address)
    provider().clear_displays(frame.address)
    assert (frame.objects, frame.display_metas, frame.num_objects) == ([], [], 0)
    counts = pools(batch)
    assert all(counts[name][2] == 0 for name in counts if name != "frame_meta_pool")
    assert len(batch.frames) == 2


def numbers_of(view):
    """All fields of a view's struct but pointers and the base, by path."""
    table = view.provider.layout

    def walk(name, offset, path):
        for field, entry in table.struct(name).fields.items():
            place = f"{path}.{field}"
            if entry.type == "NvDsBaseMeta" or entry.type == "ptr":
                continue
            if entry.type in table.structs:
                size = table.struct(entry.type).size
                for i in range(entry.count):
                    yield from walk(entry.type, offset + entry.offset + i * size, f"{place}[{i}]")
            else:
                size = np.dtype("S1" if entry.type == "char" else entry.type).itemsize * entry.count
                yield place, ctypes.string_at(view.address + offset + entry.offset, size)

    return dict(walk(view.struct, 0, view.struct))


def test_both_providers_copy_the_same_fields():
    if wheel_folder() is None and not (DEEPSTREAM / META_LIBRARY).exists():
        pytest.skip("NVIDIA's metadata library is not installed")
    copies = []
    for owner in (open_provider("portable"), open_provider("nvidia")):
        batch = BatchMeta(owner.create_batch(2), Lease(), owner)
        fill_frames(batch, [(7, 8, 9, 10, 11, 12, 13, 14, 15)] * 2)
        frame = batch.frames[0]
        frame.surface_type, frame.surface_index, frame.infer_done, frame.misc = 3, 4, True, (1, 2, 3, 4)
        parent = frame.add_object()
        write_objects(
            frame,
            [[1, 2, 3, 4]] * 2,
            [0.5, 1],
            [1, 2],
            ["a", "b"],
            unique_id=3,
            rotation=[5, 6],
            masks=[np.ones((2, 3)), None],
            parents=[parent.address, 0],
            bg_color=(0, 1, 0, 1),
        )
        obj = frame.objects[0]
        obj.tracker_box, obj.tracker_confidence, obj.object_id, obj.misc = (9, 8, 7, 6), 0.25, 77, (5, 6, 7, 8)
        info = obj.add_classifier(4, "kind").add_label("red", class_id=5, label_id=6, probability=0.5, num_classes=7)
        info.long_label = "a long label"
        display = frame.add_display()
        display.num_circles = display.num_lines = display.num_arrows = 2
        display.circles[1].radius, display.lines[1].x2, display.arrows[1].arrow_head = 5, 6, 2
        copy = BatchMeta(owner.copy_batch(batch.address), Lease(), owner)
        views = [copy, *copy.frames]
        for twin in copy.frames:
            views += twin.display_metas
            for item in twin.objects:
                views += [item, *item.classifiers, *(label for c in item.classifiers for label in c.labels)]
        found = [numbers_of(view) for view in views]
        del found[0]["NvDsBatchMeta.meta_mutex"]
        copies.append(found)
        owner.destroy_batch(copy.address)
        owner.destroy_batch(batch.address)
    assert len(copies[0]) == 9
    assert copies[0] == copies[1]


def test_removed_frames_take_their_display_metas_along(batch, pools):
    for frame in batch.frames:
        frame.add_display()
        frame.add_object()
        frame.uri, frame.sensor_id, frame.sensor_name = "rtsp://camera", "7", "Gate"
    provider().remove_frame(batch.address, batch.frames[0].address)
    assert pools(batch)["display_meta_pool"] == (8, 7, 1)
    assert [frame.batch_id for frame in batch.frames] == [1]
    provider().clear_frames(batch.address)
    assert (batch.frames, batch.num_frames) == ([], 0)
    assert all(used == 0 for _, _, used in pools(batch).values())


def test_clearing_the_inner_lists(batch, frame, pools):
    obj = frame.add_object()
    classifier = obj.add_classifier(1)
    classifier.add_label("x")
    provider().clear_labels(classifier.address)
    assert (classifier.labels, classifier.num_labels) == ([], 0)
    provider().clear_classifiers(obj.address)
    assert obj.classifiers == []
    for owner, add, clear in (
        (batch, provider().add_user_to_batch, provider().clear_batch_users),
        (frame, provider().add_user_to_frame, provider().clear_frame_users),
        (obj, provider().add_user_to_object, provider().clear_object_users),
    ):
        user = UserMeta(provider().acquire_user(batch.address), frame.lease, provider())
        user.release_func = 0
        add(owner.address, user.address)
        clear(owner.address)
        assert owner.user_metas == []
    assert pools(batch)["user_meta_pool"][2] == 0


def test_a_copied_buffer_has_a_deep_copy(buffer, batch, frame, copied):
    frame.infer_done = True
    frame.pipeline_width = 640
    frame.sensor_name = "Gate"
    frame.misc = (1, -2, 3, 4)
    batch.misc = (31, 0, 0, 9)
    child_first = frame.add_object()
    child_first.label, child_first.mask, child_first.text.display_text = "child", np.full((2, 2), 0.25), "text"
    child_first.box, child_first.detector_box, child_first.rotation = (1, 2, 3, 4), (5, 6, 7, 8), 30.0
    classifier = child_first.add_classifier(4, "colour")
    for i in range(3):
        info = classifier.add_label(str(i), class_id=i, probability=0.5)
        info.long_label = f"long {i}"
    parent = frame.add_object()
    child_first.parent = parent
    display = frame.add_display()
    display.num_labels = 1
    display.texts[0].display_text = "overlay"

    copy = BatchMeta.of(copied(buffer))
    assert copy is not None
    assert copy.address != batch.address
    assert (copy.max_frames, copy.num_frames, copy.misc) == (4, 2, (31, 0, 0, 9))
    twin = copy.frames[0]
    assert (twin.batch_id, twin.frame_num, twin.buf_pts, twin.infer_done, twin.misc) == (0, 100, 0, True, (1, -2, 3, 4))
    assert twin.pipeline_width == 0
    assert twin.sensor_name == "Gate"
    assert [obj.label for obj in twin.objects] == ["child", ""], "the list comes out reversed"
    obj = twin.objects[0]
    assert (obj.box, obj.detector_box, obj.rotation) == ((1, 2, 3, 4), (5, 6, 7, 8), 30.0)
    assert obj.text.display_text == "text"
    assert obj.mask is not None
    assert obj.mask.tolist() == [[0.25, 0.25], [0.25, 0.25]]
    assert obj.parent == twin.objects[1], "the parent stood before its child in the list"
    assert obj.classifiers[0].classifier_type is None
    assert obj.classifiers[0].num_labels == 3
    assert [info.label for info in obj.classifiers[0].labels] == ["0", "1", "2"]
    assert [info.long_label for info in obj.classifiers[0].labels] == ["long 0", "long 1", "long 2"]
    assert twin.display_metas[0].texts[0].display_text == "overlay"
    provider().clear_objects(frame.address)
    assert obj.text.display_text == "text", "the copy owns its texts"


def test_user_metas_that_cannot_be_copied_are_left_out(buffer, batch, frame, copied):
    obj = frame.add_object()
    for owner, add in (
        (batch, provider().add_user_to_batch),
        (frame, provider().add_user_to_frame),
        (obj, provider().add_user_to_object),
    ):
        user = UserMeta(provider().acquire_user(batch.address), frame.lease, provider())
        user.copy_func = user.release_func = 0
        add(owner.address, user.address)
        attach_text(owner, 9000, "copied")
    copy = BatchMeta.of(copied(buffer))
    assert copy is not None
    for twin in (copy, copy.frames[0], copy.frames[0].objects[0]):
        assert [payload(user) for user in twin.user_metas] == ["copied"]


def test_a_parent_added_before_its_child_is_lost_in_a_copy(buffer, frame, copied):
    parent = frame.add_object()
    frame.add_object(parent)
    copy = BatchMeta.of(copied(buffer))
    assert copy is not None
    assert [obj.parent for obj in copy.frames[0].objects] == [None, None]


def test_the_batch_is_found_on_its_buffer_only(buffer, batch):
    assert BatchMeta.of(buffer) == batch
    assert BatchMeta.of(Gst.Buffer.new()) is None
    with pytest.raises(ContractError, match="already carries"):
        BatchMeta.attach(buffer, 1)


@pytest.mark.parametrize("wrong", [None, 7, "buffer", b"x", object(), Gst.Caps.new_empty(), hash])
def test_only_a_buffer_is_a_buffer(wrong):
    with pytest.raises(TypeError, match=r"a Gst\.Buffer is needed"):
        BatchMeta.of(wrong)
    with pytest.raises(TypeError, match=r"a Gst\.Buffer is needed"):
        BatchMeta.attach(wrong, 1)


def test_attaching_to_a_shared_buffer_needs_no_copy(buffer):
    address = gstref.steal(buffer)
    assert not gstref.is_writable(address)
    batch = BatchMeta.attach(buffer, 1)
    assert BatchMeta.of(buffer) == batch
    assert not gstref.is_writable(address)
    gstref.unref(address)


def test_the_gst_meta_has_the_batch_type_and_functions(buffer, batch):
    info = provider()._register()
    implementation = ctypes.c_size_t.from_address(info).value
    lib = ctypes.CDLL("libgstreamer-1.0.so.0")
    lib.gst_buffer_get_meta.restype = ctypes.c_void_p
    lib.gst_buffer_get_meta.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    meta = lib.gst_buffer_get_meta(gstref.address(buffer), implementation)
    row = np.frombuffer(ctypes.string_at(meta, 72), provider().layout.dtype("NvDsMeta"))[0]
    assert (row["meta_data"], row["user_data"], row["meta_type"]) == (batch.address, 0, 4097)
    assert row["copyfunc"] == row["gst_to_nvds_meta_transform_func"] != 0
    assert row["freefunc"] == row["gst_to_nvds_meta_release_func"] != 0


def test_user_meta_types():
    first = provider().user_meta_type("SLUICE.TEST.ONE")
    assert first == provider().user_meta_type("SLUICE.TEST.ONE")
    assert first >= 0x2001
    assert provider().user_meta_type("SLUICE.TEST.TWO") != first


def test_every_field_keeps_what_it_is_given(batch, frame):
    obj = frame.add_object()
    classifier = obj.add_classifier(3, "make")
    display = frame.add_display()
    for count in ("num_rects", "num_labels", "num_lines", "num_arrows", "num_circles"):
        setattr(display, count, 16)
    slots = [display.rects[15], display.texts[15], display.lines[15], display.arrows[15], display.circles[15]]
    library_counts = {"num_objects", "num_labels", "num_frames"}
    checked = 0
    for view in (batch, frame, obj, obj.rect, obj.text, classifier, classifier.add_label("x"), *slots):
        for name, member in vars(type(view)).items():
            if type(member).__name__ == "Number" and name not in library_counts:
                value = True if member.kind is bool else 0.75 if member.kind is float else 77
            elif type(member).__name__ == "Floats":
                value = (0.25, 0.5, 0.75, 1.0)
            elif type(member).__name__ == "Misc":
                value = (1, 2, 3, -4)
            elif type(member).__name__ in ("Label", "Text"):
                value = "größe"
            else:
                continue
            setattr(view, name, value)
            assert getattr(view, name) == value, f"{type(view).__name__}.{name}"
            checked += 1
    assert checked > 80


@pytest.mark.parametrize(("name", "value"), [("class_id", 2**31), ("object_id", -1), ("object_id", 2**64)])
def test_a_number_that_does_not_fit_is_refused(frame, name, value):
    obj = frame.add_object()
    with pytest.raises(ContractError, match=f"NvDsObjectMeta.{name} is {value}; it can be"):
        setattr(obj, name, value)
    assert obj.object_id == UNTRACKED


def test_a_number_that_is_none_is_refused(frame):
    obj = frame.add_object()
    with pytest.raises(ContractError, match=r"rect_params\.rotation_angle is nan; it needs a finite number"):
        obj.rotation = float("nan")
    assert obj.rotation == 0


def test_a_box_must_be_four_finite_numbers(frame):
    obj = frame.add_object()
    for value in ((1, 2, 3), (1, 2, 3, float("nan"))):
        with pytest.raises(ContractError, match="four finite numbers"):
            obj.box = value
    assert obj.box == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a" * 127, "a" * 127),
        ("a" * 128, "a" * 127),
        ("a" * 126 + "é", "a" * 126),
        ("a" * 125 + "é", "a" * 125 + "é"),
        ("漢" * 43, "漢" * 42),
        ("a" * 124 + "😀", "a" * 124),
        ("", ""),
    ],
)
def test_labels_are_cut_between_characters(frame, text, kept):
    obj = frame.add_object()
    obj.label = "b" * 127
    obj.label = text
    assert obj.label == kept


def test_a_view_is_stale_after_its_lease(buffer, batch):
    with Lease() as lease:
        meta = BatchMeta.of(buffer, lease)
        assert meta is not None
        obj = meta.frames[0].add_object()
        text = obj.text
    for use in (
        lambda: meta.frames,
        lambda: obj.class_id,
        lambda: obj.box,
        lambda: obj.label,
        lambda: obj.address,
        lambda: text.display_text,
        lambda: obj.add_classifier(1),
        lambda: setattr(obj, "class_id", 1),
        lambda: setattr(obj, "label", "x"),
        lambda: setattr(text, "display_text", "x"),
    ):
        with pytest.raises(StaleBufferError, match="after its buffer had left"):
            use()
    assert repr(obj).endswith("(stale)>")
    assert len(batch.frames[0].objects) == 1


def test_a_view_without_a_lease_keeps_the_buffer_alive():
    buffer = Gst.Buffer.new()
    batch = BatchMeta.attach(buffer, 1)
    address = gstref.address(buffer)
    del buffer
    gc.collect()
    assert gstref.refcount(address) == 1
    assert batch.max_frames == 1
    gstref.ref(address)
    batch.lease.end()
    gc.collect()
    assert gstref.refcount(address) == 1, "the end of the lease lets the buffer go"
    gstref.unref(address)


def test_the_lock_is_recursive_and_keeps_others_out(batch):
    owner, address = provider(), batch.address
    owner.lock(address)
    owner.lock(address)
    taken = threading.Event()

    def other():
        owner.acquire_object(address)
        taken.set()

    thread = threading.Thread(target=other)
    thread.start()
    owner.unlock(address)
    assert not taken.wait(0.1)
    owner.unlock(address)
    assert taken.wait(10)
    thread.join()


@pytest.mark.parametrize(("writer", "reader"), [("nvidia", "portable"), ("portable", "nvidia")])
def test_each_provider_reads_and_frees_the_others_bare_batches(writer, reader, pools):
    if wheel_folder() is None and not (DEEPSTREAM / META_LIBRARY).exists():
        pytest.skip("NVIDIA's metadata library is not installed")
    written, read = open_provider(writer), open_provider(reader)
    batch = BatchMeta(written.create_batch(2), Lease(), written)
    fill_frames(batch, [(7, 8, 0, 0, 5, 64, 48, 0, 0)] * 2)
    write_objects(batch.frames[1], [[1, 2, 3, 4], [5, 6, 7, 8]], [0.5, 0.75], [1, 2], ["one", "two"], unique_id=3)
    batch.frames[1].objects[0].add_classifier(9).add_label("red")
    attach_text(batch.frames[0], 9000, "kept")

    other = BatchMeta(batch.address, Lease(), read)
    objects = read_objects(other.frames[1])
    assert objects.labels == ["two", "one"]
    assert objects.boxes.tolist() == [[5, 6, 7, 8], [1, 2, 3, 4]]
    read.remove_object(other.frames[1].address, int(objects.address[0]))
    write_objects(other.frames[1], [[9, 9, 9, 9]] * 40, np.ones(40), np.arange(40), unique_id=4)
    copy = BatchMeta(read.copy_batch(batch.address), Lease(), read)
    assert payload(copy.frames[0].user_metas[0]) == "kept"
    assert copy.frames[1].num_objects == 41
    assert pools(other)["obj_meta_pool"] == pools(batch)["obj_meta_pool"] == (48, 7, 41)
    written.destroy_batch(copy.address)
    read.destroy_batch(batch.address)


def test_removing_the_last_display_leaves_the_object_pool_alone(batch, frame, pools):
    display = frame.add_display()
    before = pools(batch)["obj_meta_pool"]
    provider().remove_display(frame.address, display.address)
    assert pools(batch)["obj_meta_pool"] == before
    assert pools(batch)["display_meta_pool"] == (8, 8, 0)


def test_a_dying_batch_releases_objects_then_frames_then_itself():
    order = []
    release_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    batch = BatchMeta(provider().create_batch(1), Lease(), provider())
    fill_frames(batch, [(0,) * 9])
    frame = batch.frames[0]
    callbacks = []
    for name, owner, add in (
        ("batch", batch, provider().add_user_to_batch),
        ("frame", frame, provider().add_user_to_frame),
        ("object", frame.add_object(), provider().add_user_to_object),
    ):
        callbacks.append(release_type(lambda _meta, _data, name=name: order.append(name)))
        user = UserMeta(provider().acquire_user(batch.address), frame.lease, provider())
        user.copy_func = 0
        user.release_func = ctypes.cast(callbacks[-1], ctypes.c_void_p).value
        add(owner.address, user.address)
    provider().destroy_batch(batch.address)
    assert order == ["object", "frame", "batch"]


def test_a_provider_that_was_not_chosen_cannot_touch_buffers(buffer):
    bare = open_provider("portable")
    with pytest.raises(ContractError, match="does not own NvDsMeta"):
        bare.find(buffer)


def test_objects_compare_by_address(frame):
    first, second = frame.add_object(), frame.add_object()
    assert frame.objects == [second, first]
    assert {first, second} == set(frame.objects)
    assert ObjectMeta(first.address, frame.lease, provider()) == first
    assert first != frame
