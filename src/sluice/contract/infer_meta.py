"""What networks say besides boxes, as metadata: classifier results, embeddings, key points, segmentation, raw outputs.

======================  ==========================================  ===================================================
kind                    on the metadata                             data
======================  ==========================================  ===================================================
classifier results      NvDsClassifierMeta of an object             NvDsLabelInfo, one per label
embedding               user meta NVDS_TRACKER_OBJ_REID_META (17)   NvDsObjReid, and behind it an int32: the component
key points              user meta ``SLUICE.KEYPOINTS``              uint32 count, values; int32 component; float *points
segmentation            user meta NVDSINFER_SEGMENTATION_META (13)  NvDsInferSegmentationMeta
raw outputs             user meta NVDSINFER_TENSOR_OUTPUT_META (12) NvDsInferTensorMeta, buffers on the host only
======================  ==========================================  ===================================================

So elements of DeepStream that look for the NVIDIA types find them. The number of the key points' type is what
``nvds_get_user_meta_type ("SLUICE.KEYPOINTS")`` returns in the process; `points` are x, y and, where `values` is 3,
confidence, in pixels of the frame's surface. Everything is copied and freed by C functions without the GIL; copies of
raw outputs share the buffers, which live as long as the last of them.
"""

import ctypes
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.contract._infer_read import (
    Embedding,
    Keypoints,
    SegmentationMap,
    embeddings,
    keypoints,
    map_keypoints,
    outputs,
    segmentations,
    take_segmentations,
)
from sluice.contract._infer_rows import (
    DATA_TYPES,
    EMBEDDING_META,
    KEYPOINTS,
    MAX_DIMS,
    OUTPUTS_META,
    SEGMENTATION_META,
    ClassificationStruct,
    LabelStruct,
    LayerStruct,
    NumbersStruct,
    OutputsStruct,
    Owner,
    hook,
    meta_type_of,
)
from sluice.contract._locked import call
from sluice.contract._native import library
from sluice.contract._rows import checked_call, numbers, pointer
from sluice.contract._views import c_text
from sluice.contract.metadata import FrameMeta, ObjectMeta
from sluice.contract.provider import interned
from sluice.errors import ContractError

__all__ = [
    "KEYPOINTS",
    "ClassifierRow",
    "Embedding",
    "Keypoints",
    "LabelRow",
    "SegmentationMap",
    "attach_embeddings",
    "attach_keypoints",
    "attach_outputs",
    "attach_segmentation",
    "embeddings",
    "keypoints",
    "map_keypoints",
    "outputs",
    "segmentations",
    "take_segmentations",
    "write_classifications",
]


@dataclass(frozen=True, slots=True)
class LabelRow:
    """One label of a classifier.

    Attributes:
        class_id: the class.
        label_id: number of the attribute.
        probability: 0..1.
        label: the class's name, or None.
        shown: whether it becomes part of the object's text, if the classifier's labels do.
    """

    class_id: int
    label_id: int
    probability: float
    label: str | None
    shown: bool = True


@dataclass(frozen=True, slots=True)
class ClassifierRow:
    """One classifier's result on one object.

    Attributes:
        address: the object.
        classifier_type: name of the classifier, or None.
        labels: what it found.
        shown: whether the labels become part of the object's text.
    """

    address: int
    classifier_type: str | None
    labels: Sequence[LabelRow]
    shown: bool = True


@functools.cache
def _new(kind: str) -> Any:
    """Return the function of native/infer_meta.c that makes data of a kind."""
    function = getattr(library(), f"sluice_{kind}_new")
    pointers = {"segmentation": 2, "outputs": 1}[kind]
    rest = [ctypes.c_uint] * 3 + [ctypes.c_int] if kind == "segmentation" else []
    function.restype, function.argtypes = ctypes.c_void_p, [ctypes.c_void_p] * pointers + rest
    return function


def _level(owner: Owner) -> int:
    if not isinstance(owner, (FrameMeta, ObjectMeta)):
        raise TypeError(f"a network's results belong to a frame or an object, not to a {type(owner).__name__}")
    name = "NVDS_FRAME_META" if isinstance(owner, FrameMeta) else "NVDS_OBJ_META"
    return owner.provider.layout.enum("NvDsMetaType")[name]


