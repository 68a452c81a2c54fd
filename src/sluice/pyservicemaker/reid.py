"""``ObjectReidUserMetadata``: an object's re-identification features."""

import ctypes
import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.contract._native import library
from sluice.pyservicemaker.base import ApiError, Session
from sluice.pyservicemaker.structs import Reid, array_at
from sluice.pyservicemaker.user import UserMetadata, acquired_user_meta, release_data


class ObjectReidUserMetadata(UserMetadata):
    """The features a tracker compares objects by."""

    __slots__ = ()
    _shown = ("feature_size",)
    _type_name = "NVDS_TRACKER_OBJ_REID_META"

    @property
    def feature_size(self) -> int:
        """Number of features."""
        return Reid.from_address(data).size if (data := self._data()) else 0

    @property
    def feature_vector(self) -> npt.NDArray[np.float32]:
        """A copy of the features, float32 [`feature_size`]; empty without any in host memory."""
        data = self._data()
        return array_at(Reid.from_address(data).host, (self.feature_size,), np.float32) if data else _NONE.copy()

    def set_feature_vector(self, features: npt.NDArray[np.float32]) -> None:
        """Store a copy of features in metadata that was acquired with ``acquire_obj_reid_meta``.

        Raises:
            ApiError: not a float32 array of one dimension, or metadata that somebody else filled.
        """
        array = np.asarray(features)
        if array.ndim != 1 or array.dtype != np.float32:
            raise ApiError(f"features are a float32 array of one dimension, not {array.dtype} of shape {array.shape}")
        view, (new, copy, release) = self._need(), _functions()
        if view.data and view.release_func != release:
            raise ApiError("these features are somebody else's; acquire metadata for others")
        release_data(view)
        array = np.ascontiguousarray(array)
        view.data = new(array.ctypes.data, array.size)
        view.copy_func, view.release_func = copy, release


_NONE = np.zeros(0, np.float32)


def acquire_reid(session: Session) -> ObjectReidUserMetadata:
    """Return features to set, from the batch's pool.

    Raises:
        ApiError: the buffer carries no batch metadata.
    """
    return acquired_user_meta(ObjectReidUserMetadata, session)


@functools.cache
def _functions() -> tuple[Any, int, int]:
    """Return (new, address of copy, address of release) of native/reid.c."""
    lib = library()
    lib.sluice_reid_new.restype, lib.sluice_reid_new.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_uint]
    copy, release = (
        ctypes.cast(getattr(lib, f"sluice_reid_{name}"), ctypes.c_void_p).value or 0 for name in ("copy", "release")
    )
    return lib.sluice_reid_new, copy, release
