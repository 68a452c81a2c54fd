"""The loop that articles on GPU inference in GStreamer show: tensors by DLPack, everything else in eager PyTorch.

Per frame a DLPack tensor, then ``torch.stack``, letterbox in eager PyTorch, the model, and the metadata one object at a
time. It stands where ``sluiceinfer`` would, on the thread that brings the batches.
"""

from __future__ import annotations

from typing import Any

import gi
import torch
from yolo26 import Yolo26n

gi.require_version("Gst", "1.0")
gi.require_version("GstBase", "1.0")
from gi.repository import GObject, Gst, GstBase

from sluice.contract.metadata import BatchMeta, Lease
from sluice.contract.surface import SurfaceBatch
from sluice.runtimes.torch import DeviceModule

MOST = 20
SIDE = 640


class ArticleLoop(GstBase.BaseTransform):
    """The element ``articleloop``: batches in NV12 on the GPU go through it and get 20 objects per frame."""

    __gtype_name__ = "ArticleLoop"
    __gstmetadata__ = ("Article's loop", "Filter", "Eager inference per batch", "The Sluice developers")
    __gsttemplates__ = tuple(
        Gst.PadTemplate.new(name, direction, Gst.PadPresence.ALWAYS, Gst.Caps.from_string("video/x-raw(memory:NVMM)"))
        for name, direction in (("sink", Gst.PadDirection.SINK), ("src", Gst.PadDirection.SRC))
    )

    compiled = GObject.Property(type=bool, default=False, blurb="Run the network compiled, as sluiceinfer does")

    def __init__(self) -> None:
        super().__init__()
        self.set_in_place(True)
        self.set_passthrough(True)
        self.frames = 0
        self._model = Yolo26n().cuda()
        self._compiled: Any = None

    def _network(self, pictures: torch.Tensor) -> torch.Tensor:
        """The network's rows; the first batch decides the size that is compiled."""
        if not self.compiled:
            return self._model(pictures)
        if self._compiled is None:
            self._compiled = DeviceModule(torch.device("cuda:0"), self._model).compiled("Yolo26n")
            with torch.inference_mode(False):
                self._compiled.prepare([torch.zeros(pictures.shape, dtype=pictures.dtype, device=pictures.device)])
        return self._compiled(pictures)[0]

    def do_transform_ip(self, buffer: Gst.Buffer) -> Gst.FlowReturn:
        """Infer one batch."""
        with Lease() as lease, torch.inference_mode():
            metas = BatchMeta.of(buffer, lease).frames
            surfaces = SurfaceBatch.of(buffer)
            pictures = torch.stack([rgb(surfaces[meta.batch_id]) for meta in metas])
            rows = self._network(letterbox(pictures)).float()[:, :MOST].cpu().numpy()
            for meta, found in zip(metas, rows, strict=True):
                for left, top, right, bottom, score, kind in found.tolist():
                    one = meta.add_object()
                    one.class_id, one.confidence, one.label = int(kind), score, f"class {int(kind)}"
                    one.box = (left * 3, (top - 140) * 3, (right - left) * 3, (bottom - top) * 3)
            self.frames += len(metas)
        return Gst.FlowReturn.OK


def rgb(surface: Any) -> torch.Tensor:
    """RGB [3, height, width] in half precision of an NV12 surface (BT.709, limited range)."""
    luma, chroma = (torch.from_dlpack(surface.dlpack(i)).half() for i in (0, 1))
    chroma = chroma.permute(2, 0, 1)[None]
    u, v = torch.nn.functional.interpolate(chroma, size=luma.shape, mode="nearest")[0] - 128
    y = (luma - 16) * 1.1644
    return torch.stack([y + 1.7927 * v, y - 0.2132 * u - 0.5329 * v, y + 2.1124 * u]).clamp(0, 255) / 255


def letterbox(pictures: torch.Tensor) -> torch.Tensor:
    """1080p pictures as the network's input."""
    small = torch.nn.functional.interpolate(pictures, size=(360, SIDE), mode="bilinear")
    return torch.nn.functional.pad(small, (0, 0, 140, 140), value=114 / 255)


def register() -> None:
    """Make the element known in this process."""
    Gst.Element.register(None, "articleloop", Gst.Rank.NONE, ArticleLoop)
