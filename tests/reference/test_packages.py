"""Models by other packages' own code, and the exports of torchvision's and transformers' detectors."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the environment of make test-reference")

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "models")]
from array_surfaces import from_rgb
from comparing import gap_threshold, pair_up
from ultralytics_nets import Family, ReferenceNet, crop

from sluice.errors import ModelError
from sluice.models.adapters import adapter_for
from sluice.models.detections import Detections
from sluice.models.frame import Frame
from sluice.models.loading import load_model
from sluice.runtimes import open_network


def frame(rgb: np.ndarray) -> Frame:
    return Frame(from_rgb(rgb, "RGB"), stream=0, number=0, pts=None)


def infer(model, rgb: np.ndarray) -> Detections:
    model.load()
    model.warm_up()
    first, second = model.infer([frame(rgb), frame(rgb)])
    assert len(first) == len(second)
    return first


def test_an_ultralytics_checkpoint(work, rgb, tmp_path):
    """The package's own letterbox (of the picture's shape) and suppression; the file is read without its pickles."""
    pytest.importorskip("ultralytics")
    net = ReferenceNet(Family("yolo11n"), rgb, tmp_path)
    net.yolo.save(tmp_path / "m.pt")
    assert adapter_for(tmp_path / "m.pt") == "ultralytics"
    from ultralytics import YOLO

    def reference(confidence: float) -> Detections:
        [result] = YOLO(tmp_path / "m.pt").predict(rgb[:, :, ::-1], conf=confidence, verbose=False, device="cpu")
        return Detections.from_ultralytics(result)

    confidence = gap_threshold(reference(0.05).scores)
    model = load_model(tmp_path / "m.pt", device="cpu", confidence=confidence, iou=0.7)
    pair_up(reference(confidence), infer(model, rgb), 0.999)
    assert len(model.labels) == 80


def test_a_checkpoint_that_would_run_code_is_refused(tmp_path):
    pytest.importorskip("ultralytics")
    from ultralytics import YOLO

    class Bomb:
        def __reduce__(self):
            return open, (str(tmp_path / "went off"), "w")

    yolo = YOLO("yolo11n.yaml")
    yolo.ckpt = {"more": Bomb()}
    torch.save({"model": yolo.model, "more": Bomb()}, tmp_path / "m.pt")
    with pytest.raises(ModelError, match=r"set the option allow_pickle=true"):
        load_model(tmp_path / "m.pt", device="cpu").load()
    assert not (tmp_path / "went off").exists()
    load_model(tmp_path / "m.pt", device="cpu", options={"allow_pickle": "true"}).load()
    assert (tmp_path / "went off").exists()


def test_an_export_by_ultralytics_own_code(rgb, tmp_path):
    pytest.importorskip("ultralytics")
    net = ReferenceNet(Family("yolo11n"), rgb, tmp_path)
    confidence = gap_threshold(net.detections(rgb, 0.05).scores)
    model = load_model(net.onnx, runtime="ultralytics", device="cpu", confidence=confidence, iou=0.7)
    expected = net.detections(rgb, confidence)
    model.load()
    [result] = model.infer([frame(rgb)])
    pair_up(expected, result, 0.99)


@pytest.mark.parametrize("kind", ["torchscript", "openvino"])
def test_other_exports_of_ultralytics(rgb, tmp_path, kind):
    """The archives of the other exporters, by their own metadata, give what the ONNX file gives."""
    pytest.importorskip("ultralytics")
    if kind == "openvino":
        pytest.importorskip("openvino")
    net = ReferenceNet(Family("yolov8n"), rgb, tmp_path)
    confidence = gap_threshold(net.detections(rgb, 0.05).scores)
    made = net.export(tmp_path, kind)
    path = next(made.glob("*.xml")) if made.is_dir() else made
    [result] = load_model(path, device="cpu", confidence=confidence, iou=0.7).infer([frame(rgb)])
    pair_up(net.detections(rgb, confidence), result, 0.99)


BUILDERS = {
    "ssdlite320_mobilenet_v3_large": 0.0,
    "fcos_resnet50_fpn": 0.0,
    "fasterrcnn_mobilenet_v3_large_320_fpn": 0.0,
}


@pytest.mark.parametrize("builder", BUILDERS)
def test_torchvision_detectors_as_modules(rgb, builder):
    """Made by torchvision's own functions, with random weights; what they return is kept."""
    detection = pytest.importorskip("torchvision").models.detection
    options = {"weights": None, "weights_backbone": None, "box_score_thresh": 0.0, "score_thresh": 0.0}
    options.pop("score_thresh" if builder.startswith("faster") else "box_score_thresh")
    torch.manual_seed(0)
    module = getattr(detection, builder)(**options).eval()
    torch.manual_seed(0)
    model = load_model(f"torchvision.models.detection:{builder}", device="cpu", options=options)
    with torch.inference_mode():
        [expected] = module([torch.from_numpy(rgb).permute(2, 0, 1).float() / 255])
    [result] = model.infer([frame(rgb)])
    assert len(result) == len(expected["scores"]) > 0
    np.testing.assert_allclose(result.xyxy, expected["boxes"].numpy(), atol=1e-2)
    np.testing.assert_allclose(result.scores, expected["scores"].numpy(), atol=1e-4)
    np.testing.assert_array_equal(result.class_ids, expected["labels"].numpy())


