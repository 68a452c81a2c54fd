"""Builds a TensorRT engine from an ONNX file, in a process of its own.

A build takes minutes, much memory and, when it fails, sometimes the process. No engine was built in the making of this:
every name called here is checked against NVIDIA's bindings, and the sequence against a stand-in with the same names.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sluice.errors import ConfigurationError, ModelError, SluiceError
from sluice.runtimes.child import run_module
from sluice.runtimes.cuda_memory import Cuda
from sluice.runtimes.engine_file import engine_name
from sluice.runtimes.tensorrt import make_logger
from sluice.runtimes.tensorrt_module import dims, import_tensorrt

#: Builder flags of each precision; float32 is what is left without any.
PRECISIONS = {"fp32": (), "fp16": ("FP16",), "int8": ("INT8",), "best": ("FP16", "INT8")}
MIB = 1 << 20


@dataclass(frozen=True)
class BuildSettings:
    """What an engine is built for; the names in brackets are nvinfer's keys.

    Attributes:
        onnx: the ONNX file [onnx-file].
        max_batch: most frames at once [batch-size].
        gpu: number of the GPU [gpu-id].
        precision: a name of `PRECISIONS` [network-mode].
        dla_core: core of the deep-learning accelerator to build for; None for the GPU [enable-dla, use-dla-core].
        workspace: memory for the build in MiB; 0 for TensorRT's own limit [workspace-size].
        input_dims: channels, height, width in place of open sizes of the file [infer-dims].
        calibration: a calibration table, which int8 needs where the file holds no Q/DQ nodes [int8-calib-file].
        strongly_typed: take every type from the file [strongly-typed].
    """

    onnx: str
    max_batch: int = 1
    gpu: int = 0
    precision: str = "fp32"
    dla_core: int | None = None
    workspace: int = 0
    input_dims: tuple[int, int, int] | None = None
    calibration: str | None = None
    strongly_typed: bool = False

    def check(self) -> None:
        """Raise `ConfigurationError` naming the first setting that is wrong."""
        if self.precision not in PRECISIONS:
            raise ConfigurationError(f"precision is {self.precision!r}; right is one of {', '.join(PRECISIONS)}")
        if self.max_batch < 1:
            raise ConfigurationError(f"max_batch is {self.max_batch}; right is 1 or more")
        for name, path in (("onnx", self.onnx), ("calibration", self.calibration)):
            if path is not None and not Path(path).is_file():
                raise ConfigurationError(f"there is no {name} file {path!r}")

    @property
    def engine(self) -> Path:
        """Where nvinfer saves the engine and looks for it."""
        return engine_name(self.onnx, self.max_batch, self.precision, gpu=self.gpu, dla_core=self.dla_core)


def build_engine(settings: BuildSettings, *, timeout: float | None = None) -> Path:
    """Build an engine in a child process and save it under nvinfer's name.

    The file appears whole or not at all. It takes minutes: call it where waiting is allowed.

    Args:
        settings: what to build.
        timeout: seconds after which the build is ended; None waits for as long as it takes.

    Returns:
        Path of the engine, `BuildSettings.engine`.

    Raises:
        ConfigurationError: a setting is wrong.
        ModelError: the build failed, was ended, or took its process with it; with the last lines it wrote.
    """
    settings.check()
    run_module(__name__, [json.dumps(asdict(settings))], f"building {settings.engine}", timeout=timeout)
    return settings.engine


def build(settings: BuildSettings) -> None:
    """Build an engine in this process and save it; `build_engine` is what to call."""
    trt = import_tensorrt()
    if not hasattr(trt, "Builder"):
        raise ConfigurationError(f"{trt.__name__} only runs engines; building one needs the package tensorrt")
    Cuda(settings.gpu)  # makes the GPU this thread's
    log = make_logger(trt)
    builder = trt.Builder(log)
    network = builder.create_network(_network_flags(trt, settings))
    parser = trt.OnnxParser(network, log)
    if not parser.parse_from_file(settings.onnx):
        errors = "; ".join(parser.get_error(index).desc() for index in range(parser.num_errors))
        raise ModelError(f"TensorRT cannot read {settings.onnx}: {errors or log.last}")
    config = builder.create_builder_config()
    _configure(trt, config, settings)
    _add_profile(builder, network, config, settings)
    engine = builder.build_serialized_network(network, config)
    if engine is None:
        raise ModelError(f"TensorRT cannot build {settings.onnx}: {log.last or 'it does not say why'}")
    partial = settings.engine.with_name(f"{settings.engine.name}.{os.getpid()}")
    try:
        partial.write_bytes(engine)
        partial.replace(settings.engine)
    finally:
        partial.unlink(missing_ok=True)


def _network_flags(trt: Any, settings: BuildSettings) -> int:
    """TensorRT 10 asks for the explicit batch, 11 knows nothing else."""
    flags = trt.NetworkDefinitionCreationFlag
    names = ["EXPLICIT_BATCH"] if hasattr(flags, "EXPLICIT_BATCH") else []
    names += ["STRONGLY_TYPED"] if settings.strongly_typed else []
    return sum(1 << int(getattr(flags, name)) for name in names)


def _configure(trt: Any, config: Any, settings: BuildSettings) -> None:
    """Precision, workspace and accelerator."""
    for name in () if settings.strongly_typed else PRECISIONS[settings.precision]:
        if not hasattr(trt.BuilderFlag, name):
            raise ConfigurationError(
                f"TensorRT {trt.__version__} takes every type from the file and has no {settings.precision} build; "
                "right is precision fp32 (network-mode 0) with an ONNX file written in the types wanted"
            )
        config.set_flag(getattr(trt.BuilderFlag, name))
    if settings.workspace:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, settings.workspace * MIB)
    if settings.dla_core is not None:
        config.default_device_type = trt.DeviceType.DLA
        config.DLA_core = settings.dla_core
        config.set_flag(trt.BuilderFlag.GPU_FALLBACK)
    if settings.calibration is not None and "INT8" in PRECISIONS[settings.precision]:
        config.int8_calibrator = _calibration_table(trt, Path(settings.calibration))


def _add_profile(builder: Any, network: Any, config: Any, settings: BuildSettings) -> None:
    """Sizes for a picture input that leaves some open: one frame to `max_batch`, made best for the most."""
    if network.num_inputs != 1:
        raise ModelError(f"{settings.onnx} has {network.num_inputs} inputs; right is one, the picture")
    entry = network.get_input(0)
    shape = dims(entry.shape)
    rest = tuple(settings.input_dims or shape[1:])
    if len(shape) != 4 or any(size < 0 for size in rest):
        raise ModelError(
            f"{settings.onnx}: the input {entry.name} is {list(shape)}, whose open sizes must be given (infer-dims)"
        )
    if settings.input_dims is not None:
        entry.shape = (shape[0], *rest)
    if shape[0] >= 0:
        if shape[0] != settings.max_batch:
            raise ModelError(f"{settings.onnx} takes {shape[0]} frames at once; batch-size is {settings.max_batch}")
        return
    profile = builder.create_optimization_profile()
    most = (settings.max_batch, *rest)
    profile.set_shape(entry.name, (1, *rest), most, most)
    config.add_optimization_profile(profile)


def _calibration_table(trt: Any, path: Path) -> Any:
    """A calibrator that has only a finished table."""

    class Table(trt.IInt8EntropyCalibrator2):  # type: ignore[misc]
        """TensorRT asks it for the table and, having it, for no pictures."""

        def __init__(self) -> None:
            trt.IInt8EntropyCalibrator2.__init__(self)

        def get_batch_size(self) -> int:
            """Not asked for with a table; TensorRT wants it to be there."""
            return 1

        def get_batch(self, _names: list[str]) -> None:
            """No pictures."""
            return

        def read_calibration_cache(self) -> bytes:
            """The table."""
            return path.read_bytes()

        def write_calibration_cache(self, _cache: bytes) -> None:
            """The file is the user's; it stays as it is."""

    return Table()


def main(arguments: list[str]) -> int:
    """The child: one argument, the settings as JSON. Errors go to stderr."""
    given = json.loads(arguments[0])
    given["input_dims"] = tuple(given["input_dims"]) if given["input_dims"] else None
    try:
        build(BuildSettings(**given))
    except SluiceError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
