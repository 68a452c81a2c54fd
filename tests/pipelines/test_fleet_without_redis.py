"""A Ray head that keeps nothing: workers go on without it, and the fleet is begun anew when it comes back."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="the extra `fleet` is not installed")
from ray.cluster_utils import Cluster

from sluice.app.fleet.fence import Fence
from waiting import until

pytestmark = pytest.mark.timeout(600)
PATIENCE = 240.0  # this machine may be busy
SMALL = {"object_store_memory": 80 << 20, "include_dashboard": False}
# A process of its own: one that is connected to a head that has gone is ended by Ray.
APPLY = """
import json, sys, time
from sluice.app.fleet.connection import STARTING, ask, connected, host_of
from sluice.app.fleet.schema import Fleet

address, folder = sys.argv[1:]
source = "test:ball?live=1&fps=5&size=160x120&frames=0"
fleet = Fleet.model_validate({
    "name": "yard",
    "streams": [{"name": f"cam-{i}", "source": source} for i in range(2)],
    "tracker": {"name": "none"},
    "messages": folder + "/{worker}.jsonl",
})
with connected(address):
    host = host_of("yard", create=True)
    ask(host.apply.remote(fleet), STARTING)
    found = {"streams": [{"state": "unknown"}]}
    while any(stream["state"] != "playing" for stream in found["streams"]):
        time.sleep(0.3)
        found = ask(host.status.remote())
print(json.dumps(found))
"""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "3600")
    monkeypatch.delenv("RAY_REDIS_ADDRESS", raising=False)
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **SMALL})
    try:
        yield made
    finally:
        made.shutdown()


def apply(cluster: Cluster, folder: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", APPLY, cluster.address, str(folder)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def messages(folder: Path) -> list[dict[str, Any]]:
    texts = [path.read_text() for path in folder.glob("*.jsonl")]
    return [json.loads(line) for text in texts for line in text.splitlines(keepends=True) if line.endswith("\n")]


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_workers_go_on_without_the_head_and_a_fleet_begun_anew_is_newer(cluster: Cluster, tmp_path: Path) -> None:
    node = cluster.add_node(num_cpus=2, **SMALL)
    before = apply(cluster, tmp_path)
    worker = before["workers"][0]["pid"]
    cluster.head_node.kill_gcs_server()
    count = len(messages(tmp_path))
    until(lambda: len(messages(tmp_path)) > count + 30, seconds=PATIENCE)
    assert runs(worker)
    assert runs(before["host"]["pid"])

    # What the docs advise: end Ray on every node, begin anew, and apply. Readers of messages see that these are newer.
    cluster.remove_node(node, allow_graceful=False)
    until(lambda: not runs(worker), seconds=PATIENCE)
    old = messages(tmp_path)
    cluster.shutdown()
    begun_anew = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, **SMALL})
    try:
        after = apply(begun_anew, tmp_path)
    finally:
        begun_anew.shutdown()
    epochs = {stream["name"]: stream["epoch"] for stream in after["streams"]}
    assert all(stream["epoch"] < epochs[stream["name"]] for stream in before["streams"])
    fence = Fence()
    for name, epoch in epochs.items():
        assert fence.passes({"name": name, "epoch": epoch})
    assert not any(fence.passes(message) for message in old)
