"""A fault is said in our own words first, with what would be right, and then as GStreamer or the system said it."""

from __future__ import annotations

import pytest

from sluice.app.sources import parse_source
from sluice.app.streams import StreamState
from sluice.app.streams.explaining import explain


@pytest.mark.parametrize(
    ("state", "source", "begin"),
    [
        ("refused", "rtsp://u:pw@gate:8554/1", "nothing answers at the host 'gate', port 8554; right are an address"),
        ("refused", "rtsp://gate/1", "nothing answers at the host 'gate'; right are an address"),
        ("refused", "srt://:7001?mode=listener", "nothing answers at its address; right are"),
        ("unknown-host", "http://gate.invalid/a.mp4", "the host 'gate.invalid' is not known; right is a name"),
        ("not-found", "rtsp://gate/1", "the host 'gate' answers and has no such stream; right is a path"),
        ("not-found", "v4l2:/dev/video99", "there is no such device; `ls /dev/video*` lists"),
        ("not-found", "file:///gone.mp4", "there is no such file"),
        ("unauthorized", "rtsp://u:pw@gate/1", "the user name or the password is wrong; right are those"),
        ("unauthorized", "rtsps://gate/1", "a user name and a password are asked for; right is rtsps://USER:PASSWORD@"),
        ("unauthorized", "srt://gate:7001?passphrase=hunter22hunter22", "the passphrase is missing or wrong; right is"),
        ("unsupported", "file:///clip.mp4", "nothing here decodes it, or it holds no video; `sluice doctor` says"),
        ("corrupt", "rtsp://gate/1", "what comes is damaged beyond decoding"),
        ("lost", "rtsp://gate/1", "the connection broke, or the other side ended it"),
    ],
)
def test_what_it_is_and_what_would_be_right_come_first(state: str, source: str, begin: str) -> None:
    reason = explain(StreamState(state), parse_source(source), "GStreamer: no way")
    assert reason.startswith(begin)
    assert reason.endswith(" (GStreamer: no way)")
    assert explain(StreamState(state), parse_source(source), "") == reason.removesuffix(" (GStreamer: no way)")
    assert "pw" not in reason
    assert "hunter22" not in reason


def test_where_we_know_no_better_it_is_what_was_said() -> None:
    assert explain(StreamState.LOST, parse_source("test:ball"), "GStreamer: no way") == "GStreamer: no way"
