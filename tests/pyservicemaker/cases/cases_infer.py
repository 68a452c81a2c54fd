"""What sluiceinfer writes besides boxes, read with NVIDIA's API."""

import numpy as np
import pytest

from sluice.contract import infer_meta
from sluice.contract.infer_meta import ClassifierRow, LabelRow
from sluice.contract.metadata import BatchMeta
from sluice.pyservicemaker import Buffer

MAP = np.array([[0, 1, 1], [-1, 0, 1]], np.int32)
PROBABILITIES = np.arange(12, dtype=np.float32).reshape(2, 2, 3) / 20


@pytest.fixture
def written(gst_buffer):
    """One of each kind on the first frame and on an object of it."""
    frame = BatchMeta.of(gst_buffer).frames[0]
    item = frame.add_object()
    infer_meta.attach_embeddings(item, [1.5, 2, -3], unique_id=4)
    infer_meta.attach_segmentation(frame, MAP, PROBABILITIES, classes=2, unique_id=5)
    layers = [("boxes", np.arange(6, dtype=np.float32).reshape(2, 3)), ("count", np.array([7], np.int32))]
    infer_meta.attach_outputs(frame, layers, unique_id=6, network=(64, 32, 3))
    row = ClassifierRow(item.address, "colour", [LabelRow(3, 0, 0.75, "red")])
    infer_meta.write_classifications(frame, [row], unique_id=7)
    return next(iter(Buffer(gst_buffer).batch_meta.frame_items))


def test_an_embedding_is_a_feature_vector(written):
    (item,) = written.object_items
    (found,) = [meta.as_obj_reid() for meta in item.obj_reid_items]
    assert found.feature_size == 3
    assert found.feature_vector.tolist() == [1.5, 2, -3]


def test_a_class_map(written):
    (found,) = [meta.as_segmentation() for meta in written.segmentation_items]
    assert (found.unique_id, found.classes, found.width, found.height) == (5, 2, 3, 2)
    assert found.class_map.tolist() == MAP.tolist()
    assert found.class_probabilities_map.ravel().tolist() == PROBABILITIES.ravel().tolist()


def test_raw_outputs(written):
    (found,) = [meta.as_tensor_output() for meta in written.tensor_items]
    assert found.unique_id == 6
    layers = {name: np.from_dlpack(tensor) for name, tensor in found.get_layers().items()}
    assert layers["boxes"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert layers["count"].tolist() == [7]


def test_a_classification(written):
    (item,) = written.object_items
    (classifier,) = item.classifier_items
    assert classifier.unique_component_id == 7
    assert classifier.get_n_label(0) == "red"
