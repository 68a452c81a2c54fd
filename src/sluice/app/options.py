"""What a pipeline was asked to do, checked before any element exists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sluice.app.streams.policy import StreamPolicy
from sluice.app.streams.states import CaptureTime
from sluice.app.vlm import VlmOptions
from sluice.errors import ConfigurationError

if TYPE_CHECKING:
    from sluice.app.sources import Source

MOST_STREAMS_PER_BATCH = 16
"""The largest batch chosen without being asked for: more streams than this share batches."""

LARGEST = 2**31 - 1
"""The largest whole number that the elements' properties take."""


class Unchanged(Enum):
    """Says of a value that it stays as it is, where None has a meaning of its own."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = Unchanged.UNCHANGED


@dataclass(frozen=True)
class Options:
    """Everything about a run but its sources; see `sluice.Pipeline` for what each means."""

    model: Any = None
    labels: str | Path | None = None
    tracker: str | None = "bytetrack"
    keep_unconfirmed: bool = False
    out: str | Path | None = None
    messages: str | Path | None = None
    spool: str | Path | None = None
    tile: bool = False
    confidence: float | None = None
    iou: float | None = None
    max_detections: int | None = None
    classes: Sequence[int | str] | None = None
    interval: int | None = None
    runtime: str = "auto"
    device: str = "auto"
    model_options: Mapping[str, Any] | None = None
    batch_size: int | None = None
    frames: int | None = None
    on_error: str = "fail"
    analytics: str | Path | None = None
    look_for: Sequence[str] = ()
    vlm: VlmOptions | None = None
    index: str | Path | None = None
    index_model: Any = None
    capture_time: str = "auto"
    service: bool = False
    policy: StreamPolicy = field(default_factory=StreamPolicy)

    def __post_init__(self) -> None:
        """Check the values that no element checks.

        Raises:
            ConfigurationError: one cannot be used; names it and what would be right.
        """
        if self.tile and self.out is None:
            raise ConfigurationError("tile needs out: the .mp4 file into which all streams are tiled")
        for name, least in (("frames", 1), ("batch_size", 1), ("interval", 0), ("max_detections", 1)):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int) and least <= value <= LARGEST):
                raise ConfigurationError(f"{name} is {value!r}; it is a whole number from {least} to {LARGEST}")
        for name in ("confidence", "iou"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise ConfigurationError(f"{name} is {value}; it is a number from 0 to 1")
        if isinstance(self.classes, str):  # whose letters would be taken for classes
            raise ConfigurationError(f"classes is {self.classes!r}; it is a list of labels or class ids")
        if self.capture_time not in ("auto", "rtcp", "arrival"):
            raise ConfigurationError(f"capture_time is {self.capture_time!r}; it is 'auto', 'rtcp' or 'arrival'")
        if self.index_model is not None and self.index is None:
            raise ConfigurationError("index_model needs index: the folder of the archive for its embeddings")
        if self.on_error not in ("fail", "skip"):
            raise ConfigurationError(f"on_error is {self.on_error!r}; it is 'fail' or 'skip'")
        if isinstance(self.model, str | Path) and Path(self.model).is_file():
            from sluice.models.nvinfer import is_configuration
            from sluice.models.nvinfer.element import check_primary

            if is_configuration(str(self.model)):
                check_primary(self.model)

    def capture_of(self, source: Source) -> CaptureTime | None:
        """Return where the capture time of a source's frames comes from; None: nobody asks, as of a file."""
        if not source.live:
            return None
        if self.capture_time == "auto":
            return "rtcp" if source.kind == "uri" and source.uri.lower().startswith("rtsp") else "arrival"
        return "rtcp" if self.capture_time == "rtcp" else "arrival"

    @property
    def model_name(self) -> str:
        """The model's name for people: the text that names it, or the name of the class or function."""
        if self.model is None:
            return "none"
        if isinstance(self.model, str | Path):
            return str(self.model)
        return str(getattr(self.model, "__qualname__", type(self.model).__qualname__))

    @property
    def runtime_name(self) -> str:
        """What executes the model: a runtime or package for a file, "python" for Python code, "none" without one."""
        from sluice.models.adapters import executor
        from sluice.models.nvinfer import is_configuration
        from sluice.runtimes import FILES

        if self.model_name == "none":
            return "none"
        if isinstance(self.model, str | Path) and is_configuration(str(self.model)):
            from sluice.models.nvinfer.config import read_config
            from sluice.models.nvinfer.files import network_file

            return executor(network_file(read_config(self.model), self.runtime).path, self.runtime)
        is_file = isinstance(self.model, str | Path) and Path(self.model).suffix.lower() in FILES
        return executor(str(self.model), self.runtime) if is_file else "python"

    def embedder_properties(self, model: str) -> dict[str, Any]:
        """Return the properties of the ``sluiceinfer`` that makes embeddings of objects, with its model's name."""
        return {"model": model, "runtime": self.runtime, "device": self.device, "on-error": self.on_error}

    def infer_properties(self, model: str) -> dict[str, Any]:
        """Return the properties of ``sluiceinfer``, with the model under the text that names it."""
        properties: dict[str, Any] = {
            "model": model,
            "labels": None if self.labels is None else str(self.labels),
            "runtime": self.runtime,
            "device": self.device,
            "confidence-threshold": self.confidence,
            "iou-threshold": self.iou,
            "max-detections": self.max_detections,
            "classes": None if self.classes is None else ";".join(map(str, self.classes)),
            "model-options": ";".join(f"{key}={value}" for key, value in (self.model_options or {}).items()),
            "interval": self.interval,
            "prompt": ";".join(self.look_for) or None,
            "on-error": self.on_error,
        }
        return {name: value for name, value in properties.items() if value is not None}
