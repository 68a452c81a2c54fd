"""``AnalyticsObjInfo`` and ``AnalyticsFrameMeta``: what nvdsanalytics found."""

import ctypes
from typing import Any

from sluice.pyservicemaker.structs import (
    AnalyticsFrame,
    AnalyticsObject,
    String,
    number_map,
    string,
    text_map,
    vector,
)
from sluice.pyservicemaker.user import UserMetadata


class AnalyticsObjInfo(UserMetadata):
    """What nvdsanalytics found about an object."""

    __slots__ = ()
    _shown = ("roi_status", "lc_status", "dir_status")
    _type_name = "NVDS_OBJ_META_NVDSANALYTICS"

    @property
    def roi_status(self) -> list[str]:
        """The regions the object is in."""
        return self._texts("roi_status")

    @property
    def oc_status(self) -> list[str]:
        """The overcrowded regions the object is in."""
        return self._texts("oc_status")

    @property
    def lc_status(self) -> list[str]:
        """The lines the object crosses in this frame."""
        return self._texts("lc_status")

    @property
    def dir_status(self) -> str:
        """The direction the object moves in."""
        return self._text("dir_status")

    @property
    def obj_status(self) -> str:
        """The object's status."""
        return self._text("obj_status")

    @property
    def unique_id(self) -> int:
        """Which nvdsanalytics made it."""
        return AnalyticsObject.from_address(data).unique_id if (data := self._data()) else 0

    def _texts(self, name: str) -> list[str]:
        data = self._data()
        return (
            [string(text) for text in vector(getattr(AnalyticsObject.from_address(data), name), String)] if data else []
        )

    def _text(self, name: str) -> str:
        data = self._data()
        return string(getattr(AnalyticsObject.from_address(data), name)) if data else ""


class AnalyticsFrameMeta(UserMetadata):
    """What nvdsanalytics found about a frame."""

    __slots__ = ()
    _shown = ("obj_in_roi_cnt", "obj_lc_cum_cnt")
    _type_name = "NVDS_FRAME_META_NVDSANALYTICS"

    @property
    def oc_status(self) -> dict[str, bool]:
        """Region to whether it is overcrowded."""
        return self._map("oc_status", bool, ctypes.c_bool)

    @property
    def obj_in_roi_cnt(self) -> dict[str, int]:
        """Region to the number of objects in it."""
        return self._map("obj_in_roi_cnt", int, ctypes.c_uint32)

    @property
    def obj_lc_curr_cnt(self) -> dict[str, int]:
        """Line to the number of crossings in this frame."""
        return self._map("obj_lc_curr_cnt", int, ctypes.c_uint64)

    @property
    def obj_lc_cum_cnt(self) -> dict[str, int]:
        """Line to the number of crossings so far."""
        return self._map("obj_lc_cum_cnt", int, ctypes.c_uint64)

    @property
    def obj_cnt(self) -> dict[int, int]:
        """Class id to the number of objects."""
        return number_map(AnalyticsFrame.from_address(data).obj_cnt) if (data := self._data()) else {}

    @property
    def unique_id(self) -> int:
        """Which nvdsanalytics made it."""
        return AnalyticsFrame.from_address(data).unique_id if (data := self._data()) else 0

    def _map(self, name: str, read: Any, value: type[Any]) -> dict[str, Any]:
        data = self._data()
        return text_map(getattr(AnalyticsFrame.from_address(data), name), read, value) if data else {}
