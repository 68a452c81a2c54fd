"""NVIDIA's low-level tracker configuration (nvtracker's ``ll-config-file``), read into the nearest open algorithm.

The closed library's algorithms are told apart by what the file switches on, as its documentation does:

==================================  =====================  =======================================================
in the file                         NVIDIA's name          here
==================================  =====================  =======================================================
``reidType`` 1 or 3                 NvDeepSORT             ``deepsort``: embeddings come from a sluiceinfer before it
``visualTrackerType`` not 0         NvDCF                  nearest: ``bytetrack`` (cascaded) or ``sort``; no pixels
a group ``NvDCF`` (old form)        NvDCF                  nearest: ``sort``
``stateEstimatorType`` not 0        NvSORT                 ``sort``; ``bytetrack`` where the matcher is cascaded
otherwise                           IOU                    ``iou``
==================================  =====================  =======================================================
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sluice.errors import ConfigurationError
from sluice.yaml_text import load_yaml

_GROUPS = (
    "BaseConfig",
    "TargetManagement",
    "TrajectoryManagement",
    "DataAssociator",
    "StateEstimator",
    "VisualTracker",
    "ReID",
    "ObjectModelProjection",
    "PoseEstimator",
    "Segmenter",
    "MultiViewAssociator",
    "Communicator",
    "NvDCF",
)

#: Keys that are followed; all others of the file have no counterpart here.
_FOLLOWED = {
    "BaseConfig": {"minDetectorConfidence", "checkClassMatch"},
    "TargetManagement": {
        "maxTargetsPerStream",
        "probationAge",
        "maxShadowTrackingAge",
        "maxTrajectoryBufferLength",
        "outputTerminatedTracks",
        "outputShadowTracks",
        "supportPastFrame",
    },
    "TrajectoryManagement": {"useUniqueID"},
    "DataAssociator": {
        "associationMatcherType",
        "checkClassMatch",
        "minMatchingScore4Iou",
        "minMatchingScore4ReidSimilarity",
        "tentativeDetectorConfidence",
    },
    "StateEstimator": {"stateEstimatorType"},
    "VisualTracker": {"visualTrackerType"},
    "ReID": {"reidType"},
    "NvDCF": {"maxTargetsPerStream", "minDetectorConfidence", "maxShadowTrackingAge", "probationAge"},
}

_CASCADED = 1


@dataclass(frozen=True)
class LowLevelConfig:
    """What a file asks for.

    Attributes:
        nvidia: NVIDIA's name of the algorithm.
        algorithm: the algorithm that takes its place.
        options: its options.
        minimum_confidence: detections below are not tracked.
        class_aware: None where the file does not say.
        max_targets: objects of a frame that are tracked at most; None for no limit.
        longest: frames that are kept of a track at most; None where the file does not say.
        terminated: a list of terminated tracks is wanted.
        shadow: a list of shadow tracks is wanted.
        past_frames: past frames are wanted.
        unique_ids: ids are to be unique over all streams; None where the file does not say.
        notes: what differs from NVIDIA's, in sentences.
    """

    nvidia: str
    algorithm: str
    options: Mapping[str, bool | int | float | str]
    minimum_confidence: float = -math.inf
    class_aware: bool | None = None
    max_targets: int | None = None
    longest: int | None = None
    terminated: bool = False
    shadow: bool = False
    past_frames: bool = False
    unique_ids: bool | None = None
    notes: list[str] = field(default_factory=list)


def read_config(path: str) -> LowLevelConfig:
    """Read a file.

    Raises:
        ConfigurationError: it cannot be read, is no such file, or a value has the wrong type.
    """
    groups = _Groups(path, _load(path))
    nvidia, algorithm = _algorithm(groups)
    notes = _notes(nvidia, algorithm, groups)
    shadow_age = groups.whole("maxShadowTrackingAge", "TargetManagement", "NvDCF", least=0)
    probation = groups.whole("probationAge", "TargetManagement", "NvDCF", least=0)
    options: dict[str, bool | int | float | str] = {}
    if shadow_age is not None:
        options["lost_track_buffer"] = shadow_age
    if probation is not None:
        options["minimum_consecutive_frames"] = probation + 1
    options.update(_association(algorithm, groups))
    buffer = groups.whole("maxTrajectoryBufferLength", "TargetManagement")
    class_match = groups.whole("checkClassMatch", "DataAssociator", "BaseConfig")
    unique = groups.whole("useUniqueID", "TrajectoryManagement")
    least = groups.score("minDetectorConfidence", "BaseConfig", "NvDCF")
    return LowLevelConfig(
        nvidia,
        algorithm,
        options,
        minimum_confidence=-math.inf if least is None else least,
        class_aware=None if class_match is None else bool(class_match),
        max_targets=groups.whole("maxTargetsPerStream", "TargetManagement", "NvDCF", least=1),
        longest=buffer if buffer is not None and buffer > 0 else None,
        terminated=bool(groups.whole("outputTerminatedTracks", "TargetManagement")),
        shadow=bool(groups.whole("outputShadowTracks", "TargetManagement")),
        past_frames=bool(groups.whole("supportPastFrame", "TargetManagement")),
        unique_ids=None if unique is None else bool(unique),
        notes=notes,
    )


def _load(path: str) -> Mapping[str, Any]:
    """Return the file's groups; OpenCV's YAML has a first line that YAML has not."""
    if Path(path).exists() and not Path(path).is_file():
        raise ConfigurationError(f"ll-config-file {path} cannot be read: it is a folder, device or pipe, not a file")
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
        lines = [line for line in text.splitlines() if not line.startswith("%YAML")]
        groups = load_yaml("\n".join(lines))
    except OSError as error:
        raise ConfigurationError(f"ll-config-file {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigurationError(f"ll-config-file {path} is not YAML: {error}") from error
    except RecursionError:
        raise ConfigurationError(f"ll-config-file {path} is nested deeper than any configuration is") from None
    if not isinstance(groups, dict) or not any(name in groups for name in _GROUPS):
        found = ", ".join(map(str, groups)) if isinstance(groups, dict) else "none"
        raise ConfigurationError(
            f"ll-config-file {path} has no group of a low-level tracker's configuration (BaseConfig, TargetManagement, "
            f"DataAssociator, StateEstimator ...) but: {found}; a deepstream-app file names the right one in its "
            "ll-config-file"
        )
    return groups


@dataclass(frozen=True)
class _Groups:
    """A file's groups of keys."""

    path: str
    groups: Mapping[str, Any]

    def __contains__(self, name: str) -> bool:
        return name in self.groups

    def number(self, key: str, *groups: str, least: float = -math.inf, most: float = math.inf) -> float | None:
        """Return a key's number from the first of some groups that has it, None where none has."""
        for group in groups:
            values = self.groups.get(group) or {}
            if not isinstance(values, dict):
                raise ConfigurationError(f"ll-config-file {self.path}: {group} is {values!r}, not a group of keys")
            if key in values:
                value = values[key]
                if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                    raise ConfigurationError(
                        f"ll-config-file {self.path}: {key} in {group} is {value!r}; a number would be right"
                    )
                if not least <= value <= most:
                    bound = f"{least} or more" if value < least else f"{most} at most"
                    raise ConfigurationError(f"ll-config-file {self.path}: {key} in {group} is {value}; it is {bound}")
                return value
        return None

    def score(self, key: str, *groups: str) -> float | None:
        """Return the same as a score: above 1, nothing would reach it."""
        return self.number(key, *groups, most=1)

    def whole(self, key: str, *groups: str, least: float = -math.inf) -> int | None:
        """Return the same as a whole number."""
        value = self.number(key, *groups, least=least)
        if value is not None and value != int(value):
            raise ConfigurationError(f"ll-config-file {self.path}: {key} is {value}; a whole number would be right")
        return None if value is None else int(value)

    def ignored(self) -> list[str]:
        """Return ``Group.key`` of all keys that have no counterpart here."""
        return [
            f"{group}.{key}"
            for group, values in self.groups.items()
            for key in (values if isinstance(values, dict) else ())
            if key not in _FOLLOWED.get(group, ())
        ]


