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
        """Rows of left, top, right, bottom in pixels, score, class."""
        return self.network(pictures)
