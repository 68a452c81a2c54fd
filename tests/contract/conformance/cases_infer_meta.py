"""What networks say besides boxes: every field as NVIDIA's headers have it, in copies too, and all of it freed."""

import ctypes
import gc

import gi
import numpy as np
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract import infer_meta
from sluice.contract._native import library
from sluice.contract.bulk import write_objects
from sluice.contract.infer_meta import ClassifierRow, LabelRow
from sluice.contract.metadata import BatchMeta, Lease
from sluice.contract.provider import provider
from sluice.contract.user_meta import find
from sluice.errors import ContractError, StaleBufferError

MAP = np.array([[0, 1, 2], [-1, 1, 0]], np.int32)
PROBABILITIES = np.arange(18, dtype=np.float32).reshape(3, 2, 3) / 20
LAYERS = [
    ("boxes", np.arange(8, dtype=np.float32).reshape(2, 4)),
    ("größe", np.array([1, -2, 3], np.int64)),
    ("half", np.ones((1, 2, 3), np.float16)),
    ("scalar", np.array(7, np.uint8)),
]
VECTORS = np.array([[1, 2, 3], [4, 5, 6.5]], np.float32)
POINTS = np.arange(12, dtype=np.float32).reshape(2, 2, 3)


def live() -> int:
    gc.collect()
    return library().sluice_live_infer_metas()


@pytest.fixture
def addresses(frame):
    boxes = [[0, 0, 10, 10], [20, 30, 40, 50]]
    return write_objects(frame, boxes, [0.9, 0.8], [1, 2], ["car", None], unique_id=3)


def filled(frame, addresses) -> None:
    """Put one of each kind on the frame and on its objects."""
    infer_meta.attach_embeddings(frame, VECTORS, unique_id=5, addresses=addresses)
    infer_meta.attach_keypoints(frame, POINTS, unique_id=6, addresses=addresses)
    infer_meta.attach_embeddings(frame, VECTORS[0], unique_id=5)
    for owner in (frame, frame.objects[0]):
        infer_meta.attach_segmentation(owner, MAP, PROBABILITIES, classes=3, unique_id=7)
        infer_meta.attach_outputs(owner, LAYERS, unique_id=8, network=(640, 480, 3), keeps_aspect=True)
    infer_meta.attach_keypoints(frame, POINTS[0, :, :2], unique_id=6)


