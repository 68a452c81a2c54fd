"""Messages of a whole pipeline to a broker named by its URL, there and away."""

import json

import pytest

import sluice
from killable import free_port
from messages.brokers.servers import Redis
from sluice.errors import ConfigurationError


@pytest.fixture(autouse=True)
def state(monkeypatch, tmp_path):
    """No test leaves anything in the user's folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_a_run_ends_when_the_broker_has_every_message(tmp_path):
    server = Redis(tmp_path)
    try:
        server.start()
        pipeline = sluice.Pipeline("test:ball?frames=10", model="none", tracker=None, messages=server.url)
        pipeline.run()
        assert pipeline.summary.ok
        assert [json.loads(payload)["frame"] for _, payload in server.read()] == list(range(10))
    finally:
        server.close()


def test_a_run_whose_broker_is_away_ends_and_says_where_the_messages_are():
    url = f"redis://127.0.0.1:{free_port()}/detections"
    pipeline = sluice.Pipeline("test:ball?frames=10", model="none", tracker=None, messages=url)
    pipeline.run()
    assert pipeline.summary.ok
    away, left = pipeline.summary.warnings
    assert away.startswith(f"{url}: ")
    assert "messages are kept and sent later" in away
    assert "10 messages are not acknowledged yet; they stay in" in left
    assert f"warning: {left}" in str(pipeline.summary)


def test_an_address_that_cannot_be_used_is_an_error_of_the_start():
    with pytest.raises(ConfigurationError, match="kafka needs a topic"):
        sluice.Pipeline("test:ball?frames=1", model="none", messages="kafka://localhost").run()
