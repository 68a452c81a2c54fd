"""Where streams are placed, which nodes are used, and when a new model is taken or not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.app.fleet.fence import Fence, first_epoch, next_generation
from sluice.app.fleet.nodes import FlappingRule, NodeHealth
from sluice.app.fleet.plan import Placement, WorkerView, make_plan
from sluice.app.fleet.rollout import ModelCounts, RolloutRule, Verdict, judge


def test_the_first_streams_ask_for_workers() -> None:
    plan = make_plan(["a", "b", "c"], [], {}, capacity=2)
    assert (plan.workers, plan.waiting, plan.place) == (2, ("a", "b", "c"), {})
    assert make_plan(["a", "b", "c"], [], {}, capacity=2, starting=2).workers == 0


def test_streams_are_spread_evenly() -> None:
    workers = [WorkerView("w1", "n1", 4), WorkerView("w2", "n2", 4)]
    plan = make_plan(["a", "b", "c", "d"], workers, {}, capacity=4)
    assert sorted(plan.place.values()) == ["w1", "w1", "w2", "w2"]


def test_a_stream_stays_where_it_is_and_those_of_a_lost_worker_move() -> None:
    workers = [WorkerView("w1", "n1", 4)]
    placed = {"a": Placement("w1", 1), "b": Placement("w2", 2), "c": Placement("w9", 3)}
    plan = make_plan(["a", "b", "c"], workers, placed, capacity=4)
    assert plan.place == {"b": "w1", "c": "w1"}
    assert set(plan.withdraw) == {("b", "w2"), ("c", "w9")}


def test_spare_workers_are_kept_and_no_more_than_those() -> None:
    assert make_plan("abcd", [], {}, capacity=2, spare=1).workers == 3
    assert make_plan("", [], {}, capacity=2, spare=1).workers == 0
    workers = [WorkerView(f"w{i}", "n1", 2) for i in range(4)]
    placed = {"a": Placement("w0", 1), "b": Placement("w1", 2), "c": Placement("w1", 3)}
    plan = make_plan("abc", workers, placed, capacity=2, spare=1)
    assert (plan.workers, plan.surplus) == (0, ("w2",))
    assert make_plan("abc", workers[:3], placed, capacity=2, spare=1).surplus == ()


def test_streams_leave_an_unfit_worker_when_there_is_room_and_one_worker_after_the_other() -> None:
    unfit = [WorkerView("w1", "n1", 2, fit=False), WorkerView("w2", "n2", 2, fit=False)]
    placed = {"a": Placement("w1", 1), "b": Placement("w1", 2), "c": Placement("w2", 3), "d": Placement("w2", 4)}
    assert make_plan("abcd", unfit, placed, capacity=2).workers == 1
    assert make_plan("abcd", unfit, placed, capacity=2).withdraw == ()
    plan = make_plan("abcd", [*unfit, WorkerView("w3", "n1", 2)], placed, capacity=2)
    assert set(plan.withdraw) == {("a", "w1"), ("b", "w1")}
    assert make_plan("abcd", [*unfit, WorkerView("w3", "n1", 2)], placed, capacity=2, settled=False).withdraw == ()


def test_a_stream_that_is_no_longer_wanted_is_withdrawn_and_its_worker_is_surplus() -> None:
    plan = make_plan([], [WorkerView("w1", "n1", 4)], {"a": Placement("w1", 1)}, capacity=4)
    assert (plan.withdraw, plan.surplus) == ((("a", "w1"),), ("w1",))


@settings(max_examples=200, deadline=None)
@given(
    streams=st.sets(st.sampled_from("abcdefgh")),
    sizes=st.lists(st.tuples(st.integers(1, 4), st.booleans()), max_size=4),
    where=st.dictionaries(st.sampled_from("abcdefghxyz"), st.integers(0, 5)),
    capacity=st.integers(1, 4),
)
def test_every_stream_runs_once_or_waits(
    streams: set[str], sizes: list[tuple[int, bool]], where: dict[str, int], capacity: int
) -> None:
    workers = [WorkerView(f"w{i}", f"n{i}", size, fit) for i, (size, fit) in enumerate(sizes)]
    placed = {stream: Placement(f"w{index}", 1) for stream, index in where.items()}
    plan = make_plan(sorted(streams), workers, placed, capacity)
    after = {stream: place.worker for stream, place in placed.items() if (stream, place.worker) not in plan.withdraw}
    assert not set(after) & set(plan.place), "placed while it still runs elsewhere"
    after |= plan.place
    moving = {stream for stream, _ in plan.withdraw} & streams - set(plan.place) - set(plan.waiting)
    assert len({placed[stream].worker for stream in moving}) <= 1
    assert set(after) | set(plan.waiting) | moving == streams
    assert not set(after) & set(plan.waiting)
    for worker in workers:
        load = list(after.values()).count(worker.name)
        assert load <= worker.capacity
        assert worker.fit or not any(target == worker.name for target in plan.place.values())
    if plan.waiting:
        assert all(list(after.values()).count(w.name) == w.capacity for w in workers if w.fit)


def test_a_flapping_node_is_left_alone_for_a_while() -> None:
    now = [0.0]
    health = NodeHealth(FlappingRule(losses=3, within=60, quarantine=100), lambda: now[0])
    for now[0] in (0.0, 61.0, 70.0):
        assert not health.lost("n1"), "the losses are too far apart"
    now[0] = 80.0
    assert health.lost("n1")
    assert not health.usable("n1")
    assert health.usable("n2")
    now[0] = 181.0
    assert health.usable("n1")


def test_a_drained_node_is_not_used_until_it_is_undrained() -> None:
    health = NodeHealth(FlappingRule(), lambda: 0.0)
    health.drain("n1")
    assert not health.usable("n1")
    health.drain("n1", False)
    assert health.usable("n1")


def test_the_fence_lets_only_the_newest_placement_pass() -> None:
    fence = Fence()
    assert fence.passes({"name": "gate", "epoch": 3})
    assert fence.passes({"name": "gate", "epoch": 5})
    assert not fence.passes({"name": "gate", "epoch": 3})
    assert fence.passes({"name": "door", "epoch": 4})
    assert fence.passes({"stream": 0}), "a message of no fleet"
    assert fence.refused == 1


RULE = RolloutRule(seconds=60, frames=100, error_rate=0.01, slower=1.5)
OLD = {"w2": ModelCounts("old", frames=1000, errors=1, milliseconds=10_000, calls=1000)}


@pytest.mark.parametrize(
    ("counts", "seconds", "verdict", "said"),
    [
        (ModelCounts("new", 500, 0, 5500, 500), 30, Verdict.WAIT, "30 of 60"),
        (ModelCounts("new", 500, 0, 5500, 500), 61, Verdict.PROMOTE, "500 frames"),
        (ModelCounts("new", 500, 0, 16_000, 500), 61, Verdict.ROLL_BACK, "32.0 ms"),
        (ModelCounts("new", 60, 40, 600, 100), 5, Verdict.ROLL_BACK, "40.0%"),
        (ModelCounts("new", 20, 0, 200, 20), 61, Verdict.ROLL_BACK, "20 frames"),
        (ModelCounts("old", 500, 0, 5000, 500, "no such file"), 1, Verdict.ROLL_BACK, "no such file"),
        (ModelCounts("old", 500, 0, 5000, 500), 61, Verdict.ROLL_BACK, "not running everywhere"),
    ],
)
def test_a_canary_is_judged(counts: ModelCounts, seconds: float, verdict: Verdict, said: str) -> None:
    found, reason = judge("new", {"w1": counts}, OLD, seconds, RULE)
    assert found == verdict
    assert said in reason


def test_counts_since_a_moment() -> None:
    assert ModelCounts("m", 10, 2, 50.0, 5).since(ModelCounts("m", 4, 1, 20.0, 2)) == ModelCounts("m", 6, 1, 30.0, 3)


@settings(deadline=None)
@given(kept=st.integers(0, 2**32), clocks=st.lists(st.floats(0, 2.0**32), min_size=2, max_size=5))
def test_epochs_grow_from_host_to_host_whatever_their_clocks_say(kept: int, clocks: list[float]) -> None:
    epochs = []
    for clock in clocks:
        kept = next_generation(kept, clock)
        epochs.append(first_epoch(kept))
    assert epochs == sorted(set(epochs))
    assert epochs[-1] < 2**53, "readers of JSON can tell them apart"


def test_a_cluster_that_has_forgotten_all_begins_behind_what_readers_have_seen() -> None:
    assert next_generation(0, 2_000_000_000.0) > next_generation(0, 1_999_999_999.0) > next_generation(5, 0.0)
