"""Processor time to turn a frame into a network's input, on one core, beside the usual way with OpenCV and NumPy.

Run: python bench/preprocess.py [--repeat N]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "models"))
from array_surfaces import ArraySurface, noise

from sluice.contract.formats import Matrix
from sluice.models.preprocess import Preprocessing, Preprocessor


def milliseconds(call: Callable[[], object], repeat: int) -> tuple[float, float]:
    """Median and best processor time of one call: what else the machine does counts only by the caches it takes."""
    call()
    times = []
    for _ in range(repeat):
        start = time.thread_time()
        call()
        times.append((time.thread_time() - start) * 1e3)
    return float(np.median(times)), min(times)


def by_rgb(surface: ArraySurface, name: str) -> Callable[[], object]:
    """The usual way: OpenCV converts the whole frame, resizes it, and NumPy pads, transposes and scales."""
    packed = np.concatenate([plane.ravel() for plane in surface.planes]).reshape(-1, surface.width)
    code = cv2.COLOR_YUV2RGB_I420 if name == "I420" else cv2.COLOR_YUV2RGB_NV12
    height = round(640 * surface.height / surface.width)
    top = (640 - height) // 2

    def call() -> object:
        rgb = cv2.resize(cv2.cvtColor(packed, code), (640, height))
        canvas = np.full((640, 640, 3), 114, np.uint8)
        canvas[top : top + height] = rgb
        return np.ascontiguousarray(canvas.transpose(2, 0, 1)[None]).astype(np.float32) / 255

    return call


def main() -> None:
    """Print one line per picture size and format."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=100)
    repeat = parser.parse_args().repeat
    cv2.setNumThreads(1)
    print("to 640x640 float32 NCHW, one core, milliseconds of processor time per frame: median (best)")
    for width, height in ((1920, 1080), (1280, 720), (3840, 2160)):
        for name in ("I420", "NV12"):
            for matrix in (Matrix.BT601, Matrix.BT709):
                surface = noise(name, width, height, matrix=matrix)
                target = Preprocessor(Preprocessing(640, 640), 1)
                median, best = milliseconds(lambda t=target, s=surface: t.write(0, s), repeat)
                line = f"{width}x{height} {name} {matrix.name}: sluice {median:.2f} ({best:.2f})"
                if matrix is Matrix.BT601:
                    median, best = milliseconds(by_rgb(surface, name), repeat)
                    line += f", through cv2 RGB {median:.2f} ({best:.2f})"
                print(line)


if __name__ == "__main__":
    main()
