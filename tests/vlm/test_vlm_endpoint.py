"""The back end for OpenAI-compatible endpoints, against a real server on loopback that misbehaves by script."""

import base64
import gzip
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from sluice.errors import ConfigurationError
from sluice.vlm.backends import BackendOptions, Question, make_backend
from sluice.vlm.failures import NoAnswer, Reason
from sluice.vlm.pictures import Encoding, Picture
from vlm.chat_server import ChatServer, Reply
from waiting import PATIENCE, until

pytest.importorskip("openai")

KEY = "sk-very-secret-0123456789"


def picture(shade=100, size=(48, 64)):
    made = Picture(lambda: np.full((*size, 3), shade, np.uint8), pts=0)
    made.encode(Encoding())
    return made


def question(schema=None, prompt="What is there?"):
    return Question(prompt, [picture()], schema)


class Opened:
    """An endpoint that is closed at the end."""

    def __init__(self, url, **options):
        self.backend = make_backend(url, BackendOptions(**{"model": "m", "timeout": 10.0, "retries": 0, **options}))

    def __enter__(self):
        self.backend.open()
        return self.backend

    def __exit__(self, *_):
        self.backend.cancel()
        self.backend.close()


def fault(url, **options):
    """What asking comes to: the failure, and the counters of failed requests."""
    with Opened(url, **options) as backend:
        with pytest.raises(NoAnswer) as caught:
            backend.answer(question())
        return caught.value, dict(backend.troubles)


def test_what_is_sent() -> None:
    with ChatServer(Reply(text="a red truck")) as server:
        more = {"system": "Be brief.", "max_tokens": 40, "extra": {"top_k": 3}}
        with Opened(server.url, **more) as backend:
            schema = {"type": "object"}
            assert backend.answer(question(schema)) == "a red truck"
    (asked,) = server.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.prompt == "What is there?"
    assert base64.b64decode(asked.images[0].removeprefix("data:image/jpeg;base64,"))[:2] == b"\xff\xd8"
    assert asked.body["messages"][0] == {"role": "system", "content": "Be brief."}
    given = {name: asked.body[name] for name in ("model", "max_tokens", "temperature", "top_k", "response_format")}
    assert given == {
        "model": "m",
        "max_tokens": 40,
        "temperature": 0,
        "top_k": 3,
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}},
    }


def test_a_schema_is_not_sent_unless_guided() -> None:
    with ChatServer() as server, Opened(server.url, guided=False, max_tokens=0) as backend:
        backend.answer(question({"type": "object"}))
    assert not {"response_format", "max_tokens"} & server.asked[0].body.keys()


def test_a_key_is_sent_only_where_its_variable_is_named(monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ACME_KEY", "acme")
    with ChatServer() as server:
        for options in ({}, {"api_key_env": "ACME_KEY"}):
            with Opened(server.url, **options) as backend:
                backend.answer(question())
    assert [asked.headers.get("authorization") for asked in server.asked] == ["Bearer none", "Bearer acme"]


def test_a_key_never_shows_whatever_the_endpoint_says(monkeypatch) -> None:
    monkeypatch.setenv("ACME_KEY", KEY)
    body = b'{"error": {"message": "Incorrect API key provided: %s"}}' % KEY.encode()
    with ChatServer(Reply(status=401, body=body)) as server:
        error, troubles = fault(server.url, api_key_env="ACME_KEY")
    assert error.reason is Reason.REFUSED
    assert "401" in str(error)
    assert KEY not in str(error)
    assert troubles == {"refused": 1}


def test_the_rest_of_a_long_prompt_is_kept_and_parts_of_an_answer_joined() -> None:
    body = b'{"choices": [{"message": {"content": [{"type": "text", "text": "a "}, {"type": "text", "text": "cat"}]}}]}'
    with ChatServer(Reply(body=body)) as server, Opened(server.url) as backend:
        assert backend.answer(question(prompt="x" * 50_000)) == "a cat"
    assert len(server.asked[0].prompt) == 50_000


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(status=500, body=b"oops"), Reason.SERVER_ERROR),
        (Reply(status=503, body=b"{}"), Reason.SERVER_ERROR),
        (Reply(status=404, body=b'{"error": {"message": "no such model"}}'), Reason.REFUSED),
        (Reply(status=400, body=b'{"error": "images are not supported"}'), Reason.REFUSED),
        (Reply(status=429, body=b"{}"), Reason.RATE_LIMITED),
        (Reply(body=b"<html>hello</html>"), Reason.BAD_RESPONSE),
        (Reply(body=b""), Reason.BAD_RESPONSE),
        (Reply(body=b"null"), Reason.BAD_RESPONSE),
        (Reply(body=b'{"choices": []}'), Reason.BAD_RESPONSE),
        (Reply(body=b'{"choices": [{"message": {"content": null}}]}'), Reason.BAD_RESPONSE),
        (Reply(body=b'{"choices": [{"message": {"content": [7]}}]}'), Reason.BAD_RESPONSE),
        (Reply(body=b"[" * 200_000), Reason.BAD_RESPONSE),
        (Reply(body=b"\xff\xfe\x00", headers={"content-type": "text/plain; charset=nonsense"}), Reason.BAD_RESPONSE),
        (Reply(text="x" * 20_000), Reason.TOO_LARGE),
        (Reply(text="x" * 5_000_000), Reason.TOO_LARGE),
        (Reply(status=500, body=b"x" * 1000, repeat=5000), Reason.TOO_LARGE),
        (Reply(body=gzip.compress(b"0" * 10_000_000), headers={"content-encoding": "gzip"}), Reason.BAD_RESPONSE),
        (Reply(drop=True), Reason.UNREACHABLE),
    ],
    ids=lambda value: value.value if isinstance(value, Reason) else None,
)
def test_faults_are_named_and_counted(reply: Reply, reason: Reason) -> None:
    with ChatServer(reply) as server:
        error, troubles = fault(server.url)
    assert error.reason is reason
    assert troubles == {reason.value: 1}
    assert len(str(error)) < 400
    assert "\n" not in str(error)


