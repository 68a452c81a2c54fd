"""`read_config`: an nvinfer configuration file as typed values, checked as nvinfer checks them."""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from sluice.errors import ConfigurationError
from sluice.models.nvinfer.document import Document, Entry, Form
from sluice.models.nvinfer.keys import ClassAttributes, ClusterMode, Fate, Key, NetworkType, Properties, keys_of
from sluice.models.nvinfer.kinds import read_nvinfer

Table = TypeVar("Table", Properties, ClassAttributes)

#: What nvinfer without OpenCV makes of cluster-mode 0, for all classes.
FALLBACK_IOU, FALLBACK_TOPK = 0.5, 20


@dataclass(frozen=True)
class NvinferConfig:
    """A configuration file of nvinfer.

    Attributes:
        path: the file.
        form: "key-file" or "yaml".
        properties: the group [property], defaults filled in, paths made absolute.
        classes: per class its attributes; empty unless the network detects objects.
        given: names of the keys that [property] has in the file, for rules of precedence.
        warnings: what a user should know: unknown keys, keys without effect, values that are replaced.
    """

    path: Path
    form: Form
    properties: Properties
    classes: tuple[ClassAttributes, ...]
    given: frozenset[str]
    warnings: tuple[str, ...]

    @property
    def detects(self) -> bool:
        """Whether the network finds objects, so that there are class attributes."""
        return detects(self.properties.network_type)


def detects(kind: NetworkType) -> bool:
    """Whether a network of this type finds objects."""
    return kind in (NetworkType.DETECTOR, NetworkType.INSTANCE_SEGMENTATION)


def read_config(path: str | Path, overrides: Mapping[str, Any] | None = None) -> NvinferConfig:
    """Read a configuration file of nvinfer, in either form. The files that it names need not exist.

    Args:
        path: the file.
        overrides: fields of `Properties` with values that go before the file's, already of the right type.

    Raises:
        ConfigurationError: it is no such file, or a value is wrong; names file, line, group, key and what is right.
    """
    document = read_nvinfer(path)
    warnings: list[str] = []
    entries = document.groups["property"]
    properties = _typed(Properties(), entries, "property", document, warnings)
    properties = replace(_settle(properties, entries, document, warnings), **(overrides or {}))
    classes = _classes(properties, document, warnings)
    _check(properties, classes, document)
    if properties.network_type is NetworkType.DETECTOR and properties.cluster_mode is ClusterMode.GROUP_RECTANGLES:
        warnings.append(
            f"{_where(document, entries, 'property', 'cluster-mode')} is 0, which nvinfer's usual build cannot do and "
            f"replaces by NMS with an IoU of {FALLBACK_IOU} and topk {FALLBACK_TOPK} for all classes; so does Sluice"
        )
        properties = replace(properties, cluster_mode=ClusterMode.NMS)
        classes = tuple(replace(c, nms_iou_threshold=FALLBACK_IOU, topk=FALLBACK_TOPK) for c in classes)
    return NvinferConfig(document.path, document.form, properties, classes, frozenset(entries), tuple(warnings))


def _typed(start: Table, entries: Mapping[str, Entry], group: str, document: Document, warnings: list[str]) -> Table:
    """`start` with the values of a group in place of its own."""
    known = keys_of(type(start))
    changes: dict[str, Any] = {}
    for name, entry in entries.items():
        if name not in known or known[name][1].form not in (None, document.form):
            warnings.append(_unknown(name, entry, group, document, list(known)))
            continue
        field, key = known[name]
        changes[field] = _value(key, entry, group, document)
        if key.fate is Fate.IGNORED and changes[field] != getattr(start, field):
            warnings.append(f"{document.path}, line {entry.line}: {name} has no effect: {key.meaning}")
        if key.fate is Fate.REFUSED and changes[field]:
            raise ConfigurationError(
                f"{document.path}, line {entry.line}: [{group}] {name} is {entry.text}; right is 0: {key.meaning}"
            )
    return replace(start, **changes)


def _value(key: Key, entry: Entry, group: str, document: Document) -> Any:
    try:
        if entry.text is None:
            raise ValueError("one value (nvinfer writes lists as a;b;c)")
        value = key.read(entry.text, document.form)
    except ValueError as error:
        shown = "a list or a mapping" if entry.text is None else textwrap.shorten(repr(entry.text), 100)
        raise ConfigurationError(
            f"{document.path}, line {entry.line}: [{group}] {key.name} is {shown}; right is {error}"
        ) from None
    if key.path:
        return str((document.path.resolve().parent / value).resolve()) if value else None
    return value


