"""A model whose only detection is the frame's own content: the checksum of its pixels, as the class id."""

import zlib

import numpy as np

from sluice.models.detections import Detections


def checksum(planes) -> int:
    """A number of 31 bits made of the visible pixels of all planes."""
    total = 0
    for plane in planes:
        total = zlib.crc32(np.ascontiguousarray(plane), total)
    return total & 0x7FFFFFFF


class Hash:
    """Finds the whole frame, of the class that its pixels' checksum is."""

    def infer(self, frames):
        return [
            Detections([[0, 0, f.width, f.height]], [1.0], [checksum(map(np.from_dlpack, f.planes()))]) for f in frames
        ]


class HashAfterAWhile(Hash):
    """As `Hash`, but starts only after the next frames had time to come."""

    def infer(self, frames):
        import time

        time.sleep(0.003)
        return super().infer(frames)
