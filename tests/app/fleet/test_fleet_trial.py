"""What a rollout makes of the workers' counts."""

from sluice.app.fleet.orders import Report
from sluice.app.fleet.rollout import ModelCounts, RolloutRule, Verdict
from sluice.app.fleet.trial import Trial

RULE = RolloutRule(frames=20, seconds=10.0)


class Site:
    """A worker with the old model and a canary that still has one that was rolled back, when a trial begins."""

    def __init__(self) -> None:
        self.trial = Trial("new", "old", ["canary"], RULE, now=0.0)
        self.trial.begin(self._reports(ModelCounts("raises", errors=50)))

    def judge(self, canary: ModelCounts) -> tuple[Verdict, str]:
        return self.trial.judge(self._reports(canary), now=5.0)

    def _reports(self, canary: ModelCounts) -> dict[str, Report]:
        counts = {"canary": canary, "other": ModelCounts("old", frames=100)}
        return {name: Report(name, "node", 1, {f"cam of {name}": 1}, (), found) for name, found in counts.items()}


def test_errors_of_a_model_that_is_still_leaving_are_no_fault_of_the_next() -> None:
    site = Site()
    assert site.judge(ModelCounts("raises", errors=90))[0] == Verdict.WAIT
    assert site.judge(ModelCounts("new", errors=95))[0] == Verdict.WAIT  # it counts from here
    assert site.judge(ModelCounts("new", errors=120))[0] == Verdict.ROLL_BACK


def test_a_refusal_is_told_while_another_model_is_still_leaving() -> None:
    verdict, reason = Site().judge(ModelCounts("raises", errors=90, refusal="there is no file new.onnx", refused=7))
    assert verdict == Verdict.ROLL_BACK
    assert "could not load it: there is no file new.onnx" in reason
