"""Every member of NVIDIA's package is here, or left out by reason; ``api.json`` lists its names and signatures."""

import ast
import enum
import inspect
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import sluice.pyservicemaker as package
from sluice.pyservicemaker import _pydeepstream as native

API: dict[str, Any] = json.loads(Path(__file__).with_name("api.json").read_text())

_PIPELINES = "builds and runs pipelines: GStreamer's own Python API and sluice.Pipeline do that here"
_AUDIO = "Sluice's contract carries video only"
_CPP = "needs C++ objects that NVIDIA's library allocates and frees"
_STRUCTURES = "reads GstStructures of NVIDIA's elements; nothing in a pipeline of Sluice makes them"
_MODULES = "loads or parametrises NVIDIA's compiled modules through Pipeline.attach"

CLASSES_LEFT_OUT = {
    **dict.fromkeys(
        [
            "BufferProvider",
            "Feeder",
            "BufferRetriever",
            "Receiver",
            "Pipeline",
            "Node",
            "PipelineState",
            "PipelineMessage",
            "EOSMessage",
            "StateTransitionMessage",
            "DynamicSourceMessage",
            "RecordingInfo",
            "Object",
            "CommonFactory",
            "signal.Emitter",
            "signal.SourceManager",
            "Flow",
            "MediaType",
            "RenderMode",
            "StreamInfo",
            "SourceConfig",
            "SensorInfo",
            "CameraInfo",
            "RecordConfig",
            "osd.EventHandler",
            "postprocessing.PostProcessing",
            "postprocessing.ObjectDetectorOutputConverter",
            "utils.PerfMonitor",
            "utils.EngineFileMonitor",
            "utils.MediaInfo",
            "utils.AudioStreamInfo",
            "utils.VideoStreamInfo",
            "utils.MediaChunk",
            "utils.VideoFrame",
            "utils.FrameSampler",
            "utils.MediaExtractor",
            "module pyservicemaker.logging",
        ],
        _PIPELINES,
    ),
    "AudioFrameMetadata": _AUDIO,
}
MEMBERS_LEFT_OUT = {
    "Buffer.measure_latency": "reads the latency metas that NVIDIA's decoders and muxes attach",
    "BatchMetadataOperator.get_property": _MODULES,
    "Probe.create": _MODULES,
    "Probe.set": _MODULES,
    "module pyservicemaker.register_probe": _MODULES,
    "module pyservicemaker.probe": _MODULES,
    "BatchMetadata.audio_frame_items": _AUDIO,
    "BatchMetadata.acquire_frame_meta": "a frame can be acquired there, and then appended to nothing",
    "BatchMetadata.acquire_preprocess_batch_meta": _CPP,
    "BatchMetadata.retrieve_structure_usermeta": _STRUCTURES,
    "FrameMetadata.retrieve_structure_usermeta": _STRUCTURES,
    "UserMetadata.as_structure_str": _STRUCTURES,
    "PreprocessBatchUserMetadata.set_preprocessed_tensor": _CPP,
    "PreprocessBatchUserMetadata.extract": "the same plain values as BatchMetadata.extract, for regions only",
}
OVERLOADS_LEFT_OUT = ("audio_frame_meta",)
"""First parameters of overloads that take metadata which is left out."""

CLASSES = [name for name in API if name not in CLASSES_LEFT_OUT]
MEMBERS = [
    (name, kind, member)
    for name in CLASSES
    for kind in ("properties", "methods")
    for member in API[name][kind]
    if f"{name}.{member}" not in MEMBERS_LEFT_OUT
]
ABSENT = object()


@cache
def home(name: str) -> Any:
    """Return the class or module that the list calls `name`, or ABSENT."""
    if name.startswith("module "):
        return package
    place = package.osd if name.startswith("osd.") else native
    return getattr(place, name.rpartition(".")[2], ABSENT)


@pytest.mark.parametrize("name", CLASSES)
def test_the_class_is_here(name: str) -> None:
    assert home(name) is not ABSENT
    for base in API[name].get("bases", []):
        assert issubclass(home(name), home(base))


@pytest.mark.parametrize(("name", "kind", "member"), MEMBERS)
def test_the_member_is_here(name: str, kind: str, member: str) -> None:
    found = inspect.getattr_static(home(name), member, ABSENT)
    assert found is not ABSENT, f"{name}.{member} is missing"
    if kind == "methods":
        check_calls(getattr(home(name), member), API[name]["methods"][member]["signature"], name.startswith("module "))
    elif API[name]["properties"][member]["rw"] == "const":
        assert isinstance(found, enum.Enum) or issubclass(home(name), enum.Enum)
    else:
        writable = (
            getattr(found, "fset", None) is not None if isinstance(found, property) else hasattr(found, "__set__")
        )
        assert writable or API[name]["properties"][member]["rw"] == "r"


@pytest.mark.parametrize("name", [name for name in CLASSES if API[name].get("values")])
def test_enums_have_the_same_values(name: str) -> None:
    assert {member: int(home(name)[member]) for member in API[name]["values"]} == API[name]["values"]


@pytest.mark.parametrize("name", [n for n in CLASSES if not API[n]["constructible"] and not n.startswith("module ")])
def test_what_has_no_constructor_says_so(name: str) -> None:
    if issubclass(home(name), enum.Enum):
        return
    with pytest.raises(TypeError, match="no constructor"):
        home(name)()


@pytest.mark.parametrize("name", sorted(package.__all__))
def test_names_at_the_top_are_importable(name: str) -> None:
    assert getattr(package, name) is not None


def test_what_is_left_out_is_really_left_out() -> None:
    assert [name for name in CLASSES_LEFT_OUT if name not in API] == []
    for path in MEMBERS_LEFT_OUT:
        name, _, member = path.rpartition(".")
        assert member in API[name]["properties"] | API[name]["methods"]
        assert inspect.getattr_static(home(name), member, ABSENT) is ABSENT, f"{path} is here now"


def test_nothing_up_to_9_1_of_the_metadata_is_left_out() -> None:
    old = {
        path
        for path in MEMBERS_LEFT_OUT
        for kind in ("properties", "methods")
        if API[path.rpartition(".")[0]][kind].get(path.rpartition(".")[2], {}).get("since", "9.2") < "9.2"
    }
    assert old == set()


def check_calls(function: Any, signature: str, free: bool) -> None:
    """Check that a function takes what each overload of a listed signature takes."""
    for overload in signature.split(" || "):
        arguments = ast.parse(f"def f{overload.partition(' -> ')[0]}: ...").body[0].args  # type: ignore[attr-defined]
        positional = [argument.arg for argument in arguments.posonlyargs]
        named = [argument.arg for argument in arguments.args]
        if (positional + named)[:1] and (positional + named)[0] in OVERLOADS_LEFT_OUT:
            continue
        receiver = [] if free or getattr(function, "__self__", None) is not None else [None]
        required = len(positional + named) - len(arguments.defaults)
        mine = inspect.signature(function)
        mine.bind(*receiver, *(positional + named))
        mine.bind(*receiver, *(positional + named)[:required])
        if function.__name__ != "__init__":
            mine.bind(*receiver, *positional, **dict.fromkeys(named))
