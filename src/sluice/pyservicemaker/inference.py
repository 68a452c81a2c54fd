"""``TensorOutputUserMetadata`` and ``SegmentationUserMetadata``: what a network put out."""

import ctypes

import numpy as np
import numpy.typing as npt

from sluice.contract.layout import Layout
from sluice.pyservicemaker.structs import array_at
from sluice.pyservicemaker.tensor import Tensor, borrowed
from sluice.pyservicemaker.user import UserMetadata

_TYPES: dict[int, type[np.generic]] = {0: np.float32, 1: np.float16, 2: np.int8, 3: np.int32, 4: np.int64, 5: np.uint8}
"""``NvDsInferDataType`` to dtype."""


class TensorOutputUserMetadata(UserMetadata):
    """The raw outputs of a network, for a frame or an object."""

    __slots__ = ()
    _shown = ("unique_id",)
    _type_name = "NVDSINFER_TENSOR_OUTPUT_META"

    @property
    def unique_id(self) -> int:
        """Which component ran the network."""
        return self._number("unique_id")

    def get_layers(self) -> dict[str, Tensor]:
        """Return the outputs by name, without the batch's dimension, on the GPU where they are there.

        The tensors are the metadata's own memory: they are stale when the buffer's wrappers are.
        """
        table, data = self._table(), self._data()
        if not data or table is None:
            return {}
        struct, size = table.struct("NvDsInferTensorMeta"), table.struct("NvDsInferLayerInfo").size

        def pointer(name: str) -> int:
            return ctypes.c_size_t.from_address(data + struct.offset(name)).value

        first, host, device = (
            pointer(name) for name in ("output_layers_info", "out_buf_ptrs_host", "out_buf_ptrs_dev")
        )
        gpu = ctypes.c_int32.from_address(data + struct.offset("gpu_id")).value
        layers = {}
        for i in range(self._number("num_output_layers")):
            on_host, on_device = (ctypes.c_size_t.from_address(at + 8 * i).value if at else 0 for at in (host, device))
            name, dtype, shape = _layer(table, first + i * size)
            place = (2, gpu) if on_device else (1, 0)
            layers[name] = borrowed(on_device or on_host, shape, np.dtype(dtype), place, self._owner().lease, "CHW")
        return layers

    def _number(self, name: str) -> int:
        table, data = self._table(), self._data()
        if not data or table is None:
            return 0
        return ctypes.c_uint32.from_address(data + table.offset(f"NvDsInferTensorMeta.{name}")).value

    def _table(self) -> Layout | None:
        return None if self._view is None else self._need().provider.layout


def _layer(table: Layout, address: int) -> tuple[str, type[np.generic], tuple[int, ...]]:
    """Return name, dtype and shape of an ``NvDsInferLayerInfo``."""
    struct = table.struct("NvDsInferLayerInfo")
    name = ctypes.c_char_p.from_address(address + struct.offset("layerName")).value or b""
    kind = ctypes.c_int32.from_address(address + struct.offset("dataType")).value
    rank = ctypes.c_uint32.from_address(address + struct.offset("inferDims.numDims")).value
    shape = (ctypes.c_uint32 * rank).from_address(address + struct.offset("inferDims.d"))
    return name.decode("utf-8", "replace"), _TYPES[kind], tuple(shape)


class SegmentationUserMetadata(UserMetadata):
    """The class of each pixel, for a frame or a region."""

    __slots__ = ()
    _shown = ("unique_id", "classes", "width", "height")
    _type_name = "NVDSINFER_SEGMENTATION_META"

    @property
    def unique_id(self) -> int:
        """Which component ran the network."""
        return self._number("unique_id")

    @property
    def classes(self) -> int:
        """Number of classes."""
        return self._number("classes")

    @property
    def width(self) -> int:
        """Width of the map."""
        return self._number("width")

    @property
    def height(self) -> int:
        """Height of the map."""
        return self._number("height")

    @property
    def class_map(self) -> npt.NDArray[np.int32]:
        """A copy of the map, int32 (height, width); -1 where no class was found."""
        return array_at(self._pointer("class_map"), (self.height, self.width), np.int32)

    @property
    def class_probabilities_map(self) -> npt.NDArray[np.float32]:
        """A copy of the probabilities, float32 (height, width, classes); (0, 0, 0) when there are none."""
        shape = (self.height, self.width, self.classes)
        return array_at(self._pointer("class_probabilities_map"), shape, np.float32)

    def _number(self, name: str) -> int:
        at = self._at(name)
        return ctypes.c_int32.from_address(at).value if at else 0

    def _pointer(self, name: str) -> int:
        at = self._at(name)
        return ctypes.c_size_t.from_address(at).value if at else 0

    def _at(self, name: str) -> int:
        data = self._data()
        if not data:
            return 0
        return data + self._need().provider.layout.offset(f"NvDsInferSegmentationMeta.{name}")
