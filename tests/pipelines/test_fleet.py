"""A fleet on a real Ray cluster of this machine: a head and three nodes, each with processes of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

pytest.importorskip("ray", reason="the extra `fleet` is not installed")
import ray
import yaml
from ray.cluster_utils import Cluster
from typer.testing import CliRunner

from killable import free_port
from sluice.app.cli import app
from sluice.app.fleet.connection import STARTING, ask, connected, host_of, read_fleet
from sluice.app.fleet.fence import Fence
from sluice.app.fleet.view import FleetView
from sluice.app.fleet.web import http_entry, serve_view
from sluice.errors import SluiceError
from waiting import until

pytestmark = pytest.mark.timeout(400)
STREAMS = 30
SECRET = "open-sesame"
PATIENCE = 120.0  # for what has no time limit of its own; this machine may be busy
SMALL = {"object_store_memory": 80 << 20, "include_dashboard": False}
MODEL = """
import os
import time

from sluice import Detections


class Finds:
    def infer(self, frames):
        return [Detections([[0, 0, 8, 8]], [0.9], [0]) for _ in frames]


class FindsToo(Finds):
    pass


class Later(Finds):
    calls = 0

    def infer(self, frames):
        self.calls += 1
        if self.calls > 8:
            self.fail()
        return super().infer(frames)


class Dies(Finds):
    def infer(self, frames):
        if any(frame.rgb()[..., 0].mean() > 200 for frame in frames):  # the red stream
            os._exit(7)
        return super().infer(frames)


class Raises(Later):
    def fail(self):
        raise ValueError("nothing can be found")


class Hangs(Later):
    def fail(self):
        time.sleep(1000)
"""


class Messages:
    """Reads what all workers have written, as it comes, through a `Fence`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        self.fence = Fence()
        self.passed: dict[str, int] = {}
        self.files: dict[tuple[str, int], set[str]] = {}

    def read(self) -> None:
        for path in sorted(self._folder.glob("*.jsonl")):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                whole, newline, _ = file.read().rpartition(b"\n")
            self._read[path] = self._read.get(path, 0) + len(whole) + len(newline)
            for line in whole.splitlines():
                message = json.loads(line)
                self.files.setdefault((message["name"], message["epoch"]), set()).add(path.name)
                if self.fence.passes(message):
                    self.passed[message["name"]] = message["epoch"]

    def check(self) -> None:
        """No two workers have told of a stream with the same epoch."""
        self.read()
        assert {key: files for key, files in self.files.items() if len(files) > 1} == {}


