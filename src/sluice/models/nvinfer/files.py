"""Which file of an nvinfer configuration is run, and which engine has to be built for it first."""

from __future__ import annotations

import difflib
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sluice.errors import ConfigurationError, ModelError
from sluice.models.nvinfer.config import NvinferConfig
from sluice.runtimes import FILES, choose_runtime, installed
from sluice.runtimes.paths import is_file

if TYPE_CHECKING:
    from sluice.runtimes.tensorrt_build import BuildSettings

PRECISIONS = ("fp32", "int8", "fp16", "best")  # by network-mode
GPU_DEVICES = ("/dev/nvidiactl", "/dev/nvmap")

#: Kinds of network that only releases before 9 of nvinfer could build.
_OLD = ("tlt_encoded_model", "uff_file", "model_file", "custom_network_config")


class Choice(NamedTuple):
    """What is run.

    Attributes:
        path: the file.
        note: what to log of it; None for nothing.
        build: what `path` is built with first; None if it is there.
    """

    path: Path
    note: str | None = None
    build: BuildSettings | None = None


def engines_run() -> bool:
    """Whether TensorRT engines can be run here: a runtime for them, and a GPU (of a PC or of a Jetson)."""
    return installed("tensorrt") and any(Path(device).exists() for device in GPU_DEVICES)


def engines_are_built() -> bool:
    """Whether TensorRT's builder is here; the lean and dispatch packages only run engines."""
    return find_spec("tensorrt") is not None


def build_settings(config: NvinferConfig) -> BuildSettings | None:
    """What nvinfer would build an engine of the configuration with; None without an onnx-file."""
    from sluice.runtimes.tensorrt_build import BuildSettings

    properties = config.properties
    if properties.onnx_file is None:
        return None
    return BuildSettings(
        onnx=properties.onnx_file,
        max_batch=properties.batch_size,
        gpu=properties.gpu_id,
        precision=PRECISIONS[properties.network_mode],
        dla_core=properties.use_dla_core if properties.enable_dla else None,
        workspace=properties.workspace_size,
        input_dims=properties.infer_dims,
        calibration=properties.int8_calib_file,
        strongly_typed=properties.strongly_typed,
    )


def network_file(config: NvinferConfig, runtime: str) -> Choice:
    """The file to run.

    The engine is taken where TensorRT is, or its runtime is asked for, and built if it is not there; else the ONNX
    file is taken.

    Args:
        config: the configuration.
        runtime: "auto" or a runtime's name.

    Raises:
        ConfigurationError: the file names neither, or there is no such runtime.
        ModelError: the files do not exist, or there is only an engine and no TensorRT.
    """
    engine, onnx = config.properties.model_engine_file, config.properties.onnx_file
    if engine is None and onnx is None:
        raise ConfigurationError(_only_old(config))
    wants_engine = runtime in FILES[".engine"] or (runtime == "auto" and engines_run())
    engine_there = engine is not None and is_file(engine)
    if engine is not None and engine_there and wants_engine:
        return Choice(Path(engine))
    if onnx is not None and is_file(onnx):
        if wants_engine and engines_are_built():
            return _built(config, Path(onnx))
        name = choose_runtime(onnx, runtime)
        if engine is None:
            return Choice(Path(onnx))
        why = "TensorRT is not used here" if engine_there else "there is no such file"
        return Choice(Path(onnx), f"{config.path}: {onnx} is run by {name}; not model-engine-file {engine}: {why}")
    if engine_there:
        raise ModelError(
            f"{config.path}: model-engine-file {engine} needs TensorRT, which is not here"
            + (f", and onnx-file {onnx} does not exist" if onnx else "; name an onnx-file beside it to run without")
        )
    raise ModelError(f"{config.path}: {_missing(config)}")


def _built(config: NvinferConfig, onnx: Path) -> Choice:
    """The engine under nvinfer's name for it: one that was built since the ONNX file was written, else a new one."""
    settings = build_settings(config)
    assert settings is not None
    path = settings.engine
    if path.is_file() and path.stat().st_mtime >= onnx.stat().st_mtime:
        return Choice(path, f"{config.path}: runs {path}, which was built of onnx-file earlier")
    return Choice(path, f"{config.path}: builds {path}, which takes minutes", settings)


def _missing(config: NvinferConfig) -> str:
    """Which files there are not."""
    texts = []
    for key, value in (
        ("onnx-file", config.properties.onnx_file),
        ("model-engine-file", config.properties.model_engine_file),
    ):
        if value is not None:
            path = Path(value)
            names = [item.name for item in path.parent.iterdir()] if path.parent.is_dir() else []
            near = difflib.get_close_matches(path.name, names, 1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            texts.append(f"{key} {value} " + ("is no file" if path.name in names else f"does not exist{hint}"))
    return " and ".join(texts)


def _only_old(config: NvinferConfig) -> str:
    """Why a file that names neither an ONNX file nor an engine cannot be used."""
    old = [name.replace("_", "-") for name in _OLD if getattr(config.properties, name)]
    return (
        f"{config.path}: {', '.join(old)} can only be built by old releases of nvinfer or a C++ library; right is an "
        "onnx-file or a model-engine-file"
    )