def _unknown(name: str, entry: Entry, group: str, document: Document, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    hint = f"; did you mean {near[0]!r}?" if near and near[0] != name else ""
    where = f"{document.path}, line {entry.line}: [{group}]"
    if name in known:
        return f"{where} {name} is read from key files only, and is ignored in YAML"
    return f"{where} has an unknown key {name!r}, which is ignored{hint}"


def _settle(
    properties: Properties, entries: Mapping[str, Entry], document: Document, warnings: list[str]
) -> Properties:
    """Old keys in the place of those they stand for, and numbers as their enumerations."""
    kind, mode = NetworkType(properties.network_type), ClusterMode(properties.cluster_mode)
    if properties.is_classifier is not None and "network-type" not in entries:
        kind = NetworkType.CLASSIFIER if properties.is_classifier else NetworkType.DETECTOR
        warnings.append(
            f"{_where(document, entries, 'property', 'is-classifier')} is old; right is network-type={kind.value}"
        )
    if properties.enable_dbscan and "cluster-mode" not in entries:
        mode = ClusterMode.DBSCAN
        warnings.append(f"{_where(document, entries, 'property', 'enable-dbscan')} is old; right is cluster-mode=1")
    return replace(properties, network_type=kind, cluster_mode=mode)


def _classes(properties: Properties, document: Document, warnings: list[str]) -> tuple[ClassAttributes, ...]:
    """Attributes per class: those of -all, then those of -N on top."""
    groups = {name: entries for name, entries in document.groups.items() if name.startswith("class-attrs-")}
    if not detects(properties.network_type):
        if groups:
            what = properties.network_type.name.lower()
            warnings.append(f"{document.path}: [{next(iter(groups))}] is read for detectors only, this is {what}")
        return ()
    count = properties.num_detected_classes
    if count == 0:
        warnings.append(f"{document.path}: num-detected-classes is 0 or missing, so that every detection is dropped")
    common = _class(ClassAttributes(), "class-attrs-all", groups.pop("class-attrs-all", {}), document, warnings)
    classes = [common] * count
    for name, entries in groups.items():
        match = re.fullmatch(r"class-attrs-(\d+)", name)
        if match is None or int(match[1]) >= count:
            raise ConfigurationError(
                f"{document.path}: there is a group [{name}], but num-detected-classes is {count}; right is "
                f"class-attrs-all or class-attrs-N with N less than that"
            )
        classes[int(match[1])] = _class(common, name, entries, document, warnings)
    return tuple(classes)


def _class(
    start: ClassAttributes, group: str, entries: Mapping[str, Entry], document: Document, warnings: list[str]
) -> ClassAttributes:
    result = _typed(replace(start, threshold=None), entries, group, document, warnings)
    if result.threshold is not None and "pre-cluster-threshold" not in entries:
        warnings.append(f"{_where(document, entries, group, 'threshold')} is old; right is pre-cluster-threshold")
        result = replace(result, pre_cluster_threshold=result.threshold)
    return result


def _check(properties: Properties, classes: tuple[ClassAttributes, ...], document: Document) -> None:
    """What nvinfer checks over several keys."""
    entries = document.groups["property"]
    mode = properties.cluster_mode
    if properties.network_type is NetworkType.INSTANCE_SEGMENTATION and mode is not ClusterMode.NONE:
        raise ConfigurationError(
            f"{_where(document, entries, 'property', 'cluster-mode')} is {mode.value}; right is 4 (none), which "
            "network-type 3 needs"
        )
    if properties.output_instance_mask and mode is not ClusterMode.NONE:
        raise ConfigurationError(
            f"{_where(document, entries, 'property', 'output-instance-mask')} is 1 with cluster-mode {mode.value}; "
            "right is cluster-mode 4 (none)"
        )
    for number, item in enumerate(classes):
        limits = ((item.detected_min_w, item.detected_max_w), (item.detected_min_h, item.detected_max_h))
        if any(high and low > high for low, high in limits):
            raise ConfigurationError(
                f"{document.path}: class {number} has a detected-min-w or -h above its detected-max; no object passes"
            )


def _where(document: Document, entries: Mapping[str, Entry], group: str, key: str) -> str:
    """The place of a key for messages; of one that is missing, the file and group."""
    line = f", line {entries[key].line}" if key in entries else ""
    return f"{document.path}{line}: [{group}] {key}"
