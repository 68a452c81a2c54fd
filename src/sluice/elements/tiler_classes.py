"""Class maps of the sources of a tiled picture, put together into one map of the whole picture per network."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sluice.contract import infer_meta
from sluice.contract.metadata import FrameMeta
from sluice.drawing.masks import nearest
from sluice.elements.tiler_grid import Area

# Pixels of the picture along a side of a cell: areas begin at even places.
_CELL = 2


class TiledClasses:
    """One class map per component, with -1 where no source has a class."""

    def __init__(self, size: tuple[int, int]) -> None:
        """For a picture of this width and height."""
        self._shape = size[1] // _CELL, size[0] // _CELL
        self._maps: dict[int, tuple[int, npt.NDArray[np.int32]]] = {}

    def place(self, found: Sequence[infer_meta.SegmentationMap], area: Area) -> None:
        """Stretch a source's maps over its area."""
        left, top, right, bottom = (value // _CELL for value in (area.left, area.top, area.right, area.bottom))
        if left == right or top == bottom:
            return
        box = left, top, right, bottom
        for one in found:
            classes, cells = self._maps.get(one.component) or (0, np.full(self._shape, -1, np.int32))
            cells[top:bottom, left:right] = nearest(one.class_map, box, box)
            self._maps[one.component] = max(classes, one.classes), cells

    def write(self, frame: FrameMeta) -> None:
        """Put the maps on the frame of the picture."""
        for component, (classes, cells) in self._maps.items():
            infer_meta.attach_segmentation(frame, cells, classes=classes, unique_id=component)