def attach_segmentation(
    owner: Owner,
    class_map: npt.ArrayLike,
    probabilities: npt.ArrayLike | None = None,
    *,
    classes: int,
    unique_id: int,
) -> None:
    """Put a class map on a frame or an object, as nvinfer does.

    Args:
        owner: where to put it.
        class_map: int32 ``[rows, columns]``; -1 for no class. The cells cover the frame or the object's box. Copied.
        probabilities: float32 ``[classes, rows, columns]``, copied; None for none.
        classes: number of classes.
        unique_id: the component that made it.

    Raises:
        ContractError: an array has a wrong shape or type; nothing was written.
        StaleBufferError: the owner's lease has ended.
    """
    shape = np.shape(class_map)
    if len(shape) != 2 or 0 in shape:
        raise ContractError(f"class_map has shape {list(shape)}; it needs [rows, columns]")
    cells = numbers("class_map", np.asarray(class_map), np.int32, shape)
    given = None
    if probabilities is not None:
        given = numbers("probabilities", probabilities, np.float32, (classes, *shape))
    address, level = owner.address, _level(owner)
    data = _new("segmentation")(pointer(cells), pointer(given), classes, shape[1], shape[0], unique_id)
    _attach(owner, address, level, SEGMENTATION_META, data, "segmentation")


def attach_outputs(
    owner: Owner,
    layers: Sequence[tuple[str, npt.NDArray[Any]]],
    *,
    unique_id: int,
    network: tuple[int, int, int],
    keeps_aspect: bool = False,
    centred: bool = False,
) -> None:
    """Put a network's raw outputs for one picture on a frame or an object, as nvinfer's output-tensor-meta does.

    Args:
        owner: where to put it.
        layers: name and values of each output, without the batch's dimension. Copied once; copies of the batch share.
        unique_id: the component that ran the network.
        network: width, height and channels of its input.
        keeps_aspect: ``maintain_aspect_ratio``.
        centred: ``symmetric_padding``.

    Raises:
        ContractError: an output's type or number of dimensions has no place in NvDsInferLayerInfo.
        StaleBufferError: the owner's lease has ended.
    """
    table, kept = (LayerStruct * max(1, len(layers)))(), []
    for entry, (name, values) in zip(table, layers, strict=False):
        array = np.asarray(values, order="C")
        if array.dtype.name not in DATA_TYPES or array.ndim > MAX_DIMS:
            raise ContractError(
                f"output {name!r} is {array.dtype} {list(array.shape)}; metadata holds {', '.join(DATA_TYPES)} "
                f"with at most {MAX_DIMS} dimensions"
            )
        kept.append(array)
        entry.name, entry.values, entry.bytes = c_text(name), pointer(array), array.nbytes
        entry.data_type, entry.dims, entry.elements = DATA_TYPES[array.dtype.name], array.ndim, array.size
        entry.shape[: array.ndim] = array.shape
    width, height, channels = network
    outputs = OutputsStruct(unique_id, len(layers), table, width, height, channels, keeps_aspect, centred)
    address, level = owner.address, _level(owner)
    _attach(owner, address, level, OUTPUTS_META, _new("outputs")(ctypes.byref(outputs)), "outputs")


def _attach(owner: Owner, address: int, level: int, meta_type: str, data: int, kind: str) -> None:
    number, block = meta_type_of(owner.provider, meta_type), owner.provider.block
    hooks = hook(f"{kind}_copy"), hook(f"{kind}_release")
    call("sluice_attach_network_data", True, block, address, level, number, data, *hooks)


def attach_embeddings(
    owner: Owner, features: npt.ArrayLike, *, unique_id: int, addresses: npt.ArrayLike | None = None
) -> None:
    """Put an embedding on a frame or an object, or one on each of N objects.

    Args:
        owner: the frame or object; with `addresses`, the frame whose objects they are.
        features: float32 ``[D]``; with `addresses` ``[N, D]``.
        unique_id: the component that made them.
        addresses: uint64 ``[N]``, objects of the frame.

    Raises:
        ContractError: an array has a wrong shape, type or value; nothing was written.
        StaleBufferError: the owner's lease has ended.
    """
    shape = np.shape(features)
    if len(shape) != (1 if addresses is None else 2) or not shape[-1]:
        raise ContractError(f"features have shape {list(shape)}; right is [D], or [N, D] for N objects")
    _attach_numbers(owner, features, shape[-1], 0, EMBEDDING_META, unique_id, addresses)


