"""What ``sluiceinfer`` does with a batch's frames: call the model on them and write what it found.

The model's thread makes the calls, the source pad's thread writes the results. A call only ever sees frames, which hold
the memory of their pixels, never metadata; so a call that was abandoned cannot write into a batch that has left.
"""

import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from sluice.elements.infer_frames import OpenBatch
from sluice.elements.infer_properties import Settings
from sluice.elements.infer_state import Stats
from sluice.errors import ModelError, format_trace, text_of
from sluice.models.detections import Detections
from sluice.models.frame import Frame
from sluice.models.instance import ModelDefinition, Unfinished
from sluice.models.limits import within_limits
from sluice.models.loading import load_model
from sluice.models.model import Begun
from sluice.models.raw_files import RawFiles

#: Option of network models that has their raw outputs in the results.
OUTPUTS_OPTION = ("output_tensor_meta", "true")


def definition_of(settings: Settings) -> ModelDefinition:
    """Return which model the element's properties ask for."""
    wants_outputs = settings.scope.outputs or settings.nvinfer.writes_files
    return ModelDefinition(
        model=settings.model,
        labels=settings.labels,
        runtime=settings.runtime,
        device=settings.device,
        confidence=settings.confidence,
        iou=settings.iou,
        max_detections=settings.max_detections,
        classes=settings.classes,
        options=settings.options + ((OUTPUTS_OPTION,) if wants_outputs else ()),
        prompt=settings.prompt,
        overrides=settings.nvinfer.overrides,
    )


def open_model(definition: ModelDefinition) -> Any:
    """Return the model of a definition, not loaded yet; called on the model's thread, which it gives its GPU."""
    overrides = dict(definition.overrides)
    if definition.exact and overrides.get("model_engine_file") is not None:
        overrides["onnx_file"] = None
    model = load_model(
        definition.model,
        labels=definition.labels,
        runtime=definition.runtime,
        device=definition.device,
        confidence=definition.confidence,
        iou=definition.iou,
        max_detections=definition.max_detections,
        classes=definition.classes,
        options=dict(definition.options) | ({"overrides": overrides} if overrides else {}),
    )
    model.prompt = definition.prompt
    use_gpu(definition.device)
    return model


def use_gpu(device: str) -> None:
    """Make a GPU the one that PyTorch uses on this thread when none is named, where PyTorch is in use.

    Networks are opened on their device by their runtimes; this is for models in Python, which may say just "cuda".
    """
    match, torch = re.fullmatch(r"cuda:(\d+)", device), sys.modules.get("torch")
    if match is not None and torch is not None:
        torch.cuda.set_device(int(match[1]))


class Remark(NamedTuple):
    """Something that does not cost a frame its results, and that a user should hear of once.

    Attributes:
        kind: the same for all that is said once.
        text: what was noticed.
        trace: a traceback, if there is one.
    """

    kind: str
    text: str
    trace: str = ""


@dataclass
class Results:
    """What the model's thread found for one batch.

    Attributes:
        batch: the batch, for the metadata to write to.
        found: one entry per frame that the model was given, in the batch's order; None for one that got no result.
        labels: names of the classes, of the model that was called: another may be in its place when this is written.
        error: the exception that cost the frames their results; None when all have one.
        remarks: what should be told once besides.
    """

    batch: OpenBatch
    found: list[Detections | None]
    labels: tuple[str, ...]
    error: BaseException | None = None
    remarks: list[Remark] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.found)

    @property
    def lost(self) -> int:
        """Number of frames without a result."""
        return self.found.count(None)

    def cut(self) -> int:
        """Leave what `within_limits` does of each frame, and return how many detections that cost; a remark says so."""
        lost = 0
        for row, found in enumerate(self.found):
            if found is None:
                continue
            kept, text = within_limits(found)
            self.found[row] = kept
            lost += len(found) - len(kept)
            if text:
                text = (
                    f"the model gave {text}, and 'cut' in stats counts the detections that are not; right is a higher "
                    "confidence-threshold, or max-detections for as many as you want"
                )
                self.remarks.append(Remark("too many detections", text))
        return lost

    def attach(self, unique_id: int) -> int:
        """Write the results into the batch's metadata and return the number of objects."""
        if self.labels:
            self.remarks += _without_label(self.found, len(self.labels))
        return self.batch.attach(self.found, self.labels, unique_id)


def call_model(
    model: Any, batch: OpenBatch, settings: Settings, stats: Stats, files: RawFiles | None = None
) -> "Results | BegunCall":
    """Call the model on a batch, in as many calls as ``batch-size`` asks for; never raises.

    Args:
        model: what is called.
        batch: what it is given; released when it has been called.
        settings: the element's.
        stats: counts the calls.
        files: where the raw outputs are written, if they are.

    A call with several frames that raises is repeated with each frame alone: that names the frame to blame, and the
    frames of the other streams keep their detections.

    Returns:
        The results; or, where a GPU works on the whole batch in one call, what will have them.
    """
    results = Results(batch, [], model.labels)

    def infer(frames: list[Frame]) -> list[Detections]:
        return _attached(model.infer(frames), settings, files)

    step = settings.batch_size or len(batch)
    if 0 < len(batch) <= step:
        began = time.perf_counter()
        begun = _begin(model, batch.frames, results)
        if begun is not None:
            return BegunCall(results, begun, lambda found: _attached(found, settings, files), infer, stats, began)
    try:
        for start in range(0, len(batch), step):
            _call(infer, batch.frames[start : start + step], results, stats)
    finally:
        batch.release()
    return results


