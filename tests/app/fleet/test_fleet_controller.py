"""The controller on a cluster without processes: what it does when nodes and workers come, go and lie."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.fleet.simulated_cluster import Cluster
from sluice.app.fleet.controller import Controller
from sluice.app.fleet.schema import Fleet
from sluice.app.streams.events import EventLog
from sluice.errors import ConfigurationError

STEP = 0.5


def fleet(streams: int = 12, **other: object) -> Fleet:
    return fleet_of([{"source": f"test:ball?live=1&frames={i}", "name": f"cam-{i}"} for i in range(streams)], **other)


def fleet_of(entries: list[dict[str, str]], **other: object) -> Fleet:
    return Fleet.model_validate({"streams": entries, "model": {"name": "old"}, "workers": {"streams": 4}, **other})


class Run:
    """A controller and its cluster, on one clock."""

    def __init__(self, cluster: Cluster, wanted: Fleet) -> None:
        self.cluster = cluster
        self.log = EventLog(lambda: cluster.now)
        cluster.generation += 1
        self.controller = Controller(
            wanted, cluster, cluster.clock, self.log, first_epoch=cluster.generation << 20, drained=cluster.drained
        )

    def go(self, seconds: float) -> None:
        for _ in range(int(seconds / STEP)):
            self.controller.step()
            self.cluster.pass_time(STEP)

    def kinds(self) -> list[str]:
        return [event.kind for event in self.log.since()]

    def check_each_runs_once(self) -> None:
        """Every stream runs on one worker that can be reached; one cut off may have it with a smaller epoch."""
        running = self.cluster.running()
        wanted = {stream.name for stream in self.controller._fleet.streams}
        for name in wanted:
            reached = [(epoch, worker) for epoch, worker in running.get(name, []) if not worker.cut_off]
            assert len(reached) == 1, (name, [(epoch, worker.name) for epoch, worker in running.get(name, [])])
            assert all(epoch <= reached[0][0] for epoch, _ in running[name])
        assert not {n for n, who in running.items() if any(not w.cut_off for _, w in who)} - wanted


def begun(**other: object) -> Run:
    run = Run(Cluster(), fleet(**other))  # type: ignore[arg-type]
    run.go(5)
    run.check_each_runs_once()
    return run


def test_streams_are_shared_out_over_workers_on_different_nodes() -> None:
    run = begun()
    assert len(run.cluster.workers) == 3
    assert {worker.node for worker in run.cluster.workers} == {"n0", "n1", "n2"}


def test_the_streams_of_a_lost_node_run_elsewhere_in_time_and_nothing_else_moves() -> None:
    run = begun()
    before = dict(run.controller.placed)
    lost = {name for name, place in before.items() if place.worker == run.cluster.workers[0].name}
    run.cluster.kill_node(run.cluster.workers[0].node)
    run.go(15)
    run.check_each_runs_once()
    for name, place in run.controller.placed.items():
        assert (place == before[name]) == (name not in lost)
        assert place.epoch > before[name].epoch or name not in lost
    assert "worker-lost" in run.kinds()


def test_a_worker_that_is_cut_off_loses_its_streams_and_is_told_so_when_it_returns() -> None:
    run = begun()
    paused = run.cluster.workers[0]
    held = set(paused.streams)
    paused.cut_off = True
    run.go(15)
    run.check_each_runs_once()
    assert set(paused.streams) == held, "nobody can tell it"
    for name in held:  # what it still says is of an old epoch
        assert paused.streams[name].epoch < run.controller.placed[name].epoch
    paused.cut_off = False
    run.go(5)
    assert not set(paused.streams) & held or all(
        run.controller.placed[name].worker == paused.name for name in paused.streams
    )
    run.check_each_runs_once()
    assert "worker-returned" in run.kinds()


def test_a_drained_node_gives_its_streams_up_before_they_run_elsewhere() -> None:
    run = begun()
    node = run.cluster.workers[0].node
    run.controller.drain(node)
    for _ in range(30):
        run.go(STEP)
        assert all(len(who) == 1 for who in run.cluster.running().values()), "a stream runs twice"
    run.check_each_runs_once()
    assert not any(w.streams for w in run.cluster.workers if w.node == node)
    with pytest.raises(ConfigurationError, match=r"n7.*n0"):
        run.controller.drain("n7")


def test_streams_are_added_removed_and_changed() -> None:
    run = begun()
    before = dict(run.controller.placed)
    entries = [{"source": f"test:ball?live=1&frames={i}", "name": f"cam-{i}"} for i in range(2, 14)]
    entries[0]["source"] = "test:snow?live=1"
    run.controller.apply(fleet_of(entries))
    run.go(10)
    run.check_each_runs_once()
    after = run.controller.placed
    assert set(after) == {f"cam-{i}" for i in range(2, 14)}
    assert after["cam-2"].epoch > before["cam-2"].epoch
    assert all(after[f"cam-{i}"] == before[f"cam-{i}"] for i in range(3, 12))
    (worker,) = [w for w in run.cluster.workers if "cam-2" in w.streams]
    assert worker.streams["cam-2"].source == "test:snow?live=1"


def test_workers_without_streams_end() -> None:
    run = begun()
    kept = [{"source": order.source, "name": name} for name, order in run.cluster.workers[0].streams.items()]
    run.controller.apply(fleet_of(kept))
    run.go(20)
    run.check_each_runs_once()
    assert [worker.dead for worker in run.cluster.workers] == [False, True, True]


def test_a_new_controller_takes_over_and_nothing_moves() -> None:
    run = begun()
    before = dict(run.controller.placed)
    again = Run(run.cluster, fleet())
    again.go(10)
    again.check_each_runs_once()
    assert dict(again.controller.placed) == before
    run.cluster.workers[0].dead = True
    again.go(10)
    again.check_each_runs_once()
    assert max(p.epoch for p in again.controller.placed.values()) > max(p.epoch for p in before.values())


def test_a_flapping_node_is_quarantined() -> None:
    flapping = {"losses": 2, "within": 60, "quarantine": 1000}
    run = Run(
        Cluster(room=1), fleet(recovery={"flapping": flapping, "start_seconds": 20})
    )  # the others have no room for its streams
    run.go(5)
    node = run.cluster.workers[0].node
    for _ in range(2):
        for worker in run.cluster.workers:
            worker.dead = worker.dead or worker.node == node
        run.go(8)
    run.cluster.room = 2
    run.go(60)
    run.check_each_runs_once()
    assert "node-quarantined" in run.kinds()
    assert not any(w.streams for w in run.cluster.workers if w.node == node and not w.dead)


def test_too_few_resources_leave_the_rest_waiting_and_say_so() -> None:
    run = Run(Cluster(nodes=1, room=1), fleet(12))
    run.go(10)
    status = run.controller.status()
    states = [stream["state"] for stream in status["streams"]]
    assert states.count("waiting") == 8
    assert [worker["state"] for worker in status["workers"]].count("starting") == 2


def test_a_good_model_is_promoted_everywhere() -> None:
    run = begun(rollout={"rule": {"seconds": 20, "frames": 50}})
    run.controller.roll_out("new", ["cam-0"])
    run.go(3)
    assert sorted(worker.model for worker in run.cluster.workers) == ["new", "old", "old"]
    with pytest.raises(ConfigurationError, match="new"):
        run.controller.roll_out("newer")
    run.go(25)
    assert {worker.model for worker in run.cluster.workers} == {"new"}
    assert "rollout-promoted" in run.kinds()


@pytest.mark.parametrize(("model", "said"), [("missing", "no file"), ("raises", "fails on 100.0%")])
def test_a_bad_model_is_rolled_back(model: str, said: str) -> None:
    run = begun(rollout={"rule": {"seconds": 30, "frames": 20}})
    run.cluster.bad_models.add(model)
    run.controller.roll_out(model)
    run.go(15)
    assert {worker.model for worker in run.cluster.workers} == {"old"}
    (event,) = [event for event in run.log.since() if event.kind == "rollout-rolled-back"]
    assert said in event.text


def test_a_stream_nobody_runs_is_no_canary() -> None:
    run = begun()
    with pytest.raises(ConfigurationError, match="cam-99"):
        run.controller.roll_out("new", ["cam-99"])


@example(happenings=[("kill", 2), ("kill", 1), ("cut", 2)])  # the worker that takes the first's place is lost at once
@settings(max_examples=60, deadline=None)
@given(
    happenings=st.lists(
        st.tuples(st.sampled_from(["kill", "cut", "return", "drain", "undrain", "fewer", "more", "controller"]),
                  st.integers(0, 11)),
        max_size=12,
    )
)  # fmt: skip
def test_whatever_happens_every_stream_runs_once_in_the_end(happenings: list[tuple[str, int]]) -> None:
    recovery = {"flapping": {"losses": 99}, "poison": {"steady": 3, "pause": 3}}
    run = Run(Cluster(nodes=3, room=8), fleet(8, recovery=recovery))
    for what, which in happenings:
        worker = run.cluster.workers[which % len(run.cluster.workers)] if run.cluster.workers else None
        if what == "kill" and worker:
            worker.dead = True
        elif what == "cut" and worker and not worker.has_started:
            worker.dead = True  # Ray gives up an actor whose node is lost while it starts
        elif what in ("cut", "return") and worker:
            worker.cut_off = what == "cut"
        elif what in ("drain", "undrain"):
            run.controller.drain(f"n{which % 2}", what == "drain")  # n2 stays
            run.cluster.drained = run.controller.drained
        elif what in ("fewer", "more"):
            run.controller.apply(fleet(4 if what == "fewer" else 8, recovery=recovery))
        elif what == "controller":
            run = Run(run.cluster, run.controller._fleet)
        run.go(which % 5)
    run.go(80)
    run.check_each_runs_once()


def test_another_model_in_the_file_is_tried_first_and_one_that_fails_is_wanted_no_more() -> None:
    rollout = {"rule": {"seconds": 20, "frames": 50}}
    run = begun(rollout=rollout)
    run.controller.apply(fleet(model={"name": "new"}, rollout=rollout))
    run.go(3)
    assert sorted(worker.model for worker in run.cluster.workers) == ["new", "old", "old"]
    run.go(40)
    assert {worker.model for worker in run.cluster.workers} == {"new"}
    run.cluster.bad_models.add("raises")
    run.controller.apply(fleet(model={"name": "raises"}, rollout=rollout))
    run.go(80)
    assert {worker.model for worker in run.cluster.workers} == {"new"}
    assert run.controller.fleet.model.name == "new"
    assert len(run.cluster.workers) == 3, "models are changed without new workers"


def test_what_is_applied_while_a_model_is_tried() -> None:
    run = begun(rollout={"rule": {"seconds": 20, "frames": 50}})
    run.controller.roll_out("new")
    run.controller.apply(fleet(4, rollout={"rule": {"seconds": 20, "frames": 50}}))  # fewer streams are no matter
    with pytest.raises(ConfigurationError, match="rollout of new is not over"):
        run.controller.apply(fleet(4, model={"name": "newest"}))
    with pytest.raises(ConfigurationError, match="rollout of new is not over"):
        run.controller.apply(fleet(4, thresholds={"confidence": 0.9}))
    assert run.controller.fleet.thresholds.confidence != 0.9
    run.go(60)
    run.check_each_runs_once()
    assert {worker.model for worker in run.cluster.workers if not worker.dead} in ({"new"}, {"old"})


def test_what_a_worker_cannot_change_is_changed_by_new_workers_without_a_stream_that_waits() -> None:
    run = begun()
    old = list(run.cluster.workers)
    run.controller.apply(fleet(thresholds={"confidence": 0.9}))
    for _ in range(80):
        run.go(STEP)
        assert all(len(who) == 1 for who in run.cluster.running().values()), "a stream runs twice"
        missing = {f"cam-{i}" for i in range(12)} - run.cluster.running().keys()
        assert len(missing) <= 4, "those of one worker are on their way"
        assert sum(not worker.dead for worker in run.cluster.workers) <= 4, "one worker more, not a second cluster"
    run.check_each_runs_once()
    assert all(worker.dead for worker in old)
    assert sum(not worker.dead for worker in run.cluster.workers) == 3


def test_a_worker_whose_model_hangs_is_ended_and_its_streams_run_elsewhere() -> None:
    run = begun(recovery={"stuck_after": 10})
    hung = run.cluster.workers[0]
    hung.hangs_from = run.cluster.now
    run.go(25)
    assert hung.dead
    run.check_each_runs_once()
    assert any("gave no frame" in event.text for event in run.log.since())


def test_a_worker_that_finds_no_room_is_not_waited_for_when_its_streams_are_wanted_no_more() -> None:
    run = Run(Cluster(nodes=1, room=1), fleet(12))
    run.go(10)
    run.controller.apply(fleet(0))
    run.go(30)
    assert run.controller.status()["workers"] == []
    assert all(worker.dead for worker in run.cluster.workers)


def test_a_worker_that_does_not_start_in_time_is_tried_again() -> None:
    run = Run(Cluster(nodes=0), fleet(4, recovery={"start_seconds": 20}))
    run.go(30)
    assert run.cluster.workers[0].dead
    assert run.controller.status()["failures"]
    run.cluster.alive["n0"] = True
    run.go(20)
    run.check_each_runs_once()


def test_a_drained_node_stays_drained_under_a_new_controller() -> None:
    run = begun()
    run.controller.drain("n0")
    run.cluster.drained = run.controller.drained
    again = Run(run.cluster, run.controller.fleet)
    again.go(30)
    again.check_each_runs_once()
    assert not any(w.streams for w in run.cluster.workers if w.node == "n0" and not w.dead)


def test_a_new_controller_takes_a_tried_model_back() -> None:
    run = begun()
    run.controller.roll_out("new")
    run.go(3)
    assert "new" in {worker.model for worker in run.cluster.workers}
    again = Run(run.cluster, run.controller.fleet)
    again.go(10)
    assert {worker.model for worker in run.cluster.workers} == {"old"}


def test_epochs_go_on_behind_a_worker_that_the_new_controller_cannot_ask() -> None:
    run = begun()
    paused = run.cluster.workers[0]
    paused.cut_off = True
    again = Run(run.cluster, fleet())
    again.go(20)
    again.check_each_runs_once()
    for name, order in paused.streams.items():
        assert again.controller.placed[name].epoch > order.epoch


def test_a_fleet_without_a_model_has_none_to_roll_out() -> None:
    run = begun(model={"name": "none"})
    with pytest.raises(ConfigurationError, match="without a model"):
        run.controller.roll_out("new")


def test_the_next_model_is_not_blamed_for_the_last_one() -> None:
    run = begun(rollout={"rule": {"seconds": 20, "frames": 50}})
    run.controller.roll_out("missing")
    run.go(5)
    assert "rollout-rolled-back" in run.kinds()
    run.controller.roll_out("new")
    run.go(40)
    assert {worker.model for worker in run.cluster.workers} == {"new"}


def test_a_worker_that_was_too_busy_to_change_its_model_is_told_again_as_soon_as_it_can_be() -> None:
    run = begun()
    run.controller.roll_out("new")
    canary = next(worker for worker in run.cluster.workers if worker.streams)
    canary.loads_until = run.cluster.now + 4
    run.go(4)
    assert canary.model == "old"
    assert 2 <= canary.orders <= 5  # not with every step: it loads for minutes perhaps
    run.go(2)
    assert canary.model == "new"


def test_a_worker_that_loads_a_model_nobody_wants_any_more_is_given_the_old_one_again_once_it_can_take_it() -> None:
    run = begun(rollout={"rule": {"seconds": 60}})
    run.controller.roll_out("new")
    run.go(1)
    canary = next(worker for worker in run.cluster.workers if worker.model == "new")
    canary.model, canary.loads_until = "old", run.cluster.now + 65  # it took the order, and loads for long
    run.go(62)
    assert "rollout-rolled-back" in run.kinds()  # it was not running in time
    run.go(3)
    canary.model = "new"  # loaded too late
    run.go(2)
    assert canary.model == "old"


def test_a_worker_without_streams_is_no_canary_and_changes_its_model_when_it_gets_some() -> None:
    run = begun(streams=1, workers={"streams": 6, "spare": 1}, rollout={"rule": {"seconds": 20, "frames": 50}})
    spare = next(worker for worker in run.cluster.workers if not worker.streams)
    run.controller.roll_out("new")
    run.go(40)
    assert {worker.model for worker in run.cluster.workers if worker.streams} == {"new"}
    assert spare.model == "old"
    next(worker for worker in run.cluster.workers if worker.streams).dead = True
    run.go(20)
    run.check_each_runs_once()
    assert {worker.model for worker in run.cluster.workers if worker.streams and not worker.dead} == {"new"}


def states(run: Run) -> dict[str, str]:
    return {stream["name"]: stream["state"] for stream in run.controller.status()["streams"]}


@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize("spare", [0, 1])
def test_a_stream_that_ends_every_worker_is_parked_and_no_node_is_blamed(nodes: int, spare: int) -> None:
    run = Run(Cluster(nodes=nodes, room=6), fleet(12, workers={"streams": 4, "spare": spare}))
    run.cluster.fatal.add("cam-5")
    run.go(300)
    assert "node-quarantined" not in run.kinds()
    assert states(run)["cam-5"] == "failed"
    assert [name for name, state in states(run).items() if state != "playing"] == ["cam-5"]
    (told,) = {event.stream for event in run.log.since() if event.kind == "stream-parked"}
    assert told == "cam-5"
    found = next(s for s in run.controller.status()["streams"] if s["name"] == "cam-5")
    assert "workers that ran it died; parked" in found["reason"]
    assert found["parked"] > 0


def test_a_parked_stream_is_tried_again_more_and_more_rarely_and_plays_once_it_is_harmless() -> None:
    run = Run(Cluster(), fleet(12, recovery={"poison": {"steady": 20, "pause": 30}}))
    run.cluster.fatal.add("cam-5")
    run.go(1000)
    parked = [event.time for event in run.log.since() if event.kind == "stream-parked"]
    gaps = [after - before for before, after in pairwise(parked)]
    assert len(gaps) >= 3
    assert all(after > 1.5 * before for before, after in pairwise(gaps))
    run.cluster.fatal.clear()
    run.go(1000)
    run.check_each_runs_once()
    assert set(states(run).values()) == {"playing"}


def test_a_parked_stream_that_is_changed_is_tried_at_once() -> None:
    run = Run(Cluster(), fleet(12))
    run.cluster.fatal.add("cam-5")
    run.go(300)
    assert states(run)["cam-5"] == "failed"
    run.cluster.fatal.clear()
    entries = [{"source": f"test:ball?live=1&frames={i + 100 * (i == 5)}", "name": f"cam-{i}"} for i in range(12)]
    run.controller.apply(fleet_of(entries))
    run.go(10)
    run.check_each_runs_once()


def test_two_streams_that_end_every_worker_are_both_found() -> None:
    run = Run(Cluster(room=6), fleet(12, recovery={"poison": {"steady": 20, "pause": 100}}))
    run.cluster.fatal |= {"cam-2", "cam-3"}
    run.go(400)
    assert {name for name, state in states(run).items() if state == "failed"} == {"cam-2", "cam-3"}
    assert sum(state == "playing" for state in states(run).values()) == 10
    assert "node-quarantined" not in run.kinds()


def test_a_node_that_ends_its_workers_is_blamed_and_not_their_streams() -> None:
    flapping = {"losses": 3, "within": 60, "quarantine": 1000}
    run = Run(Cluster(room=1), fleet(recovery={"flapping": flapping, "start_seconds": 20}))
    for _ in range(40):
        for worker in run.cluster.workers:
            worker.dead = worker.dead or worker.node == "n1"
        run.go(2)
    run.cluster.room = 2
    run.go(120)
    assert "node-quarantined" in run.kinds()
    assert "stream-parked" not in run.kinds()
    run.check_each_runs_once()


def test_a_worker_that_died_is_replaced_on_another_node_where_there_is_room() -> None:
    run = begun()
    died = run.cluster.workers[0]
    died.dead = True
    run.go(5)
    assert run.cluster.workers[-1].node != died.node
    run.check_each_runs_once()
    assert not {"node-quarantined", "stream-parked"} & set(run.kinds())


def test_a_node_without_the_model_is_named_and_the_workers_start_elsewhere() -> None:
    run = Run(Cluster(), fleet(12))
    run.cluster.broken_nodes.add("n1")
    run.go(60)
    run.check_each_runs_once()
    assert all("on node n1: there is no file" in why for why in run.controller.status()["failures"].values())
    assert all(worker.dead for worker in run.cluster.workers if worker.node == "n1")
    run.cluster.broken_nodes |= {"n0", "n2"}
    for worker in run.cluster.workers:
        worker.dead = True
    run.go(100)
    run.cluster.broken_nodes.clear()
    run.go(100)
    run.check_each_runs_once()


def test_a_worker_that_hangs_when_it_is_told_something_is_ended() -> None:
    run = begun(recovery={"stuck_after": 10})
    hung = run.cluster.workers[0]
    hung.hangs_in = "sync"
    kept = [{"source": f"test:ball?live=1&frames={i}", "name": f"cam-{i}"} for i in range(1, 12)]
    changed = [{**entry, "source": "test:snow?live=1"} for entry in kept]
    run.controller.apply(fleet_of(changed, recovery={"stuck_after": 10}))
    run.go(30)
    assert hung.dead
    run.check_each_runs_once()


def test_a_worker_that_hangs_in_stop_is_ended() -> None:
    run = begun()
    for worker in run.cluster.workers:
        worker.hangs_in = "stop"
    run.controller.end()
    run.go(20)
    assert all(worker.dead for worker in run.cluster.workers)
    assert run.controller.status()["workers"] == []


def test_the_last_node_that_is_drained_keeps_its_streams_until_there_is_another() -> None:
    run = Run(Cluster(nodes=1), fleet(8))
    run.go(5)
    assert run.controller.drain("n0") == (8, 0)
    run.go(30)
    run.check_each_runs_once()
    run.cluster.alive["n1"] = True
    run.controller.apply(fleet(8, recovery={"start_seconds": 20}))
    run.go(60)
    run.check_each_runs_once()
    assert not any(worker.streams for worker in run.cluster.workers if worker.node == "n0" and not worker.dead)


def test_rules_that_are_changed_count_from_then_on() -> None:
    run = Run(Cluster(), Fleet(name="sluice"))  # as a host begins
    run.controller.apply(fleet(12, recovery={"flapping": {"losses": 1, "within": 60, "quarantine": 1000}}))
    run.go(5)
    next(worker for worker in run.cluster.workers if worker.node == "n0").dead = True
    run.go(5)
    assert "node-quarantined" in run.kinds()


def test_a_stream_that_a_worker_could_not_add_is_tried_again_and_told_once() -> None:
    run = begun()
    for worker in run.cluster.workers:
        worker.refuses = {"cam-3"}  # it still closes it, say
    entries = [{"source": f"test:ball?live=1&frames={i}", "name": f"cam-{i}"} for i in range(12)]
    entries[3]["source"] = "test:snow?live=1"
    run.controller.apply(fleet_of(entries))
    run.go(70)
    assert states(run)["cam-3"] == "failed"
    assert run.kinds().count("stream-refused") == 1
    for worker in run.cluster.workers:
        worker.refuses = set()
    run.go(35)
    run.check_each_runs_once()
    assert states(run)["cam-3"] == "playing"
