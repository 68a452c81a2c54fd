"""What a model says of a picture as a whole, into the metadata: of a frame, or of the object that the picture shows."""

from dataclasses import replace

import numpy as np

from sluice.contract import infer_meta
from sluice.contract.bulk import write_objects
from sluice.contract.infer_meta import ClassifierRow, LabelRow
from sluice.contract.metadata import Box, FrameMeta, ObjectMeta
from sluice.models.whole import Classification, RawOutputs, WholeFrame

#: The object that carries a classifier's result on a whole frame, as nvinfer makes it.
WHOLE_FRAME_CLASS = -1
WHOLE_FRAME_BORDER = 6
WHOLE_FRAME_BACKGROUND = (1.0, 1.0, 0.0, 0.4)

TEXT = "text"
"""Classifier type under which what was read in a picture is attached."""


def attach_whole(
    frame: FrameMeta, whole: WholeFrame, labels: tuple[str, ...], unique_id: int, place: ObjectMeta | Box
) -> int:
    """Write what holds for a picture as a whole.

    Classification and text become classifier results of the object. Where the picture is no object, they get a new one
    that covers it, of class -1, as nvinfer does; everything else is then written to the frame.

    Args:
        frame: metadata of the frame.
        whole: validated results; key points in pixels of the frame's surface.
        labels: the model's labels by class id, for classifications without one.
        unique_id: the component.
        place: the object that the picture shows; or left, top, width, height of the picture on the surface.

    Returns:
        The number of objects written: 1 where a classification needed one, else 0.
    """
    rows = classifier_results(whole, labels)
    target: ObjectMeta | FrameMeta = place if isinstance(place, ObjectMeta) else frame
    made = 0
    if rows:
        owner = place if isinstance(place, ObjectMeta) else _whole_frame_object(frame, place, unique_id)
        made = int(owner is not place)
        named = [ClassifierRow(owner.address, name, found) for name, found in rows.items()]
        infer_meta.write_classifications(frame, named, unique_id=unique_id)
    if whole.embedding is not None:
        infer_meta.attach_embeddings(target, whole.embedding, unique_id=unique_id)
    if whole.keypoints is not None:
        infer_meta.attach_keypoints(target, whole.keypoints, unique_id=unique_id)
    if whole.segmentation is not None:
        found = whole.segmentation
        infer_meta.attach_segmentation(
            target, found.class_map, found.probabilities, classes=found.classes, unique_id=unique_id
        )
    if whole.outputs is not None:
        _attach_outputs(target, whole.outputs, unique_id)
    return made


def classifier_results(whole: WholeFrame, labels: tuple[str, ...]) -> dict[str | None, list[LabelRow]]:
    """The classifier results of a picture by the classifier's type, as they are to be added.

    A reader of the metadata, where what is added last comes first, meets the best of an attribute's classes first. Only
    that one is shown. The attributes are in the order the model gave them, as nvinfer has them.
    """
    rows: dict[str | None, list[LabelRow]] = {}
    places: dict[tuple[str | None, int], int] = {}
    for item in whole.classification:
        of_type = rows.setdefault(item.name, [])
        place = places.setdefault((item.name, item.index), len(of_type))
        row = label_row(item, labels)
        best = place == len(of_type)
        of_type.insert(place, row if best else replace(row, shown=False))
    if whole.text:
        rows.setdefault(TEXT, []).append(LabelRow(0, 0, 1.0, whole.text))
    return rows


def label_row(item: Classification, labels: tuple[str, ...]) -> LabelRow:
    """One result as the metadata has it; a label that is not given comes from the table."""
    label = item.label
    if label is None and 0 <= item.class_id < len(labels):
        label = labels[item.class_id]
    return LabelRow(item.class_id, item.index, item.score, label)


def _whole_frame_object(frame: FrameMeta, box: Box, unique_id: int) -> ObjectMeta:
    (address,) = write_objects(
        frame,
        np.array([box], np.float32),
        np.zeros(1, np.float32),
        np.array([WHOLE_FRAME_CLASS], np.int32),
        unique_id=unique_id,
        texts=[""],
    ).tolist()
    item = ObjectMeta(address, frame.lease, frame.provider)
    item.rect.border_width = WHOLE_FRAME_BORDER
    item.rect.bg_color = WHOLE_FRAME_BACKGROUND
    return item


def _attach_outputs(target: FrameMeta | ObjectMeta, outputs: RawOutputs, unique_id: int) -> None:
    infer_meta.attach_outputs(
        target,
        [(layer.name, layer.values) for layer in outputs.layers],
        unique_id=unique_id,
        network=(outputs.width, outputs.height, outputs.channels),
        keeps_aspect=outputs.keeps_aspect,
        centred=outputs.centred,
    )
