"""``PreprocessBatchUserMetadata`` and what it holds: the regions and the tensor that nvdspreprocess prepared."""

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np

from sluice.contract.metadata import ClassifierMeta, FrameMeta, ObjectMeta, RectParams, UserMeta, View
from sluice.pyservicemaker import osd
from sluice.pyservicemaker.base import Reading, Wrapper, meta_types, of_type, pointer_list
from sluice.pyservicemaker.frames import FrameMetadata
from sluice.pyservicemaker.objects import ClassifierMetadata, ObjectMetadata
from sluice.pyservicemaker.structs import PreprocessBatch, PreprocessTensor, Roi, string, vector
from sluice.pyservicemaker.tensor import Tensor, borrowed
from sluice.pyservicemaker.user import UserMetadata

_TYPES = (np.float32, np.uint8, np.int8, np.uint32, np.int32, np.int64, np.uint64, np.float16)
"""dtypes by ``NvDsDataType``."""


class _RoiView(View):
    """A region in the memory of the preprocess metadata."""

    __slots__ = ()
    struct = "NvDsRoiMeta"

    @property
    def content(self) -> Any:
        """The struct."""
        return Roi.from_address(self.address)


class _TensorView(View):
    """A prepared tensor in the memory of the preprocess metadata."""

    __slots__ = ()
    struct = "NvDsPreProcessTensorMeta"

    @property
    def content(self) -> Any:
        """The struct."""
        return PreprocessTensor.from_address(self.address)


class RoiMetadata(Wrapper[_RoiView]):
    """A region of a frame that a network saw."""

    __slots__ = ()
    _shown = ("roi",)

    @property
    def roi(self) -> osd.Rect:
        """The region in pixels of the surface; a reference."""
        view = self._need()
        return osd.Rect._refer(RectParams(view.address, view.lease, view.provider))

    @property
    def frame_meta(self) -> FrameMetadata:
        """The frame."""
        return FrameMetadata._wrap(self._view_at(FrameMeta, self._need().content.frame_meta), self._session)

    @property
    def object_meta(self) -> ObjectMetadata:
        """The object the region was made from; an empty one, which raises when used, for a region of the frame."""
        return ObjectMetadata._wrap(self._view_at(ObjectMeta, self._need().content.object_meta), self._session)

    @property
    def classifier_items(self) -> Iterator[ClassifierMetadata]:
        """The classifiers' results on the region."""
        addresses = pointer_list(self._need().content.classifiers)
        return self._items(ClassifierMetadata, [self._view_at(ClassifierMeta, at) for at in addresses])

    @property
    def tensor_items(self) -> Iterator[UserMetadata]:
        """Raw outputs of networks for the region; cast with ``as_tensor_output``."""
        return self._of_type("NVDSINFER_TENSOR_OUTPUT_META")

    @property
    def segmentation_items(self) -> Iterator[UserMetadata]:
        """The class of each pixel of the region; cast with ``as_segmentation``."""
        return self._of_type("NVDSINFER_SEGMENTATION_META")

    def _of_type(self, name: str) -> Iterator[UserMetadata]:
        view = self._need()
        users = [UserMeta(at, view.lease, view.provider) for at in pointer_list(view.content.user_metas)]
        return self._items(UserMetadata, of_type(users, meta_types(view)[name]))

    def _view_at(self, kind: type[Any], address: int) -> Any:
        view = self._need()
        return kind(address, view.lease, view.provider) if address else None


class PreprocessTensorMetadata(Wrapper[_TensorView]):
    """The tensor that a network is given."""

    __slots__ = ()
    _shown = ("name", "meta_id", "tensor")
    name = Reading[_TensorView, str](lambda view: string(view.content.name), "Name of the network's input.")
    meta_id = Reading[_TensorView, int](lambda view: view.content.meta_id, "Number of the metadata.")

    @property
    def tensor(self) -> Tensor:
        """The tensor, on the GPU; stale when the buffer's wrappers are."""
        view = self._need()
        content = view.content
        shape = tuple(length.value for length in vector(content.shape, ctypes.c_int32))
        return borrowed(
            content.data, shape, np.dtype(_TYPES[content.data_type]), (2, content.gpu_id), view.lease, "NCHW"
        )


class PreprocessBatchUserMetadata(UserMetadata):
    """What nvdspreprocess prepared for a batch."""

    __slots__ = ()
    _type_name = "NVDS_PREPROCESS_BATCH_META"

    @property
    def rois(self) -> list[RoiMetadata]:
        """The regions, in the tensor's order."""
        data = self._data()
        if not data:
            return []
        view = self._need()
        regions = vector(PreprocessBatch.from_address(data).rois, Roi)
        return [
            RoiMetadata._wrap(_RoiView(ctypes.addressof(region), view.lease, view.provider), self._session)
            for region in regions
        ]

    @property
    def preprocess_tensor_meta(self) -> PreprocessTensorMetadata:
        """The tensor; an empty one, which raises when used, where there is none."""
        data = self._data()
        address = PreprocessBatch.from_address(data).tensor if data else 0
        view = self._view
        found = _TensorView(address, view.lease, view.provider) if address and view is not None else None
        return PreprocessTensorMetadata._wrap(found, self._session)
