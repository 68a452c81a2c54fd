"""What reads the files that users give: each with a good file, for tests that spoil it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sluice.analytics.config import read_config as read_analytics
from sluice.app.fleet.connection import read_fleet
from sluice.app.serve.loading import load as load_service
from sluice.contract.layout import BUILT_IN, read_layout
from sluice.errors import SluiceError
from sluice.messages.brokers.endpoint import from_properties
from sluice.messages.deepstream_config import read_configuration as read_messages
from sluice.models.labels import read_labels
from sluice.models.nvinfer.config import read_config as read_nvinfer
from sluice.models.regions import read_regions
from sluice.recording import Recording
from sluice.runtimes.engine_file import read_engine
from sluice.tracking.nvidia import read_config as read_tracker
from sluice.vlm.answers import read_schema
from sluice.vlm.config import read_settings
from sluice.vlm.prompts import Situation

NVINFER = """[property]
gpu-id=0
net-scale-factor=0.0039
onnx-file=model.onnx
labelfile-path=labels.txt
batch-size=4
network-mode=2
num-detected-classes=4
interval=0
cluster-mode=2
offsets=0;0;0

[class-attrs-all]
topk=20
nms-iou-threshold=0.5
pre-cluster-threshold=0.2
"""
NVINFER_YAML = """property:
  gpu-id: 0
  net-scale-factor: 0.0039
  onnx-file: model.onnx
  batch-size: 4
  network-mode: 2
class-attrs-all:
  pre-cluster-threshold: 0.2
  topk: 20
"""
ANALYTICS = """[property]
enable=1
config-width=1920
config-height=1080

[roi-filtering-stream-0]
enable=1
roi-RF=295;643;579;634;642;913;56;828
class-id=-1

[line-crossing-stream-0]
enable=1
line-crossing-Exit=789;672;1084;900;851;773;1203;732
class-id=0
mode=balanced

[overcrowding-stream-1]
enable=1
roi-OC=295;643;579;634;642;913;56;828
object-threshold=3
class-id=-1
"""
MESSAGES = """[sensor0]
enable=1
type=Camera
id=CAM
location=45.2;-75.1;48.0
description=Aisle
coordinate=5.2;10.1;11.2

[place0]
enable=1
id=1
type=garage
name=XYZ
location=30.3;-40.5;100.0
coordinate=1.0;2.0;3.0
place-sub-field1=C
place-sub-field2=D
place-sub-field3=E

[analytics0]
enable=1
id=XYZ
description=Vehicle
source=OpenALR
version=1.0
"""
REGIONS = "[group-0]\nsrc-ids=0\nprocess-on-roi=1\nroi-params-src-0=0;0;10;10\n"
TRACKER = """%YAML:1.0
---
BaseConfig:
  minDetectorConfidence: 0.1
TargetManagement:
  maxTargetsPerStream: 150
  probationAge: 3
  maxShadowTrackingAge: 30
TrajectoryManagement:
  useUniqueID: 0
DataAssociator:
  dataAssociatorType: 0
  associationMatcherType: 1
  checkClassMatch: 1
StateEstimator:
  stateEstimatorType: 2
"""


SERVICE = """streams:
  - name: gate
    source: rtsp://viewer:${ENV:PASSWORD}@192.0.2.10/stream1
    policy: &camera {delivery: freshest, fps: 10, stall_seconds: 5, retry: {first: 1, most: 30, limit: null}}
    outputs: {overlay: false}
  - name: yard
    source: test:ball?live=1
    policy: {<<: *camera, region: [0, 200, 1280, 520]}
model: {name: people, on_error: skip, options: {size: 320}}
thresholds: {confidence: 0.5, classes: [person, 2]}
tracker: {name: bytetrack}
messages: kafka://broker.example:9092/detections
outputs:
  record: {folder: recordings, segment_seconds: 300}
  clips: {folder: clips, before: 5, after: 10, classes: [person]}
http: {host: 127.0.0.1, port: 8443, token: "${ENV:TOKEN}"}
directories: {media: [videos]}
"""
FLEET = """name: yard
address: local
streams:
  - {name: gate, source: "test:ball?live=1&fps=5"}
  - {name: dock, source: "test:ball?live=1&fps=5"}
