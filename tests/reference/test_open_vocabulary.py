"""Detectors with a prompt: OWL-ViT, Grounding DINO, YOLO-World and YOLOE of their own packages, with random weights."""

import json
import sys
import types

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import sluice
from reference.tiny_vlm import byte_tokenizer
from sluice.errors import ModelError
from sluice.models.adapters.ultralytics import UltralyticsModel
from sluice.models.zero_shot import ZeroShotDetector

LEAST = 1e-9  # with random weights nothing is likely


class OneFrame:
    """What a model needs of a frame."""

    def __init__(self, rgb):
        self._rgb = rgb
        self.height, self.width = rgb.shape[:2]

    def rgb(self):
        return self._rgb

    def bgr(self):
        return np.ascontiguousarray(self._rgb[..., ::-1])


@pytest.fixture(scope="module")
def owl(work):
    """A tiny OWL-ViT in a folder."""
    folder = work / "owl"
    torch.manual_seed(3)
    layers = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    tokenizer = byte_tokenizer()
    configuration = transformers.OwlViTConfig(
        text_config={**layers, "vocab_size": len(tokenizer), "max_position_embeddings": 16, "pad_token_id": 0},
        vision_config={**layers, "image_size": 32, "patch_size": 8},
        projection_dim=16,
    )
    transformers.OwlViTForObjectDetection(configuration).save_pretrained(folder)
    pictures = transformers.OwlViTImageProcessor(size={"height": 32, "width": 32})
    tokenizer.model_max_length = 16
    transformers.OwlViTProcessor(image_processor=pictures, tokenizer=tokenizer).save_pretrained(folder)
    return folder


def test_owl_vit_says_what_transformers_itself_says(owl, rgb) -> None:
    picture = np.ascontiguousarray(rgb[:200, :300])
    model = ZeroShotDetector(str(owl), device="cpu", confidence=0.0)
    model.load()
    assert len(model.infer([OneFrame(picture)])[0]) == 0
    labels = ["red truck", "person"]
    model.use_prompt(labels, model.encode_prompt(labels))
    (found,) = model.infer([OneFrame(picture)])
    processor = transformers.AutoProcessor.from_pretrained(owl)
    reference = transformers.OwlViTForObjectDetection.from_pretrained(owl)
    inputs = processor(text=[labels], images=picture, return_tensors="pt")
    with torch.inference_mode():
        outputs = reference(**inputs)
    (expected,) = processor.post_process_grounded_object_detection(
        outputs, threshold=0.0, target_sizes=[picture.shape[:2]]
    )
    assert len(found) == len(expected["boxes"]) > 0
    assert np.allclose(found.xyxy, expected["boxes"].numpy(), atol=1e-3)
    assert np.allclose(found.scores, expected["scores"].numpy(), atol=1e-5)
    assert found.class_ids.tolist() == expected["labels"].tolist()
    assert model.labels == ("red truck", "person")


def test_owl_vit_in_a_pipeline(owl) -> None:
    options = {"path": str(owl), "confidence": 0.0}
    with sluice.Pipeline(
        "test:ball?frames=4&size=64x48", model="sluice.models.zero_shot:ZeroShotDetector", model_options=options
    ) as pipeline:
        assert len(list(pipeline)) == 4


