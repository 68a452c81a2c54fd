"""The objects of a frame as arrays, as the C functions of native/bulk_objects.c read them."""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Addresses = npt.NDArray[np.uint64]

OBJECT_ROW = np.dtype(
    [
        ("address", "u8"),
        ("parent", "u8"),
        ("object_id", "u8"),
        ("class_id", "i4"),
        ("unique_component_id", "i4"),
        ("confidence", "f4"),
        ("tracker_confidence", "f4"),
        ("box", "f4", 4),
        ("rotation", "f4"),
        ("detector_box", "f4", 4),
        ("tracker_box", "f4", 4),
        ("label", "S128"),
    ],
    align=True,
)


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects of one frame as arrays, in metadata list order (the last added first)."""

    rows: npt.NDArray[np.void]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def address(self) -> Addresses:
        """uint64 ``[N]``: where each object lies."""
        return self.rows["address"]

    @property
    def parent(self) -> Addresses:
        """uint64 ``[N]``: the address of each parent, 0 for none."""
        return self.rows["parent"]

    @property
    def object_id(self) -> Addresses:
        """uint64 ``[N]``: the tracker's ids, 2**64-1 for none."""
        return self.rows["object_id"]

    @property
    def class_id(self) -> npt.NDArray[np.int32]:
        """int32 ``[N]``."""
        return self.rows["class_id"]

    @property
    def unique_component_id(self) -> npt.NDArray[np.int32]:
        """int32 ``[N]``: which component made each."""
        return self.rows["unique_component_id"]

    @property
    def confidence(self) -> Floats:
        """float32 ``[N]``: the detector's."""
        return self.rows["confidence"]

    @property
    def tracker_confidence(self) -> Floats:
        """float32 ``[N]``: the tracker's."""
        return self.rows["tracker_confidence"]

    @property
    def boxes(self) -> Floats:
        """float32 ``[N, 4]``: left, top, width, height in surface pixels."""
        return self.rows["box"]

    @property
    def rotation(self) -> Floats:
        """float32 ``[N]``: degrees, clockwise, about each box's centre."""
        return self.rows["rotation"]

    @property
    def detector_boxes(self) -> Floats:
        """float32 ``[N, 4]``: as the detector had them."""
        return self.rows["detector_box"]

    @property
    def tracker_boxes(self) -> Floats:
        """float32 ``[N, 4]``: as the tracker had them."""
        return self.rows["tracker_box"]

    @property
    def labels(self) -> list[str]:
        """The N labels; empty where there is none."""
        return list(LabelRows(self.rows["label"]))


class LabelRows(Sequence[str]):
    """Labels as they were read, decoded when they are asked for."""

    __slots__ = ("_rows",)

    def __init__(self, rows: npt.NDArray[np.bytes_]) -> None:
        """Take bytes ``[N]``."""
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> "LabelRows": ...

    def __getitem__(self, index: int | slice) -> "str | LabelRows":
        if isinstance(index, slice):
            return LabelRows(self._rows[index])
        return _decoded(bytes(self._rows[index]))

    def __iter__(self) -> Iterator[str]:
        return map(_decoded, self._rows.tolist())


@functools.lru_cache(maxsize=4096)
def _decoded(label: bytes) -> str:
    return label.decode("utf-8", "replace")
