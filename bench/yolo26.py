"""YOLO26n at 640x640 in half precision with random weights, a PyTorch module for ``sluiceinfer``; needs ultralytics."""

from __future__ import annotations

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
        self.network = network.half()

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Rows of left, top, right, bottom in pixels, score, class.

        Random weights give boxes of no size; here each is made at least 32 pixels wide and high.
        """
        rows = self.network(pictures)
        one, two = rows[..., :2], rows[..., 2:4]
        first, size = torch.minimum(one, two), (one - two).abs() + 32
        return torch.cat([first, first + size, rows[..., 4:]], -1)
