"""Surfaces of the other tests put where a kernel can read them: on the GPU, or on the processor for the interpreter."""

from __future__ import annotations

import numpy as np
import torch
from array_surfaces import ArraySurface

from sluice.contract._surface import Plane
from sluice.contract.formats import Layout, MemType


class DeviceSurface:
    """An `ArraySurface` in one allocation with padded rows, as a decoder makes it."""

    def __init__(self, host: ArraySurface, name: str, device: torch.device, padding: int = 40) -> None:
        self.width, self.height = host.width, host.height
        self.matrix, self.full_range, self.color_format = host.matrix, host.full_range, host.color_format
        self.mem_type, self.gpu_id, self.index = MemType.CUDA_DEVICE, 0, 0
        self.layout, self.format = Layout.PITCH, name
        rows = [plane.reshape(len(plane), -1) for plane in host.planes]
        shapes = [(len(row), row.shape[1] + padding) for row in rows]
        memory = np.concatenate([np.pad(row, ((0, 0), (0, padding)), constant_values=77).ravel() for row in rows])
        self.memory = torch.from_numpy(memory).to(device)
        self.address = self.memory.data_ptr()
        starts = np.cumsum([0, *(lines * pitch for lines, pitch in shapes)])
        self.planes = tuple(
            Plane(
                plane.shape[1], len(plane), pitch, int(start), row.shape[1] // plane.shape[1], self.address + int(start)
            )
            for plane, row, (_, pitch), start in zip(host.planes, rows, shapes, starts, strict=False)
        )
        self.layout_key = (int(self.color_format), int(self.matrix), self.full_range, self.width, self.height)