class Site:
    """The cluster and the fleet's file."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self.folder, self.cluster = folder, cluster
        (folder / "messages").mkdir()
        (folder / "finds.py").write_text(MODEL)
        self.messages = Messages(folder / "messages")
        self.nodes: dict[str, Any] = {}
        for _ in range(3):
            self.add_node()

    def add_node(self) -> None:
        try:
            node = self.cluster.add_node(num_cpus=3, **SMALL)
        except Exception:  # Ray gives a node 30 s to start, which a busy machine may need
            node = self.cluster.add_node(num_cpus=3, **SMALL)
        self.nodes[node.node_id] = node

    def model(self, name: str) -> str:
        return f"{self.folder}/finds.py:{name}"

    def file(self, streams: int = STREAMS, **other: Any) -> Path:
        source = "test:ball?live=1&fps=2&size=160x120&frames=0"
        path = self.folder / "fleet.yaml"
        described = {
            "name": "yard",
            "address": self.cluster.address,
            "streams": [{"name": f"cam-{i}", "source": source} for i in range(streams)],
            "model": {"name": self.model("Finds")},
            "tracker": {"name": "none"},
            "messages": str(self.folder / "messages" / "{worker}.jsonl"),
            "workers": {"streams": 15, "spare": 1, "resources": {"cpus": 1}},
            "recovery": {
                "heartbeat": 0.5,
                "lost_after": 5,
                "stuck_after": 8,
                "flapping": {"losses": 100, "within": 60, "quarantine": 60},
            },
            "rollout": {"rule": {"seconds": 10, "frames": 20, "slower": 100}},
            **other,
        }
        path.write_text(yaml.safe_dump(described))
        return path

    def status(self) -> dict[str, Any]:
        return ask(host_of("yard").status.remote())  # type: ignore[no-any-return]

    def events(self) -> list[dict[str, Any]]:
        return ask(host_of("yard").events.remote())["events"]  # type: ignore[no-any-return]

    def told(self, kind: str) -> list[str]:
        return [event["text"] for event in self.events() if event["kind"] == kind]

    def wait(self, what: Callable[[dict[str, Any]], bool], seconds: float = PATIENCE) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.messages.read()
            try:
                found = self.status()
            except SluiceError:  # the host is being restarted
                continue
            if what(found):
                return found
            time.sleep(0.2)
        raise AssertionError(json.dumps(self.status(), indent=1) + "\n" + json.dumps(self.events()[-20:], indent=1))

    def begin(self, **other: Any) -> dict[str, Any]:
        """Bring the fleet to where every stream plays."""
        run("apply", str(self.file(**other)))
        found = self.wait(
            lambda status: (
                plays(status)
                and status["rollout"] is None
                and sum(worker["state"] == "up" for worker in status["workers"]) >= 3
            )
        )
        assert len(found["streams"]) == other.get("streams", STREAMS)
        return found

    def plays_elsewhere(self, before: dict[str, Any], worker: str) -> Callable[[dict[str, Any]], bool]:
        """Whether the streams that a worker had play on others."""
        held = {stream["name"] for stream in before["streams"] if stream["worker"] == worker}
        assert held
        return lambda status: (
            plays(status) and all(stream["worker"] != worker for stream in status["streams"] if stream["name"] in held)
        )


def plays(status: dict[str, Any]) -> bool:
    return all(stream["state"] == "playing" for stream in status["streams"])


def places(status: dict[str, Any]) -> dict[str, tuple[str, int]]:
    return {stream["name"]: (stream["worker"], stream["epoch"]) for stream in status["streams"]}


def models(status: dict[str, Any]) -> set[str]:
    """What the workers with streams run."""
    return {worker["model"] for worker in status["workers"] if worker["streams"]}


def busiest(status: dict[str, Any]) -> dict[str, Any]:
    """A worker with streams."""
    return max((w for w in status["workers"] if w["state"] == "up"), key=lambda worker: len(worker["streams"]))


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["fleet", *words])
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture(scope="module")
def redis() -> Iterator[str | None]:
    """Where the head keeps what it knows; None where there is no Redis."""
    if shutil.which("redis-server") is None:
        yield None
        return
    port = free_port()
    server = subprocess.Popen(
        ["redis-server", "--port", str(port), "--save", "", "--bind", "127.0.0.1"], stdout=subprocess.DEVNULL
    )
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, redis: str | None) -> Iterator[Site]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        if redis is not None:
            patch.setenv("RAY_REDIS_ADDRESS", redis)
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **SMALL})
        try:
            with connected(cluster.address):
                yield Site(tmp_path_factory.mktemp("fleet"), cluster)
        finally:
            ray.shutdown()
            cluster.shutdown()


def test_what_the_cluster_cannot_do_is_refused_and_nothing_of_it_is_begun(site: Site) -> None:
    text = site.file().read_text()
    (site.folder / "bad.yaml").write_text(text + "cheese: 1\nrecovery: {heartbeat: 9, lost_after: 2}\n")
    said = run("apply", str(site.folder / "bad.yaml"), code=2)
    assert "bad.yaml, line" in said
    assert "cheese" in said
    lacking = str(site.file(model={"name": f"{site.folder}/gone.py:Finds"}))

    def told_of_each() -> bool:
        """Whether all nodes answer: those still starting processes on a busy machine are left out, and said to be."""
        said = CliRunner().invoke(app, ["fleet", "apply", lacking, "--check"]).output
        return said.count("gone.py") >= 3

    until(told_of_each, "the names of all nodes that lack the model", PATIENCE)
    assert "gone.py" in run("apply", lacking, code=2)
    said = run("apply", str(site.file(workers={"streams": 2, "resources": {"cpus": 2}})), code=2)
    assert "room for 3" in said
    assert "no fleet 'yard'" in run("status", "--fleet", "yard", "--address", site.cluster.address, code=2)
    assert ray.util.list_named_actors(all_namespaces=True) == []


def test_every_stream_plays_and_tells_of_itself(site: Site) -> None:
    found = site.begin()
    assert {worker["node"] for worker in found["workers"]} <= set(site.nodes)
    site.wait(lambda _: len(site.messages.passed) == STREAMS)
    site.messages.check()
    assert "30 playing" in run("status", "--fleet", "yard", "--address", site.cluster.address)
    server = serve_view(FleetView(site.status), http_entry("127.0.0.1", 0, None, ()))
    try:
        with urlopen(f"{server.url}/metrics", timeout=PATIENCE) as answer:
            lines = answer.read().decode().splitlines()
    finally:
        server.stop()
    assert sum(line.startswith("sluice_fleet_stream_playing{") and line.endswith(" 1.0") for line in lines) == STREAMS
    assert sum(line.startswith("sluice_fleet_node_up{") for line in lines) == 4


def test_a_file_that_is_refused_leaves_a_fleet_as_it_is(site: Site) -> None:
    before = places(site.begin())
    run("apply", str(site.file(streams=40, workers={"streams": 2, "resources": {"cpus": 2}})), code=2)
    run("apply", str(site.file(streams=4, model={"name": f"{site.folder}/gone.py:Finds"})), code=2)
    time.sleep(1)
    assert places(site.status()) == before


def test_streams_are_added_and_removed_and_one_that_is_wrong_fails_alone(site: Site) -> None:
    before = places(site.begin())
    file = site.file()
    described = yaml.safe_load(file.read_text())
    described["streams"][:2] = [
        {"name": "gone", "source": str(site.folder / "gone.mp4")},
        {"name": "shut", "source": f"rtsp://user:{SECRET}@127.0.0.1:1/x"},
    ]
    file.write_text(yaml.safe_dump(described))
    run("apply", str(file))
    wrong = ("gone", "shut")
    site.wait(
        lambda status: all(
            stream["state"] not in ("playing", "placed", "waiting", "connecting")
            if stream["name"] in wrong
            else stream["state"] == "playing"
            for stream in status["streams"]
        )
    )
    time.sleep(2)
    after = places(site.status())
    assert {name: place for name, place in after.items() if name not in wrong} == dict(list(before.items())[2:])
    assert sum(event["kind"] == "worker-lost" for event in site.events()) == 0
    logs = run("logs", "--fleet", "yard", "--address", site.cluster.address)
    assert "shut" in logs
    folder = Path(site.cluster.head_node.get_session_dir_path(), "logs")
    assert not [path for path in folder.rglob("*") if path.is_file() and SECRET in path.read_text(errors="replace")]
    assert SECRET not in logs + json.dumps(site.status()) + str(ray.util.list_named_actors(all_namespaces=True))


def test_a_node_that_is_killed_loses_its_streams_to_others(site: Site) -> None:
    before = site.begin()
    worker = busiest(before)
    killed = time.monotonic()
    site.cluster.remove_node(site.nodes.pop(worker["node"]), allow_graceful=False)
    after = site.wait(site.plays_elsewhere(before, worker["name"]), 15)
    assert time.monotonic() - killed < 15
    for name, place in places(after).items():
        assert (place == places(before)[name]) == (places(before)[name][0] != worker["name"])
    site.messages.check()
    site.add_node()


def test_a_node_that_is_paused_is_fenced_off_when_it_returns(site: Site) -> None:
    before = site.begin()
    worker = busiest(before)
    pids = [worker["pid"], site.nodes[worker["node"]].all_processes["raylet"][0].process.pid]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        after = site.wait(site.plays_elsewhere(before, worker["name"]), 15)
        moved = {name: epoch for name, (_, epoch) in places(after).items() if places(before)[name][0] == worker["name"]}
        site.wait(lambda _: all(site.messages.passed.get(name) == epoch for name, epoch in moved.items()))
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    site.wait(lambda status: all(w["name"] != worker["name"] or w["state"] != "lost" for w in status["workers"]))
    site.wait(
        lambda status: (
            not set(moved) & {s for w in status["workers"] if w["name"] == worker["name"] for s in w["streams"]}
        )
    )
    for name, epoch in moved.items():
        assert site.messages.passed[name] >= epoch
    site.messages.check()


def test_a_fleet_goes_on_when_its_host_dies(site: Site) -> None:
    before = site.begin()
    os.kill(before["host"]["pid"], signal.SIGKILL)
    after = site.wait(lambda status: status["host"]["pid"] != before["host"]["pid"] and plays(status))
    assert places(after) == places(before)
    assert after["host"]["generation"] > before["host"]["generation"]
    site.messages.check()


def test_a_model_that_fails_is_rolled_back_and_one_that_works_is_promoted(site: Site) -> None:
    before = site.begin()
    at = ("--fleet", "yard", "--address", site.cluster.address)
    for name, reason in (("Raises", "fails on"), ("Absent", "could not load it")):
        run("roll-out", site.model(name), "--canary", "cam-3", *at)
        site.wait(lambda status: status["rollout"] is None)
        assert reason in site.told("rollout-rolled-back")[-1]
        site.wait(lambda status: models(status) == {site.model("Finds")})
    run("roll-out", site.model("FindsToo"), *at)
    site.wait(lambda status: models(status) == {site.model("FindsToo")})
    assert places(site.status()) == places(before), "no stream has moved"


def test_a_model_that_hangs_is_rolled_back_and_its_worker_replaced(site: Site) -> None:
    site.begin(model={"name": site.model("FindsToo")})
    before = site.begin(model={"name": site.model("FindsToo")}, rollout={"rule": {"seconds": 60, "frames": 20}})
    run("roll-out", site.model("Hangs"), "--canary", "cam-3", "--fleet", "yard", "--address", site.cluster.address)
    canary = places(before)["cam-3"][0]
    site.wait(lambda status: status["rollout"] is None)
    assert "is lost" in site.told("rollout-rolled-back")[-1]
    assert any(canary in text and "no frame" in text for text in site.told("worker-lost"))
    site.wait(site.plays_elsewhere(before, canary))
    site.messages.check()


def test_two_who_begin_a_fleet_at_once_begin_one(site: Site) -> None:
    fleets = [read_fleet(site.file(streams=count, name="twin")) for count in (2, 3)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda fleet: ask(host_of("twin", create=True).apply.remote(fleet), STARTING), fleets))
    deadline = time.monotonic() + PATIENCE
    while not plays(found := ask(host_of("twin").status.remote())) and time.monotonic() < deadline:
        time.sleep(0.5)
    assert plays(found)
    assert len(found["streams"]) in (2, 3)
    assert sum(name == "twin.host" for name in ray.util.list_named_actors()) == 1
    run("end", "--fleet", "twin", "--address", site.cluster.address)
    assert plays(site.status()), "the other fleet is not touched"


def test_a_drained_node_holds_no_stream(site: Site) -> None:
    before = site.begin(model={"name": site.model("FindsToo")})
    worker = busiest(before)
    names = {node["id"]: node["name"] for node in before["nodes"]}
    assert "there is no node" in run("drain", "x", "--fleet", "yard", "--address", site.cluster.address, code=2)
    run("drain", worker["node"], "--fleet", "yard", "--address", site.cluster.address)
    assert names[worker["node"]]
    site.wait(site.plays_elsewhere(before, worker["name"]))
    site.messages.check()
    run("drain", worker["node"], "--undo", "--fleet", "yard", "--address", site.cluster.address)


def test_workers_go_on_without_the_head(site: Site, redis: str | None) -> None:
    if redis is None:
        pytest.skip("redis-server is not installed: without it Ray's head forgets all when it ends")
    before = site.begin(model={"name": site.model("FindsToo")})
    site.cluster.head_node.kill_gcs_server()
    try:
        frames = len(read_all(site))
        time.sleep(6)
        assert len(read_all(site)) > frames + STREAMS, "messages go on"
    finally:
        site.cluster.head_node.start_gcs_server()
    after = site.wait(plays)
    assert places(after) == places(before)
    site.begin(streams=20, model={"name": site.model("FindsToo")})
    site.messages.check()


def read_all(site: Site) -> list[str]:
    return [line for path in (site.folder / "messages").glob("*.jsonl") for line in path.read_text().splitlines()]


def test_a_fleet_ends_and_leaves_no_worker(site: Site) -> None:
    site.begin(streams=20, model={"name": site.model("FindsToo")})
    run("end", "--fleet", "yard", "--address", site.cluster.address)
    deadline = time.monotonic() + PATIENCE
    while ray.util.list_named_actors(all_namespaces=True) and time.monotonic() < deadline:
        time.sleep(0.5)
    assert ray.util.list_named_actors(all_namespaces=True) == []


def test_a_stream_that_ends_every_worker_is_parked_by_name(site: Site) -> None:
    file = site.file(
        streams=6,
        model={"name": site.model("Dies")},
        workers={"streams": 3, "spare": 1, "resources": {"cpus": 1}},
        recovery={"heartbeat": 0.3, "poison": {"steady": 8, "pause": 600}},
    )
    described = yaml.safe_load(file.read_text())
    described["streams"][0]["source"] = "test:red?live=1&fps=2&size=160x120&frames=0"
    file.write_text(yaml.safe_dump(described))
    run("apply", str(file))
    found = site.wait(
        lambda status: (
            [s["state"] for s in status["streams"]] == ["failed"] + 5 * ["playing"]
            and all(worker["state"] == "up" for worker in status["workers"])
        ),
        180,
    )
    reason = found["streams"][0]["reason"]
    assert "workers that ran it died; parked" in reason
    assert not any(node["quarantined"] for node in found["nodes"])
    assert not site.told("node-quarantined")
    at = ("--fleet", "yard", "--address", site.cluster.address)
    assert f"stream cam-0: {reason[:30]}" in run("status", *at)
    assert "stream-parked" in run("logs", "cam-0", *at)
    run("end", *at)
