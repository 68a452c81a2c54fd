"""Which file of an nvinfer configuration is run, and the names of the engines that nvinfer builds."""

from __future__ import annotations

import difflib
from pathlib import Path

from sluice.errors import ConfigurationError, ModelError
from sluice.models.nvinfer.config import NvinferConfig
from sluice.runtimes import FILES, choose_runtime, installed

PRECISIONS = ("fp32", "int8", "fp16", "best")  # by network-mode

GPU_DEVICES = ("/dev/nvidiactl", "/dev/nvmap")

#: Kinds of network that only releases before 9 of nvinfer could build.
_OLD = ("tlt_encoded_model", "uff_file", "model_file", "custom_network_config")


def engine_name(model: str | Path, batch_size: int, network_mode: int, *, gpu: int = 0, dla: int | None = None) -> str:
    """Path under which nvinfer saves the engine it builds of a model.

    Args:
        model: the path of the file it is built of.
        batch_size: the largest batch.
        network_mode: 0 FP32, 1 INT8, 2 FP16, 3 BEST.
        gpu: gpu-id.
        dla: DLA core, where one is used in place of the GPU.
    """
    device = f"gpu{gpu}" if dla is None else f"dla{dla}"
    return f"{model}_b{batch_size}_{device}_{PRECISIONS[network_mode]}.engine"


def saved_engine_name(config: NvinferConfig) -> str | None:
    """`engine_name` for a configuration with an onnx-file; None without one."""
    properties = config.properties
    if properties.onnx_file is None:
        return None
    return engine_name(
        properties.onnx_file,
        properties.batch_size,
        properties.network_mode,
        gpu=properties.gpu_id,
        dla=properties.use_dla_core if properties.enable_dla else None,
    )


def engines_run() -> bool:
    """Whether TensorRT engines can be run here: a runtime for them, and a GPU (of a PC or of a Jetson)."""
    return installed("tensorrt") and any(Path(device).exists() for device in GPU_DEVICES)


def network_file(config: NvinferConfig, runtime: str) -> tuple[Path, str | None]:
    """The file to run, and what to log of the one that is not.

    The engine is taken where TensorRT is, or its runtime is asked for; else the ONNX file.

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
    if engine is not None and wants_engine and Path(engine).is_file():
        return Path(engine), None
    if onnx is not None and Path(onnx).is_file():
        name = choose_runtime(onnx, runtime)
        if engine is None:
            return Path(onnx), None
        why = "there is no such file" if not Path(engine).is_file() else "TensorRT is not used here"
        return Path(onnx), f"{config.path}: {onnx} is run by {name}; not model-engine-file {engine}: {why}"
    if engine is not None and Path(engine).is_file():
        raise ModelError(
            f"{config.path}: model-engine-file {engine} needs TensorRT, which is not here"
            + (f", and onnx-file {onnx} does not exist" if onnx else "; name an onnx-file beside it to run without")
        )
    raise ModelError(f"{config.path}: {_missing(config)}")


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
            texts.append(f"{key} {value} does not exist" + (f" (did you mean {near[0]!r}?)" if near else ""))
    return " and ".join(texts)


def _only_old(config: NvinferConfig) -> str:
    """Why a file that names neither an ONNX file nor an engine cannot be used."""
    old = [name.replace("_", "-") for name in _OLD if getattr(config.properties, name)]
    return (
        f"{config.path}: {', '.join(old)} can only be built by old releases of nvinfer or a C++ library; right is an "
        "onnx-file or a model-engine-file"
    )