model: {name: none}
tracker: {name: none}
messages: messages-{worker}.jsonl
workers: {streams: 4}
rollout: {canary: [gate]}
"""
BROKER = """[message-broker]
username = viewer
password = "not a secret"
client-id = gate
connect-timeout = 5
"""
VLM = """prompt: "{stream} at {time}: what are the {count} {labels} doing?"
every: 5
frames: 4
overlap: 1
trigger: object:person
answer-mode: json
schema: {type: object, properties: {danger: {type: boolean}}}
streams:
  gate: {prompt: "Is the gate open?", labels: ["yes", "no"], answer-mode: labels}
"""
SCHEMA = '{"type": "object", "properties": {"danger": {"type": "boolean"}}, "required": ["danger"]}'
RECORDING = """{"format":"sluice-metadata/1"}
{"stream":0,"frame":0,"pts":0,"size":[640,480],"inferred":true,"misc":[0,0,0,0],"objects":[]}
{"stream":1,"frame":-1,"pts":40000000,"size":[640,480],"inferred":false,"misc":[0,0,0,0],"objects":[]}
"""
HEADER = '{"task": "detect", "names": {"0": "person", "1": "car"}, "imgsz": [64, 64], "dla": 1}'
ENGINE = f"{chr(len(HEADER))}\0\0\0{HEADER}engine"
ENVIRONMENT = {"PASSWORD": "of a camera", "TOKEN": "a token that is long enough"}


@dataclass(frozen=True)
class Reader:
    """What reads one kind of file.

    Attributes:
        name: of the file, which every refusal tells.
        good: a good file.
        read: the function, which may raise SluiceError.
        keys: any of them tells as much as the file's name, since it may stand elsewhere too.
    """

    name: str
    good: str
    read: Callable[[Path], Any]
    keys: tuple[str, ...] = ()


def _read_broker(path: Path) -> Any:
    return from_properties("mqtt", "broker.example;1883", "gate", str(path))


def _read_vlm(path: Path) -> None:
    read_settings({}, path).of(0, "gate").prompt.fill(Situation(0, "gate"))


READERS = {
    "nvinfer": Reader("pgie.txt", NVINFER, read_nvinfer),
    "nvinfer-yaml": Reader("pgie.yml", NVINFER_YAML, read_nvinfer),
    "analytics": Reader("analytics.txt", ANALYTICS, read_analytics),
    "messages": Reader("msgconv.txt", MESSAGES, read_messages),
    "messages-yaml": Reader("msgconv.yml", "sensor0:\n  enable: 1\n  type: Camera\n  id: CAM\n", read_messages),
    "messages-csv": Reader("msgconv.csv", "0,CAM_0,Aisle,,C,D,E\n", read_messages),
    "tracker": Reader("tracker.yml", TRACKER, lambda path: read_tracker(str(path))),
    "labels": Reader("labels.txt", "person\ncar\n", read_labels),
    "regions": Reader("preprocess.txt", REGIONS, lambda path: read_regions(str(path))),
    "engine": Reader("net.engine", ENGINE, read_engine),
    "service": Reader("service.yml", SERVICE, lambda path: load_service(path, ENVIRONMENT)),
    "fleet": Reader("fleet.yml", FLEET, lambda path: read_fleet(path, ENVIRONMENT)),
    "broker": Reader("broker.cfg", BROKER, _read_broker, ("connect-timeout", "ack-timeout", "id-in-payload", "tls-")),
    "vlm": Reader("vlm.yml", VLM, _read_vlm),
    "schema": Reader("schema.json", SCHEMA, read_schema),
    "recording": Reader("frames.jsonl", RECORDING, Recording),
    "layout": Reader("layout.json", BUILT_IN.read_text(), read_layout),
}  # fmt: skip


def refusal(read: Callable[[], object]) -> str | None:
    """Read something; return the text of the error of our own by which it was refused, None if it was not."""
    try:
        read()
    except SluiceError as error:
        return str(error)
    return None


def check(reader: Reader, content: bytes, folder: Path) -> None:
    """Read a file and fail on whatever is neither a result nor an error of our own that names it."""
    path = folder / reader.name
    path.write_bytes(content)
    refused = refusal(lambda: reader.read(path))
    assert refused is None or any(name in refused for name in (reader.name, *reader.keys)), refused
