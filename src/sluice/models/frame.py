"""`Frame`: one picture of one stream, as a model and a program that iterates a pipeline see it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sluice.contract.host import on_host
from sluice.errors import StaleBufferError
from sluice.models import pixels

if TYPE_CHECKING:
    from sluice.contract.answer_meta import Answer
    from sluice.contract.dlpack import PlaneTensor
    from sluice.contract.surface import Surface, SurfaceBatch

Box = tuple[float, float, float, float]


@dataclass(slots=True)
class FrameObject:
    """One object already on a frame: found by a model upstream, perhaps tracked.

    Attributes:
        id: the tracker's id; None while untracked.
        label: name of the class.
        class_id: number of the class.
        score: confidence of the detection, 0..1.
        xyxy: left, top, right, bottom in pixels of the frame, before rotation.
        angle: degrees, clockwise, about the centre of the box.
        attributes: results of classifiers on this object: the classifier's type ("" where it has none) to the label.
        embedding: float32 [D]; features for comparing objects, of the last model that made some. None without any.
        keypoints: float32 [K,2] (x, y) or [K,3] (x, y, confidence) in pixels of the frame. None without any.
    """

    id: int | None
    label: str
    class_id: int
    score: float
    xyxy: Box
    angle: float = 0.0
    attributes: dict[str, Any] = field(default_factory=dict)
    embedding: npt.NDArray[np.float32] | None = None
    keypoints: npt.NDArray[np.float32] | None = None


class SurfaceAt(NamedTuple):
    """A surface of a batch, made when somebody wants its pixels."""

    batch: SurfaceBatch
    number: int

    def open(self) -> Surface:
        """Return the surface."""
        return self.batch[self.number]


class Frame:
    """One picture and what is known about it. Pixels are converted when asked for, once, and kept.

    A secondary model is given crops, and so is a model with regions of interest: such a frame is a part of the
    stream's picture, and everything about pixels counts from the part's own corner.

    Attributes:
        stream: number of the stream (its source id).
        number: frames of this stream before this one.
        pts: presentation time in nanoseconds, or None where the stream has no times.
        ntp_timestamp: wall-clock time in nanoseconds since 1970, 0 if unknown.
        uri: where the stream comes from, without credentials; None if unknown.
        objects: the objects already on the frame.
        answers: what a slow model (``sluicevlm``) said of some time of the stream, on the frame that passed when it
            arrived: `text`, `value`, `start_pts`, `end_pts` and more.
        width, height: size in pixels; boxes are in these pixels.
        origin: left and top of a crop in pixels of the stream's picture; (0, 0) for a whole picture.
        parent_object: the object that a secondary model's crop shows, its box in pixels of the stream's picture; None
            for a frame or a region.
    """

    def __init__(
        self,
        surface: Surface | SurfaceAt,
        *,
        stream: int,
        number: int,
        pts: int | None,
        ntp_timestamp: int = 0,
        uri: str | None = None,
        objects: Iterable[FrameObject] = (),
        answers: Iterable[Answer] = (),
        origin: tuple[int, int] = (0, 0),
        parent_object: FrameObject | None = None,
    ) -> None:
        self.stream = stream
        self.number = number
        self.pts = pts
        self.ntp_timestamp = ntp_timestamp
        self.uri = uri
        self.objects: list[FrameObject] = list(objects)
        self.answers: list[Answer] = list(answers)
        self.width: int
        self.height: int
        if isinstance(surface, SurfaceAt):
            self.width, self.height = surface.batch.size(surface.number)
        else:
            self.width, self.height = surface.width, surface.height
        self.origin = origin
        self.parent_object = parent_object
        self._surface: Surface | SurfaceAt | None = surface
        self._converted: dict[str, npt.NDArray[np.uint8]] = {}

    def __repr__(self) -> str:
        return (
            f"Frame(stream={self.stream}, number={self.number}, pts={self.pts}, {self.width}x{self.height}, "
            f"{len(self.objects)} objects)"
        )

    @property
    def surface(self) -> Surface:
        """The surface under the frame.

        Raises:
            StaleBufferError: the frame was released: its buffer has left the element.
        """
        if self._surface is None:
            raise StaleBufferError(
                f"the pixels of frame {self.number} of stream {self.stream} were asked for after its buffer had left "
                "the element; call rgb() or bgr() inside infer() and keep a copy of the array"
            )
        if isinstance(self._surface, SurfaceAt):
            self._surface = self._surface.open()
        return self._surface

    def rgb(self) -> npt.NDArray[np.uint8]:
        """The picture as uint8 [height,width,3] in the order red, green, blue.

        Converted on the first call with the stream's own matrix (BT.601 or BT.709) and range. For a surface that is
        RGB already this is a read-only view of it, without a copy, which keeps its memory. Of a frame in GPU memory a
        copy is brought to the host, which `sluice.contract.counters` counts.
        """
        return self._convert("RGB")

    def bgr(self) -> npt.NDArray[np.uint8]:
        """As `rgb`, in OpenCV's order: blue, green, red."""
        return self._convert("BGR")

    def rgb_tensor(self, device: Any = "cpu") -> Any:
        """`rgb` as a torch uint8 tensor [height,width,3] on `device`; a copy. torch must be installed."""
        import torch

        return torch.tensor(self.rgb(), device=device)

    def planes(self) -> tuple[PlaneTensor, ...]:
        """The surface's own planes without a copy, for ``numpy.from_dlpack`` or ``torch.from_dlpack``.

        uint8 on the memory's own device. I420: Y, U, V; NV12: Y [h,w] and UV [h/2,w/2,2]; packed formats: one
        [h,w,channels]. A tensor made of one keeps the pixels alive, so it must not be kept for long.
        """
        surface = self.surface
        return tuple(surface.dlpack(i) for i in range(len(surface.planes)))

    def release(self) -> None:
        """End the frame's hold on its surface; what was converted before stays, other pixels can't be had any more."""
        self._surface = None
        # A read-only array is a view of the surface, and would keep its memory from being used again.
        self._converted = {order: array for order, array in self._converted.items() if array.flags.writeable}

    def _convert(self, order: str) -> npt.NDArray[np.uint8]:
        array = self._converted.get(order)
        if array is None:
            array = self._converted[order] = pixels.to_packed(on_host(self.surface), order)
        return array
