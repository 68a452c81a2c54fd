"""Masks of the boxes that were chosen, made on the GPU: each cell above the edge or not, a bit each.

They are those that `sluice.models.decoders.masks.Masks` makes on the processor, cell by cell, down to OpenCV's places
of 1/32 of a sample, but for what single precision leaves open at the very edge. The processor's cells are
probabilities; of these only the side of the edge matters to whoever reads the metadata, so here a cell is 1 or 0.

Boxes and masks of a picture are one row of bytes: ``boxes`` times `FACTS` float32, then `BYTES` bytes for the masks,
one behind the other.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sluice.contract.packed_masks import PackedMasks
from sluice.models.decoders.masks import FEW_CELLS, MOST_CELLS
from sluice.models.detections import Detections
from sluice.models.gpu.kernels import mask_kernel, visible_kernel
from sluice.models.gpu.results import COLUMNS, detections_of
from sluice.models.gpu.table import BOX_WIDTH, LEFT, VALID, WIDTH
from sluice.models.letterbox import Letterbox
from sluice.runtimes.unwinding import import_compiled

torch: Any = import_compiled("torch")

log = logging.getLogger("sluice.models")

BYTES = 1 << 17
"""For the masks of a picture: 41 of the largest, or any number of boxes that lie over each other twice."""
SIDES = (MOST_CELLS, MOST_CELLS // 2, MOST_CELLS // 4, MOST_CELLS // 8)
"""Most cells of a mask along one side; the first with which a picture's masks fit, as 1,024 of the last always do."""
FACTS = COLUMNS + 3
"""Of a chosen box: those of `COLUMNS`, columns and lines of its mask, and which of `SIDES` it has (0: not visible)."""
PROGRAMS = 4
"""That share the cells of a mask."""
BLOCK = 1024
"""Cells that a program computes at once."""
EXACT = {"enable_fp_fusion": False}
"""Of a launch: arithmetic rounds as the processor's, since cells often lie at the very middle between two places."""


class Grids(NamedTuple):
    """Where the values of each chosen box's mask lie, on a grid over the network's input.

    Attributes:
        values: [batch, maps, lines, columns], of any floating type and in any strides.
        first: int64 [batch, boxes]; the place of the box's first value.
        weights: float32 [batch, boxes, channels]; a mask is the sum of so many maps times these.
        needs_pixel: whether an object without a pixel of the input is none.
    """

    values: Any
    first: Any
    weights: Any
    needs_pixel: bool


def of_prototypes(coefficients: Any, rows: Any, prototypes: Any) -> Grids:
    """Masks that are sums of prototypes [batch, channels, lines, columns].

    Args:
        coefficients: [batch, rows, channels].
        rows: int64 [batch, boxes], which rows were chosen.
        prototypes: one set for each picture.
    """
    channels = prototypes.shape[1]
    weights = coefficients.gather(1, rows[..., None].expand(-1, -1, channels)).float().contiguous()
    picture = torch.arange(len(rows), device=rows.device)[:, None]
    return Grids(prototypes, (picture * prototypes.stride(0)).expand_as(rows), weights, needs_pixel=True)


def of_queries(masks: Any, rows: Any) -> Grids:
    """Masks [batch, queries, lines, columns] of logits, of which `rows` [batch, boxes] were chosen."""
    picture = torch.arange(len(rows), device=rows.device)[:, None]
    weights = torch.ones((*rows.shape, 1), dtype=torch.float32, device=rows.device)
    return Grids(masks, picture * masks.stride(0) + rows * masks.stride(1), weights, needs_pixel=False)


