"""Heads of projects that have no package of their own: networks and decoding of LibreYOLO, in their exporters' layouts.

LibreYOLO ports these projects' networks and post-processing to PyTorch. Weights are random; what each project's own
exporter writes is made of the head's outputs by a few lines here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the environment of make test-reference")
pytest.importorskip("libreyolo", reason="needs the environment of make test-reference")

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "models")]
from array_surfaces import from_rgb
from comparing import gap_threshold, pair_up
from libreyolo.models.centernet.nn import CenterNetResDCN
from libreyolo.models.centernet.utils import preprocess_numpy as centernet_input
from libreyolo.models.efficientdet.nn import LibreEfficientDetModel
from libreyolo.models.efficientdet.utils import preprocess_numpy as efficientdet_input
from libreyolo.models.picodet.nn import LibrePICODETModel
from libreyolo.models.picodet.utils import preprocess_numpy as picodet_input
from libreyolo.models.rtmdet.nn import LibreRTMDetModel
from libreyolo.models.rtmdet.utils import preprocess_numpy as rtmdet_input
from libreyolo.models.ssd.nn import LibreSSDModel
from libreyolo.models.yolonas.nn import LibreYOLONASModel
from libreyolo.postprocess import centernet, efficientdet, picodet, rtmdet, ssd, yolonas
from ultralytics_nets import crop

from sluice.models.detections import Detections
from sluice.models.frame import Frame
from sluice.models.loading import load_model
from sluice.runtimes import open_network

pytestmark = pytest.mark.timeout(600)  # minutes on a machine that has other work

CLASSES = 5
LOW = 0.3  # what the threshold is chosen above


def rows(maps: Any, columns: int) -> Any:
    """A map [batch, n x columns, h, w] as rows [batch, h x w x n, columns]."""
    return maps.permute(0, 2, 3, 1).reshape(maps.shape[0], -1, columns)


def lively(maps: Any) -> Any:
    """Class logits [batch, C, h, w] of fresh weights, spread so that few cells are sure of a class, and of one only."""
    spread = (maps - maps.mean((0, 2, 3), keepdim=True)) / maps.std((0, 2, 3), keepdim=True)
    return only_best(2 * spread - 5)


def lively_rows(logits: Any) -> Any:
    """The same for logits in rows [batch, N, C]."""
    return lively(logits.transpose(1, 2)[..., None])[..., 0].transpose(1, 2)


def only_best(logits: Any) -> Any:
    """Logits [batch, C, ...] with all but the best lowered: some decoders take a cell's second class too."""
    return torch.where(logits == logits.amax(1, keepdim=True), logits, logits - 8)


@dataclass(frozen=True)
class Head:
    """One kind of head.

    Attributes:
        decoder: what Sluice calls it.
        size: of its input, square.
        build: makes the network.
        raw: the head's outputs, from what the network gives; what the reference decodes.
        exported: those as the project's exporter writes them, by name.
        prepare: the reference's preprocessing of a picture uint8 [h,w,3]: float32 [3,h,w] and a ratio.
        decode: the reference's post-processing of `raw`, with the keyword arguments of libreyolo's.
        sure: whether the decoder recognises itself; else it has to be named.
    """

    decoder: str
    size: int
    build: Callable[[], Any]
    raw: Callable[[Any], Any]
    exported: Callable[[Any], dict[str, Any]]
    prepare: Callable[[np.ndarray, int], tuple[np.ndarray, float]]
    decode: Callable[..., dict[str, Any]]
    sure: bool = True

    def __str__(self) -> str:
        return self.decoder


def near(sides: Any) -> Any:
    """Distances [batch, 4 x 8 bins, h, w] of less than a stride or two, so that boxes end inside the picture.

    LibreYOLO clips before it suppresses, PaddleDetection and Sluice do not.
    """
    return sides - torch.arange(8.0).repeat(4)[None, :, None, None]


def by_stride(raw: Any) -> dict[str, Any]:
    """PaddleDetection's PicoDet, exported without post-processing: first all scores, then all distances."""
    scores, sides = raw
    outputs = {f"cls_{i}": rows(part.sigmoid(), CLASSES) for i, part in enumerate(scores)}
    return outputs | {f"reg_{i}": rows(part, 32) for i, part in enumerate(sides)}


def ssd_rows(raw: Any) -> dict[str, Any]:
    """pytorch-ssd: probabilities with the background first, and corners as fractions."""
    size = 300
    boxes = ssd._default_boxes(device=torch.device("cpu"), dtype=torch.float32, input_size=size)
    decoded = ssd._decode_boxes(raw["bbox_regression"][0], boxes).clamp(0, size) / size
    return {"scores": raw["cls_logits"].softmax(-1), "boxes": decoded[None]}


def sharpened(raw: dict[str, Any]) -> dict[str, Any]:
    """SSD's logits, spread; the background is likely nearly everywhere."""
    levels = raw["cls_logits"][..., 1:].split([5776, 2166, 600, 190], 1)  # cells x anchors; the last three together
    logits = torch.cat([lively_rows(level) for level in levels], 1)
    return {"bbox_regression": raw["bbox_regression"], "cls_logits": torch.nn.functional.pad(logits, (1, 0))}


def yolonas_raw(outputs: Any) -> Any:
    """Boxes and scores, beside which comes what the loss needs, but not while the network is exported."""
    boxes, scores = outputs[0] if isinstance(outputs[0], tuple) else outputs
    return boxes, lively_rows(scores.logit()).sigmoid()