def test_a_dead_endpoint() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        error, troubles = fault(f"http://127.0.0.1:{unused.getsockname()[1]}/v1", retries=1)
    assert error.reason is Reason.UNREACHABLE
    assert "127.0.0.1" in str(error)
    assert troubles == {"unreachable": 2}


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(status: int, monkeypatch) -> None:
    monkeypatch.setenv("ACME_KEY", KEY)
    with ChatServer() as other, ChatServer(Reply(status=status, headers={"location": other.url}, body=b"{}")) as server:
        error, troubles = fault(server.url, api_key_env="ACME_KEY", retries=3)
    assert error.reason is Reason.REFUSED
    assert f"a redirect to {other.url}, which is not followed" in str(error)
    assert troubles == {"refused": 1}
    assert not other.asked, "the pictures went elsewhere"


def test_an_endpoint_that_speaks_no_tls() -> None:
    with ChatServer() as server:
        error, _ = fault(server.url.replace("http://", "https://"))
    assert error.reason is Reason.UNREACHABLE
    assert "SSL" in str(error)


def test_a_prompt_of_a_megabyte_and_of_other_scripts() -> None:
    prompt = "Was ist das? 这是什么？ \U0001f600 {} " + "x" * (1 << 20)
    with ChatServer() as server, Opened(server.url) as backend:
        assert backend.answer(question(prompt=prompt)) == "a street"
    assert server.asked[0].prompt == prompt


def test_a_key_is_in_no_log_however_much_is_logged(monkeypatch, caplog) -> None:
    monkeypatch.setenv("ACME_KEY", KEY)
    monkeypatch.setenv("OPENAI_LOG", "debug")
    with (
        caplog.at_level("DEBUG"),
        ChatServer(Reply(status=500, body=KEY.encode()), Reply(text=KEY)) as server,
        Opened(server.url, api_key_env="ACME_KEY", retries=1) as backend,
    ):
        backend.answer(question())
        assert KEY not in repr(backend) + repr(backend._options)
    assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"
    sent = [record for record in caplog.records if f"Bearer {KEY}" in record.getMessage()]
    assert not sent


def test_a_host_that_does_not_exist() -> None:
    error, _ = fault("http://no-such-host.invalid:8000/v1")
    assert error.reason is Reason.UNREACHABLE
    assert "no-such-host.invalid" in str(error)


@pytest.mark.parametrize("reply", [Reply(hang=True), Reply(text="slow", trickle=0.05)], ids=["hangs", "trickles"])
def test_an_answer_that_does_not_come_in_time(reply: Reply) -> None:
    with ChatServer(reply) as server:
        error, troubles = fault(server.url, timeout=0.5)
    assert error.reason is Reason.TIMED_OUT
    assert troubles == {"timed-out": 1}


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_may_pass_is_asked_again(status: int) -> None:
    with ChatServer(Reply(status=status, headers={"retry-after": "0"}, body=b"{}"), Reply(drop=True)) as server:
        with Opened(server.url, retries=2) as backend:
            assert backend.answer(question()) == "a street"
        assert sum(backend.troubles.values()) == 2
    assert len(server.asked) == 3


def test_what_does_not_pass_is_not_asked_again() -> None:
    with ChatServer(Reply(status=401, body=b"{}")) as server:
        fault(server.url, retries=5)
    assert len(server.asked) == 1


