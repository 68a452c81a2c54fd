"""Still images as a stream: read one by one when GStreamer asks for the next frame."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.streams.policy import LONGEST_SIDE
from sluice.elements.guard import guarded


class ImageFeed:
    """Gives an ``appsrc`` one BGR frame per image, upright as its EXIF data says, at a constant rate.

    An image that cannot be read is left out and noted in `problems`.
    """

    def __init__(self, paths: Sequence[Path], rate: int, problems: list[str]) -> None:
        """Prepare the images in the order given; `rate` is in frames per second."""
        self._paths = list(paths)
        self._rate = rate
        self._problems = problems
        self._next = 0
        self._shown = 0

    @guarded(failure=None)
    def need_data(self, appsrc: Gst.Element, _bytes: int) -> None:
        """Push the next readable image, or EOS after the last; called on the source's own thread."""
        while self._next < len(self._paths):
            path = self._paths[self._next]
            self._next += 1
            picture = _read(path)
            if picture is None:
                self._problems.append(f"{path} is not an image that can be read")
            elif max(picture.shape) > LONGEST_SIDE:
                self._problems.append(f"{path} is larger than {LONGEST_SIDE} pixels")
            else:
                appsrc.emit("push-sample", self._sample(picture))
                return
        appsrc.emit("end-of-stream")

    def _sample(self, picture: Any) -> Gst.Sample:
        """Return a sample of a uint8 [height,width,3] picture in BGR order."""
        import numpy as np

        height, width = picture.shape[:2]
        stride = (width * 3 + 3) // 4 * 4  # GStreamer's default: rows begin at multiples of four bytes
        rows = np.zeros((height, stride), np.uint8)
        rows[:, : width * 3] = picture.reshape(height, width * 3)
        buffer = Gst.Buffer.new_wrapped(rows.tobytes())
        buffer.pts = Gst.util_uint64_scale(self._shown, Gst.SECOND, self._rate)
        buffer.duration = Gst.SECOND // self._rate
        self._shown += 1
        caps = f"video/x-raw, format=BGR, width={width}, height={height}, framerate={self._rate}/1"
        return Gst.Sample.new(buffer, Gst.Caps.from_string(caps), None, None)


def _read(path: Path) -> Any:
    """Return the picture as uint8 [height,width,3] BGR, or None where it cannot be read."""
    import cv2
    import numpy as np

    try:
        data = np.fromfile(path, np.uint8)
    except OSError:
        return None
    return cv2.imdecode(data, cv2.IMREAD_COLOR) if data.size else None
