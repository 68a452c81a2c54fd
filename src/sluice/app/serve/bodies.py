"""What requests and answers of the API hold; the OpenAPI document is made from these."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr

from sluice.app.serve.schema import StreamName, Strict
from sluice.app.streams import StreamPolicy, StreamState

LONGEST_SOURCE = 4096


class Answer(BaseModel):
    """Describes its fields by the texts below them."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class Health(Answer):
    """Whether the process works."""

    status: Literal["ok"] = "ok"


class Stream(Answer):
    """One stream at this moment."""

    name: str
    number: int
    """Its number in messages and metadata; never given to another stream."""
    uri: str
    """Where it comes from, without credentials."""
    live: bool
    state: StreamState
    since: float
    """When the state began, in seconds since 1970."""
    reason: str
    """Why it is in this state."""
    frames_in: int
    frames_out: int
    dropped: int
    """Frames left out by policy."""
    fps: float
    reconnects: int
    decoder: str
    width: int
    height: int
    last_frame_age: float | None
    """Seconds since the last frame."""
    next_retry: float | None
    """When it is opened again, in seconds since 1970."""
    capture_time_from: str
    """Whose clock the frames' times are of: rtcp the camera's, arrival this machine's."""
    policy: StreamPolicy


class Streams(Answer):
    """All streams."""

    streams: list[Stream]


class NewStream(Strict):
    """A stream to be added."""

    source: Annotated[str, Field(min_length=1, max_length=LONGEST_SOURCE)]
    """rtsp://, http://, v4l2:/dev/video0, test:ball?live=1, or a file or folder of directories.media."""
    name: StreamName
    """Letters, digits, '_', '-' and '.', 64 at most."""
    policy: StreamPolicy = StreamPolicy()
    """How it is treated."""


class PolicyChange(Strict):
    """Members of a policy to be changed; the others stay (JSON merge patch)."""

    policy: dict[str, Any]


class Question(Strict):
    """What a vision-language model is asked about a stream."""

    prompt: Annotated[str, Field(min_length=1)] | None = None
    """In place of the stream's own prompt; placeholders are filled in."""


class Model(Answer):
    """The model that is executed."""

    name: str
    runtime: str
    """What executes it."""
    state: str
    """running, or loading while another one is made ready."""
    reason: str = ""
    """Why the last other one was refused."""


class Models(Answer):
    """The model that is executed, and those that may be swapped to."""

    current: Model
    available: list[str]


class Swap(Strict):
    """A change of the model."""

    model: Annotated[str, Field(min_length=1, max_length=LONGEST_SOURCE)]
    """One of those available."""
    policy: Literal["beside", "in-place"] = "beside"
    """beside: the old one works until the new one is ready; in-place: it is closed first, for want of memory."""


class Accepted(Answer):
    """It was begun; what comes of it is an event."""

    accepted: Literal[True] = True


class SwapBegun(Accepted):
    """The new model is being loaded."""

    event: int
    """The first event `model-swapped` or `model-refused` behind this number says how that ended."""


class ThresholdChange(Strict):
    """Thresholds to be changed; those not named stay, and null is the model's own again."""

    confidence: Annotated[float, Field(ge=0, le=1)] | None = None
    """Least score of a detection."""
    iou: Annotated[float, Field(ge=0, le=1)] | None = None
    """Overlap from which boxes of one class are merged."""
    classes: Annotated[tuple[StrictInt | StrictStr, ...], Field(max_length=1000)] | None = None
    """Labels or class ids to keep; null, or an empty list, keeps all."""


class Happening(Answer):
    """Something that happened."""

    number: int
    """Place in the order of all events, from 1."""
    time: float
    """In seconds since 1970."""
    kind: str
    stream: str | None
    text: str
    details: dict[str, Any]


class Happenings(Answer):
    """Events, oldest first."""

    events: list[Happening]
    last: int
    """Number to ask for the next ones with."""


class TextAnswer(Answer):
    """What a language model said about a stream."""

    stream: str
    text: str
    time: float
    """In seconds since 1970."""


class TextAnswers(Answer):
    """Answers, oldest first."""

    answers: list[TextAnswer]


class Totals(Answer):
    """All streams together."""

    streams: int
    playing: int
    fps: float
    frames_in: int
    frames_out: int
    dropped: int
    reconnects: int


class Statistics(Answer):
    """How the service does."""

    version: str
    uptime: float
    """Seconds since the start."""
    cpu_seconds: float
    """Processor time used so far."""
    memory_bytes: int
    """Memory in use (resident set)."""
    viewers: int
    """Live pictures and event streams that are being sent."""
    webrtc: bool
    """Whether live pictures can be had by WebRTC."""
    webrtc_advised: bool
    """Whether the page takes WebRTC by itself: with GStreamer 1.22, every viewer leaves 20 sockets open for good."""
    advice: str
    """What helps where the model did not keep up with the streams in the last ten seconds; empty where it did."""
    totals: Totals


class HistorySample(Answer):
    """All streams at one moment."""

    time: float
    fps: dict[str, float]
    dropped: int


class HistoryAnswer(Answer):
    """The last minutes, oldest first."""

    interval: float
    """Seconds between two samples."""
    samples: list[HistorySample]


class Outputs(Answer):
    """What is made of a stream."""

    rtsp: str | None
    """Where it can be viewed by RTSP; null without an RTSP server."""
    numbers: dict[str, int]
    """Counters by name, such as record-segments, clips-enabled and viewers."""


class OutputChange(Strict):
    """Outputs to be switched on (true) or off (false); those not named stay."""

    record: bool | None = None
    clips: bool | None = None
    hls: bool | None = None
    rtsp: bool | None = None


class Clip(Strict):
    """A clip to be written."""

    reason: Annotated[str, Field(pattern=r"^[\w .-]{1,64}$")] = "request"
    """Stands in the event."""


class Token(Strict):
    """What the page gives to be let in."""

    token: Annotated[str, Field(max_length=LONGEST_SOURCE)]