def _algorithm(groups: _Groups) -> tuple[str, str]:
    cascaded = groups.whole("associationMatcherType", "DataAssociator") == _CASCADED
    moving = "bytetrack" if cascaded else "sort"
    if groups.whole("reidType", "ReID") in (1, 3):
        return "NvDeepSORT", "deepsort"
    if "NvDCF" in groups or groups.whole("visualTrackerType", "VisualTracker"):
        return "NvDCF", moving
    if groups.whole("stateEstimatorType", "StateEstimator"):
        return "NvSORT", moving
    return "IOU", "iou"


def _association(algorithm: str, groups: _Groups) -> dict[str, bool | int | float | str]:
    """Return the thresholds of matching that the file gives; those of 0 stay at the algorithm's default."""
    options: dict[str, bool | int | float | str] = {}
    overlap = groups.score("minMatchingScore4Iou", "DataAssociator")
    if overlap:
        name = "minimum_iou_threshold_first_assoc" if algorithm == "deepsort" else "minimum_iou_threshold"
        options[name] = overlap
    sure = groups.score("tentativeDetectorConfidence", "DataAssociator")
    if sure and algorithm in ("bytetrack", "deepsort"):
        options["high_conf_det_threshold"] = options["track_activation_threshold"] = sure
    elif algorithm != "bytetrack" and algorithm != "deepsort":
        # NVIDIA's trackers start a target from every detection that is not below minDetectorConfidence.
        options["track_activation_threshold"] = 0.0
    looks = groups.score("minMatchingScore4ReidSimilarity", "DataAssociator")
    if looks and algorithm == "deepsort":
        options["minimum_appearance_similarity"] = looks
    return options


def _notes(nvidia: str, algorithm: str, groups: _Groups) -> list[str]:
    notes = []
    if nvidia == "NvDCF":
        notes.append(
            f"NvDCF's visual tracking (correlation filters on pixels) is not here; the nearest algorithm, {algorithm}, "
            "takes its place, from detections alone"
        )
    if nvidia == "NvSORT" and algorithm == "bytetrack":
        notes.append("the cascaded matcher of NvSORT is that of bytetrack, which takes its place")
    if algorithm == "deepsort":
        notes.append(
            "the ReID model of the file is not run here: put a sluiceinfer with it between the detector and "
            "sluicetracker (process-mode=2); its embeddings are used"
        )
    elif groups.whole("reidType", "ReID"):
        notes.append("ReID serves NvDCF's re-association only, which is not here")
    ignored = groups.ignored()
    if ignored:
        notes.append(f"not followed: {', '.join(ignored)}")
    return notes