def attach_keypoints(
    owner: Owner, points: npt.ArrayLike, *, unique_id: int, addresses: npt.ArrayLike | None = None
) -> None:
    """Put key points on a frame or an object, or some on each of N objects; see `attach_embeddings`.

    Args:
        owner: the frame or object; with `addresses`, the frame whose objects they are.
        points: float32 ``[K, 2]`` (x, y) or ``[K, 3]`` (x, y, confidence) in pixels of the frame's surface; with
            `addresses` ``[N, K, 2 or 3]``.
        unique_id: the component that made them.
        addresses: uint64 ``[N]``, objects of the frame.

    Raises:
        ContractError: an array has a wrong shape, type or value; nothing was written.
        StaleBufferError: the owner's lease has ended.
    """
    shape = np.shape(points)
    if len(shape) != (2 if addresses is None else 3) or shape[-1] not in (2, 3):
        raise ContractError(f"points have shape {list(shape)}; right is [K, 2 or 3], or [N, K, 2 or 3] for N objects")
    _attach_numbers(owner, points, shape[-2], shape[-1], KEYPOINTS, unique_id, addresses)


def _attach_numbers(
    owner: Owner,
    given: npt.ArrayLike,
    count: int,
    values: int,
    meta_type: str,
    unique_id: int,
    addresses: npt.ArrayLike | None,
) -> None:
    level = _level(owner)
    if addresses is None:
        places, frame = np.array([owner.address], np.uint64), 0
    else:
        places, frame = numbers("addresses", addresses, np.uint64, (np.size(addresses),)), owner.address
        level = owner.provider.layout.enum("NvDsMetaType")["NVDS_OBJ_META"]
    shape = np.shape(given)
    array = numbers(meta_type, given, np.float32, shape)
    if addresses is not None and shape[0] != len(places):
        raise ContractError(f"{shape[0]} rows were given for {len(places)} objects")
    if not np.isfinite(array).all():
        raise ContractError(f"{meta_type}: NaN or infinity was given; right are finite numbers")
    number = meta_type_of(owner.provider, meta_type)
    rows = NumbersStruct(len(places), level, number, unique_id, count, values, frame, pointer(places), pointer(array))
    checked_call("sluice_attach_numbers", True, owner.provider.block, ctypes.byref(rows))


def write_classifications(frame: FrameMeta, rows: Sequence[ClassifierRow], *, unique_id: int) -> None:
    """Add classifier results to objects of a frame, in one call, as nvinfer does.

    The text of a row's object gets every label appended, after a space and with one behind, if they are to be shown.
    Labels are added at the front of their list.

    Args:
        frame: the frame.
        rows: the results; each row's object belongs to the frame.
        unique_id: the component that made them.

    Raises:
        ContractError: a probability is not finite, or an address is not of this frame; nothing was written.
        StaleBufferError: the frame's lease has ended.
    """
    table, kept = (ClassificationStruct * max(1, len(rows)))(), []
    for entry, row in zip(table, rows, strict=False):
        labels = (LabelStruct * max(1, len(row.labels)))(*map(_label, row.labels))
        text = "".join(f"{item.label} " for item in row.labels if row.shown and item.shown and item.label)
        kept.append(labels)
        entry.object, entry.labels, entry.count, entry.unique_id = row.address, labels, len(row.labels), unique_id
        entry.type = 0 if row.classifier_type is None else interned(row.classifier_type)
        entry.text = c_text(text) if text else None
    checked_call(
        "sluice_write_classifications",
        len(rows) < 256,
        frame.provider.block,
        frame.address,
        ctypes.addressof(table),
        len(rows),
    )


def _label(row: LabelRow) -> LabelStruct:
    if not np.isfinite(row.probability):
        raise ContractError(f"the probability of {row.label!r} is {row.probability}; right is a number from 0 to 1")
    text = None if row.label is None else c_text(row.label)
    return LabelStruct(row.class_id & 0xFFFFFFFF, row.label_id, row.probability, text)
