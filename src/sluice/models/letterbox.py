"""How a frame lies in a network's input, and the way back for boxes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from sluice.errors import ModelError

Fit = Literal["centre", "top-left", "stretch", "crop"]
FITS: tuple[Fit, ...] = ("centre", "top-left", "stretch", "crop")


@dataclass(frozen=True)
class Letterbox:
    """Where a frame lies in the network's input. All sizes in pixels.

    Attributes:
        frame_width, frame_height: size of the frame.
        left, top, width, height: the rectangle that the frame fills; the rest of the input is padding. It is larger
            than the input, and left or top negative, where the frame is cropped.
    """

    frame_width: int
    frame_height: int
    left: int
    top: int
    width: int
    height: int

    @classmethod
    def fit(cls, frame: tuple[int, int], network: tuple[int, int], how: Fit = "centre") -> Letterbox:
        """Fit a frame into a network's input.

        Args:
            frame: width and height of the frame.
            network: width and height of the input.
            how: keep the aspect ratio and pad on both sides ("centre"), keep it and pad right and below ("top-left"),
                keep it and fill the input with the frame's middle ("crop"), or fill the input with all of it
                ("stretch").

        Raises:
            ModelError: the frame has no pixels.
        """
        if min(frame) < 1:
            raise ModelError(
                f"a frame of {frame[0]}x{frame[1]} pixels cannot be given to a network; right is 1x1 or more"
            )
        width, height = network
        if how == "crop":
            # Rounding as torchvision's Resize and CenterCrop, which classifiers are trained with.
            ratio = max(width / frame[0], height / frame[1])
            width, height = (max(limit, int(size * ratio + 1e-6)) for size, limit in zip(frame, network, strict=True))
            return cls(*frame, -round((width - network[0]) / 2), -round((height - network[1]) / 2), width, height)
        if how != "stretch":
            ratio = min(width / frame[0], height / frame[1])
            width, height = (
                max(1, min(limit, round(size * ratio))) for size, limit in zip(frame, network, strict=True)
            )
        # An odd rest leaves the extra row or column of padding right or below, as Ultralytics' letterbox does.
        left, top = ((network[0] - width) // 2, (network[1] - height) // 2) if how == "centre" else (0, 0)
        return cls(*frame, left, top, width, height)

    @property
    def scale(self) -> tuple[float, float]:
        """Network pixels per frame pixel, across and down; they differ by rounding even where the aspect is kept."""
        return self.width / self.frame_width, self.height / self.frame_height

    def to_network(self, xyxy: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Boxes [N,4] (or any [...,2k] of x, y pairs) from frame pixels to network pixels, float32."""
        factor, offset = self._pairs(xyxy.shape[-1])
        return xyxy.astype(np.float32) * factor + offset

    def to_frame(self, xyxy: npt.NDArray[np.float32], *, clip: bool = True) -> npt.NDArray[np.float32]:
        """Boxes [N,4] (or any [...,2k] of x, y pairs) from network pixels to frame pixels, float32.

        Args:
            xyxy: what to bring back.
            clip: cut at the frame's edges. Nothing is dropped: a box that reached into the padding ends at the edge.
        """
        factor, offset = self._pairs(xyxy.shape[-1])
        result = (xyxy.astype(np.float32) - offset) / factor
        if clip:
            limit = np.resize(np.array([self.frame_width, self.frame_height], np.float32), xyxy.shape[-1])
            np.clip(result, 0, limit, out=result)
        return result

    def _pairs(self, length: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        return (
            np.resize(np.array(self.scale, np.float32), length),
            np.resize(np.array([self.left, self.top], np.float32), length),
        )