def test_retry_after_is_obeyed_by_all_questions() -> None:
    with ChatServer(Reply(status=429, headers={"retry-after": "1"}, body=b"{}")) as server:
        times = []
        server.answer = lambda asked: (times.append(time.monotonic()), Reply(text="late"))[1]
        with Opened(server.url, retries=1) as backend:
            began = time.monotonic()
            threads = [threading.Thread(target=backend.answer, args=(question(),)) for _ in range(2)]
            threads[0].start()
            until(lambda: backend.troubles, "the refusal's arrival")
            time.sleep(0.1)
            threads[1].start()
            for thread in threads:
                thread.join()
    assert len(times) == 2
    assert min(times) - began >= 0.99


def test_retry_after_has_a_limit() -> None:
    late = Reply(status=429, headers={"retry-after": "86400"}, body=b"{}")
    with ChatServer(late) as server, Opened(server.url, retries=1, retry_after_limit=0.2) as backend:
        assert backend.answer(question()) == "a street"
    assert len(server.asked) == 2


def test_a_rate_limit_that_outlasts_the_timeout_is_called_one() -> None:
    with ChatServer(Reply(status=429, headers={"retry-after": "60"}, body=b"{}")) as server:
        error, _ = fault(server.url, retries=3, timeout=3.0, retry_after_limit=60.0)
    assert error.reason is Reason.RATE_LIMITED
    assert "Retry-After: 60 s" in str(error)


def test_cancel_ends_a_hanging_request_and_its_connection() -> None:
    outcome = []

    def ask(backend):
        try:
            backend.answer(question())
        except NoAnswer as error:
            outcome.append(error.reason)

    with ChatServer(Reply(hang=True)) as server:
        with Opened(server.url, timeout=600.0) as backend:
            thread = threading.Thread(target=ask, args=(backend,))
            thread.start()
            until(lambda: server.asked)
            backend.cancel()
            thread.join(PATIENCE)
            assert outcome == [Reason.STOPPED]
            with pytest.raises(NoAnswer, match="stopped"):
                backend.answer(question())
        until(lambda: server.aborted == 1, "the end of the connection")


HANGING_RESOLVER = """
import socket, sys, threading, time
import numpy as np
from sluice.vlm.backends import BackendOptions, Question, make_backend
from sluice.vlm.failures import NoAnswer
from sluice.vlm.pictures import Encoding, Picture

looking_up = threading.Event()
def hang(*_, **__):
    looking_up.set()
    time.sleep(600)
socket.getaddrinfo = hang

picture = Picture(lambda: np.zeros((8, 8, 3), np.uint8))
picture.encode(Encoding())
backend = make_backend("http://slow-to-find.example/v1", BackendOptions(model="m", timeout=600))
backend.open()
def ask():
    try:
        backend.answer(Question("?", [picture]))
    except NoAnswer as error:
        print(error.reason.value)
thread = threading.Thread(target=ask)
thread.start()
looking_up.wait()
began = time.monotonic()
backend.cancel()
thread.join()
backend.close()
print(time.monotonic() - began < 2)
"""


def test_a_resolver_that_hangs_delays_neither_stop_nor_exit() -> None:
    done = subprocess.run(  # it would take ten minutes if exit waited for the resolver
        [sys.executable, "-c", HANGING_RESOLVER], capture_output=True, text=True, timeout=100, check=True
    )
    assert done.stdout.split() == ["stopped", "True"]


def test_a_resolver_that_hangs_is_a_timeout(monkeypatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: over.wait())
    error, _ = fault("http://slow-to-find.example/v1", timeout=0.5)
    over.set()
    assert error.reason is Reason.TIMED_OUT


@pytest.mark.parametrize("host", ["a" * 300 + ".example", "xn--\u0000.example"])
def test_a_host_whose_name_cannot_be_looked_up(host) -> None:
    try:
        error, _ = fault(f"http://{host}/v1")
    except ConfigurationError as refused:
        error = refused
    assert repr(host[:40])[1:-1] in str(error)


@pytest.mark.parametrize(
    ("url", "options", "text"),
    [
        ("http://user:secret@host/v1", {}, "api-key-env"),
        ("http://host/v1", {"model": ""}, "model is not set"),
        ("http:///v1", {}, "names no host"),
        ("http://host:99999/v1", {}, "cannot be read"),
        ("http://[::1/v1", {}, "cannot be read"),
        ("http://host/v1", {"api_key_env": "NO_SUCH_VARIABLE"}, "variable that is not set"),
        ("ftp://host/v1", {}, "no back end"),
        ("transfomers", {}, "no back end"),
    ],
)
def test_what_is_refused_at_the_start(url, options, text) -> None:
    with pytest.raises(ConfigurationError, match=text) as caught:
        make_backend(url, BackendOptions(**{"model": "m", **options}))
    assert "secret" not in str(caught.value)


def test_a_key_given_in_place_of_its_variable_is_not_shown() -> None:
    for key in (KEY, "AKIAIOSFODNN7EXAMPLE"):
        with pytest.raises(ConfigurationError) as caught:
            make_backend("http://host/v1", BackendOptions(model="m", api_key_env=key))
        assert key not in str(caught.value)
