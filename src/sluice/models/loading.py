"""`load_model`: from one string to a model."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from sluice.errors import ConfigurationError, ModelError
from sluice.models.adapters import ADAPTERS, adapter_class, adapter_for, is_torch_module, makes_torch_module
from sluice.models.detections import Detections
from sluice.models.frame import Frame
from sluice.models.labels import read_labels
from sluice.models.model import AdaptedModel, as_model
from sluice.models.network import NetworkModel
from sluice.models.nvinfer import CONFIGURATIONS, is_configuration
from sluice.models.options import check_options
from sluice.runtimes import FILES, RUNTIMES, check_name, choose_runtime
from sluice.runtimes.paths import is_file, is_path
from sluice.runtimes.tensorrt_module import guard_tensorrt


class NoModel:
    """Sees no frame and finds nothing; for running everything else."""

    def infer(self, frames: list[Frame]) -> list[Detections]:
        """No detections for each frame."""
        return [Detections.empty() for _ in frames]


@dataclass(frozen=True)
class Registered:
    """A model that is known by a name: "module:Class", and a line about it."""

    target: str
    about: str


#: Models known by name.
MODELS = {
    "people": Registered("sluice.models.people:People", "people, by OpenCV's HOG detector; needs no file"),
    "none": Registered("sluice.models.loading:NoModel", "no inference; everything else runs"),
}
_file_numbers: dict[Path, int] = {}


def load_model(
    spec: str | Path,
    *,
    labels: str | Path | Sequence[str] | None = None,
    runtime: str = "auto",
    device: str = "auto",
    confidence: float | None = None,
    iou: float | None = None,
    max_detections: int | None = None,
    classes: Sequence[int | str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> AdaptedModel:
    """Make a model from its name. Weights are read by the model's `load`, or on the first `infer`.

    Args:
        spec: a registered name (see `MODELS`), the path of a network file (``.onnx``) or of a configuration file of
            nvinfer (``.txt``, ``.yml``), ``package.module:Class``, ``file.py:Class``, or ``file.py`` alone if it holds
            exactly one model. Classes, functions and objects will do, see `as_model`; PyTorch modules too, see
            `sluice.models.adapters.module`.
        labels: label file or the labels, in place of the model's own.
        runtime: what executes a file: see `sluice.runtimes.choose_runtime`, or "ultralytics" or "rfdetr" for those
            packages' own pre- and post-processing.
        device: where it is executed: "auto", "cpu", "cuda:0", ...
        confidence: least score, 0..1; None leaves the model's own.
        iou: overlap above which the weaker of two boxes of one class goes, 0..1; None leaves the model's own.
        max_detections: the most detections for one frame, after `classes`; None leaves the model's own.
        classes: ids or labels of the classes to keep; None keeps all.
        options: keyword arguments for the model's constructor, checked against its signature; texts are turned into
            the type of the parameter.

    Raises:
        ModelError: naming what is wrong with the spec or an option, and the nearest that is right.
        ConfigurationError: a threshold outside 0..1, or a runtime or decoder that does not exist.
    """
    text = str(spec)
    _check_thresholds(confidence, iou, max_detections)
    asked = _Asked(text, labels, runtime, device, confidence, iou, max_detections, classes, options or {})
    if is_configuration(text):
        from sluice.models.nvinfer.model import NvinferModel

        return _of_file(NvinferModel, asked)
    if text not in MODELS and _is_network(text):
        return _network(asked)
    check_name(runtime, [*RUNTIMES, *ADAPTERS])  # of no use to Python code, but no reason to take any name
    guard_tensorrt()  # for what the model's own code imports
    found = find_python(MODELS[text].target if text in MODELS else text)
    if makes_torch_module(found):
        from sluice.models.adapters.module import module_model

        return module_model(
            found,
            text,
            labels=labels,
            device=device,
            confidence=confidence,
            iou=iou,
            max_detections=max_detections,
            classes=classes,
            options=options,
        )
    return as_model(
        found,
        options,
        name=text,
        labels=read_labels(labels),
        confidence=confidence,
        iou=iou,
        max_detections=max_detections,
        classes=classes,
    )


class _Asked(NamedTuple):
    """The arguments of `load_model` for a file."""

    path: str
    labels: str | Path | Sequence[str] | None
    runtime: str
    device: str
    confidence: float | None
    iou: float | None
    max_detections: int | None
    classes: Sequence[int | str] | None
    options: Mapping[str, Any]


def _network(asked: _Asked) -> AdaptedModel:
    """A network file, or one that another package runs."""
    adapter = adapter_for(asked.path, asked.runtime)
    if adapter is None:
        choose_runtime(asked.path, asked.runtime)
    return _of_file(NetworkModel if adapter is None else adapter_class(adapter), asked)


def _of_file(target: Any, asked: _Asked) -> AdaptedModel:
    """A class for a kind of file; thresholds go to it, which saves work, and the rest filters what it finds."""
    path = asked.path
    if not is_file(path):
        raise ModelError(f"there is no model file {path!r}{_nearest_file(Path(path))}")
    names = ("labels", "runtime", "device", "confidence", "iou")
    given = {name: value for name in names if (value := getattr(asked, name)) is not None}
    taken = [name for name in asked.options if name in {"path", *names}]
    if taken:
        raise ModelError(f"{taken[0]!r} is no option of a network file; it has a parameter or property of its own")
    # Not from a text: what properties of the element say in the place of a configuration file.
    inner = {name: value for name, value in asked.options.items() if name == "overrides" and isinstance(value, Mapping)}
    options = {name: value for name, value in asked.options.items() if name not in inner}
    checked = check_options(target, options, name=path, others=("path", *names, "overrides"))
    model = target(path=path, **given, **inner, **checked)
    return as_model(model, name=path, max_detections=asked.max_detections, classes=asked.classes)


def _is_network(text: str) -> bool:
    """Whether a spec names a file rather than Python code."""
    if not is_path(text) or text.endswith(".py"):
        return False
    suffix = Path(text).suffix.lower()
    return suffix in FILES or is_file(text)


def find_python(text: str) -> Any:
    """Return the object that "package.module:Class", "file.py:Class" or "file.py" (with exactly one model) names.

    Raises:
        ModelError: there is none, with the nearest that is.
    """
    if is_path(text):
        if text.endswith(".py"):
            return _only_model(_module_of_file(text), text)
        raise ModelError(_unknown(text))
    place, _, name = text.rpartition(":")
    if not place or not name:
        raise ModelError(f"{text!r} is half a name; right is package.module:Class or file.py:Class")
    module = _module_of_file(place) if place.endswith(".py") else _module_of_name(place)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            near = difflib.get_close_matches(part, [n for n in vars(found) if not n.startswith("_")], 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ModelError(f"{place} has no {part!r}{hint}{_models_text(module)}")
        found = getattr(found, part)
    return found


def _module_of_name(name: str) -> ModuleType:
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))  # as with `python -m`: one's own packages lie where one stands
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise ModelError(f"there is no Python module {error.name!r} (for the model {name!r})") from error
        raise ModelError(f"{name} cannot be imported: it needs the module {error.name!r}, which is missing") from error
    except (Exception, SystemExit) as error:  # the second of a program that reads its arguments when it is imported
        raise ModelError(f"{name} cannot be imported: {type(error).__name__}: {error}") from error


def _module_of_file(text: str) -> ModuleType:
    """Run a Python file as a new module. Its folder is added to the search path, for the modules beside it."""
    path = Path(text)
    if not is_file(path):
        raise ModelError(f"there is no model file {text!r}{_nearest_file(path)}")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    # One name for each file: a file that is loaded again, perhaps changed, takes the place of what it was before. The
    # models made of that go on with their own module.
    name = f"sluice_model_{path.stem}_{_file_numbers.setdefault(path.resolve(), len(_file_numbers))}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ModelError(f"{text} cannot be loaded as a Python file")
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module  # dataclasses and pickle look their module up
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
        raise ModelError(f"{text} cannot be loaded: {type(error).__name__}: {error}") from error
    return module


def _only_model(module: ModuleType, text: str) -> Any:
    """The one model of a file: its only class with infer, else its only such object, else its only public function."""
    candidates = _models_in(module)
    if len(candidates) != 1:
        found = ", ".join(candidates) or "none"
        raise ModelError(
            f"{text} holds {len(candidates)} models ({found}); right is exactly one, or {text}:NAME. "
            "A model is a class or object with infer(frames), or a function of frames"
        )
    return next(iter(candidates.values()))


def _models_in(module: ModuleType) -> dict[str, Any]:
    """The models a module defines itself, by name."""
    public = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    own = {name: value for name, value in public.items() if getattr(value, "__module__", None) == module.__name__}
    classes = {n: v for n, v in own.items() if inspect.isclass(v) and callable(getattr(v, "infer", None))}
    objects = {n: v for n, v in public.items() if not inspect.isclass(v) and callable(getattr(v, "infer", None))}
    objects = {n: v for n, v in objects.items() if not inspect.ismodule(v)}
    functions = {n: v for n, v in own.items() if inspect.isfunction(v)}
    modules = {n: v for n, v in own.items() if is_torch_module(v)}
    return classes or objects or functions or modules


def _models_text(module: ModuleType) -> str:
    names = _models_in(module)
    return f" (models there: {', '.join(names)})" if names else " (there is no model in it)"


def _nearest_file(path: Path) -> str:
    """A hint at a file of nearly that name in the same folder; empty if there is none."""
    if path.is_dir():
        return ": it is a folder"
    if os.path.lexists(path):
        return ": it is no file, or a link that leads nowhere"
    if not path.parent.is_dir():
        return f" (there is no folder {str(path.parent)!r} either)"
    near = difflib.get_close_matches(path.name, [item.name for item in path.parent.iterdir()], 1)
    return f"; did you mean {str(path.parent / near[0])!r}?" if near else ""


def _unknown(text: str) -> str:
    """What to say of a spec that is no name, no file and no Python object."""
    near = difflib.get_close_matches(text, MODELS, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return (
        f"there is no model {text!r}{hint} (right is a registered name: {', '.join(MODELS)}; a network file: "
        f"{', '.join(FILES)}; a configuration file of nvinfer: {', '.join(CONFIGURATIONS)}; package.module:Class; "
        "file.py:Class; or file.py)"
    )


def _check_thresholds(confidence: float | None, iou: float | None, max_detections: int | None) -> None:
    for name, value in (("confidence", confidence), ("iou", iou)):
        if value is not None and not 0 <= value <= 1:
            raise ConfigurationError(f"{name} is {value}; right is a number from 0 to 1")
    if max_detections is not None and max_detections < 1:
        raise ConfigurationError(f"max_detections is {max_detections}; right is 1 or more")
