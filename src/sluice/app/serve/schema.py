"""What a configuration file of ``sluice serve`` may hold; `sluice serve --schema` prints it as JSON Schema."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    SecretStr,
    StrictInt,
    StrictStr,
    ValidationError,
    with_config,
)
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_wrap_validator_function

from sluice.app.outputs.options import (
    ClipOptions,
    HlsOptions,
    OutputOptions,
    PictureOptions,
    RecordOptions,
    RtspOptions,
    WebRtcOptions,
)
from sluice.app.streams import RetryPolicy, StreamPolicy
from sluice.app.vlm import VlmOptions
from sluice.errors import SluiceError

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
"""Names of streams stand in URLs and in names of files."""
SHORTEST_TOKEN = 16
LOOPBACK = "127.0.0.1"


def _explained(value: Any, handler: Any) -> Any:
    """Let a class of ours refuse a value with its own error; pydantic knows only ValueError."""
    try:
        return handler(value)
    except ValidationError:
        raise
    except SluiceError as error:
        raise ValueError(str(error)) from error


def _guarded(_class: type[Any], source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
    return no_info_wrap_validator_function(_explained, handler(source))


for _options in (
    RetryPolicy,
    StreamPolicy,
    OutputOptions,
    RecordOptions,
    ClipOptions,
    HlsOptions,
    RtspOptions,
    PictureOptions,
    WebRtcOptions,
    VlmOptions,
):
    with_config(ConfigDict(extra="forbid"))(_options)
    setattr(_options, "__get_pydantic_core_schema__", classmethod(_guarded))  # noqa: B010 - they don't declare it


def _with_webrtc(value: Any) -> Any:
    """Add WebRTC, which the page prefers, to outputs that say nothing of it."""
    return {"webrtc": {}, **value} if isinstance(value, dict) else value


Outputs = Annotated[OutputOptions, BeforeValidator(_with_webrtc)]
StreamName = Annotated[str, Field(pattern=NAME_PATTERN)]
Fraction = Annotated[float, Field(ge=0, le=1)]


class Strict(BaseModel):
    """Refuses keys that it does not know; its docstrings are the descriptions of its fields."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, frozen=True)


class StreamOutputs(Strict):
    """What is made of one stream, where that differs from `outputs`; a key that is not named is as there."""

    record: RecordOptions | None = None
    """Recordings in segments; null: none."""
    clips: ClipOptions | None = None
    """Clips around events; null: none."""
    hls: HlsOptions | None = None
    """HTTP live streaming; null: none."""
    pictures: PictureOptions | None = None
    """Snapshots and MJPEG; null: none."""
    rtsp: bool = True
    """Whether the RTSP server has it."""
    overlay: bool = True
    """Whether boxes, labels and masks are drawn."""
    key_seconds: float = 2.0
    """The most seconds between key frames."""
    bitrate: int | None = None
    """Of the encoded stream in bit/s; null: constant quality."""

    def of(self, outputs: OutputOptions) -> OutputOptions:
        """Return the outputs of the stream, from those of all; raises ConfigurationError for a value that is wrong."""
        named: dict[str, Any] = {name: getattr(self, name) for name in self.model_fields_set - {"rtsp"}}
        if not self.rtsp:
            named["rtsp"] = None
        return dataclasses.replace(outputs, **named)


class StreamEntry(Strict):
    """One stream."""

    source: str
    """A file, a folder of images, rtsp://, http://, v4l2:/dev/video0 or test:ball?live=1."""
    name: StreamName
    """Its name in the API, on the page, in messages and in names of files."""
    policy: StreamPolicy = StreamPolicy()
    """How it is treated."""
    outputs: StreamOutputs = StreamOutputs()
    """What is made of it, where that differs from the others."""


class ModelEntry(Strict):
    """The model, and how it is executed."""

    name: str = "none"
    """A path, a registered name, package.module:Class, file.py:Class, or none."""
    labels: Path | None = None
    """File with one label per line, in place of the model's own."""
    runtime: str = "auto"
    """What executes a network; `sluice models` lists them."""
    device: str = "auto"
    """Where it is executed: auto, cpu, cuda, cuda:1, ..."""
    options: dict[str, str | int | float | bool] = {}
    """Options of the model's own."""
    batch_size: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Most frames in one call of the model; none: one per stream, 16 at most."""
    interval: Annotated[int, Field(ge=0)] | None = None
    """Batches passed without inference after each with it."""
    on_error: Literal["skip", "fail"] = "skip"
    """When the model raises: skip passes the frames without detections, fail ends the service with status 1."""
    offered: tuple[str, ...] = ()
    """Models that may be swapped to by the API besides the registered ones and the files in directories.models."""


class Thresholds(Strict):
    """Which detections count; can be changed while the service runs."""

    confidence: Fraction | None = None
    """Least score of a detection; none: the model's own."""
    iou: Fraction | None = None
    """Overlap from which boxes of one class are merged; none: the model's own."""
    classes: tuple[StrictInt | StrictStr, ...] | None = None
    """Labels or class ids to keep; none: all."""


