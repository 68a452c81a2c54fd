"""The commands that call a running service: what they say, and with which exit status."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from serve_site import StartSite
from typer.testing import CliRunner

from sluice.app.cli import app

MODELS = "model: {name: none, offered: [people, 'bad.py', 'slow.py']}"


@pytest.mark.parametrize(
    ("model", "wait", "status", "said"),
    [
        ("people", "20", 0, "the model people runs"),
        ("bad.py", "20", 1, "the model bad.py was refused: it is bad; the one before goes on"),
        ("slow.py", "0.5", 3, "slow.py is still being loaded after 0.5 s"),
        ("slow.py", "0", 0, "slow.py is being loaded; GET /api/events?since="),
        ("os:system", "20", 1, "right are"),
    ],
)
def test_the_command_that_swaps_says_how_it_ended(
    start_site: StartSite, model: str, wait: str, status: int, said: str
) -> None:
    site = start_site(MODELS)
    site.engine.swap_model("bad-before.py")  # how an earlier change ended is no news
    done = CliRunner().invoke(app, ["models", "swap", model, "--wait", wait, "--url", site.url])
    assert done.exit_code == status, done.output
    assert said in done.output


@contextmanager
def answering(*answers: bytes) -> Iterator[str]:
    """The address of what gives these answers, one for each connection, and then closes whatever comes."""
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def handle(self) -> None:
            self.rfile.readline()
            if left:
                self.wfile.write(left.pop(0))

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def http(body: bytes) -> bytes:
    return b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


def test_a_service_that_ends_before_the_new_model_runs_leaves_the_outcome_unknown() -> None:
    begun, nothing = http(b'{"event": 7}'), http(b'{"events": [], "last": 7}')
    with answering(begun, nothing) as url:
        done = CliRunner().invoke(app, ["models", "swap", "people", "--url", url])
    assert done.exit_code == 3, done.output
    assert "how the change of the model ended is not known" in done.output


@pytest.mark.parametrize("answer", [http(b"<html>"), http(b"[]"), b"SSH-2.0-OpenSSH_9.2\r\n"])
def test_what_is_no_service_is_said_to_be_none(answer: bytes) -> None:
    with answering(answer) as url:
        done = CliRunner().invoke(app, ["streams", "list", "--url", url])
    assert done.exit_code == 1, done.output
    assert f"what answers at {url} is no `sluice serve`" in done.output


@pytest.mark.parametrize("url", ["http://", "localhost:8080", "http://eve:s3cret@localhost", "http://localhost:many"])
def test_an_address_that_can_be_none_is_refused_without_showing_a_password(url: str) -> None:
    done = CliRunner().invoke(app, ["streams", "list", "--url", url])
    assert done.exit_code == 1, done.output
    assert "right is http://127.0.0.1:8080" in done.output
    assert "s3cret" not in done.output


@pytest.mark.parametrize("token", ["s3cret\nmore", "s\xe9cret"])
def test_a_token_that_no_header_can_hold_is_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    monkeypatch.setenv("SLUICE_TOKEN", token)
    done = CliRunner().invoke(app, ["streams", "list"])
    assert done.exit_code == 1, done.output
    assert "the token has characters other than ASCII's" in done.output
    assert "cret" not in done.output
