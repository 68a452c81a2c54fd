"""Vision-language models with random weights, built from configurations: the true code, without a download."""

from __future__ import annotations

from pathlib import Path

TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: "
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}{{ '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


_RANGE = 0.5
"""Of the weights: with the usual 0.02 the answer would hardly depend on what is asked."""


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


def save_llava(folder: Path, *, vision: int = 32, hidden: int = 32, layers: int = 2, image: int = 28) -> Path:
    """Write a LLaVA model with its processor; sizes are those of its layers."""
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
            hidden_size=vision,
            intermediate_size=2 * vision,
            num_hidden_layers=layers,
            num_attention_heads=2,
            image_size=image,
            patch_size=14,
            initializer_range=_RANGE,
        ),
        text_config=LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=hidden,
            intermediate_size=2 * hidden,
            num_hidden_layers=layers,
            num_attention_heads=2,
            num_key_value_heads=2,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            initializer_range=_RANGE,
        ),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        vision_feature_select_strategy="default",
        vision_feature_layer=-1,
    )
    LlavaForConditionalGeneration(configuration).save_pretrained(folder)
    sizes = {"height": image, "width": image}
    pictures = CLIPImageProcessor(size={"shortest_edge": image}, crop_size=sizes)
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
