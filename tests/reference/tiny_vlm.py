"""Vision-language models with random weights, built from configurations: the true code, without a download."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: "
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}{{ '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def byte_tokenizer():
    """A tokenizer of bytes, so that every text has tokens and every token is text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = pre_tokenizers.ByteLevel.alphabet()
    words = {symbol: number for number, symbol in enumerate(["<pad>", "<s>", "</s>", "<image>", *sorted(alphabet)])}
    made = Tokenizer(models.BPE(vocab=words, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        additional_special_tokens=["<image>"],
        chat_template=TEMPLATE,
    )


@dataclass(frozen=True)
class Sizes:
    """Of a LLaVA model: a vision transformer of 14 by 14 patches, and a language model."""

    image: int = 28
    vision: int = 32
    vision_layers: int = 2
    vision_heads: int = 2
    vision_inner: int = 64
    text: int = 32
    text_layers: int = 2
    text_heads: int = 2
    text_inner: int = 64
    words: int = 0
    """Tokens of the vocabulary; 0: those that the tokenizer has."""
    range: float = 0.5
    """Of the weights: with the usual 0.02 the answer would hardly depend on what is asked."""


def save_llava(folder: Path, sizes: Sizes = Sizes(), *, dtype: str = "float32", device: str = "cpu") -> Path:
    """Write a LLaVA model with its processor."""
    import torch
    from transformers import (
        CLIPImageProcessor,
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
    )

    tokenizer = byte_tokenizer()
    torch.manual_seed(5)
    configuration = LlavaConfig(
        vision_config=CLIPVisionConfig(
            hidden_size=sizes.vision,
            intermediate_size=sizes.vision_inner,
            num_hidden_layers=sizes.vision_layers,
            num_attention_heads=sizes.vision_heads,
            image_size=sizes.image,
            patch_size=14,
            initializer_range=sizes.range,
        ),
        text_config=LlamaConfig(
            vocab_size=max(sizes.words, len(tokenizer)),
            hidden_size=sizes.text,
            intermediate_size=sizes.text_inner,
            num_hidden_layers=sizes.text_layers,
            num_attention_heads=sizes.text_heads,
            num_key_value_heads=sizes.text_heads,
            max_position_embeddings=32_768,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            initializer_range=sizes.range,
        ),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        vision_feature_select_strategy="default",
        vision_feature_layer=-1,
    )
    with torch.device(device):
        model = LlavaForConditionalGeneration(configuration)
    model.to(getattr(torch, dtype)).save_pretrained(folder)
    pictures = CLIPImageProcessor(
        size={"shortest_edge": sizes.image}, crop_size={"height": sizes.image, "width": sizes.image}
    )
    LlavaProcessor(
        image_processor=pictures,
        tokenizer=tokenizer,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=TEMPLATE,
    ).save_pretrained(folder)
    return folder


def save_clip(folder: Path, *, size: int = 16) -> Path:
    """Write a CLIP model with its tokenizer."""
    import torch
    from transformers import CLIPConfig, CLIPModel

    tokenizer = byte_tokenizer()
    torch.manual_seed(6)
    layers = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    configuration = CLIPConfig(
        text_config={
            **layers,
            "vocab_size": len(tokenizer),
            "max_position_embeddings": 24,
            "eos_token_id": 2,
            "bos_token_id": 1,
            "pad_token_id": 0,
        },
        vision_config={**layers, "image_size": 28, "patch_size": 14},
        projection_dim=size,
    )
    CLIPModel(configuration).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