class TrackerEntry(Strict):
    """The tracker."""

    name: str = "bytetrack"
    """Name of the tracker, or none."""
    keep_unconfirmed: bool = False
    """Keep objects that belong to no confirmed track, without an id."""


class TlsEntry(Strict):
    """Certificate and key for HTTPS, as files in PEM."""

    certificate: Path
    """The certificate, with those between it and the root behind it."""
    key: Path
    """Its private key."""


class HttpEntry(Strict):
    """Where the API and the page are served, and to whom."""

    host: str = LOOPBACK
    """Address to listen at. On any other than this machine's own a token is required."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8080
    """Port; 0 lets the system choose a free one, which is printed."""
    token: Annotated[SecretStr, Field(min_length=SHORTEST_TOKEN)] | None = None
    """Who gives it may see and change everything. By reference: ${ENV:SLUICE_TOKEN} or ${FILE:/run/secrets/token}."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names under which a browser may reach the service, besides IP addresses and this machine's own name."""
    tls: TlsEntry | None = None
    """HTTPS instead of HTTP."""
    references: tuple[str, ...] = ()
    """References such as ENV:CAM_PASSWORD that sources added by the API may hold."""
    most_viewers: Annotated[int, Field(ge=1, le=10_000)] = 64
    """Live pictures and event streams that are sent at the same time; more are refused."""


class Directories(Strict):
    """What callers of the API may name; paths in this file are not bound by them."""

    media: tuple[Path, ...] = ()
    """Directories whose videos and images may be added as streams."""
    models: tuple[Path, ...] = ()
    """Directories whose models may be swapped to. Python files there are code that the service executes."""


class OpenTelemetryEntry(Strict):
    """Where the numbers of `/metrics` are sent besides."""

    endpoint: Annotated[str, Field(pattern=r"^https?://")]
    """Of the collector, such as http://localhost:4318/v1/metrics."""
    interval: Annotated[float, Field(gt=0)] = 15.0
    """Seconds between two exports."""
    headers: dict[str, str] = {}
    """Of the requests, for a collector that wants a key; by reference: ${ENV:NAME}."""
    resource: dict[str, str] = {}
    """Attributes of what is measured, such as the site."""


class Config(Strict):
    """A service: its streams, what is done with them, and how it is reached."""

    streams: tuple[StreamEntry, ...] = ()
    """Streams that the service begins with; others are added while it runs."""
    model: ModelEntry = ModelEntry()
    """The model."""
    thresholds: Thresholds = Thresholds()
    """Which detections count."""
    tracker: TrackerEntry = TrackerEntry()
    """The tracker."""
    analytics: Path | None = None
    """Configuration file of sluiceanalytics: lines and regions; see docs/analytics.md."""
    look_for: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """What an open-vocabulary detector looks for, as in [red truck, person with a helmet]."""
    index: Path | None = None
    """Folder of an archive in which embeddings of objects and frames are kept, for `sluice search`; see docs/vlm.md."""
    index_model: str | None = None
    """Makes an embedding of each tracked object for it; none where the models that run make some already."""
    vlm: VlmOptions | None = None
    """A vision-language model that is asked about segments of each stream; see docs/vlm.md."""
    messages: str | None = None
    """JSON lines file, or the URL of a broker: kafka://host:port/topic, mqtt://, ...; see docs/brokers.md."""
    outputs: Outputs = OutputOptions(webrtc=WebRtcOptions())
    """What is made of every stream: recordings, clips, HLS, RTSP, pictures. WebRTC is on unless it is null."""
    http: HttpEntry = HttpEntry()
    """Where the API and the page are served, and to whom."""
    opentelemetry: OpenTelemetryEntry | None = None
    """Where the numbers of /metrics are sent besides; see docs/observability.md."""
    directories: Directories = Directories()
    """What callers of the API may name."""
    state: Path | None = None
    """File that keeps what was changed by the API, for the next start; none: nothing is kept."""
