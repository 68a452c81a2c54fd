"""Networks at 640x640 in half precision with random weights, PyTorch modules for ``sluiceinfer``; needs ultralytics.

YOLO26n, YOLO26n with masks, and RT-DETR-l.
"""

from __future__ import annotations

import functools
from typing import Any

import torch


def ultralytics_network(name: str) -> torch.nn.Module:
    """A network of Ultralytics' description, with the same random weights every time."""
    from ultralytics import RTDETR, YOLO

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # so that what was compiled of them fits
        return (RTDETR if "detr" in name else YOLO)(name).model.eval()


class _Yolo26(torch.nn.Module):
    """A network with its end-to-end head."""

    name: str

    def __init__(self) -> None:
        super().__init__()
        network = ultralytics_network(self.name)
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


class Yolo26n(_Yolo26):
    """[batch, 3, 640, 640] to [batch, 300, 6]."""

    name = "yolo26n.yaml"

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Rows of left, top, right, bottom in pixels, score, class."""
        return spread(self.network(pictures))


class Yolo26nSeg(_Yolo26):
    """[batch, 3, 640, 640] to [batch, 300, 38] and prototypes of masks [batch, 32, 160, 160]."""

    name = "yolo26n-seg.yaml"

    def forward(self, pictures: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows of left, top, right, bottom in pixels, score, class, 32 coefficients; and the prototypes."""
        rows, prototypes = self.network(pictures)
        return spread(rows), prototypes


class RtDetr(torch.nn.Module):
    """[batch, 3, 640, 640] to [batch, 300, 4 + 80]: centre and size as shares of the picture, scores of the classes."""

    def __init__(self) -> None:
        super().__init__()
        network = ultralytics_network("rtdetr-l.yaml")
        network.fuse()
        network.model[-1].export = True
        # Newer releases choose boxes inside; here that is Sluice's part.
        network.model[-1].postprocess = boxes_and_scores
        self.network = network.half()

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Rows of boxes and scores."""
        # It makes numbers of places on the processor unless told where, and no graph can hold their way to the GPU.
        with torch.device(pictures.device):
            return self.network(pictures)


def boxes_and_scores(boxes: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """Each query's box and scores in one row."""
    return torch.cat([boxes, scores], -1)


def spread(rows: torch.Tensor) -> torch.Tensor:
    """Boxes that a tracker can follow: those of random weights have no size, and most of them lie in the padding.

    Each is made at least 32 pixels wide and high, and moved onto a 16:9 picture's part of the input.
    """
    one, two = rows[..., :2], rows[..., 2:4]
    first, size = torch.minimum(one, two), (one - two).abs() + 32
    first = torch.stack([first[..., 0].clamp(0, 600), first[..., 1].clamp(142, 460)], -1)
    return torch.cat([first, first + size, rows[..., 4:]], -1)


def boxes_of(head: Any, maps: dict[str, Any]) -> torch.Tensor:
    """Corners in pixels of every cell's box, for an input of 640x640."""
    return head.decode_bboxes(head.dfl(maps["boxes"]), head.fixed_anchors[None]) * head.fixed_strides
