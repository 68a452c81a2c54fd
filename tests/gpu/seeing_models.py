"""Models for pipelines on a GPU, which run in processes of their own: what they see goes into a file."""

from __future__ import annotations

import collections
import json
import threading
import time
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


class Masked(Boxes):
    """The same boxes with masks of two prototypes: where the picture is bright, and its red less its blue."""

    def forward(self, pictures):
        rows = super().forward(pictures)
        small = torch.nn.functional.avg_pool2d(pictures, 4)
        prototypes = torch.stack([small.mean(1) - 0.5, small[:, 0] - small[:, 2]], 1)
        weights = torch.arange(8, device=pictures.device, dtype=pictures.dtype).reshape(1, 4, 2) - 3.5
        return torch.cat([rows, weights.expand(len(pictures), -1, -1)], -1), prototypes


class OtherBoxes(Boxes):
    """The same head, for a change of models."""


class Greedy(Boxes):
    """Asks for more memory than any GPU has."""

    def __init__(self) -> None:
        super().__init__()
        self.too_much = torch.empty(1 << 50, dtype=torch.uint8, device="cuda")


class Hoarding:
    """Keeps every frame's planes for some seconds, and compares what they sum up to at their end with the beginning.

    A thread lets them go, since no frame may come while decoders wait for their memory.

    Args:
        path: the file, one JSON object per frame.
        seconds: how long.
    """

    labels = ("frame",)

    def __init__(self, path: str, seconds: float = 5.0) -> None:
        self._path, self._seconds = Path(path), seconds
        self._kept: collections.deque[tuple[float, dict, list]] = collections.deque()
        threading.Thread(target=self._let_go, daemon=True).start()

    def infer(self, frames):
        for frame in frames:
            planes = [torch.from_dlpack(plane) for plane in frame.planes()]
            note = {"stream": frame.stream, "number": frame.number, "sums": sums(planes)}
            self._kept.append((time.monotonic() + self._seconds, note, planes))
        return [Detections.empty() for _ in frames]

    def _let_go(self) -> None:
        with self._path.open("a") as file:
            while True:
                time.sleep(0.05)
                while self._kept and self._kept[0][0] < time.monotonic():
                    _, note, planes = self._kept.popleft()
                    file.write(json.dumps({**note, "later": sums(planes)}) + "\n")
                    file.flush()


def sums(planes):
    """Sum of each plane's bytes, the places of which count."""
    found = []
    for plane in planes:
        weights = torch.arange(plane.numel(), device=plane.device, dtype=torch.int32).view(plane.shape) % 251
        found.append(int((plane.int() * weights).sum(dtype=torch.int64)))
    return found


class Reading:
    """Asks for its frames' pixels on the host, and finds nothing."""

    labels = ("frame",)

    def infer(self, frames):
        for frame in frames:
            assert frame.rgb().shape == (frame.height, frame.width, 3)
        return [Detections.empty() for _ in frames]


class Filters:
    """Has NVIDIA's converter scale a frame by each of its filters, and notes how far OpenCV's are from them.

    Args:
        path: the file, a JSON object from the filter's number to the mean and the largest difference in levels.
    """

    labels = ("frame",)

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def infer(self, frames):
        import numpy as np

        from sluice.contract.transform import Filter, SurfaceTransform
        from sluice.models.nvinfer.input import FILTERS
        from sluice.models.preprocess import resize

        if not self._path.exists():
            stream = torch.cuda.Stream()
            transform, seen = SurfaceTransform(0), {}
            whole = _rgba(transform.begin([frames[0].surface], stream.cuda_stream), stream)
            for number in Filter:
                size = 640, 384
                conversion = transform.begin([frames[0].surface], stream.cuda_stream, size=size, filter=number)
                found = _rgba(conversion, stream).astype(int)
                wanted = resize(whole, size, FILTERS[int(number)]).astype(int)
                gap = np.abs(found - wanted)[..., :3]
                seen[int(number)] = [float(gap.mean()), int(gap.max())]
            self._path.write_text(json.dumps(seen))
        return [Detections.empty() for _ in frames]


def _rgba(conversion, stream):
    """uint8 [height, width, 4] of a conversion's only surface, on the host."""
    import numpy as np
    from cuda.bindings import runtime

    stream.synchronize()
    conversion.finish()
    plane = conversion.surfaces[0].planes[0]
    rows = np.empty((plane.height, plane.pitch), np.uint8)
    (error,) = runtime.cudaMemcpy(rows.ctypes.data, plane.address, rows.nbytes, runtime.cudaMemcpyKind(2))
    assert int(error) == 0, error
    return np.ascontiguousarray(rows[:, : plane.width * 4].reshape(plane.height, plane.width, 4))
