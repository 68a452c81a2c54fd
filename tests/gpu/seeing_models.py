"""Models for pipelines on a GPU, which run in processes of their own: what they see goes into a file."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from sluice.contract import counters
from sluice.models.detections import Detections


class Looking:
    """Takes each frame's planes as torch tensors and notes where they lie and what they sum up to.

    Args:
        path: the file, one JSON object per frame.
        keep: how many of the last frames' tensors are kept, and summed up again when they are let go.
    """

    labels = ("frame",)

    def __init__(self, path: str, keep: int = 0) -> None:
        self._path = Path(path)
        self._keep = keep
        self._kept: list[tuple[dict, list]] = []

    def infer(self, frames):
        for frame in frames:
            surface = frame.surface
            planes = [torch.from_dlpack(plane) for plane in frame.planes()]
            note = {
                "stream": frame.stream,
                "number": frame.number,
                "device": str(planes[0].device),
                "memory": surface.mem_type.name,
                "format": surface.format,
                "same": [p.data_ptr() for p in planes] == [p.address for p in surface.planes],
                "sums": [int(plane.long().sum()) for plane in planes],
                "host_maps": counters.host_maps(),
                "copies": counters.copies(),
            }
            self._kept.append((note, planes if self._keep else []))
            del planes
        while len(self._kept) > self._keep:
            note, planes = self._kept.pop(0)
            note["later"] = [int(plane.long().sum()) for plane in planes]
            with self._path.open("a") as file:
                file.write(json.dumps(note) + "\n")
        return [Detections.empty() for _ in frames]


class Boxes(torch.nn.Module):
    """A head of finished boxes: one per quarter of the picture, whose score is the quarter's brightness."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, pictures):
        height, width = pictures.shape[-2] // 2, pictures.shape[-1] // 2
        means = torch.nn.functional.avg_pool2d(pictures.mean(1, keepdim=True), (height, width))
        scores = means.flatten(1) * self.weight
        left = torch.arange(2, device=pictures.device, dtype=pictures.dtype).repeat(2) * width
        top = torch.arange(2, device=pictures.device, dtype=pictures.dtype).repeat_interleave(2) * height
        boxes = torch.stack([left, top, left + width, top + height], -1).expand(len(pictures), -1, -1)
        return torch.cat([boxes, scores[..., None], torch.zeros_like(scores)[..., None]], -1)
