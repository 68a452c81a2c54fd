"""Telling nvinfer's configuration from other files that lie beside it, so that a wrong one is refused by its name."""

from __future__ import annotations

import re
from pathlib import Path

from sluice.errors import ConfigurationError
from sluice.models.nvinfer.document import Document, SyntaxFault, form_of, read_document

#: Keys of [property] of which an nvinfer file has at least one: they name a network.
NETWORK_KEYS = (
    "onnx-file",
    "model-engine-file",
    "model-file",
    "uff-file",
    "tlt-encoded-model",
    "custom-network-config",
)

#: What a file with a group "property" is when it has one of these keys.
_BY_PROPERTY = {
    "network-input-shape": "a configuration of nvdspreprocess",
    "processing-width": "a configuration of nvdspreprocess",
    "active-pad": "a configuration of nvdsmetamux",
    "config-width": "a configuration of nvdsanalytics",
}

#: What a file without a group "property" is, by the first group whose name matches.
_BY_GROUP = (
    (r"application|primary-gie|streammux|tiled-display", "a configuration of a whole DeepStream application"),
    (r"sensor\d*|place\d+|analytics\d+", "a configuration of nvmsgconv"),
    (r"tracker", "a file with the settings of the element nvtracker"),
    (r"BaseConfig|NvDCF|TargetManagement|StateEstimator", "a configuration of a tracker library"),
    (r"message-broker", "a configuration of a message broker"),
)
_RIGHT = "right is a file with the group [property] (in YAML property:) that names a network"


def read_nvinfer(path: str | Path) -> Document:
    """Read a file and make sure that it is a configuration of nvinfer.

    Raises:
        ConfigurationError: it is not; says what it is instead, and by what that was seen.
    """
    try:
        document = read_document(path)
    except SyntaxFault as error:
        kind = _kind_of_text(Path(path))
        raise ConfigurationError(_other(path, kind) if kind else str(error)) from error
    kind = _kind(document)
    if kind is not None:
        raise ConfigurationError(_other(path, kind))
    return document


def _other(path: str | Path, kind: str) -> str:
    return f"{path} is {kind}, not a configuration of nvinfer; {_RIGHT}"


def _kind(document: Document) -> str | None:
    """What a file is that is not nvinfer's, with the evidence; None for nvinfer's."""
    properties = document.groups.get("property")
    if properties is None:
        return _kind_without_properties(document)
    for key, kind in _BY_PROPERTY.items():
        if key in properties:
            return f"{kind} ([property] has {key})"
    if any(key in properties for key in NETWORK_KEYS):
        return None
    return f"a configuration of nvdspostprocess or alike ([property] has none of {', '.join(NETWORK_KEYS)})"


def _kind_without_properties(document: Document) -> str:
    names = [*document.groups, *document.loose]
    if not names:
        return "empty: it has no groups and no keys"
    for pattern, kind in _BY_GROUP:
        found = next((name for name in names if re.fullmatch(pattern, name)), None)
        if found is not None:
            gies = [name for name in names if name.endswith("-gie") or re.fullmatch(r"secondary-gie\d+", name)]
            hint = f"; its nvinfer files are named by config-file in [{'], ['.join(gies)}]" if gies else ""
            return f"{kind} (it has the group {found}{hint})"
    return f"something else (its groups are {', '.join(names)})"


def _kind_of_text(path: Path) -> str | None:
    """What a file is that is neither a key file nor YAML; None if that cannot be told."""
    text = path.read_text(encoding="utf-8")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if any(re.fullmatch(r"infer_config\s*\{", line) for line in lines):
        return "a configuration of nvinferserver (it has infer_config { in Protobuf's text form)"
    if form_of(path) == "key-file" and lines and not any(re.search(r"[=\[{}]", line) for line in lines):
        return f"a label file ({len(lines)} lines of names, no groups and no key=value)"
    return None
