"""One rollout of a model over the workers of a fleet, from the canaries to its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sluice.app.fleet.orders import Report
from sluice.app.fleet.rollout import ModelCounts, RolloutRule, Verdict, judge


class Trial:
    """A new model on the canaries, beside the old one on the others.

    Attributes:
        model: the new one.
        old: the one before.
        canaries: the workers that have the new one.
    """

    def __init__(self, model: str, old: str, canaries: Iterable[str], rule: RolloutRule, now: float) -> None:
        """Begin; the canaries are to be given the model by the caller."""
        self.model = model
        self.old = old
        self.canaries = frozenset(canaries)
        self._rule = rule
        self._begun = now
        self._before: dict[str, ModelCounts] = {}

    def begin(self, reports: Mapping[str, Report]) -> None:
        """Take the counts that everything is compared with from now on."""
        self._before = {name: report.counts for name, report in reports.items()}

    def judge(self, reports: Mapping[str, Report], now: float) -> tuple[Verdict, str]:
        """Compare what the workers did since the beginning; see `sluice.app.fleet.rollout.judge`."""
        if not self.canaries & reports.keys():
            return Verdict.ROLL_BACK, "every worker that had it is lost"
        since = {name: self._since(name, report.counts) for name, report in reports.items()}
        canaries = {name: counts for name, counts in since.items() if name in self.canaries}
        others = {name: counts for name, counts in since.items() if name not in self.canaries}
        return judge(self.model, canaries, others, now - self._begun, self._rule)

    def _since(self, worker: str, counts: ModelCounts) -> ModelCounts:
        """What a worker did since the trial began; a canary counts from when it first ran the new model."""
        before = self._before.get(worker)
        if before is None or (worker in self.canaries and counts.model == self.model != before.model):
            before = self._before[worker] = counts
        since = counts.since(before)
        if worker in self.canaries and counts.model != self.model:  # what the one before did is no fault of the new one
            return ModelCounts(since.model, refusal=since.refusal, refused=since.refused)
        return since