def centernet_net() -> Any:
    """With plain convolutions in place of the deformable ones, which this exporter does not know."""
    net = CenterNetResDCN(CLASSES)
    for number, layer in enumerate(net.deconv_layers):
        if hasattr(layer, "conv_offset_mask"):
            channels = layer.weight.shape
            net.deconv_layers[number] = torch.nn.Conv2d(channels[1], channels[0], 3, padding=1)
    return net


def plain_input(picture: np.ndarray, _size: int) -> tuple[np.ndarray, float]:
    return picture.transpose(2, 0, 1).astype(np.float32) / 255, 1.0


HEADS = (
    Head(
        "picodet", 320,
        lambda: LibrePICODETModel("s", CLASSES),
        lambda outputs: ([lively(part) for part in outputs[0]], [near(part) for part in outputs[1]]),
        by_stride, picodet_input, picodet.postprocess,
    ),
    Head(
        "efficientdet", 512,
        lambda: LibreEfficientDetModel("d0", CLASSES),
        lambda outputs: ([lively(part) for part in outputs[0]], outputs[1]),
        lambda raw: {
            "classification": torch.cat([rows(part, CLASSES) for part in raw[0]], 1).sigmoid(),
            "regression": torch.cat([rows(part, 4) for part in raw[1]], 1),
        },
        efficientdet_input,
        lambda *raw, **options: efficientdet.postprocess(*raw, sparse_coco=False, max_candidates=10**6, **options),
    ),
    Head(
        "centernet", 256,
        centernet_net,
        lambda outputs: {"hm": lively(outputs["hm"]), "wh": 20 * outputs["wh"].abs() + 4, "reg": outputs["reg"]},
        lambda raw: raw, centernet_input, centernet.postprocess,
    ),
    Head(
        "rtmdet-raw", 320,
        lambda: LibreRTMDetModel("t", CLASSES),
        lambda outputs: ([lively(part) for part in outputs[0]], [4 + part.abs() / 8 for part in outputs[1]]),
        lambda raw: {f"cls_{i}": part for i, part in enumerate(raw[0])}
        | {f"reg_{i}": part for i, part in enumerate(raw[1])},
        rtmdet_input, rtmdet.postprocess,
    ),
    Head(
        "yolo-nas", 320,
        lambda: LibreYOLONASModel("s", CLASSES),
        yolonas_raw,
        lambda raw: {"boxes": raw[0], "scores": raw[1]},
        plain_input, yolonas.postprocess,
    ),
    Head(
        "ssd", 300,
        lambda: LibreSSDModel(CLASSES + 1),
        sharpened, ssd_rows,
        lambda picture, _size: ((picture.transpose(2, 0, 1).astype(np.float32) - 127) / 128, 1.0),
        ssd.postprocess,
    ),
)  # fmt: skip


class Exported(torch.nn.Module):
    """A network that gives what its project's exporter writes."""

    def __init__(self, head: Head, net: Any) -> None:
        super().__init__()
        self.head, self.net = head, net

    def forward(self, images: Any) -> Any:
        return tuple(self.head.exported(self.head.raw(self.net(images))).values())


def awake(net: Any, tensor: Any) -> Any:
    """Give fresh weights the normalisation of this picture, without which deep networks fade or explode."""
    norms = [module for module in net.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    net.train()
    with torch.no_grad():
        net(torch.cat([tensor, tensor.flip(3)]))
    return net.eval()


@pytest.mark.parametrize("head", HEADS, ids=str)
def test_a_head_in_its_exporters_layout(head, rgb, tmp_path):
    """Raw outputs within 1e-3, the same boxes from the same network input, none more or less."""
    picture = crop(rgb, (head.size, head.size))
    array, _ = head.prepare(picture, head.size)
    tensor = torch.from_numpy(array)[None]
    torch.manual_seed(1)
    net = awake(head.build(), tensor)
    module = Exported(head, net).eval()
    path = tmp_path / f"{head}.onnx"
    with torch.inference_mode():
        raw = head.raw(net(tensor))
        outputs = head.exported(raw)
    names = list(outputs)
    torch.onnx.export(
        module, (tensor,), path, input_names=["images"], output_names=names, dynamo=False, opset_version=19
    )
    network = open_network(path, device="cpu")
    for mine, theirs in zip(network.run(array[None]), outputs.values(), strict=True):
        np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-3, atol=1e-3)
    network.close()

    def reference(confidence: float) -> Detections:
        found = head.decode(raw, conf_thres=confidence, iou_thres=0.45, input_size=head.size, max_det=300)
        return Detections(*(np.asarray(found[name]) for name in ("boxes", "scores", "classes")))

    confidence = gap_threshold(reference(LOW).scores)
    expected = reference(confidence)
    assert len(set(expected.class_ids.tolist())) > 1
    options = {} if head.sure else {"decoder": head.decoder}
    model = load_model(path, device="cpu", confidence=confidence, iou=0.45, options=options)
    model.load()
    assert model.target.head.decoder == head.decoder
    [result] = model.infer([Frame(from_rgb(picture, "RGB"), stream=0, number=0, pts=None)])
    partners = pair_up(clipped(expected, head.size), result, 0.99)
    assert np.abs(expected.scores - result.scores[partners]).max() < 1e-3


def clipped(detections: Detections, size: int) -> Detections:
    return Detections(detections.xyxy.clip(0, size), detections.scores, detections.class_ids)
