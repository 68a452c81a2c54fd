"""Streams, models, thresholds, events and pictures through the REST API."""

from __future__ import annotations

import json
import threading
import time

import httpx
import pytest
from serve_site import Site, StartSite

from sluice.app.serve.answers import Answers
from waiting import until


def test_streams_are_listed_added_changed_restarted_and_removed(site: Site) -> None:
    with site.client() as client:
        (first,) = client.get("/api/streams").json()["streams"]
        assert (first["name"], first["state"], first["uri"], first["policy"]["delivery"]) == (
            "lobby", "playing", "test:ball?live=1", "auto",
        )  # fmt: skip
        added = client.post("/api/streams", json={"source": "rtsp://u:pw@cam/1", "name": "gate", "policy": {"fps": 5}})
        assert (added.status_code, added.headers["Location"]) == (201, "/api/streams/gate")
        assert (added.json()["uri"], added.json()["policy"]["fps"]) == ("rtsp://cam/1", 5)
        assert site.engine.sources["gate"] == "rtsp://u:pw@cam/1"
        changed = client.patch("/api/streams/gate", json={"policy": {"loop": True, "retry": {"limit": 3}}})
        assert (changed.json()["policy"]["fps"], changed.json()["policy"]["loop"]) == (5, True)
        assert site.engine.policies["gate"].retry.limit == 3
        assert client.post("/api/streams/gate/restart").status_code == 202
        assert site.engine.restarts == ["gate"]
        assert client.delete("/api/streams/gate").status_code == 204
        assert [stream["name"] for stream in client.get("/api/streams").json()["streams"]] == ["lobby"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "said"),
    [
        ("GET", "/api/streams/nobody", None, 404, "there is no stream 'nobody'; there are: lobby"),
        ("DELETE", "/api/streams/nobody", None, 404, "there are: lobby"),
        ("POST", "/api/streams/nobody/restart", None, 404, "there are: lobby"),
        ("PATCH", "/api/streams/nobody", {"policy": {}}, 404, "there are: lobby"),
        ("POST", "/api/streams", {"source": "test:ball", "name": "lobby"}, 409, "choose another name"),
        ("POST", "/api/streams", {"source": "test:ball", "name": "tiled"}, 409, "choose another name"),
        ("POST", "/api/streams", {"source": "wrong://x", "name": "a"}, 422, "unknown scheme"),
        ("POST", "/api/streams", {"source": "test:ball", "name": "a b"}, 422, "name: "),
        ("POST", "/api/streams", {"source": "test:ball", "name": "a", "polcy": {}}, 422, "right is 'policy'"),
        ("POST", "/api/streams", {"source": "test:ball", "name": "a", "policy": {"fps": -1}}, 422, "fps is -1"),
        ("PATCH", "/api/streams/lobby", {"policy": {"fsp": 1}}, 422, "the nearest that is right is 'fps'"),
        ("PATCH", "/api/streams/lobby", {"policy": {"delivery": "fresh"}}, 422, "the nearest is 'freshest'"),
        ("GET", "/api/streams/nobody/snapshot.jpg", None, 404, "there are: lobby"),
        ("GET", "/api/streams/nobody/live.mjpeg", None, 404, "there are: lobby"),
        ("GET", "/api/nothing", None, 404, "Not Found"),
        ("PUT", "/api/streams", None, 405, "Method Not Allowed"),
        ("GET", "/api/events?since=-1", None, 422, "since: "),
        ("PATCH", "/api/thresholds", {"confidence": 2}, 422, "confidence: is 2"),
        ("PATCH", "/api/thresholds", {"classes": [False]}, 422, "classes[0]: "),
        ("POST", "/api/streams", {"source": "a", "name": "b", "policy": {"retry": {"frist": 1}}}, 422, "is 'first'"),
        ("POST", "/api/streams", [], 422, "body: "),
        ("POST", "/api/streams", None, 422, "body: "),
        ("POST", "/api/models/swap", {"model": "os:system"}, 403, "right are people, none"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_what_would_be_right(
    site: Site, method: str, path: str, body: object, status: int, said: str
) -> None:
    with site.client() as client:
        answer = client.request(method, path, json=body)
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert problem["status"] == status
        assert said in problem["detail"]
        assert client.get("/api/streams").json()["streams"][0]["name"] == "lobby"


def test_a_body_that_is_no_json_is_refused_where_it_breaks(site: Site) -> None:
    with site.client() as client:
        answer = client.post("/api/streams", content=b'{"source": ', headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert "is no JSON" in answer.json()["detail"]


def test_the_model_is_swapped_to_what_is_offered_and_thresholds_are_merged(site: Site) -> None:
    with site.client() as client:
        models = client.get("/api/models").json()
        assert (models["current"]["name"], models["available"]) == ("none", ["people", "none"])
        answer = client.post("/api/models/swap", json={"model": "people"})
        assert answer.status_code == 202
        behind = client.get("/api/events", params={"since": answer.json()["event"]}).json()["events"]
        assert [event["kind"] for event in behind] == ["model-swapped"]
        assert client.get("/api/models").json()["current"]["name"] == "people"
        assert client.patch("/api/thresholds", json={"confidence": 0.4, "classes": ["person", 2]}).status_code == 202
        wanted = {"confidence": 0.4, "iou": None, "classes": ["person", 2]}
        assert site.engine.thresholds == {"confidence": 0.4, "iou": None, "classes": ("person", 2)}
        until(lambda: client.get("/api/thresholds").json() == wanted)
        client.patch("/api/thresholds", json={"iou": 0.6, "classes": []})
        wanted = {"confidence": 0.4, "iou": 0.6, "classes": []}
        until(lambda: client.get("/api/thresholds").json() == wanted)
        client.patch("/api/thresholds", json={"classes": ["unicorn"]})
        until(lambda: client.get("/api/events").json()["events"][-1]["kind"] == "model-refused")
        assert client.get("/api/thresholds").json() == wanted
        client.patch("/api/thresholds", json={"confidence": None})
        wanted = {"confidence": None, "iou": 0.6, "classes": []}
        until(lambda: client.get("/api/thresholds").json() == wanted)
        assert site.engine.thresholds["confidence"] is None


def test_events_are_listed_from_any_point_and_followed(site: Site) -> None:
    with site.client() as client:
        client.post("/api/streams", json={"source": "test:snow", "name": "b"})
        client.post("/api/models/swap", json={"model": "people"})
        events = client.get("/api/events").json()
        kinds = [event["kind"] for event in events["events"]]
        assert kinds == ["stream-added", "stream-added", "model-loading", "model-swapped"]
        assert [event["number"] for event in client.get("/api/events", params={"since": 3}).json()["events"]] == [4]
        assert client.get("/api/events", params={"since": 4}).json() == {"events": [], "last": 4}
        with client.stream("GET", "/api/events/stream", headers={"Last-Event-ID": "1"}) as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            lines = stream.iter_lines()
            assert _next(lines)["number"] == 2
            assert _next(lines)["kind"] == "model-loading"
            assert _next(lines)["kind"] == "model-swapped"
            site.engine.events.add("stream-lost", "lobby", "rtsp://u:secret@cam is away")
            assert _next(lines)["text"] == "rtsp://cam is away"


def _next(lines: object) -> dict[str, object]:
    for line in lines:
        if line.startswith("data: "):
            return json.loads(line.removeprefix("data: "))
    raise AssertionError("the stream has ended")


def test_a_snapshot_is_a_picture(site: Site) -> None:
    with site.client() as client:
        answer = client.get("/api/streams/lobby/snapshot.jpg")
        assert answer.headers["content-type"] == "image/jpeg"
        assert answer.content.startswith(b"\xff\xd8")
        client.post("/api/streams", json={"source": "test:black", "name": "dark"})
        assert "no picture of 'dark' yet" in client.get("/api/streams/dark/snapshot.jpg").json()["detail"]


def test_pictures_of_many_streams_come_in_one_answer_and_end_with_the_reader(site: Site) -> None:
    names: set[str] = set()
    with site.client() as client:
        with client.stream("GET", "/api/live?stream=lobby&stream=gate&stream=gone") as answer:
            text = b""
            for chunk in answer.iter_bytes():
                text += chunk
                names = {line.split()[-1].decode() for line in text.split(b"\r\n") if line.startswith(b"X-Stream")}
                if len(names) == 2 and text.count(b"\xff\xd8") > 4:
                    break
        assert names == {"lobby", "gate"}
        until(lambda: site.pictures.watched("lobby") == 0 and site.context.viewers.count == 0)


def test_a_reader_that_takes_nothing_delays_no_picture(site: Site) -> None:
    with httpx.Client(base_url=site.url) as slow, slow.stream("GET", "/api/streams/lobby/live.mjpeg"):

        def none_is_delayed() -> bool:
            site.pictures.slowest, made = 0.0, site.pictures.made
            until(lambda: site.pictures.made > made + 50)
            return site.pictures.slowest < 0.5

        # A busy machine may delay one of fifty pictures; such a reader delays all that there are.
        until(none_is_delayed, "fifty pictures that are not delayed")
        with site.client() as client:
            assert client.get("/api/streams").status_code == 200


def test_more_viewers_than_allowed_are_refused(start_site: StartSite) -> None:
    site = start_site("streams: [{name: a, source: 'test:ball'}]\nhttp: {port: 0, most_viewers: 1}")
    with site.client() as client, client.stream("GET", "/api/events/stream") as first:
        lines = first.iter_lines()
        next(lines)
        answer = client.get("/api/streams/a/live.mjpeg")
        assert answer.status_code == 409
        assert "http.most_viewers" in answer.json()["detail"]


def test_a_camera_that_hangs_delays_nobody_else(site: Site) -> None:
    with site.client() as client:
        client.post("/api/streams", json={"source": "rtsp://stuck/1", "name": "stuck"})
        hanging = threading.Thread(target=lambda: client.delete("/api/streams/stuck"))
        hanging.start()
        assert site.engine.stuck.wait(30)
        assert client.post("/api/streams/stuck/restart").status_code == 409
        begun = time.monotonic()
        assert client.get("/api/streams").status_code == 200
        assert client.post("/api/streams", json={"source": "test:snow", "name": "c"}).status_code == 201
        assert time.monotonic() - begun < 3
        site.engine.release.set()
        hanging.join(10)
        until(lambda: "stuck" not in [s["name"] for s in client.get("/api/streams").json()["streams"]])


def test_webrtc_is_offered_and_ended(site: Site) -> None:
    sdp = {"Content-Type": "application/sdp"}
    with site.client() as client:
        answer = client.post("/api/streams/lobby/whep", content="v=0\r\n", headers=sdp)
        assert (answer.status_code, answer.headers["content-type"]) == (201, "application/sdp")
        assert client.delete(answer.headers["Location"]).status_code == 204
        assert client.post("/api/streams/lobby/whep", content="hello", headers=sdp).status_code == 422
        assert "application/sdp" in client.post("/api/streams/lobby/whep", json={}).json()["detail"]


def test_outputs_are_shown_and_switched_and_clips_written(site: Site) -> None:
    with site.client() as client:
        shown = client.get("/api/streams/lobby/outputs").json()
        assert shown == {"rtsp": "rtsp://127.0.0.1:8554/lobby", "numbers": {"frames": 7}}
        assert client.patch("/api/streams/lobby/outputs", json={"record": False, "rtsp": True}).status_code == 200
        assert site.pictures.enabled == {("lobby", "record"): False, ("lobby", "rtsp"): True}
        assert "not configured" in client.patch("/api/streams/lobby/outputs", json={"hls": True}).json()["detail"]
        assert client.post("/api/streams/lobby/clip", json={"reason": "door"}).status_code == 202
        assert site.pictures.clips == [("lobby", "door")]
        assert client.post("/api/streams/lobby/clip", json={"reason": "../x"}).status_code == 422
        assert client.post("/api/streams/nobody/clip", json={}).status_code == 404
        assert client.get("/api/streams/tiled/snapshot.jpg").status_code == 200


def test_health_statistics_history_answers_and_metrics(site: Site) -> None:
    site.service.history.sample(1000.0)
    site.service.answers.add("lobby", "two people wait", at=1000.0)
    site.engine.events.add("vlm-answered", "lobby", "a dog")
    with site.client() as client:
        assert client.get("/healthz").json() == client.get("/readyz").json() == {"status": "ok"}
        statistics = client.get("/api/statistics").json()
        assert (statistics["totals"]["streams"], statistics["totals"]["fps"], statistics["webrtc"]) == (1, 25.0, False)
        assert statistics["memory_bytes"] > 1 << 20
        assert client.get("/api/history").json()["samples"][0]["fps"] == {"lobby": 25.0}
        assert client.get("/api/answers").json()["answers"][0]["text"] == "two people wait"
        until(lambda: [a["text"] for a in client.get("/api/answers?since=1000").json()["answers"]] == ["a dog"])
        assert "sluice_up 1" in client.get("/metrics").text
        site.context.failure = "the model failed"
        assert client.get("/healthz").status_code == 503
        site.service.end()
        assert client.get("/readyz").status_code == 503
        refused = client.post("/api/streams", json={"source": "test:snow", "name": "late"})
        assert (refused.status_code, refused.json()["title"]) == (503, "Service Unavailable")


def test_what_helps_a_model_that_is_too_slow_is_told(site: Site) -> None:
    with site.client() as client:
        for seconds, overtaken in ((0.0, 0), (60.0, 1)):
            assert client.get("/api/statistics").json()["advice"] == ""
            site.engine.model_seconds = seconds
            site.engine.change("lobby", frames_in=overtaken, overtaken=overtaken)
            site.service.history.sample(1000.0)
        assert "the model is too slow" in client.get("/api/statistics").json()["advice"]


def test_answers_are_in_order_though_the_clock_be_set_back() -> None:
    answers = Answers(str)
    for at in (1000.0, 400.0, 400.0):
        answers.add("lobby", f"said at {at:g}", at=at)
    first, second, third = answers.since(0)
    assert [answer.text for answer in answers.since(first.time)] == ["said at 400", "said at 400"]
    assert [answer.text for answer in answers.since(second.time)] == ["said at 400"]
    assert answers.since(third.time) == []


def test_a_pipeline_that_does_not_answer_is_not_healthy(site: Site) -> None:
    with site.client() as client:
        assert client.get("/healthz").status_code == 200
        site.engine.hung = True
        assert client.get("/healthz").status_code == 503
        assert client.get("/api/streams").status_code == 504
        assert client.get("/page/main.js").status_code == 200
        site.engine.hung = False
        assert client.get("/healthz").status_code == 200


def test_fifty_clients_at_once_are_answered(site: Site) -> None:
    failures: list[object] = []

    def ask() -> None:
        try:
            with site.client() as client:
                for path in ("/api/streams", "/api/events", "/api/statistics", "/api/streams/lobby/snapshot.jpg"):
                    if client.get(path).status_code != 200:
                        failures.append(path)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []


def test_a_language_model_is_asked_about_a_stream(start_site: StartSite) -> None:
    site = start_site(
        "streams: [{name: lobby, source: 'test:ball?live=1'}, {name: gate, source: 'test:dead'}]\n"
        "vlm: {backend: 'http://127.0.0.1:9/v1', model: m}"
    )
    with site.client() as client:
        assert client.post("/api/streams/lobby/ask", json={"prompt": "Who is there? {objects}"}).status_code == 202
        assert client.post("/api/streams/lobby/ask", json={}).status_code == 202
        assert site.engine.questions == [("lobby", "Who is there? {objects}"), ("lobby", None)]
        for name, body, status, said in (
            ("nobody", {}, 404, "there are: lobby"),
            ("lobby", {"prompt": "{who}"}, 422, "unknown placeholder {who}"),
            ("lobby", {"prompt": ""}, 422, "prompt"),
            ("lobby", {"promt": "x"}, 422, "right is 'prompt'"),
            ("gate", {}, 503, "no frame of the stream 'gate'"),
        ):
            answer = client.post(f"/api/streams/{name}/ask", json=body)
            assert answer.status_code == status
            assert said in answer.json()["detail"]


def test_without_a_language_model_nobody_is_asked(site: Site) -> None:
    with site.client() as client:
        answer = client.post("/api/streams/lobby/ask", json={})
    assert answer.status_code == 422
    assert "the configuration has no vlm" in answer.json()["detail"]
