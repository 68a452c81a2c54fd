"""A new model on a few workers first: promoted where it does as well as the old one, rolled back where it does not.

A worker's pipeline runs one model, so the streams that a canary is wished for bring their neighbours on it along.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from pydantic import Field


class Verdict(str, Enum):
    """What follows from a comparison."""

    WAIT = "wait"
    PROMOTE = "promote"
    ROLL_BACK = "roll-back"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class RolloutRule:
    """How a canary is judged.

    Attributes:
        seconds: for how long it is watched.
        frames: frames that it must have worked on before it is judged.
        error_rate: by how much its share of frames with errors may be above the others'; 0..1.
        slower: by what factor its time per call may be above the others'.
    """

    seconds: Annotated[float, Field(gt=0)] = 60.0
    frames: Annotated[int, Field(ge=1)] = 100
    error_rate: Annotated[float, Field(ge=0, le=1)] = 0.01
    slower: Annotated[float, Field(gt=0)] = 1.5


@dataclass(frozen=True)
class ModelCounts:
    """What a model did on a worker since some moment.

    Attributes:
        model: the model's name.
        frames: frames it worked on.
        errors: frames on which it failed.
        milliseconds: of all its calls together.
        calls: how many calls.
        refusal: why the last change of model failed, "" if it did not.
        refused: number of the event that told so, 0 before the first.
    """

    model: str
    frames: int = 0
    errors: int = 0
    milliseconds: float = 0.0
    calls: int = 0
    refusal: str = ""
    refused: int = 0

    def since(self, before: ModelCounts) -> ModelCounts:
        """Return what came after an earlier moment."""
        return ModelCounts(
            self.model,
            max(0, self.frames - before.frames),
            max(0, self.errors - before.errors),
            max(0.0, self.milliseconds - before.milliseconds),
            max(0, self.calls - before.calls),
            self.refusal if self.refused > before.refused else "",  # else it was another model's
            self.refused,
        )


@dataclass(frozen=True)
class Share:
    """The counts of several workers together."""

    frames: int
    errors: int
    milliseconds: float
    calls: int

    @classmethod
    def of(cls, counts: Mapping[str, ModelCounts]) -> Share:
        """Add the counts of workers up."""
        values = counts.values()
        return cls(
            sum(c.frames for c in values),
            sum(c.errors for c in values),
            sum(c.milliseconds for c in values),
            sum(c.calls for c in values),
        )

    @property
    def error_rate(self) -> float:
        """Share of frames with an error, 0..1."""
        seen = self.frames + self.errors
        return self.errors / seen if seen else 0.0

    @property
    def per_call(self) -> float | None:
        """Milliseconds per call of the model; None before the first."""
        return self.milliseconds / self.calls if self.calls else None


def judge(
    model: str,
    canaries: Mapping[str, ModelCounts],
    others: Mapping[str, ModelCounts],
    seconds: float,
    rule: RolloutRule,
) -> tuple[Verdict, str]:
    """Compare the canaries with the others.

    Args:
        model: the new model.
        canaries: what the workers with it did since the change, by worker.
        others: what the workers with the old one did in the same time; may be empty.
        seconds: since the change was asked for.
        rule: what is allowed.

    Returns:
        The verdict and the reason, for people.
    """
    for worker, counts in canaries.items():
        if counts.refusal and counts.model != model:
            return Verdict.ROLL_BACK, f"worker {worker} could not load it: {counts.refusal}"
    new, old = Share.of(canaries), Share.of(others)
    if new.frames + new.errors >= rule.frames and new.error_rate > old.error_rate + rule.error_rate:
        return Verdict.ROLL_BACK, f"it fails on {new.error_rate:.1%} of the frames, the old one on {old.error_rate:.1%}"
    if seconds < rule.seconds:
        return Verdict.WAIT, f"watched for {seconds:.0f} of {rule.seconds:.0f} s"
    if any(counts.model != model for counts in canaries.values()):
        return Verdict.ROLL_BACK, f"it was not running everywhere after {seconds:.0f} s"
    if new.frames + new.errors < rule.frames:
        return (
            Verdict.ROLL_BACK,
            f"it saw {new.frames + new.errors} frames in {seconds:.0f} s, {rule.frames} are wanted",
        )
    if old.per_call and new.per_call and new.per_call > old.per_call * rule.slower:
        return Verdict.ROLL_BACK, f"a call takes {new.per_call:.1f} ms, {old.per_call:.1f} ms with the old one"
    return Verdict.PROMOTE, f"{new.frames} frames, {new.error_rate:.1%} with errors"
