"""Pointer tables that tell how pictures lie in a network's input, and nothing of their pixels."""

from __future__ import annotations

import torch

from sluice.models.gpu.table import LEFT, ROW, VALID, WIDTH


def letterbox_table(boxes, device, padding=0):
    """An int64 table of letterboxes, with so many rows behind them that are not valid."""
    table = torch.zeros((len(boxes) + padding, ROW), dtype=torch.int64)
    for row, box in zip(table, boxes, strict=False):
        row[WIDTH:LEFT] = torch.tensor([box.frame_width, box.frame_height])
        row[LEFT:VALID] = torch.tensor([box.left, box.top, box.width, box.height])
        row[VALID] = 1
    return table.to(device)