def boxes_and_masks(boxes: Any, grids: Grids, table: Any, size: tuple[int, int]) -> Any:
    """One tensor of boxes and masks.

    Made of operations of fixed shapes, as all that chooses boxes.

    Args:
        boxes: float32 [batch, boxes, COLUMNS].
        grids: their masks' values.
        table: the pointer table, which tells how each picture lies in the input; a row that is not valid has no masks.
        size: width and height of the input.

    Returns:
        uint8 [batch, boxes * FACTS * 4 + BYTES], see the module.
    """
    batch, most = boxes.shape[:2]
    present = (boxes[..., 4] >= 0) & (table[:, VALID] != 0)[:, None]
    corners = torch.where(present[..., None], _on_frame(boxes[..., :4], table), 0).double()
    cells, side = _cells(corners, present)
    used = torch.where(present, (cells[..., 0] * cells[..., 1] + 7) // 8, 0)
    head = most * FACTS * 4
    packed = torch.zeros((batch, head + BYTES), dtype=torch.uint8, device=boxes.device)
    rows = torch.arange(batch, device=boxes.device)[:, None] * packed.stride(0)
    places = rows + head + used.cumsum(1) - used
    values = grids.values
    lines, columns = values.shape[2:]
    reading = values, grids.first.contiguous(), grids.weights
    strides = values.stride(1), values.stride(2), values.stride(3), columns, lines
    counts = torch.where(present[..., None], cells, 0).contiguous()
    samples = _samples(corners, cells, size, (columns, lines))
    channels = grids.weights.shape[-1]
    mask_kernel[(batch * most, PROGRAMS)](
        *reading, samples, counts, packed, places, *strides, CHANNELS=channels, BLOCK=BLOCK, PROGRAMS=PROGRAMS, **EXACT
    )
    visible = present
    if grids.needs_pixel:
        pixels, count = _pixels(boxes[..., :4], size)
        seen = torch.zeros((batch, most), dtype=torch.int32, device=boxes.device)
        visible_kernel[(batch * most, PROGRAMS)](
            *reading, _samples(pixels, count, size, (columns, lines)), count, packed, places, counts, seen, *strides,
            CHANNELS=channels, BLOCK=BLOCK, PROGRAMS=PROGRAMS, FEW=FEW_CELLS, **EXACT,
        )  # fmt: skip
        visible = present & (seen > 0)
    facts = torch.cat([boxes, cells.float(), torch.where(visible, side, 0)[..., None].float()], -1)
    packed[:, :head].view(torch.float32).copy_(facts.flatten(1))
    return packed


class MaskReader:
    """Detections with masks of what `boxes_and_masks` made; says once if masks had to be coarser."""

    def __init__(self) -> None:
        self._told = False

    def __call__(self, packed: npt.NDArray[Any], boxes: Sequence[Letterbox]) -> list[Detections]:
        """Detections of each frame.

        Args:
            packed: uint8 [frames, ...]; copied.
            boxes: how each frame lies in the network's input.

        Raises:
            ModelError: see `detections_of`.
        """
        head = packed.shape[1] - BYTES
        facts = packed[:, :head].view(np.float32).reshape(len(packed), -1, FACTS)
        columns, lines, sides = facts[..., COLUMNS:].astype(np.int64).transpose(2, 0, 1)
        ends = ((columns * lines + 7) // 8).cumsum(axis=1)
        starts = ends - (columns * lines + 7) // 8
        found = detections_of(facts[..., :COLUMNS], boxes)
        for row, one in enumerate(found):
            count = len(one)
            one.box_masks = []
            if count:
                bits = packed[row, head : head + ends[row, count - 1]].copy()
                one.box_masks = PackedMasks(bits, starts[row, :count], columns[row, :count], lines[row, :count])
        self._tell_of_coarser(found, sides)
        return [
            one if side[: len(one)].all() else one[side[: len(one)] > 0] for one, side in zip(found, sides, strict=True)
        ]

    def _tell_of_coarser(self, found: list[Detections], sides: npt.NDArray[np.int64]) -> None:
        """Say once that the masks of a picture had to be coarser."""
        for one, side in zip(found, sides, strict=True):
            coarser = side[: len(one)]
            if self._told or not ((coarser > 0) & (coarser < MOST_CELLS)).any():
                continue
            self._told = True
            log.warning(
                "the masks of the %d boxes of a picture are more than %d kB: such pictures' have at most %d cells a "
                "side or fewer instead of %d; fewer boxes (max-detections, confidence-threshold) have finer ones",
                len(one), BYTES >> 10, int(coarser.max()), MOST_CELLS,
            )  # fmt: skip


def _on_frame(corners: Any, table: Any) -> Any:
    """Corners [batch, boxes, 4] cut at the frame's edges, in pixels of the input.

    By way of the frame's pixels, with `Letterbox`'s arithmetic, since a rounding more would be a cell more.
    """
    # Slices, since a list of places would be copied from the host, which no graph can hold.
    frame, corner, inside = table[:, None, WIDTH:LEFT], table[:, None, LEFT:BOX_WIDTH], table[:, None, BOX_WIDTH:VALID]
    offset, limit = corner.float().repeat(1, 1, 2), frame.float().repeat(1, 1, 2)
    factor = (inside.double() / frame.double()).float().repeat(1, 1, 2)
    clipped = ((corners - offset) / factor).clamp(min=0).minimum(limit)
    # What is no number is refused on the host, and must lead no kernel astray.
    return (clipped * factor + offset).nan_to_num(0, 0, 0)


def _cells(corners: Any, present: Any) -> tuple[Any, Any]:
    """Columns and lines of each mask [batch, boxes, 2], and the side [batch, 1] they are limited by; both int64."""
    lengths = (corners[..., 2:] - corners[..., :2]).ceil().clamp(min=1).long()
    side = torch.full_like(lengths[:, :1, 0], SIDES[-1])
    for finer in reversed(SIDES[:-1]):
        cells = lengths.clamp(max=finer)
        total = torch.where(present, (cells[..., 0] * cells[..., 1] + 7) // 8, 0).sum(1, keepdim=True)
        side = torch.where(total <= BYTES, finer, side)
    return lengths.minimum(side[..., None]), side


def _samples(corners: Any, cells: Any, size: tuple[int, int], samples: tuple[int, int]) -> Any:
    """The first sample of a mask's part, the first cell's place behind it, and the step to the next, across and down.

    See `sluice.models.decoders.masks._Samples`; in double precision as there, [batch, boxes, 6].
    """
    found = []
    for axis in (0, 1):
        factor = samples[axis] / size[axis]
        start, end = corners[..., axis], corners[..., axis + 2]
        step = (end - start) / cells[..., axis] * factor
        first = start * factor + step / 2 - 0.5
        low = first.floor().clamp(0, samples[axis] - 1)
        found += [low, first - low, step]
    return torch.stack(found, -1)


def _pixels(corners: Any, size: tuple[int, int]) -> tuple[Any, Any]:
    """The input's pixels that are not left of or above a box's edges: corners, float64, and their numbers, int64."""
    edges = corners.nan_to_num(0, 0, 0).ceil().double()
    across, down = edges[..., 0::2].clamp(0, size[0]), edges[..., 1::2].clamp(0, size[1])
    first, last = (torch.stack([across[..., i], down[..., i]], -1) for i in (0, 1))
    count = (last - first).clamp(min=0)
    count = torch.where((count > 0).all(-1, keepdim=True), count, 0)
    return torch.cat([first, first + count], -1), count.long()
