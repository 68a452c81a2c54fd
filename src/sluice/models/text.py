"""Text encoders: vectors of texts that can be compared with those of pictures, as CLIP and SigLIP have them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sluice.errors import ConfigurationError, ModelError
from sluice.models.loading import find_python
from sluice.runtimes.paths import is_file, is_path
from sluice.runtimes.unwinding import import_compiled

Vectors = npt.NDArray[np.float32]

_OPEN_LENGTH = 77  # tokens, CLIP's own, for networks that leave their length open and tokenizers without one


class TextEncoder(Protocol):
    """Makes vectors of texts."""

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return float32 [texts, D], each of length 1."""


def load_text_encoder(spec: str) -> TextEncoder:
    """Make a text encoder from its name.

    Args:
        spec: ``text.onnx`` with a ``tokenizer.json`` beside it, a folder of `transformers` or a name of the Hugging
            Face hub, ``package.module:Class`` or ``file.py:Class`` with ``encode(texts)``.

    Raises:
        ConfigurationError: a package is missing, or there is no tokenizer.
        ModelError: it cannot be found or loaded.
    """
    if spec.endswith(".onnx"):
        return OnnxTextEncoder(spec)
    if not is_path(spec):
        return PythonTextEncoder(find_python(spec), spec)
    return TransformersTextEncoder(spec)


class PythonTextEncoder:
    """A user's own: an object or class with ``encode(texts)``, or a function of texts."""

    def __init__(self, target: Any, name: str) -> None:
        """Take it; a class is made without arguments.

        Raises:
            ModelError: it has no ``encode``.
        """
        made = target() if inspect.isclass(target) else target
        encode = getattr(made, "encode", made if inspect.isfunction(made) else None)
        if not callable(encode):
            raise ModelError(f"{name} has no encode(texts); a text encoder returns one vector per text")
        self._encode = encode
        self._name = name

    def encode(self, texts: Sequence[str]) -> Vectors:
        """See `TextEncoder.encode`; raises whatever the user's code raises, too."""
        return _checked(self._encode(list(texts)), len(texts), self._name)


class OnnxTextEncoder:
    """An exported text encoder, executed by ONNX Runtime; its tokens are made by the `tokenizers` package.

    The input whose name holds "mask" is given the attention mask, the other one the tokens; of several outputs the one
    named like ``text_embeds`` counts, else the first with one vector per text.
    """

    def __init__(self, path: str) -> None:
        """Load both files.

        Raises:
            ConfigurationError: there is no ``tokenizer.json``, or tokenizers is not installed.
            ModelError: a file cannot be loaded.
        """
        onnxruntime: Any = import_compiled("onnxruntime")
        if not is_file(path):
            raise ModelError(f"there is no text encoder {path!r}")
        self._path = path
        try:
            self._session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime raises its own kinds
            raise ModelError(f"{path} cannot be loaded: {error}") from error
        self._tokenizer = _tokenizer(Path(path).with_name("tokenizer.json"), self._length())

    def _length(self) -> int | None:
        """The number of tokens that the network takes; None for any."""
        shape = self._session.get_inputs()[0].shape
        return shape[1] if len(shape) == 2 and isinstance(shape[1], int) else None

    def encode(self, texts: Sequence[str]) -> Vectors:
        """See `TextEncoder.encode`; texts longer than the network takes are cut off."""
        encoded = self._tokenizer.encode_batch(list(texts))
        tokens = np.array([one.ids for one in encoded])
        mask = np.array([one.attention_mask for one in encoded])
        types = {"tensor(int32)": np.int32, "tensor(float)": np.float32}
        given = {
            item.name: (mask if "mask" in item.name else tokens).astype(types.get(item.type, np.int64))
            for item in self._session.get_inputs()
        }
        try:
            outputs = self._session.run(None, given)
        except Exception as error:
            raise ModelError(f"{self._path} cannot be run on texts: {error}") from error
        names = [item.name for item in self._session.get_outputs()]
        flat = [(name, one) for name, one in zip(names, outputs, strict=True) if one.shape[:1] == (len(texts),)]
        flat = [(name, one) for name, one in flat if one.ndim == 2]
        if not flat:
            raise ModelError(f"{self._path} has no output with one vector per text (outputs: {', '.join(names)})")
        named = next((one for name, one in flat if "text_emb" in name), flat[0][1])
        return _checked(named, len(texts), self._path)


class TransformersTextEncoder:
    """The text half of a model of `transformers`, CLIP, SigLIP and alike."""

    def __init__(self, name: str) -> None:
        """Load it.

        Raises:
            ConfigurationError: transformers or torch is not installed.
            ModelError: it cannot be loaded.
        """
        try:
            import torch
            from transformers import AutoModel, AutoTokenizer
        except ImportError as error:
            raise ConfigurationError(
                f"the text encoder {name!r} needs transformers and torch, and one cannot be imported: {error}; "
                "pip install 'sluice-video[transformers]'"
            ) from error
        self._torch = torch
        self._name = name
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(name)
            self._model = AutoModel.from_pretrained(name).eval()
        except Exception as error:  # whatever a folder's files or the hub may raise
            raise ModelError(f"the text encoder {name!r} cannot be loaded: {type(error).__name__}: {error}") from error
        if not hasattr(self._model, "get_text_features"):
            raise ModelError(f"{name} is a {type(self._model).__name__}, which has no get_text_features")

    def encode(self, texts: Sequence[str]) -> Vectors:
        """See `TextEncoder.encode`; texts longer than the model takes are cut off."""
        # SigLIP was trained on padded texts only; CLIP's attention mask takes the padding out again.
        inputs = self._tokenizer(
            list(texts), padding="max_length", truncation=True, max_length=self._most_tokens(), return_tensors="pt"
        )
        with self._torch.inference_mode():
            found = self._model.get_text_features(**inputs)
        # Newer versions return the whole output, with the vectors as its pooled part.
        vectors = found if self._torch.is_tensor(found) else found.pooler_output
        return _checked(vectors.float().cpu().numpy(), len(texts), self._name)

    def _most_tokens(self) -> int:
        return int(self._model.config.text_config.max_position_embeddings)


def _tokenizer(path: Path, length: int | None) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise ConfigurationError(
            f"texts are cut into tokens with the package tokenizers, which cannot be imported: {error}; "
            "pip install 'sluice-video[search]'"
        ) from error
    if not path.is_file():
        raise ConfigurationError(f"there is no tokenizer beside the text encoder: no {path}")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:
        raise ModelError(f"{path} cannot be loaded: {error}") from error
    padding = tokenizer.padding or {}
    tokenizer.enable_truncation(length or (tokenizer.truncation or {}).get("max_length") or _OPEN_LENGTH)
    tokenizer.enable_padding(
        pad_id=padding.get("pad_id", 0), pad_token=padding.get("pad_token", "[PAD]"), length=length
    )
    return tokenizer


def _checked(found: Any, count: int, name: str) -> Vectors:
    vectors = np.asarray(found, np.float32)
    if vectors.ndim != 2 or len(vectors) != count or not vectors.shape[1]:
        raise ModelError(f"{name} returned {list(vectors.shape)} for {count} texts; right is [{count}, D]")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(vectors).all() or not (lengths > 0).all():
        raise ModelError(f"{name} returned a vector without a direction: zeros, or numbers that are not finite")
    return np.asarray(vectors / lengths, np.float32)
