"""What the properties of ``sluicetracker`` and its ``ll-config-file`` come to together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, get_args

from sluice.elements.tracker_frames import Policy
from sluice.elements.tracker_lists import Wanted
from sluice.errors import ConfigurationError
from sluice.tracking import DEFAULT_ALGORITHM, Settings, parse_options
from sluice.tracking.algorithms import threshold_options
from sluice.tracking.nvidia import LowLevelConfig, read_config
from sluice.tracking.records import Implementation
from sluice.tracking.streams import batched_rules

if TYPE_CHECKING:
    from sluice.elements.tracker import SluiceTracker

# NVIDIA's own low-level libraries, of this release and of older ones: what stands in for them is known.
_NVIDIA_LIBRARIES = ("libnvds_nvmultiobjecttracker.so", "libnvds_mot_iou.so", "libnvds_mot_klt.so", "libnvds_nvdcf.so")


@dataclass(frozen=True)
class Setup:
    """How the element tracks; ``notes`` are what its user should know, in sentences."""

    settings: Settings
    policy: Policy
    lists: Wanted
    global_ids: bool
    notes: tuple[str, ...] = ()


def set_up(element: SluiceTracker, config_file: str) -> Setup:
    """Read the properties, and the configuration file where there is one; the properties count more.

    Raises:
        ConfigurationError: a property, the file or what they ask for together is not right.
    """
    _check_library(element.ll_lib_file or "")
    config = _read(config_file)
    algorithm = _algorithm(element.algorithm or "", config)
    options = {
        **(_thresholds(algorithm, element.track_threshold) if config is None else config.options),
        **parse_options(algorithm, element.tracker_options or ""),
    }
    settings = Settings(
        algorithm,
        options,
        class_aware=element.class_aware or bool(config is not None and config.class_aware),
        timestamps=element.use_timestamps,
        minimum_confidence=-math.inf if config is None else config.minimum_confidence,
        implementation=_implementation(element.implementation or ""),
    )
    lists = _lists(element, config)
    if lists and batched_rules(settings) is None:
        raise ConfigurationError(
            f"lists of past frames, shadow and terminated tracks need a batched algorithm, which {algorithm} "
            f"with implementation={settings.implementation} is not; right are bytetrack, sort, ocsort, iou, deepsort, "
            "or botsort with tracker-options=enable_cmc=false"
        )
    policy = Policy(
        classes=parse_class_ids(element.operate_on_class_ids or ""),
        keep_unconfirmed=element.keep_unconfirmed,
        show_ids=element.display_tracking_id,
        max_targets=None if config is None else config.max_targets,
        surface_type=element.tracking_surface_type,
        reid_component=element.reid_component_id,
    )
    global_ids = element.global_ids or bool(config is not None and config.unique_ids)
    return Setup(settings, policy, lists, global_ids, () if config is None else _notes(config, config_file))


def parse_class_ids(text: str) -> frozenset[int]:
    """Read nvtracker's ``0;2;5`` into class ids; an empty text gives none, which means all.

    Raises:
        ConfigurationError: an item is not a whole number.
    """
    items = [item.strip() for item in text.split(";") if item.strip()]
    wrong = next((item for item in items if not item.isdecimal()), None)
    if wrong is not None:
        raise ConfigurationError(f"operate-on-class-ids holds {wrong!r}; class ids such as 0;2 would be right")
    return frozenset(int(item) for item in items)


def _check_library(path: str) -> None:
    if path and PurePath(path).name not in _NVIDIA_LIBRARIES:
        raise ConfigurationError(
            f"ll-lib-file is {path}, but low-level trackers are not loaded here; choose the algorithm with "
            "algorithm=bytetrack and set its options with tracker-options=lost_track_buffer=60"
        )


def _read(config_file: str) -> LowLevelConfig | None:
    files = [name.strip() for name in config_file.split(";") if name.strip()]
    if len(files) > 1:
        raise ConfigurationError(
            f"ll-config-file names {len(files)} files, one per sub-batch; here all streams share one: name one file"
        )
    return read_config(files[0]) if files else None


def _algorithm(wanted: str, config: LowLevelConfig | None) -> str:
    if config is None:
        return wanted or DEFAULT_ALGORITHM
    if wanted and wanted != config.algorithm:
        raise ConfigurationError(
            f"algorithm is {wanted}, but ll-config-file is {config.nvidia}'s, for which {config.algorithm} stands in; "
            "set one of them"
        )
    return config.algorithm


def _thresholds(algorithm: str, value: float) -> Mapping[str, bool | int | float | str]:
    """Return the options by which an algorithm takes detections of a score for sure."""
    return {} if value < 0 else dict.fromkeys(threshold_options(algorithm), value)


def _implementation(text: str) -> Implementation:
    for known in get_args(Implementation):
        if text == known:
            return known  # type: ignore[no-any-return]
    raise ConfigurationError(f"implementation is {text!r}; right are {', '.join(get_args(Implementation))}")


def _lists(element: SluiceTracker, config: LowLevelConfig | None) -> Wanted:
    wanted = Wanted(
        past_frames=element.output_past_frames or (config is not None and config.past_frames),
        shadow=element.output_shadow_tracks or (config is not None and config.shadow),
        terminated=element.output_terminated_tracks or (config is not None and config.terminated),
    )
    if config is None or config.longest is None:
        return wanted
    return Wanted(wanted.past_frames, wanted.shadow, wanted.terminated, config.longest)


def _notes(config: LowLevelConfig, path: str) -> tuple[str, ...]:
    options = ",".join(f"{key}={value}" for key, value in config.options.items())
    head = f"{path} configures {config.nvidia}; tracking with {config.algorithm} ({options or 'its defaults'})"
    return (head, *config.notes)
