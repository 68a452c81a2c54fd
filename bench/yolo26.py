"""YOLO26n at 640x640 in half precision with random weights, a PyTorch module for ``sluiceinfer``; needs ultralytics."""

from __future__ import annotations

import functools
from typing import Any

import torch


class Yolo26n(torch.nn.Module):
    """The network with its end-to-end head: [batch, 3, 640, 640] to [batch, 300, 6]."""

    def __init__(self) -> None:
        super().__init__()
        from ultralytics import YOLO

        network = YOLO("yolo26n.yaml").model.eval()
        head = network.model[-1]
        head.end2end = True
        network.fuse()
        head.export = True
        network(torch.zeros(1, 3, 640, 640))  # makes the anchors
        for name in ("anchors", "strides"):
            head.register_buffer(f"fixed_{name}", getattr(head, name))
        # The head's own method looks at values on the processor, which neither a graph nor a compiler can do.
        head._get_decode_boxes = functools.partial(boxes_of, head)
        self.network = network.half()

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Rows of left, top, right, bottom in pixels, score, class.

        Random weights give boxes of no size, most of them in the padding: each is made at least 32 pixels wide and
        high, and moved onto a 16:9 picture's part of the input.
        """
        rows = self.network(pictures)
        one, two = rows[..., :2], rows[..., 2:4]
        first, size = torch.minimum(one, two), (one - two).abs() + 32
        first = torch.stack([first[..., 0].clamp(0, 600), first[..., 1].clamp(142, 460)], -1)
        return torch.cat([first, first + size, rows[..., 4:]], -1)


def boxes_of(head: Any, maps: dict[str, Any]) -> torch.Tensor:
    """Corners in pixels of every cell's box, for an input of 640x640."""
    return head.decode_bboxes(head.dfl(maps["boxes"]), head.fixed_anchors[None]) * head.fixed_strides