def bert_tokenizer():
    """A tokenizer of a few words, whose special tokens have the numbers that Grounding DINO knows them by."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    words = {0: "[PAD]", 1: "[UNK]", 101: "[CLS]", 102: "[SEP]", 1012: ".", 1029: "?"}
    words |= {2000: "red", 2001: "truck", 2002: "person"}
    made = Tokenizer(models.WordPiece({words.get(i, f"[unused{i}]"): i for i in range(2003)}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.BertProcessing(("[SEP]", 102), ("[CLS]", 101))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]"
    )


@pytest.fixture(scope="module")
def grounding(work):
    """A tiny Grounding DINO in a folder."""
    folder = work / "grounding"
    torch.manual_seed(5)
    tokenizer = bert_tokenizer()
    configuration = transformers.GroundingDinoConfig(
        backbone_config=transformers.SwinConfig(
            embed_dim=8, depths=[1] * 4, num_heads=[1] * 4, image_size=64, out_features=["stage2", "stage3", "stage4"]
        ),
        text_config=transformers.BertConfig(
            vocab_size=len(tokenizer), hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=8
        ),
        d_model=32,
        num_queries=12,
        max_text_len=32,
        encoder_layers=1,
        decoder_layers=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
    )
    transformers.GroundingDinoForObjectDetection(configuration).save_pretrained(folder)
    pictures = transformers.GroundingDinoImageProcessor(size={"shortest_edge": 64, "longest_edge": 128})
    transformers.GroundingDinoProcessor(image_processor=pictures, tokenizer=tokenizer).save_pretrained(folder)
    return folder


def test_grounding_dino_says_what_transformers_itself_says(grounding, rgb) -> None:
    picture = np.ascontiguousarray(rgb[:200, :300])
    model = ZeroShotDetector(str(grounding), device="cpu", confidence=0.0, text_confidence=0.0)
    model.load()
    labels = ["Red truck", "person"]
    model.use_prompt(labels, model.encode_prompt(labels))
    (found,) = model.infer([OneFrame(picture)])
    processor = transformers.AutoProcessor.from_pretrained(grounding)
    reference = transformers.GroundingDinoForObjectDetection.from_pretrained(grounding)
    inputs = processor(images=picture, text="red truck. person.", return_tensors="pt")
    with torch.inference_mode():
        outputs = reference(**inputs)
    (expected,) = processor.post_process_grounded_object_detection(
        outputs, inputs["input_ids"], threshold=0.0, text_threshold=0.0, target_sizes=[picture.shape[:2]]
    )
    assert len(found) == len(expected["boxes"]) == 12
    assert np.allclose(found.xyxy, expected["boxes"].numpy(), atol=1e-2)
    assert np.allclose(found.scores, expected["scores"].numpy(), atol=1e-4)
    assert [model._class_of(words) for words in ("red truck", "truck", "person", "lamp")] == [0, 0, 1, -1]


def test_a_folder_that_holds_none(tmp_path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(ModelError, match="cannot be loaded by transformers"):
        ZeroShotDetector(str(tmp_path)).load()


class Texts:
    """In place of CLIP or MobileCLIP, whose weights would be fetched: a vector that depends on the text."""

    def tokenize(self, texts):
        return torch.tensor([[sum(map(ord, text))] for text in texts])

    def encode_text(self, tokens):
        generators = [torch.Generator().manual_seed(int(token)) for token in tokens[:, 0]]
        vectors = torch.stack([torch.randn(512, generator=one) for one in generators])
        return vectors / vectors.norm(dim=-1, keepdim=True)


@pytest.fixture(params=["YOLOWorld yolov8s-worldv2", "YOLOE yoloe-11s"])
def prompted(request, work, monkeypatch):
    """The class of a checkpoint with random weights, and its path."""
    ultralytics = pytest.importorskip("ultralytics")
    # The module itself needs a package that only the network has, for weights that only the network has.
    texts = types.ModuleType("ultralytics.nn.text_model")
    texts.build_text_model = lambda *_, **__: Texts()
    monkeypatch.setitem(sys.modules, "ultralytics.nn.text_model", texts)
    kind, name = request.param.split()
    path = work / f"{name}.pt"
    if not path.exists():
        torch.manual_seed(1)
        getattr(ultralytics, kind)(f"{name}.yaml").save(str(path))
    return getattr(ultralytics, kind), path


def test_yolo_world_and_yoloe_take_a_prompt_and_another(prompted, rgb) -> None:
    kind, path = prompted
    model = UltralyticsModel(path, device="cpu", confidence=LEAST, max_detections=20, allow_pickle=True)
    model.load()
    picture = OneFrame(np.ascontiguousarray(rgb[:320, :320]))
    for labels in (["red truck", "person", "dog"], ["lamp"]):
        model.use_prompt(labels, model.encode_prompt(labels))
        (found,) = model.infer([picture])
        reference = kind(str(path))
        vectors = [reference.get_text_pe(labels)] if kind.__name__ == "YOLOE" else []
        reference.set_classes(labels, *vectors)
        (expected,) = reference.predict(picture.bgr(), conf=LEAST, max_det=20, verbose=False, device="cpu", iou=0.7)
        assert model.labels == tuple(labels)
        assert len(found) == len(expected.boxes) > 0
        assert np.allclose(found.xyxy, expected.boxes.xyxy.numpy(), atol=1e-2)
        assert found.class_ids.tolist() == expected.boxes.cls.int().tolist()
        assert max(found.class_ids) < len(labels)


def test_another_checkpoint_takes_none(work) -> None:
    ultralytics = pytest.importorskip("ultralytics")
    path = work / "plain.pt"
    ultralytics.YOLO("yolov8n.yaml").save(str(path))
    model = UltralyticsModel(path, device="cpu", allow_pickle=True)
    model.load()
    with pytest.raises(ModelError, match="neither a YOLO-World nor a YOLOE"):
        model.encode_prompt(["person"])
