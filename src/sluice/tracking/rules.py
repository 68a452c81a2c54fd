"""What tells the batched algorithms apart: thresholds, rounds and motion, made from an algorithm's options."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sluice.errors import ConfigurationError
from sluice.tracking.motion import CentreMotion, CornerMotion, Motion, NoMotion, ScaleMotion


@dataclass(frozen=True)
class Observations:
    """How tracks are led by what was observed of them (OC-SORT).

    Attributes:
        delta: frames over which a track's direction is measured.
        weight: what it is worth that a detection lies in a track's direction, beside an overlap of 1.
    """

    delta: int
    weight: float


@dataclass(frozen=True)
class Rules:
    """How tracks are matched, confirmed and ended.

    Attributes:
        motion: how tracks move.
        frame_rate: frames/s.
        lost_track_buffer: how long a track lives without detections, in frames at 30 frames/s.
        activation: the confidence from which a detection that belongs to no track starts one.
        confirm_after: detections until a track gets its id.
        consecutive: a miss takes an unconfirmed track's detections back to 0.
        sure: the confidence from which a detection takes part in the first round; weaker ones wait for the second.
        weak: detections of this confidence or less take no part at all.
        first: the smallest similarity of a match of the first round,
        second: of the second,
        third: of the third, in which unconfirmed tracks match what the first left (BoT-SORT); None for no such round,
            and unconfirmed tracks take part in the first.
        fuse: the similarity of the first and third round is the overlap times the detection's confidence.
        instant: tracks of a stream's first frame get their id at once.
        appearance: the smallest cosine of two embeddings of the same object; None where looks do not count.
        patient: unconfirmed tracks live as long as confirmed ones.
        observations: see there; None where tracks are led by their motion.
    """

    motion: Motion
    frame_rate: float
    lost_track_buffer: int
    activation: float
    confirm_after: int
    consecutive: bool
    sure: float
    weak: float
    first: float
    second: float
    third: float | None = None
    fuse: bool = False
    instant: bool = False
    appearance: float | None = None
    patient: bool = False
    observations: Observations | None = None

    @property
    def longest_gap(self) -> int:
        """How many frames a track lives without detections (the library's rounding)."""
        return math.ceil(self.frame_rate / 30.0 * self.lost_track_buffer)

    @property
    def longest_gap_seconds(self) -> float:
        """The same in seconds, for tracking by timestamps."""
        return self.lost_track_buffer / 30.0


def iou(
    lost_track_buffer: int = 30,
    frame_rate: float = 30.0,
    track_activation_threshold: float = 0.25,
    minimum_consecutive_frames: int = 3,
    minimum_iou_threshold: float = 0.3,
) -> Rules:
    """Return the rules of tracking by overlap alone: a track stays where it was last detected."""
    return _single_round(
        NoMotion(),
        lost_track_buffer,
        frame_rate,
        track_activation_threshold,
        minimum_consecutive_frames,
        minimum_iou_threshold,
    )


def deepsort(
    lost_track_buffer: int = 60,
    frame_rate: float = 30.0,
    track_activation_threshold: float = 0.6,
    minimum_consecutive_frames: int = 3,
    minimum_iou_threshold_first_assoc: float = 0.2,
    minimum_iou_threshold_second_assoc: float = 0.5,
    minimum_iou_threshold_unconfirmed_assoc: float = 0.3,
    high_conf_det_threshold: float = 0.5,
    minimum_appearance_similarity: float = 0.7,
) -> Rules:
    """Return BoT-SORT's rounds with looks in the first: embeddings from a ``sluiceinfer`` between detector and tracker.

    As in DeepSORT, a track and a detection that look alike (cosine of their embeddings at least
    ``minimum_appearance_similarity``) match also where their boxes do not overlap, as long as the track's motion
    allows it (Mahalanobis distance within the 95 % quantile).
    """
    return Rules(
        motion=CentreMotion(),
        frame_rate=frame_rate,
        lost_track_buffer=lost_track_buffer,
        activation=track_activation_threshold,
        confirm_after=minimum_consecutive_frames,
        consecutive=False,
        sure=high_conf_det_threshold,
        weak=0.1,
        first=minimum_iou_threshold_first_assoc,
        second=minimum_iou_threshold_second_assoc,
        third=minimum_iou_threshold_unconfirmed_assoc,
        fuse=True,
        appearance=minimum_appearance_similarity,
    )


OWN: Mapping[str, Callable[..., Rules]] = {"iou": iou, "deepsort": deepsort}
"""The algorithms that the library does not have, by name: functions of their options."""


def rules_of(name: str, options: Mapping[str, Any]) -> Rules | None:
    """Return the rules of an algorithm, or None where it has no batched form (C-BIoU, McByte, BoT-SORT with the
    camera's motion, and options under which boxes match that do not overlap).

    Args:
        name: of ``tracking.ALGORITHMS``.
        options: all arguments of the algorithm, defaults filled in.

    Raises:
        ConfigurationError: an option of an algorithm of ours is not right.
    """
    if name in OWN:
        rules = OWN[name](**options)
        _check(name, rules)
    elif name == "sort":
        rules = _single_round(
            CornerMotion(), *(options[key] for key in ("lost_track_buffer", "frame_rate", *_SINGLE_ROUND))
        )
    elif name == "bytetrack":
        rules = Rules(
            motion=CornerMotion(),
            frame_rate=options["frame_rate"],
            lost_track_buffer=options["lost_track_buffer"],
            activation=options["track_activation_threshold"],
            confirm_after=options["minimum_consecutive_frames"],
            consecutive=True,
            sure=options["high_conf_det_threshold"],
            weak=-math.inf,
            first=options["minimum_iou_threshold"],
            second=options["minimum_iou_threshold"],
        )
    elif name == "botsort" and not options["enable_cmc"]:
        rules = Rules(
            motion=CentreMotion(),
            frame_rate=options["frame_rate"],
            lost_track_buffer=options["lost_track_buffer"],
            activation=options["track_activation_threshold"],
            confirm_after=options["minimum_consecutive_frames"],
            consecutive=False,
            sure=options["high_conf_det_threshold"],
            weak=0.1,
            first=options["minimum_iou_threshold_first_assoc"],
            second=options["minimum_iou_threshold_second_assoc"],
            third=options["minimum_iou_threshold_unconfirmed_assoc"],
            fuse=True,
            instant=options["instant_first_frame_activation"],
        )
    elif name == "ocsort":
        rules = Rules(
            motion=ScaleMotion(),
            frame_rate=options["frame_rate"],
            lost_track_buffer=options["lost_track_buffer"],
            activation=-math.inf,
            confirm_after=options["minimum_consecutive_frames"],
            consecutive=True,
            sure=options["high_conf_det_threshold"],
            weak=math.inf,
            first=options["minimum_iou_threshold"],
            second=options["minimum_iou_threshold"],
            patient=True,
            observations=Observations(options["delta_t"], options["direction_consistency_weight"]),
        )
    else:
        return None
    thresholds = (rules.first, rules.second, rules.third)
    return rules if all(value is None or value > 0 for value in thresholds) else None


_SINGLE_ROUND = ("track_activation_threshold", "minimum_consecutive_frames", "minimum_iou_threshold")


def _single_round(
    motion: Motion, lost_track_buffer: int, frame_rate: float, activation: float, confirm_after: int, first: float
) -> Rules:
    return Rules(
        motion=motion,
        frame_rate=frame_rate,
        lost_track_buffer=lost_track_buffer,
        activation=activation,
        confirm_after=confirm_after,
        consecutive=False,
        sure=-math.inf,
        weak=-math.inf,
        first=first,
        second=first,
    )


def _check(name: str, rules: Rules) -> None:
    wrong = None
    if rules.lost_track_buffer < 0:
        wrong = f"lost_track_buffer is {rules.lost_track_buffer}; it must be greater than or equal to 0"
    elif not math.isfinite(rules.frame_rate) or rules.frame_rate <= 0:
        wrong = f"frame_rate is {rules.frame_rate}; it must be a finite positive value"
    elif any(value is not None and not 0 < value <= 1 for value in (rules.first, rules.second, rules.third)):
        wrong = "a smallest similarity must be greater than 0 and at most 1"
    elif rules.appearance is not None and not 0 < rules.appearance <= 1:
        wrong = "minimum_appearance_similarity must be greater than 0 and at most 1"
    if wrong is not None:
        raise ConfigurationError(f"{name} refuses its options: {wrong}")