class BegunCall(Unfinished):
    """A call that a GPU or other threads work on: the batch keeps its pixels until the results are there."""

    def __init__(
        self,
        results: Results,
        begun: Begun,
        attached: "Infer",
        infer: "Infer",
        stats: Stats,
        began: float,
    ) -> None:
        self._results, self._begun, self._attached, self._infer = results, begun, attached, infer
        self._stats, self._began = stats, began

    def ready(self) -> bool:
        return self._begun.ready()

    def notify(self, wake: Callable[[], None]) -> bool:
        notify = getattr(self._begun, "notify", None)
        return notify is not None and bool(notify(wake))

    def finish(self) -> Results:
        """Take the results; a failed call is repeated frame by frame, as in `call_model`."""
        results, frames = self._results, self._results.batch.frames
        try:
            results.found += self._attached(self._begun.finish())
        except BaseException as error:
            _call_one_by_one(self._infer, frames, results, self._stats, error)
        else:
            self._stats.count_call(time.perf_counter() - self._began)
        finally:
            results.batch.release()
        return results


class BegunWork(Unfinished):
    """A `BegunCall` whose results go to a function, once they are there."""

    def __init__(self, call: BegunCall, take: Callable[[Results], None]) -> None:
        self._call, self._take = call, take

    def ready(self) -> bool:
        return self._call.ready()

    def notify(self, wake: Callable[[], None]) -> bool:
        return self._call.notify(wake)

    def finish(self) -> None:
        """Take the results and hand them on."""
        self._take(self._call.finish())


def _begin(model: Any, frames: list[Frame], results: Results) -> Begun | None:
    """Begin a call; None where the model cannot, or raises.

    What it raises is a remark on the results: the call that is made then may well do, and would hide for ever that
    the model is never begun.
    """
    try:
        begun: Begun | None = model.begin(frames)
    except Exception as error:
        text = f"begin() raised {text_of(error)}; infer() is called in its place, without overlap"
        results.remarks.append(Remark("begin", text, format_trace(error)))
        return None
    return begun


def _without_label(found: list[Detections | None], labels: int) -> Iterator[Remark]:
    """A remark on the highest class id that has no label, in the table or of its own."""
    ids = [-1]
    for item in found:
        if item is None:
            continue
        if len(item) and item.labels is None:
            ids.append(int(item.class_ids.max()))
        if item.whole is not None:
            ids += [one.class_id for one in item.whole.classification if one.label is None]
    if max(ids) >= labels:
        yield Remark(
            "label",
            f"the model found class {max(ids)}, which has no label: there are {labels}, for the classes 0 to "
            f"{labels - 1}; right is a label file with a line for every class",
        )


def _attached(found: list[Detections], settings: Settings, files: RawFiles | None) -> list[Detections]:
    """Of a call's results those that are attached; the raw outputs are written into files where they are asked for."""
    if left_out := settings.nvinfer.left_out:
        found = [item[~np.isin(item.class_ids, list(left_out))] for item in found]
    if files is not None:
        wholes = [item.whole for item in found if item.whole is not None]
        files.write([whole.outputs for whole in wholes if whole.outputs is not None])
        if not settings.scope.outputs:
            for whole in wholes:
                whole.outputs = None
    return found


Infer = Callable[[list[Any]], list[Detections]]


def _call(infer: Infer, frames: list[Frame], results: Results, stats: Stats) -> None:
    """Make one call and append what it found."""
    began = time.perf_counter()
    try:
        results.found += infer(frames)
    except BaseException as error:
        if len(frames) == 1:
            results.found.append(None)
            results.error = results.error or _placed(error, frames[0])
        else:
            _call_one_by_one(infer, frames, results, stats, error)
    else:
        stats.count_call(time.perf_counter() - began)


def _call_one_by_one(infer: Infer, frames: list[Frame], results: Results, stats: Stats, error: BaseException) -> None:
    """Repeat a failed call frame by frame; if no frame alone fails, the error is of the call as a whole."""
    for frame in frames:
        _call(infer, [frame], results, stats)
    if results.error is None:
        of = ", ".join(f"stream {frame.stream} frame {frame.number}" for frame in frames)
        results.error = ModelError(f"{text_of(error)} (in a call with {of}; each alone raised nothing)")
        results.error.__cause__ = error


def _placed(error: BaseException, frame: Frame) -> BaseException:
    """Write on an exception which frame it belongs to, for the element error; see ``guard.post_error``."""
    vars(error).update(stream=frame.stream, frame=frame.number)  # not by name: an exception may be a frozen dataclass
    return error