def test_rows_for_objects_may_come_in_any_order(frame):
    """And for only some of them; each goes to the object at its address."""
    count = 500
    addresses = write_objects(
        frame, [[0, 0, 10, 10]] * count, [0.9] * count, np.arange(count), ["car"] * count, unique_id=3
    )
    orders = np.arange(count), np.arange(count)[::-1], np.random.default_rng(1).permutation(count)[: count // 2]
    for unique_id, order in enumerate(orders):
        points = np.repeat(order[:, None, None], 2, axis=2).astype(np.float32)
        infer_meta.attach_keypoints(frame, points, unique_id=unique_id, addresses=addresses[order])
        rows = [ClassifierRow(int(addresses[n]), "color", [LabelRow(int(n), 0, 0.5, "blue")]) for n in order]
        infer_meta.write_classifications(frame, rows, unique_id=unique_id)
    chosen = set(orders[2].tolist())
    for item in frame.objects:
        wanted = [0, 1, 2] if item.class_id in chosen else [0, 1]
        found = infer_meta.keypoints(item)
        assert sorted(one.component for one in found) == wanted
        assert all(one.points.tolist() == [[item.class_id] * 2] for one in found)
        labels = [label for classifier in item.classifiers for label in classifier.labels]
        assert [label.class_id for label in labels] == [item.class_id] * len(wanted)


def raw(user, struct):
    dtype = provider().layout.dtype(struct)
    return np.frombuffer(ctypes.string_at(user.data, dtype.itemsize), dtype)[0]


def test_a_segmentation_map_has_nvidias_fields(frame):
    infer_meta.attach_segmentation(frame, MAP, PROBABILITIES, classes=3, unique_id=-4)
    (user,) = find(frame, 13)
    row = raw(user, "NvDsInferSegmentationMeta")
    assert [int(row[name]) for name in ("classes", "width", "height", "priv_data", "unique_id")] == [3, 3, 2, 0, -4]
    cells = (ctypes.c_int32 * 6).from_address(int(row["class_map"]))
    assert list(cells) == MAP.ravel().tolist()
    probabilities = (ctypes.c_float * 18).from_address(int(row["class_probabilities_map"]))
    assert list(probabilities) == PROBABILITIES.ravel().tolist(), "class by class, as a network's output"


def test_a_segmentation_map_without_probabilities(frame):
    infer_meta.attach_segmentation(frame, MAP.tolist(), classes=3, unique_id=1)
    (found,) = infer_meta.segmentations(frame)
    assert found.probabilities is None
    assert found.class_map.tolist() == MAP.tolist()


def test_raw_outputs_have_nvidias_fields(frame):
    infer_meta.attach_outputs(frame, LAYERS, unique_id=9, network=(640, 480, 3), keeps_aspect=True, centred=True)
    (user,) = find(frame, 12)
    row = raw(user, "NvDsInferTensorMeta")
    assert [int(row[name]) for name in ("unique_id", "num_output_layers", "gpu_id")] == [9, 4, 0]
    assert row["network_info"].tolist() == (640, 480, 3)
    assert (int(row["maintain_aspect_ratio"]), int(row["symmetric_padding"])) == (1, 1)
    host, device = ((ctypes.c_size_t * 4).from_address(int(row[f"out_buf_ptrs_{side}"])) for side in ("host", "dev"))
    assert list(device) == [0] * 4
    layer = provider().layout.dtype("NvDsInferLayerInfo")
    infos = np.frombuffer(ctypes.string_at(int(row["output_layers_info"]), 4 * layer.itemsize), layer)
    assert infos["dataType"].tolist() == [0, 4, 1, 5]
    assert infos["isInput"].tolist() == [0] * 4
    assert infos["bindingIndex"].tolist() == [1, 2, 3, 4]
    assert infos["buffer"].tolist() == list(host)
    assert all(at % 64 == 0 for at in host)
    assert infos["inferDims"]["numDims"].tolist() == [2, 1, 3, 0]
    assert infos["inferDims"]["numElements"].tolist() == [8, 3, 6, 1]
    assert infos["inferDims"]["d"][0].tolist() == [2, 4, 0, 0, 0, 0, 0, 0]
    assert (ctypes.c_float * 8).from_address(host[0])[7] == 7


def test_a_name_with_half_a_surrogate_pair_gets_a_question_mark(frame):
    infer_meta.attach_outputs(frame, [("caf\udce9", np.zeros(1, np.float32))], unique_id=9, network=(1, 1, 3))
    ((_, layers),) = infer_meta.outputs(frame)
    assert list(layers) == ["caf?"]


def test_embeddings_are_read_as_nvidias_features(frame, addresses):
    infer_meta.attach_embeddings(frame, VECTORS, unique_id=5, addresses=addresses)
    for item, vector in zip(reversed(frame.objects), VECTORS, strict=True):
        (user,) = find(item, 17)
        size, host, device = (
            ctypes.c_uint32.from_address(user.data).value,
            *(ctypes.c_size_t * 2).from_address(user.data + 8),
        )
        assert (size, device) == (3, 0)
        assert list((ctypes.c_float * 3).from_address(host)) == vector.tolist()
        (found,) = infer_meta.embeddings(item)
        assert found.component == 5
        assert found.features.tolist() == vector.tolist()


def test_an_embedding_of_another_library_is_read_too(frame, addresses):
    infer_meta.attach_embeddings(frame, VECTORS, unique_id=5, addresses=addresses)
    item = frame.objects[0]
    (user,) = find(item, 17)
    own, user.copy_func = user.copy_func, 0
    (found,) = infer_meta.embeddings(item)
    user.copy_func = own
    assert found.component is None
    assert found.features.tolist() == VECTORS[1].tolist()


def test_everything_comes_out_of_copies_as_it_went_in(buffer, frame, addresses, copied):
    filled(frame, addresses)
    copy = BatchMeta.of(copied(copied(buffer))).frames[0]
    first, second = sorted(copy.objects, key=lambda item: item.class_id)
    for owner in (copy, second):
        (found,) = infer_meta.segmentations(owner)
        assert (found.component, found.classes) == (7, 3)
        assert found.class_map.tolist() == MAP.tolist()
        assert found.probabilities.tolist() == PROBABILITIES.tolist()
        ((component, layers),) = infer_meta.outputs(owner)
        assert component == 8
        assert list(layers) == [name for name, _ in LAYERS]
        for name, values in LAYERS:
            assert layers[name].dtype == values.dtype
            assert layers[name].tolist() == values.tolist()
    for item, vector, points in zip((first, second), VECTORS, POINTS, strict=True):
        assert [found.features.tolist() for found in infer_meta.embeddings(item)] == [vector.tolist()]
        assert [found.points.tolist() for found in infer_meta.keypoints(item)] == [points.tolist()]
    assert [found.points.tolist() for found in infer_meta.keypoints(copy)] == [POINTS[0, :, :2].tolist()]
    assert [found.features.tolist() for found in infer_meta.embeddings(copy)] == [VECTORS[0].tolist()]


def test_copies_share_raw_outputs_and_outlive_the_original(copied):
    before = live()
    buffer = Gst.Buffer.new()
    with Lease() as lease:
        batch = BatchMeta.attach(buffer, 1, lease)
        frame = batch.provider.acquire_frame(batch.address)
        batch.provider.add_frame(batch.address, frame)
        infer_meta.attach_outputs(batch.frames[0], LAYERS, unique_id=1, network=(8, 8, 3))
        place = find(batch.frames[0], 12)[0].data
        assert live() == before + 2, "the metadata and its buffers"
    copy = copied(buffer)
    assert live() == before + 3, "another metadata, the same buffers"
    del batch, buffer
    assert live() == before + 2
    with Lease() as lease:
        (user,) = find(BatchMeta.of(copy, lease).frames[0], 12)
        assert user.data != place
        ((_, layers),) = infer_meta.outputs(BatchMeta.of(copy, lease).frames[0])
        assert layers["boxes"].tolist() == LAYERS[0][1].tolist()
    del copy, user
    assert live() == before


def test_nothing_is_left_of_many_copies(copied):
    before = live()
    for _ in range(50):
        buffer = Gst.Buffer.new()
        with Lease() as lease:
            batch = BatchMeta.attach(buffer, 1, lease)
            batch.provider.add_frame(batch.address, batch.provider.acquire_frame(batch.address))
            frame = batch.frames[0]
            addresses = write_objects(frame, [[0, 0, 9, 9]] * 2, [1, 1], [0, 0], unique_id=1)
            filled(frame, addresses)
            batch.provider.remove_object(frame.address, int(addresses[0]))
        copies = [copied(buffer), copied(buffer)]
        assert live() > before
        del buffer, copies, batch, frame
    assert live() == before


def test_classifier_results_are_written_as_nvinfer_does(buffer, frame, addresses, copied):
    first, second = map(int, addresses)
    long = "ü" * 100
    rows = [
        ClassifierRow(first, "colour", [LabelRow(3, 0, 0.75, "red"), LabelRow(1, 1, 0.5, None)]),
        ClassifierRow(second, None, [LabelRow(0, 0, 1.0, long)]),
    ]
    infer_meta.write_classifications(frame, rows, unique_id=12)
    other, item = frame.objects
    (classifier,) = item.classifiers
    assert (classifier.unique_component_id, classifier.classifier_type, classifier.num_labels) == (12, "colour", 2)
    fields = [(x.class_id, x.label_id, x.probability, x.label, x.long_label) for x in reversed(classifier.labels)]
    assert fields == [(3, 0, 0.75, "red", None), (1, 1, 0.5, "", None)]
    assert item.text.display_text == "car red "
    assert other.text.display_text == f" {long} ", "an object without a text gets one"
    (label,) = other.classifiers[0].labels
    assert (label.label, label.long_label) == ("ü" * 63, long)
    copy = BatchMeta.of(copied(buffer)).frames[0]
    assert sorted(len(found.classifiers[0].labels) for found in copy.objects) == [1, 2]


@pytest.mark.parametrize(
    ("attach", "said"),
    [
        (lambda f, a: infer_meta.attach_embeddings(f, VECTORS, unique_id=1, addresses=a + np.uint64(8)), "addresses"),
        (lambda f, a: infer_meta.attach_embeddings(f, VECTORS[:1], unique_id=1, addresses=a), "1 rows .* 2 objects"),
        (lambda f, a: infer_meta.attach_embeddings(f, [np.nan], unique_id=1), "finite"),
        (lambda f, a: infer_meta.attach_embeddings(f, VECTORS, unique_id=1), r"\[D\]"),
        (lambda f, a: infer_meta.attach_keypoints(f, [[1.0]], unique_id=1), r"\[K, 2 or 3\]"),
        (lambda f, a: infer_meta.attach_segmentation(f, [1], classes=2, unique_id=1), "rows, columns"),
        (lambda f, a: infer_meta.attach_segmentation(f, MAP, MAP / 3, classes=3, unique_id=1), "probabilities"),
        (lambda f, a: infer_meta.attach_outputs(f, [("x", np.ones(1))], unique_id=1, network=(1, 1, 3)), "float64"),
        (
            lambda f, a: infer_meta.write_classifications(
                f, [ClassifierRow(int(a[0]), None, []), ClassifierRow(f.address, None, [])], unique_id=1
            ),
            r"addresses\[1\]",
        ),
        (
            lambda f, a: infer_meta.write_classifications(
                f, [ClassifierRow(int(a[0]), None, [LabelRow(0, 0, np.inf, "x")])], unique_id=1
            ),
            "probability",
        ),
    ],
)
def test_what_is_wrong_is_refused_by_name_and_nothing_is_written(frame, addresses, attach, said):
    before = live()
    with pytest.raises(ContractError, match=said):
        attach(frame, addresses)
    assert live() == before
    assert frame.user_metas == []
    assert all(item.user_metas == [] and item.classifiers == [] for item in frame.objects)


def test_a_batch_is_no_owner_and_a_lease_ends(buffer, batch):
    with pytest.raises(TypeError, match="frame or an object"):
        infer_meta.attach_embeddings(batch, [1.0], unique_id=1)
    with Lease() as lease:
        frame = BatchMeta.of(buffer, lease).frames[0]
    with pytest.raises(StaleBufferError):
        infer_meta.attach_segmentation(frame, MAP, classes=3, unique_id=1)


def test_masks_that_had_to_be_converted_are_written_as_they_were(frame):
    masks = [np.full((40, 50), number, dtype) for number in range(20) for dtype in (np.float64, np.int16, np.float32)]
    count = len(masks)
    write_objects(frame, [[0, 0, 9, 9]] * count, [1.0] * count, [0] * count, unique_id=1, masks=masks)
    for item, mask in zip(reversed(frame.objects), masks, strict=True):
        assert (item.mask == mask).all()
