"""User names and passwords in URIs, escaped or not: opened as they were meant, and never shown."""

from __future__ import annotations

import pytest

from sluice.app.credentials import redact
from sluice.app.source_setup import UnknownHost, check_host
from sluice.app.sources import parse_source, parse_sources
from sluice.app.streams import StreamState
from sluice.app.streams.explaining import explain


@pytest.mark.parametrize(
    "uri",
    [
        "rtsp://user:sesame@host:554/s",
        "rtsp://user:se@sesame@host/s",
        "rtsp://user:se/sesame@host/s",
        "rtsp://user:se?sesame#@host/s",
        "rtsp://user:se@sa/me@host:554/s",
        "rtsp://user:se@sa/me@host/s",
        "rtsp://user:se/sa@me/x@host/s",
        "rtsp://user:se?sa@me#/x@host/s",
        "rtsp://user:1234/me@host/s",
        "rtsp://us/er:me@host/s",
        "rtsp://user:sa/me@[fe80::1]/host",
        "no host rtsp://user:se@sa/me@host: gone",
        "rtsp://sesame@host",
        "http://host/v.mp4?token=sesame&x=1",
        "srt://host:9000?mode=caller&passphrase=sesame",
        "could not open 'rtsp://a:sesame@host/x' and rtsp://b:sesame@host/y.",
    ],
)
def test_credentials_are_removed(uri: str) -> None:
    shown = redact(uri)
    assert not any(part in shown for part in ("sesame", "se@", "sa", "me"))
    assert "host" in redact(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "http://host/@me/v.mp4",
        "rtsp://host:554/a@b",
        "rtsp://[::1]:554/a@b/c",
        "http://host/?mail=a@b.c",
        "mail a@b about rtsp://host/x",
    ],
)
def test_what_is_no_credential_stays(uri: str) -> None:
    assert redact(uri) == uri


def test_the_text_behind_a_secret_stays() -> None:
    assert redact("rtsp://host/s?token=sesame: refused") == "rtsp://host/s?token=***: refused"
    assert redact("http://host/s?token=se:same&x=1") == "http://host/s?token=***&x=1"


def test_at_sign_in_a_password_is_escaped_for_the_element_that_opens_it() -> None:
    (source,) = parse_sources(["rtsp://user:p@ss%20w@host/s"])
    assert source.uri == "rtsp://user:p%40ss%20w@host/s"


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("rtsp://user:p@ss/w@cam.local/s", "rtsp://user:p%40ss%2Fw@cam.local/s"),
        ("rtsp://user:p@ss/w@cam:554/s", "rtsp://user:p%40ss%2Fw@cam:554/s"),
        ("rtsp://user:p/w@ss@cam/s", "rtsp://user:p%2Fw%40ss@cam/s"),
        ("rtsp://user:pw@cam/s@2", "rtsp://user:pw@cam/s@2"),
        ("rtsp://user:pw@10.0.0.1/s@cam.local/x", "rtsp://user:pw@10.0.0.1/s@cam.local/x"),
        ("rtsp://cam:554/a@b/c", "rtsp://cam:554/a@b/c"),
        ("rtsp://[::1]:554/a@b", "rtsp://[::1]:554/a@b"),
        ("http://user:pw@web/?mail=a@b.c", "http://user:pw@web/?mail=a@b.c"),
    ],
)
def test_what_is_opened_is_what_was_most_likely_meant(text: str, uri: str) -> None:
    assert parse_source(text).uri == uri


def test_a_host_that_may_be_a_part_of_the_password_is_not_named() -> None:
    source = parse_source("rtsp://user:p@sesame.invalid/w@cam/s")
    assert source.shown == "rtsp://cam/s"
    with pytest.raises(UnknownHost) as caught:
        check_host(source)
    assert "sesame" not in str(caught.value)
    for state in StreamState:
        assert "sesame" not in explain(state, source, "")
