"""Whatever stands in a file that a user gives, it is read or refused by its name; nothing else comes out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.analytics.config import read_config as read_analytics
from sluice.errors import SluiceError
from sluice.messages.deepstream_config import read_configuration as read_messages
from sluice.models.labels import read_labels
from sluice.models.nvinfer.config import read_config as read_nvinfer
from sluice.models.regions import read_regions
from sluice.runtimes.engine_file import read_engine
from sluice.tracking.nvidia import read_config as read_tracker

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


@dataclass(frozen=True)
class Reader:
    """What reads one kind of file: the file's name, a good one, and the function, which may raise SluiceError."""

    name: str
    good: str
    read: Callable[[Path], Any]


def _read_regions(path: Path) -> Any:
    return read_regions(str(path))


READERS = {
    "nvinfer": Reader("pgie.txt", NVINFER, read_nvinfer),
    "nvinfer-yaml": Reader("pgie.yml", NVINFER_YAML, read_nvinfer),
    "analytics": Reader("analytics.txt", ANALYTICS, read_analytics),
    "messages": Reader("msgconv.txt", MESSAGES, read_messages),
    "messages-yaml": Reader("msgconv.yml", "sensor0:\n  enable: 1\n  type: Camera\n  id: CAM\n", read_messages),
    "messages-csv": Reader("msgconv.csv", "0,CAM_0,Aisle,,C,D,E\n", read_messages),
    "tracker": Reader("tracker.yml", TRACKER, lambda path: read_tracker(str(path))),
    "labels": Reader("labels.txt", "person\ncar\n", read_labels),
    "regions": Reader("preprocess.txt", REGIONS, _read_regions),
    "engine": Reader("net.engine", "engine", read_engine),
}  # fmt: skip


@st.composite
def spoilt(draw: st.DrawFn, good: str) -> bytes:
    """A file near a good one: lines lost, doubled, exchanged, values replaced; or cut, or with bytes put in."""
    lines = good.splitlines()
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(lines) - 1)))
        line = lines[at] if lines else ""
        cut = max(line.find("="), line.find(": "))
        value = draw(st.one_of(st.text(max_size=20), st.integers().map(str), st.floats().map(str)))
        replaced = f"{line[: cut + 1]}{value}" if cut >= 0 else value
        lines[at : at + 1] = draw(st.sampled_from([[], [line, line], [replaced], [replaced, line], [line + value]]))
    content = "\n".join(lines).encode("utf-8", "surrogatepass")
    if draw(st.booleans()):
        place = draw(st.integers(0, len(content)))
        content = content[:place] + draw(st.binary(max_size=8)) + content[place + draw(st.integers(0, 8)) :]
    return content


def check(reader: Reader, content: bytes, folder: Path) -> None:
    """Read a file and fail on whatever is neither a result nor an error of our own that names it."""
    path = folder / reader.name
    path.write_bytes(content)
    refused = None
    try:
        reader.read(path)
    except SluiceError as error:
        refused = str(error)
    assert refused is None or reader.name in refused


MANY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("name", sorted(set(READERS) - {"engine"}))  # whose engine no reader here can judge
def test_the_good_file_is_read(name: str, tmp_path: Path) -> None:
    reader = READERS[name]
    path = tmp_path / reader.name
    path.write_text(reader.good)
    reader.read(path)


@pytest.mark.parametrize("name", sorted(READERS))
@MANY
@given(data=st.data())
def test_a_spoilt_file_is_read_or_refused(name: str, data: st.DataObject, tmp_path: Path) -> None:
    check(READERS[name], data.draw(spoilt(READERS[name].good)), tmp_path)


@pytest.mark.parametrize("name", sorted(READERS))
@MANY
@given(content=st.binary(max_size=200))
def test_a_file_of_anything_is_read_or_refused(name: str, content: bytes, tmp_path: Path) -> None:
    check(READERS[name], content, tmp_path)
