"""What ``sluiceinfer`` does with a batch's frames: call the model on them and write what it found.

The model's thread makes the calls, the source pad's thread writes the results. A call only ever sees frames, which hold
the memory of their pixels, never metadata; so a call that was abandoned cannot write into a batch that has left.
"""

import time
from dataclasses import dataclass
from typing import Any

from sluice.elements.infer_frames import OpenBatch
from sluice.elements.infer_properties import Settings
from sluice.elements.infer_state import Stats
from sluice.errors import ModelError
from sluice.models.detections import Detections
from sluice.models.frame import Frame
from sluice.models.instance import ModelDefinition
from sluice.models.loading import load_model

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
        overrides=settings.nvinfer.overrides,
    )


def open_model(definition: ModelDefinition) -> Any:
    """Return the model of a definition, not loaded yet."""
    return load_model(
        definition.model,
        labels=definition.labels,
        runtime=definition.runtime,
        device=definition.device,
        confidence=definition.confidence,
        iou=definition.iou,
        max_detections=definition.max_detections,
        classes=definition.classes,
        options=dict(definition.options) | ({"overrides": dict(definition.overrides)} if definition.overrides else {}),
    )


@dataclass
class Results:
    """What the model's thread found for one batch.

    Attributes:
        batch: the batch, for the metadata to write to.
        found: one entry per frame that the model was given, in the batch's order; None for one that got no result.
        labels: names of the classes, of the model that was called: another may be in its place when this is written.
        error: the exception that cost the frames their results; None when all have one.
    """

    batch: OpenBatch
    found: list[Detections | None]
    labels: tuple[str, ...]
    error: BaseException | None = None

    def __len__(self) -> int:
        return len(self.found)

    @property
    def lost(self) -> int:
        """Number of frames without a result."""
        return self.found.count(None)

    def attach(self, unique_id: int) -> int:
        """Write the results into the batch's metadata and return the number of objects."""
        return self.batch.attach(self.found, self.labels, unique_id)


def call_model(model: Any, batch: OpenBatch, settings: Settings, stats: Stats) -> Results:
    """Call the model on a batch, in as many calls as ``batch-size`` asks for; never raises.

    A call with several frames that raises is repeated with each frame alone: that names the frame to blame, and the
    frames of the other streams keep their detections.
    """
    results = Results(batch, [], model.labels)
    try:
        step = settings.batch_size or len(batch)
        for start in range(0, len(batch), step):
            _call(model, batch.frames[start : start + step], results, stats)
    finally:
        batch.release()
    return results


def _call(model: Any, frames: list[Frame], results: Results, stats: Stats) -> None:
    """Make one call and append what it found."""
    began = time.perf_counter()
    try:
        results.found += model.infer(frames)
    except BaseException as error:
        if len(frames) == 1:
            results.found.append(None)
            results.error = results.error or _placed(error, frames[0])
        else:
            _call_one_by_one(model, frames, results, stats, error)
    else:
        stats.count_call(time.perf_counter() - began)


def _call_one_by_one(model: Any, frames: list[Frame], results: Results, stats: Stats, error: BaseException) -> None:
    """Repeat a failed call frame by frame; if no frame alone fails, the error is of the call as a whole."""
    for frame in frames:
        _call(model, [frame], results, stats)
    if results.error is None:
        of = ", ".join(f"stream {frame.stream} frame {frame.number}" for frame in frames)
        results.error = ModelError(f"{type(error).__name__}: {error} (in a call with {of}; each alone raised nothing)")
        results.error.__cause__ = error


def _placed(error: BaseException, frame: Frame) -> BaseException:
    """Write on an exception which frame it belongs to, for the element error; see ``guard.post_error``."""
    error.stream, error.frame = frame.stream, frame.number  # type: ignore[attr-defined]
    return error
