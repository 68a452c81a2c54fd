"""Masks of objects with a bit for each cell, as GPUs give them; the floats of the metadata are made of them in C."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from sluice.errors import ContractError

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PackedMasks(Sequence[Floats]):
    """N masks of cells that are 0 or 1; read one by one they are float32 ``(rows, columns)``, made at each access.

    Attributes:
        bits: uint8 ``[bytes]``; the cells of a mask row by row, the lowest bit of a byte first.
        starts: int64 ``[N]``; at which byte each begins.
        columns, lines: int64 ``[N]``; its size in cells.
    """

    bits: npt.NDArray[np.uint8]
    starts: Integers
    columns: Integers
    lines: Integers

    def check(self) -> None:
        """Refuse what cannot be read; the bits are not looked at.

        Raises:
            ContractError: an array has a wrong shape or type, or a mask has no cells or is not within the bits.
        """
        if self.bits.dtype != np.uint8 or self.bits.ndim != 1 or not self.bits.flags.c_contiguous:
            raise ContractError(
                f"bits has dtype {self.bits.dtype} and shape {self.bits.shape}; it needs uint8 (bytes,)"
            )
        for name in ("starts", "columns", "lines"):
            array = getattr(self, name)
            if array.dtype != np.int64 or array.shape != (len(self),):
                raise ContractError(
                    f"{name} has dtype {array.dtype} and shape {array.shape}; it needs int64 ({len(self)},)"
                )
        sizes = np.stack([self.columns, self.lines])
        if ((sizes < 1) | (sizes >= 1 << 31)).any():
            raise ContractError("masks has one with fewer columns or lines than 1, or more than 31 bits can tell")
        ends = self.starts + (self.columns * self.lines + 7) // 8
        if ((self.starts < 0) | (self.starts > len(self.bits)) | (ends > len(self.bits))).any():
            raise ContractError(f"masks has one that does not lie within the {len(self.bits)} bytes of bits")

    @classmethod
    def joined(cls, parts: Sequence[PackedMasks]) -> PackedMasks:
        """The masks of one or more after each other."""
        if len(parts) == 1:
            return parts[0]
        before = np.cumsum([0, *(len(part.bits) for part in parts[:-1])])
        return cls(
            np.concatenate([part.bits for part in parts]),
            np.concatenate([part.starts + offset for part, offset in zip(parts, before, strict=True)]),
            np.concatenate([part.columns for part in parts]),
            np.concatenate([part.lines for part in parts]),
        )

    def pick(self, index: Any) -> PackedMasks:
        """The masks that a boolean mask, an array of integers or a slice picks; the bits are shared."""
        return PackedMasks(self.bits, self.starts[index], self.columns[index], self.lines[index])

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, index: int) -> Floats: ...
    @overload
    def __getitem__(self, index: slice) -> PackedMasks: ...
    def __getitem__(self, index: int | slice) -> Floats | PackedMasks:
        if isinstance(index, slice):
            return self.pick(index)
        start, columns, lines = (int(values[index]) for values in (self.starts, self.columns, self.lines))
        part = self.bits[start : start + (columns * lines + 7) // 8]
        cells = np.unpackbits(part, count=columns * lines, bitorder="little")
        return cells.astype(np.float32).reshape(lines, columns)
