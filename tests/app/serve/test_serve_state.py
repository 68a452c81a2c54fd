"""What the API changed counts after a restart, and what did not work does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from serve_site import StartSite

from sluice.app.serve.schema import Thresholds
from sluice.app.serve.state import State, StateFile
from sluice.app.streams import StreamPolicy
from sluice.errors import ConfigurationError
from waiting import until

STREAMS = "streams: [{name: a, source: 'test:ball'}, {name: b, source: 'test:snow'}]"


def test_a_restart_begins_with_the_streams_as_they_were(start_site: StartSite) -> None:
    first = start_site(STREAMS)
    with first.client() as client:
        client.post("/api/streams", json={"source": "rtsp://u:secret@cam/1", "name": "c", "policy": {"fps": 4}})
        client.post("/api/streams", json={"source": "test:black", "name": "d"})
        client.patch("/api/streams/a", json={"policy": {"loop": True}})
        client.patch("/api/streams/c", json={"policy": {"latency_ms": 500}})
        client.delete("/api/streams/b")
        client.delete("/api/streams/d")
    second = start_site(STREAMS)
    assert second.engine.sources == {"a": "test:ball", "c": "rtsp://u:secret@cam/1"}
    assert second.engine.policies["a"] == StreamPolicy(loop=True)
    assert second.engine.policies["c"] == StreamPolicy(fps=4, latency_ms=500)
    with second.client() as client:  # what was taken out may come back
        assert client.post("/api/streams", json={"source": "test:snow", "name": "b"}).status_code == 201
    assert list(start_site(STREAMS).engine.sources) == ["a", "c", "b"]


def test_only_a_model_and_thresholds_that_work_are_kept(start_site: StartSite) -> None:
    site = start_site(STREAMS)
    with site.client() as client:
        client.post("/api/models/swap", json={"model": "people"})
        client.patch("/api/thresholds", json={"confidence": 0.3})
        client.patch("/api/thresholds", json={"classes": ["unicorn"]})
        until(lambda: client.get("/api/events").json()["events"][-1]["kind"] == "model-refused")

    path, thresholds = site.folder / "state.json", {"confidence": 0.3, "iou": None, "classes": None}

    def kept() -> dict[str, object]:
        return json.loads(path.read_text()) if path.exists() else {}

    until(lambda: kept().get("thresholds") == thresholds, "what has worked is written, by another thread")
    assert kept()["model"] == "people"


def test_a_stream_that_cannot_be_added_any_more_keeps_nobody_from_starting(start_site: StartSite) -> None:
    site = start_site("streams: [{name: bad, source: 'wrong:x'}, {name: good, source: 'test:ball'}]")
    assert list(site.engine.sources) == ["good"]
    with site.client() as client:
        events = client.get("/api/events").json()["events"]
        assert [(event["kind"], event["stream"]) for event in events][:1] == [("stream-not-added", "bad")]
        assert client.delete("/api/streams/bad").status_code == 204


def test_a_state_that_cannot_be_written_is_told_and_hurts_nobody(start_site: StartSite, tmp_path: Path) -> None:
    site = start_site(STREAMS)
    (tmp_path / "state.json").mkdir()
    with site.client() as client:
        assert client.post("/api/streams", json={"source": "test:black", "name": "c"}).status_code == 201
        assert client.get("/api/events").json()["events"][-1]["kind"] == "state-not-kept"
    assert list(tmp_path.iterdir()) == [tmp_path / "state.json"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": "x"}', '{"colour": 1}', '{"added": [{"name": "a"}]}', "\x00"]
)
def test_a_damaged_state_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=r"state\.json.*move it away"):
        StateFile(path).read()


def test_a_state_is_read_as_it_was_written_and_replaced_as_a_whole(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "state.json")
    assert file.read() == State()
    state = State(removed=["b"], policies={"a": StreamPolicy(retry=None)}, thresholds=Thresholds(classes=("x", 1)))
    inode = None
    for _ in range(2):
        file.write(state)
        assert file.read() == state
        assert (tmp_path / "state.json").stat().st_ino != inode
        inode = (tmp_path / "state.json").stat().st_ino
    StateFile(None).write(state)
