"""The commands that call a running service: what they say, and with which exit status."""

from __future__ import annotations

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