def rtdetr(picture: np.ndarray):
    """transformers' RT-DETR with random weights, as exporters wrap it, and the picture as its input.

    Fresh weights score every cell the same, to 1e-6, so that roundings would choose the queries and put them in order:
    all scores are spread.
    """
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.RTDetrConfig(
        num_labels=20,
        num_queries=40,
        decoder_layers=2,
        encoder_layers=1,
        anchor_image_size=[64, 64],
        use_timm_backbone=False,
    )

    class Exported(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = transformers.RTDetrForObjectDetection(config)

        def forward(self, pixel_values):
            outputs = self.net(pixel_values)
            return outputs.logits, outputs.pred_boxes

    # The wrapper too: after an export torch puts all that is in it back into the wrapper's own mode.
    module = Exported().eval()
    tensor = torch.from_numpy(picture).permute(2, 0, 1)[None].float() / 255
    with torch.inference_mode():
        for _ in range(2):  # the first spreads the queries' scores, which changes what the decoder sees
            outputs = module.net(tensor)
            for name, parameter in module.net.named_parameters():
                if "score_head.weight" in name:
                    parameter.mul_(1.5 / outputs.enc_outputs_class.std())
                elif "class_embed" in name and "denoising" not in name:
                    parameter.mul_(1.5 / outputs.logits.std())
    return module, tensor


def test_rtdetr_of_transformers(rgb, tmp_path):
    """From a configuration with random weights: the heads, and the package's own post-processing of them."""
    from transformers import RTDetrImageProcessor

    picture = crop(rgb, (64, 64))
    module, tensor = rtdetr(picture)
    path = tmp_path / "rtdetr.onnx"
    torch.onnx.export(
        module, (tensor,), path, input_names=["pixel_values"], output_names=["logits", "pred_boxes"], dynamo=False,
        opset_version=17,
    )  # fmt: skip
    with torch.inference_mode():
        logits, boxes = module(tensor)
    network = open_network(path, device="cpu")
    for mine, theirs in zip(network.run(tensor.numpy()), (logits, boxes), strict=True):
        np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-3, atol=1e-3)
    network.close()

    def reference(confidence: float) -> Detections:
        outputs = SimpleNamespace(logits=logits, pred_boxes=boxes)
        [kept] = RTDetrImageProcessor().post_process_object_detection(outputs, confidence, torch.tensor([[64, 64]]))
        return Detections.from_torchvision(kept)

    confidence = gap_threshold(reference(0.0).scores)
    model = load_model(path, device="cpu", confidence=confidence)
    pair_up(reference(confidence), infer(model, picture), 0.999)


def test_rfdetr(rgb, tmp_path):
    """The package's smallest network with random weights, saved as the package saves it."""
    rfdetr = pytest.importorskip("rfdetr")
    torch.manual_seed(0)
    made = rfdetr.RFDETRNano(pretrain_weights=None, device="cpu")
    net = made.model.model
    torch.save({"model": net.state_dict(), "args": {"num_classes": 90}}, tmp_path / "m.pth")
    assert adapter_for(tmp_path / "m.pth") == "rfdetr"
    low = made.predict(rgb, threshold=0.0)
    confidence = gap_threshold(low.confidence)
    expected = Detections.from_supervision(made.predict(rgb, threshold=confidence))
    model = load_model(tmp_path / "m.pth", device="cpu", confidence=confidence, options={"variant": "Nano"})
    [result] = model.infer([frame(rgb)])
    pair_up(expected, result, 0.999)
