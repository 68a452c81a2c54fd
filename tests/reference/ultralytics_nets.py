"""Ultralytics' networks with seeded random weights, tuned so that a picture gives some tens of varied results."""

from __future__ import annotations

from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sluice.models.detections import Detections

BEST = 3.0  # the strongest class logit; those of fresh weights differ by hundredths only
SHARE = 0.02  # share of the cells whose best class is more likely than not
SPREAD = 1.5  # of the logits of RT-DETR's queries
CLASSIFIER_GAIN = 20.0  # spreads a classifier's probabilities


@dataclass(frozen=True)
class Family:
    """One kind of export.

    Attributes:
        name: Ultralytics' model definition, without ``.yaml``.
        export: arguments of its export: "nms" None for the raw head, False for the end-to-end head.
        size: height and width of the input.
        seed: of the weights.
    """

    name: str
    export: dict[str, Any] = field(default_factory=dict)
    size: tuple[int, int] = (320, 320)
    seed: int = 1

    def __str__(self) -> str:
        options = "-".join(f"{key}={value}" for key, value in self.export.items())
        return "-".join(part for part in (self.name, options, "x".join(map(str, self.size))) if part)

    @property
    def end_to_end(self) -> bool:
        """Whether the export's last part chooses the boxes: the end-to-end head, or RT-DETR's."""
        return self.export.get("nms", True) is False or self.rtdetr

    @property
    def rtdetr(self) -> bool:
        """Whether Ultralytics has it under a class of its own."""
        return self.name.startswith("rtdetr")


class ReferenceNet:
    """A network of a family: PyTorch's with Ultralytics' own code around it, and the exported file."""

    def __init__(self, family: Family, rgb: np.ndarray, folder: Path) -> None:
        self.family = family
        self.rgb = rgb
        self.yolo = self._build()
        self.onnx = self.export(folder, "onnx", simplify=False, **family.export)

    def raw(self, picture: np.ndarray) -> list[np.ndarray]:
        """The head's outputs for a float32 [1,3,h,w], as the export arranges them."""
        import torch

        with torch.inference_mode():
            self._head.export = True
            outputs = self.yolo.model(torch.from_numpy(picture))
            self._head.export = False
        tensors = outputs if isinstance(outputs, (tuple, list)) else [outputs]
        return [tensor.numpy() for tensor in tensors if hasattr(tensor, "numpy")]

    def results(self, rgb: np.ndarray, confidence: float, iou: float = 0.7, *, fine_masks: bool = False) -> Any:
        """Ultralytics' own result for a picture; with `fine_masks` masks are enlarged before they are made binary."""
        [result] = self.yolo.predict(
            np.ascontiguousarray(rgb[:, :, ::-1]),
            conf=confidence,
            iou=iou,
            imgsz=list(self.family.size),
            rect=False,
            verbose=False,
            device="cpu",
            nms=False if self.family.end_to_end else None,
            retina_masks=fine_masks,
        )
        return result

    def detections(
        self, rgb: np.ndarray, confidence: float, iou: float = 0.7, *, fine_masks: bool = False
    ) -> Detections:
        """The same as `Detections`, within the picture: Ultralytics lets RT-DETR's boxes reach beyond it."""
        found = Detections.from_ultralytics(self.results(rgb, confidence, iou, fine_masks=fine_masks))
        if self.family.rtdetr:
            height, width = rgb.shape[:2]
            found.xyxy = found.xyxy.clip(0, (width, height, width, height)).astype(np.float32)
        return found

    @property
    def _head(self) -> Any:
        return self.yolo.model.model[-1]

    def _build(self) -> Any:
        import torch
        from ultralytics import RTDETR, YOLO

        torch.manual_seed(self.family.seed)
        yolo = (RTDETR if self.family.rtdetr else YOLO)(f"{self.family.name}.yaml")
        tune(yolo.model, self.rgb, self.family.size)
        if hasattr(yolo.model, "end2end"):
            yolo.model.end2end = self.family.end_to_end
        return yolo

    def export(self, folder: Path, kind: str, **options: Any) -> Path:
        """The exported file or folder; Ultralytics exports a copy, and the very same weights stay here."""
        folder = folder / f"{self.family}-{kind}"
        folder.mkdir()
        with chdir(folder):
            made = self.yolo.export(format=kind, imgsz=list(self.family.size), verbose=False, **options)
        return (folder / made).resolve()


