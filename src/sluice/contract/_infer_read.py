"""Reading what `sluice.contract.infer_meta`, or an NVIDIA element, wrote; the names are imported from there."""

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.contract._infer_rows import (
    DATA_TYPES,
    EMBEDDING_META,
    KEYPOINTS,
    OUTPUTS_META,
    SEGMENTATION_META,
    EmbeddingStruct,
    KeypointsStruct,
    Owner,
    hook,
    meta_type_of,
)
from sluice.contract.metadata import UserMeta
from sluice.contract.user_meta import find, remove

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Embedding:
    """Features of an object or a frame, float32 [D]; `component` is None where another library wrote them."""

    component: int | None
    features: Floats


@dataclass(frozen=True, slots=True)
class Keypoints:
    """Key points of an object or a frame, float32 [K,2] (x, y) or [K,3] (x, y, confidence), in surface pixels."""

    component: int
    points: Floats


@dataclass(frozen=True, slots=True)
class SegmentationMap:
    """A class map int32 [rows,columns], -1 for no class, and its probabilities float32 [classes,rows,columns]."""

    component: int
    classes: int
    class_map: npt.NDArray[np.int32]
    probabilities: Floats | None


def embeddings(owner: Owner) -> list[Embedding]:
    """Copy the embeddings on a frame or an object, whoever wrote them; those on the GPU only are left out.

    Raises:
        StaleBufferError: the owner's lease has ended.
    """
    ours = hook("embedding_copy")
    found = []
    for user in _found(owner, EMBEDDING_META):
        data = EmbeddingStruct.from_address(user.data) if user.data else None
        if data is not None and data.host:
            component = data.unique_id if user.copy_func == ours else None
            found.append(Embedding(component, _floats(data.host, (data.size,))))
    return found


def keypoints(owner: Owner) -> list[Keypoints]:
    """Copy the key points on a frame or an object.

    Raises:
        StaleBufferError: the owner's lease has ended.
    """
    found = []
    for user in _found(owner, KEYPOINTS):
        data = KeypointsStruct.from_address(user.data)
        found.append(Keypoints(data.unique_id, _floats(data.points, (data.count, data.values))))
    return found


def map_keypoints(owner: Owner, scale: tuple[float, float], offset: tuple[float, float]) -> None:
    """Move the key points on a frame or an object to where they lie on another surface: x * scale + offset.

    Args:
        owner: the frame or object, which nobody else may read meanwhile.
        scale: across and down.
        offset: across and down, in pixels of the other surface.

    Raises:
        StaleBufferError: the owner's lease has ended.
    """
    for user in _found(owner, KEYPOINTS):
        data = KeypointsStruct.from_address(user.data)
        cells = (ctypes.c_float * (data.count * data.values)).from_address(data.points)
        points = np.frombuffer(cells, np.float32).reshape(data.count, data.values)
        points[:, :2] = points[:, :2] * np.array(scale, np.float32) + np.array(offset, np.float32)


def segmentations(owner: Owner, *, probabilities: bool = True) -> list[SegmentationMap]:
    """Copy the class maps on a frame or an object.

    Args:
        owner: the frame or object.
        probabilities: whether the probabilities are copied too, which are as many times larger as there are classes.

    Raises:
        StaleBufferError: the owner's lease has ended.
    """
    layout = owner.provider.layout
    dtype = layout.dtype("NvDsInferSegmentationMeta")
    found = []
    for user in _found(owner, SEGMENTATION_META):
        row = np.frombuffer(ctypes.string_at(user.data, dtype.itemsize), dtype)[0]
        shape = int(row["height"]), int(row["width"])
        cells = np.frombuffer(ctypes.string_at(int(row["class_map"]), 4 * shape[0] * shape[1]), np.int32)
        at, classes = int(row["class_probabilities_map"]), int(row["classes"])
        values = _floats(at, (classes, *shape)) if at and probabilities else None
        found.append(SegmentationMap(int(row["unique_id"]), classes, cells.reshape(shape).copy(), values))
    return found


def take_segmentations(owner: Owner) -> list[SegmentationMap]:
    """Copy the class maps on a frame or an object, without their probabilities, and remove them.

    Raises:
        StaleBufferError: the owner's lease has ended.
    """
    taken = segmentations(owner, probabilities=False)
    for user in _found(owner, SEGMENTATION_META):
        remove(owner, user)
    return taken


def outputs(owner: Owner) -> list[tuple[int, dict[str, npt.NDArray[Any]]]]:
    """Copy the raw outputs on a frame or an object: of each component its number and its outputs in host memory.

    Raises:
        StaleBufferError: the owner's lease has ended.
    """
    layout = owner.provider.layout
    dtype, layer = layout.dtype("NvDsInferTensorMeta"), layout.dtype("NvDsInferLayerInfo")
    found = []
    for user in _found(owner, OUTPUTS_META):
        row = np.frombuffer(ctypes.string_at(user.data, dtype.itemsize), dtype)[0]
        count = int(row["num_output_layers"])
        infos = np.frombuffer(ctypes.string_at(int(row["output_layers_info"]), count * layer.itemsize), layer)
        host = (ctypes.c_size_t * count).from_address(int(row["out_buf_ptrs_host"]))
        layers = {_name(info): _values(info, at) for info, at in zip(infos, host, strict=True) if at}
        found.append((int(row["unique_id"]), layers))
    return found


def _found(owner: Owner, meta_type: str) -> list[UserMeta]:
    return find(owner, meta_type_of(owner.provider, meta_type))


def _name(info: Any) -> str:
    return ctypes.string_at(int(info["layerName"])).decode("utf-8", "replace")


def _values(info: Any, address: int) -> npt.NDArray[Any]:
    dtype = np.dtype({number: name for name, number in DATA_TYPES.items()}[int(info["dataType"])])
    dims = info["inferDims"]
    shape = tuple(dims["d"][: int(dims["numDims"])].tolist())
    data = ctypes.string_at(address, int(dims["numElements"]) * dtype.itemsize)
    return np.frombuffer(data, dtype).reshape(shape).copy()


def _floats(address: int, shape: tuple[int, ...]) -> Floats:
    data = ctypes.string_at(address, 4 * int(np.prod(shape)))
    return np.frombuffer(data, np.float32).reshape(shape).copy()
