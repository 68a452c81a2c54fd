"""The fleet's page, its numbers and who may see them; the fleet is one of a simulated cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra `fleet` is not installed")
from fastapi.testclient import TestClient

from app.fleet.test_fleet_controller import Run, begun
from sluice.app.fleet.view import FleetView
from sluice.app.fleet.web import http_entry, make_app
from sluice.app.serve.gate import Access
from sluice.errors import ConfigurationError, SluiceError

TOKEN = "a-token-of-some-length"


def client(run: Run, token: str | None = None) -> TestClient:
    view = FleetView(run.controller.status, run.cluster.clock)
    return TestClient(make_app(view, Access(token, ())), base_url="http://localhost:8090")


def test_the_numbers_tell_of_every_stream_and_node() -> None:
    run = begun()
    run.controller.drain("n1")
    run.go(3)
    text = client(run).get("/metrics").text
    lines = text.splitlines()
    assert "sluice_fleet_up 1.0" in lines
    assert 'sluice_fleet_streams{state="playing"} 12.0' in lines
    assert sum(line.startswith("sluice_fleet_stream_playing{") and line.endswith(" 1.0") for line in lines) == 12
    assert 'sluice_fleet_node_drained{node="n1",node_name="n1"} 1.0' in lines
    assert 'sluice_fleet_node_drained{node="n0",node_name="n0"} 0.0' in lines
    streams = [line for line in lines if line.startswith("sluice_fleet_node_streams{")]
    assert sum(float(line.rpartition(" ")[2]) for line in streams) == 12


def test_the_page_and_the_fleet_as_json() -> None:
    run = begun()
    browser = client(run)
    assert "fleet.js" in browser.get("/").text
    for path in (
        "/page/fleet/fleet.js",
        "/page/fleet/fleet.css",
        "/page/style.css",
        "/page/api.js",
        "/page/dialogs.js",
    ):
        assert browser.get(path).status_code == 200, path
    found = browser.get("/api/fleet").json()
    assert [stream["name"] for stream in found["streams"]] == [f"cam-{i}" for i in range(12)]
    assert "test:ball" not in browser.get("/api/fleet").text, "sources may hold passwords"


def test_a_token_is_asked_for_by_all_but_the_page() -> None:
    browser = client(begun(), TOKEN)
    assert browser.get("/").status_code == 200
    for path in ("/api/fleet", "/metrics"):
        assert browser.get(path).status_code == 401
        assert browser.get(path, headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert browser.post("/api/session", json={"token": "another"}).status_code == 401
    assert browser.post("/api/session", json={"token": TOKEN}).status_code == 204
    assert browser.get("/api/fleet").status_code == 200, "by the cookie"
    assert browser.get("/api/fleet", headers={"Host": "elsewhere.example"}).status_code == 421


def test_a_fleet_that_does_not_answer_is_said_to_be_down() -> None:
    def fail() -> dict[str, object]:
        raise SluiceError("the fleet's host does not answer")

    browser = TestClient(make_app(FleetView(fail), Access(None, ())), base_url="http://localhost:8090")
    answer = browser.get("/api/fleet")
    assert (answer.status_code, answer.json()["detail"]) == (503, "the fleet's host does not answer")
    assert "sluice_fleet_up 0.0" in browser.get("/metrics").text
    assert browser.get("/healthz").status_code == 200


def test_other_machines_are_only_served_with_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLUICE_TOKEN", raising=False)
    assert http_entry("127.0.0.1", 0, None, ()).token is None
    with pytest.raises(ConfigurationError, match="no token"):
        http_entry("0.0.0.0", 0, None, ())
    file = tmp_path / "token"
    file.write_text("short\n")
    with pytest.raises(ConfigurationError, match="too short"):
        http_entry("0.0.0.0", 0, file, ())
    file.write_text(TOKEN + "\n")
    assert http_entry("0.0.0.0", 0, file, ()).token is not None
    with pytest.raises(ConfigurationError, match="nothing"):
        http_entry("0.0.0.0", 0, tmp_path / "nothing", ())
