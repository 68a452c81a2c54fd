"""Libraries of our own in the place of NVIDIA's surface libraries, and surfaces that only a converter can read."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
from surface_samples import ForeignBatch

SOURCE = Path(__file__).parent / "standins" / "nvbufsurface.c"
UYVY = 10
SURFACE_ARRAY = 4


def build_standins(folder: Path) -> ctypes.CDLL:
    """Compile the stand-ins into a folder under NVIDIA's names; the library with the counters is returned."""
    surface, transform = folder / "libnvbufsurface.so", folder / "libnvbufsurftransform.so"
    for path, more in ((surface, []), (transform, ["-L", folder, "-l:libnvbufsurface.so", f"-Wl,-rpath,{folder}"])):
        source = SOURCE if path is surface else folder / "empty.c"
        source.touch()
        # One copy of the counters: the second library is empty and finds everything in the first.
        command = ["gcc", "-shared", "-fPIC", "-O1", "-Wl,--no-as-needed", "-o", path, source, *more]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
    return ctypes.CDLL(str(surface))


class UyvyBatch(ForeignBatch):
    """A batch of UYVY surfaces whose memory is declared to be none that can be read."""

    def __init__(self, count=1, width=64, height=48, mem_type=SURFACE_ARRAY, layout=0):
        super().__init__(count, width=width, height=height, mem_type=mem_type)
        for params in self.params[:count]:
            params.colorFormat, params.layout, params.bufferDesc = UYVY, layout, 77
            planes = params.planeParams
            planes.num_planes, planes.bytesPerPix[0] = 1, 2
            planes.psize[0] = planes.pitch[0] * height

    def luma(self, index: int) -> np.ndarray:
        """uint8 [height, width]."""
        one = self.params[index]
        rows = self.pixels[index][: one.planeParams.pitch[0] * one.height].reshape(one.height, -1)
        return rows[:, 1 : 2 * one.width : 2]
