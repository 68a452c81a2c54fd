"""The structs of native/infer_meta.c, and what both those who write and those who read such metadata use."""

import ctypes
import functools

from sluice.contract._native import library
from sluice.contract.metadata import FrameMeta, ObjectMeta
from sluice.contract.provider import Provider

Owner = FrameMeta | ObjectMeta

KEYPOINTS = "SLUICE.KEYPOINTS"
"""Descriptor of the key points' meta type."""

EMBEDDING_META = "NVDS_TRACKER_OBJ_REID_META"
SEGMENTATION_META = "NVDSINFER_SEGMENTATION_META"
OUTPUTS_META = "NVDSINFER_TENSOR_OUTPUT_META"

#: NvDsInferDataType by dtype (nvdsinfer.h).
DATA_TYPES = {"float32": 0, "float16": 1, "int8": 2, "int32": 3, "int64": 4, "uint8": 5}
MAX_DIMS = 8


class LayerStruct(ctypes.Structure):
    """SluiceLayer of native/infer_meta.c."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("values", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
        ("data_type", ctypes.c_int32),
        ("dims", ctypes.c_uint32),
        ("shape", ctypes.c_uint32 * MAX_DIMS),
        ("elements", ctypes.c_uint32),
    )


class OutputsStruct(ctypes.Structure):
    """SluiceOutputs of native/infer_meta.c."""

    _fields_ = (
        ("unique_id", ctypes.c_int32),
        ("count", ctypes.c_uint32),
        ("layers", ctypes.POINTER(LayerStruct)),
        ("width", ctypes.c_uint32),
        ("height", ctypes.c_uint32),
        ("channels", ctypes.c_uint32),
        ("maintain_aspect_ratio", ctypes.c_int32),
        ("symmetric_padding", ctypes.c_int32),
    )


class NumbersStruct(ctypes.Structure):
    """SluiceNumbers of native/infer_meta.c."""

    _fields_ = (
        ("owners", ctypes.c_uint32),
        ("level", ctypes.c_int32),
        ("meta_type", ctypes.c_int32),
        ("unique_id", ctypes.c_int32),
        ("count", ctypes.c_uint32),
        ("values", ctypes.c_uint32),
        ("frame", ctypes.c_void_p),
        ("addresses", ctypes.c_void_p),
        ("numbers", ctypes.c_void_p),
    )


class LabelStruct(ctypes.Structure):
    """SluiceLabel of native/infer_meta.c."""

    _fields_ = (
        ("class_id", ctypes.c_uint32),
        ("label_id", ctypes.c_uint32),
        ("probability", ctypes.c_float),
        ("label", ctypes.c_char_p),
    )


class ClassificationStruct(ctypes.Structure):
    """SluiceClassification of native/infer_meta.c."""

    _fields_ = (
        ("object", ctypes.c_uint64),
        ("type", ctypes.c_void_p),
        ("text", ctypes.c_char_p),
        ("labels", ctypes.POINTER(LabelStruct)),
        ("count", ctypes.c_uint32),
        ("unique_id", ctypes.c_int32),
    )


class EmbeddingStruct(ctypes.Structure):
    """SluiceEmbedding of native/infer_meta.c; its first three fields are NvDsObjReid."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("host", ctypes.c_size_t),
        ("device", ctypes.c_size_t),
        ("unique_id", ctypes.c_int32),
    )


class KeypointsStruct(ctypes.Structure):
    """SluiceKeypoints of native/infer_meta.c."""

    _fields_ = (
        ("count", ctypes.c_uint32),
        ("values", ctypes.c_uint32),
        ("unique_id", ctypes.c_int32),
        ("points", ctypes.c_size_t),
    )


@functools.cache
def hook(name: str) -> int:
    """Return the address of a copy or release function of native/infer_meta.c."""
    return ctypes.cast(getattr(library(), f"sluice_{name}"), ctypes.c_void_p).value or 0


def meta_type_of(provider: Provider, name: str) -> int:
    """Return the number of a kind of user meta: NVIDIA's by its name in NvDsMetaType, or that given to `KEYPOINTS`."""
    return provider.user_meta_type(name) if name == KEYPOINTS else provider.layout.enum("NvDsMetaType")[name]
