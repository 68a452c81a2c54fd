"""TensorRT engine files: NVIDIA's own, and those with the header that Ultralytics writes.

The header is the length of a JSON text as four bytes, little-endian, and the text; the serialized engine follows. See
``engine_header`` in Ultralytics' ``nn/backends/base.py``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sluice.errors import ModelError
from sluice.runtimes.base import metadata_texts

LENGTH_BYTES = 4
_DLA_CORES = ("0", "1")  # as Ultralytics writes them, a number or a text


@dataclass(frozen=True)
class EngineFile:
    """An engine file taken apart.

    Attributes:
        metadata: what the exporter wrote, as texts; empty without a header.
        dla_core: the deep-learning accelerator's core that the engine was built for; None for the GPU.
        engine: the serialized engine.
    """

    metadata: dict[str, str]
    dla_core: int | None
    engine: bytes


def read_engine(path: Path) -> EngineFile:
    """Read an engine file.

    Raises:
        ModelError: the file is empty, holds a header and no engine, or its header names no core of an accelerator.
    """
    content = path.read_bytes()
    header, engine = _split(content)
    if not engine:
        raise ModelError(
            f"{path} holds {'a header and no engine' if header else 'nothing'}; right is a TensorRT engine"
        )
    core = header.get("dla")
    if core is not None and str(core) not in _DLA_CORES:
        raise ModelError(f"{path}: the header's dla is {core!r:.80}; right is the number of a core, 0 or 1")
    return EngineFile(metadata_texts(header), None if core is None else int(core), engine)


def _split(content: bytes) -> tuple[dict[str, Any], bytes]:
    """The header's JSON object and the rest; an engine's own first bytes are not the length of a JSON text."""
    length = int.from_bytes(content[:LENGTH_BYTES], "little")
    end = LENGTH_BYTES + length
    if length > 0 and end <= len(content):
        try:
            header = json.loads(content[LENGTH_BYTES:end])
        except (ValueError, RecursionError):  # not JSON, or not text at all
            return {}, content
        if isinstance(header, dict):
            return header, content[end:]
    return {}, content


def engine_name(
    model: str | Path, max_batch: int, precision: str, *, gpu: int = 0, dla_core: int | None = None
) -> Path:
    """Where nvinfer saves the engine it builds of a model: ``<model>_b<max>_<gpuN|dlaN>_<precision>.engine``.

    Args:
        model: path of the ONNX file.
        max_batch: the most frames at once.
        precision: "fp32", "fp16", "int8" or "best".
        gpu: number of the GPU.
        dla_core: core of the deep-learning accelerator, where one is used in place of the GPU.
    """
    place = f"gpu{gpu}" if dla_core is None else f"dla{dla_core}"
    return Path(f"{model}_b{max_batch}_{place}_{precision}.engine")
