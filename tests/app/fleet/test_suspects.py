"""How the one stream that ends its workers is found among many."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.app.fleet.suspects import PoisonRule, Suspects

RULE = PoisonRule(workers=3, steady=60, pause=60)


class Site:
    """Suspects and their clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.suspects = Suspects(RULE, lambda: self.now)

    def may_run(self, streams: str) -> list[str]:
        return [stream for stream in streams if stream not in self.suspects.held]

    def run_for(self, seconds: float) -> list[str]:
        """Pass time while all that may run does; return those that are parked no more."""
        released = []
        for _ in range(int(seconds)):
            released += self.suspects.look(dict.fromkeys(self.may_run("abcdefgh"), True))
            self.now += 1
        return released


def test_one_death_holds_nothing_back_and_blames_the_node_too() -> None:
    site = Site()
    assert site.suspects.worker_died("abcd", "n1", nodes=3) == ([], True)
    assert site.suspects.held == {}
    assert site.suspects.doubtful_nodes == {"n1"}
    site.run_for(62)
    assert not site.suspects.suspected, "they ran for long enough"


def test_deaths_on_two_nodes_blame_the_streams_that_were_on_both() -> None:
    site = Site()
    site.suspects.worker_died("abcd", "n1", nodes=3)
    assert site.suspects.worker_died("cdxyz", "n2", nodes=3) == ([], False)
    assert site.suspects.suspected == {"c", "d"}
    assert list(site.suspects.held) == ["d"]
    assert site.suspects.worker_died("cxyz", "n3", nodes=3) == (["c"], False)
    assert site.suspects.parked == {"c": 60}
    assert site.may_run("abcdxyz") == list("abdxyz")


def test_deaths_on_one_node_of_several_park_no_stream() -> None:
    site = Site()
    for _ in range(10):
        assert site.suspects.worker_died("a", "n1", nodes=3) == ([], True)


def test_on_the_only_node_the_streams_are_blamed() -> None:
    site = Site()
    assert site.suspects.worker_died("a", "n1", nodes=1) == ([], True)
    assert site.suspects.worker_died("a", "n1", nodes=1) == ([], False)
    assert site.suspects.worker_died("a", "n1", nodes=1) == (["a"], False)


def test_the_half_that_waits_is_tried_when_the_other_has_run_for_long_enough() -> None:
    site = Site()
    for node in ("n1", "n2"):
        site.suspects.worker_died("abcd", node, nodes=3)
    assert site.may_run("abcd") == ["a", "b"]
    site.run_for(62)
    assert site.may_run("abcd") == ["a", "b", "c"], "of the other half a half"
    assert site.suspects.suspected == {"c", "d"}


def test_a_parked_stream_is_released_and_parked_for_twice_as_long() -> None:
    site = Site()
    for node in ("n1", "n2", "n3"):
        site.suspects.worker_died("a", node, nodes=3)
    assert site.run_for(62) == ["a"]
    assert site.suspects.worker_died("ab", "n1", nodes=3) == (["a"], False)
    assert site.suspects.parked["a"] == 120
    site.suspects.forget(["a"])
    assert (site.suspects.parked, site.suspects.held) == ({}, {})


def test_a_node_that_goes_itself_takes_its_deaths_along() -> None:
    site = Site()
    site.suspects.worker_died("ab", "n1", nodes=3)
    site.suspects.worker_died("ab", "n2", nodes=3)
    assert site.suspects.held
    site.suspects.node_gone("n2")
    assert site.suspects.held == {}
    site.suspects.node_gone("n1")
    assert site.suspects.suspected == set()


def test_a_worker_without_streams_accuses_none() -> None:
    assert Site().suspects.worker_died([], "n1", nodes=3) == ([], True)


@settings(max_examples=200, deadline=None)
@given(
    fatal=st.sampled_from("abcdefgh"),
    nodes=st.lists(st.sampled_from(["n1", "n2", "n3"]), min_size=30, max_size=30),
    groups=st.lists(st.lists(st.integers(0, 2), min_size=8, max_size=8), min_size=30, max_size=30),
)
def test_whatever_the_placement_only_the_fatal_stream_is_ever_parked(
    fatal: str, nodes: list[str], groups: list[list[int]]
) -> None:
    site = Site()
    for node, group in zip(nodes, groups, strict=True):
        running = site.may_run("abcdefgh")
        mates = [s for s in running if group["abcdefgh".index(s)] == group["abcdefgh".index(fatal)]]
        if fatal in running:
            parked, _ = site.suspects.worker_died(mates, node, nodes=3)
            assert set(parked) <= {fatal}
            site.run_for(1)
        else:
            site.run_for(61)
    assert fatal in site.suspects.suspected or len(set(nodes)) == 1


def test_rules_that_make_no_sense_are_refused() -> None:
    from pydantic import ValidationError

    from sluice.app.fleet.schema import Fleet

    for recovery in (
        {"poison": {"workers": 1}},
        {"poison": {"steady": 0}},
        {"flapping": {"losses": 0}},
        {"flapping": {"within": -1}},
    ):
        with pytest.raises(ValidationError):
            Fleet.model_validate({"recovery": recovery})