def tune(model: Any, rgb: np.ndarray, size: tuple[int, int]) -> None:
    """Give fresh weights life: normalisation from pictures, and class scores that differ from cell to cell."""
    import cv2
    import torch

    pictures = np.stack([cv2.resize(rgb, size[::-1]), crop(rgb, size)])
    tensor = torch.from_numpy(pictures.transpose(0, 3, 1, 2).astype(np.float32) / 255)
    norms = [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    before = [norm.momentum for norm in norms]
    with torch.no_grad():
        if hasattr(model.model[-1], "proto"):
            _smooth(model.model[-1].proto)
        model.train()
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # plain averages of what comes now
        model(torch.cat([tensor, tensor.flip(3), 1 - tensor]))
        for norm, momentum in zip(norms, before, strict=True):
            norm.momentum = momentum
        model.eval()
        head = model.model[-1]
        for boxes, classes in (("cv2", "cv3"), ("one2one_cv2", "one2one_cv3")):
            if getattr(head, classes, None) is not None:
                _tune_scores(model, [level[-1] for level in getattr(head, classes)], tensor)
                if head.reg_max == 1:  # distances as they are, which fresh weights make negative
                    _tune_distances(model, [level[-1] for level in getattr(head, boxes)], tensor)
        if hasattr(head, "dec_score_head"):
            _tune_queries(model, tensor)
        if hasattr(head, "linear"):
            head.linear.weight.mul_(CLASSIFIER_GAIN)


def crop(rgb: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """A part of the picture that has the network's size."""
    height, width = size
    return np.ascontiguousarray(rgb[200 : 200 + height, 100 : 100 + width])


def _smooth(prototypes: Any) -> None:
    """Let prototypes of masks vary slowly, as trained ones do; those of fresh weights change their sign every cell."""
    import torch

    for layer in prototypes.modules():
        if isinstance(layer, (torch.nn.Conv2d, torch.nn.ConvTranspose2d)):
            layer.weight.copy_(layer.weight.mean((2, 3), keepdim=True).expand_as(layer.weight))


def _tune_scores(model: Any, convolutions: list[Any], pictures: Any) -> None:
    """Scale the last convolutions of a class branch: the best logit is `BEST`, and `SHARE` of the cells are above 0."""
    best = _outputs(model, convolutions, pictures).amax(1)
    middle = best.quantile(1 - SHARE)
    gain = float(BEST / (best.max() - middle))
    for layer in convolutions:
        layer.weight.mul_(gain)
        layer.bias.fill_(-float(middle) * gain)


def _tune_distances(model: Any, convolutions: list[Any], pictures: Any) -> None:
    """Scale the last convolutions of a box branch: distances between 1 and 5 strides."""
    import torch

    # The black picture too: some decoders are recognised by what a network makes of it.
    outputs = _outputs(model, convolutions, torch.cat([pictures, torch.zeros_like(pictures[:1])]))
    gain = 2.0 / float(outputs.abs().max())
    for layer in convolutions:
        layer.weight.mul_(gain)
        layer.bias.fill_(3.0)


def _tune_queries(model: Any, pictures: Any) -> None:
    """Let RT-DETR's queries differ: fresh weights leave each its anchor's box, and scores that only rounding orders."""
    import torch

    head = model.model[-1]
    for layers in (head.enc_bbox_head.layers, *(box.layers for box in head.dec_bbox_head)):
        torch.nn.init.normal_(layers[-1].weight, std=0.02)
    # The encoder's scores choose what the decoder sees.
    for layer, place in ((head.enc_score_head, 3), (head.dec_score_head[-1], 1)):
        logits = model(pictures)[1][place]
        layer.weight.mul_(SPREAD / float((logits - layer.bias).std()))
        layer.bias.fill_(-BEST)


def _outputs(model: Any, convolutions: list[Any], pictures: Any) -> Any:
    """What convolutions give without their biases, [all cells of all levels and pictures, channels]."""
    import torch

    seen: list[Any] = []
    hooks = [layer.register_forward_hook(lambda _m, _i, out: seen.append(out)) for layer in convolutions]
    for layer in convolutions:
        layer.bias.zero_()
    model(pictures)
    for hook in hooks:
        hook.remove()
    return torch.cat([out.permute(0, 2, 3, 1).flatten(0, 2) for out in seen])
