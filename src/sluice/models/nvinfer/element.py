"""What a configuration file says to the element rather than to the model, as values of ``sluiceinfer``'s properties."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

from sluice.errors import ConfigurationError
from sluice.models.nvinfer.config import read_config
from sluice.models.nvinfer.keys import NEVER_AGAIN, Properties


class _Value(NamedTuple):
    """Where a property's value comes from.

    Attributes:
        key: the key in the file.
        of: makes the property's value of the file's.
        yields: a property that was set goes before the file; else the file goes before, as in nvinfer.
    """

    key: str
    of: Callable[[Properties], Any]
    yields: bool = False


def _class_list(properties: Properties) -> str | None:
    """Classes as the property infer-on-class-ids has them."""
    return ":".join(map(str, properties.operate_on_class_ids)) or None


#: Properties of ``sluiceinfer`` that a file sets.
_VALUES = {
    "unique-id": _Value("gie-unique-id", lambda p: p.gie_unique_id, yields=True),
    "process-mode": _Value("process-mode", lambda p: {1: "primary", 2: "secondary"}[p.process_mode], yields=True),
    "interval": _Value("interval", lambda p: p.interval, yields=True),
    "gpu-id": _Value("gpu-id", lambda p: p.gpu_id, yields=True),
    "batch-size": _Value("batch-size", lambda p: p.batch_size, yields=True),
    "infer-on-gie-id": _Value("operate-on-gie-id", lambda p: p.operate_on_gie_id, yields=True),
    "infer-on-class-ids": _Value("operate-on-class-ids", _class_list, yields=True),
    "input-object-min-width": _Value("input-object-min-width", lambda p: p.input_object_min_width),
    "input-object-min-height": _Value("input-object-min-height", lambda p: p.input_object_min_height),
    "input-object-max-width": _Value("input-object-max-width", lambda p: p.input_object_max_width),
    "input-object-max-height": _Value("input-object-max-height", lambda p: p.input_object_max_height),
    "secondary-reinfer-interval": _Value(
        "secondary-reinfer-interval",
        lambda p: -1 if p.secondary_reinfer_interval == NEVER_AGAIN else p.secondary_reinfer_interval,
    ),
    "classifier-async-mode": _Value("classifier-async-mode", lambda p: p.classifier_async_mode),
    "raw-output-file-write": _Value("raw-output-file-write", lambda p: p.raw_output_file_write),
    "output-tensor-meta": _Value("output-tensor-meta", lambda p: p.output_tensor_meta),
}
_TOGETHER = ("infer-on-gie-id", "infer-on-class-ids")  # setting either keeps the file from setting both


def check_primary(path: str | Path) -> None:
    """Refuse the file of a model that is given objects, where no detector stands before it.

    Raises:
        ConfigurationError: it has process-mode=2, or cannot be read.
    """
    if read_config(path).properties.process_mode == 2:
        raise ConfigurationError(
            f"{path} is of a secondary model (process-mode=2): it is given the objects of a detector, and there "
            "is none before it here, so that it would find nothing; right is the file of a detector, or a pipeline of "
            "your own with both, see docs/cascades.md"
        )


def element_values(path: str | Path, explicit: Collection[str]) -> dict[str, Any]:
    """The properties of ``sluiceinfer`` that a configuration file sets, with their values.

    Args:
        path: the configuration file.
        explicit: names of the properties that were set; most of them go before the file.

    Raises:
        ConfigurationError: the file has a wrong value, or is no configuration of nvinfer.
    """
    config = read_config(path)
    taken = set(explicit)
    if taken.intersection(_TOGETHER):
        taken.update(_TOGETHER)
    return {
        name: value.of(config.properties)
        for name, value in _VALUES.items()
        if value.key in config.given and not (value.yields and name in taken)
    }


#: The properties that a file may set, for who puts them back before another file is read.
ELEMENT_PROPERTIES = frozenset(_VALUES)
