"""A real HTTP server on a free port in front of an engine without GStreamer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from serve_doubles import FakeEngine, FakePictures
from serve_site import Site, StartSite

from sluice.app.serve.context import Context
from sluice.app.serve.gate import Access
from sluice.app.serve.loading import load_text
from sluice.app.serve.server import HttpServer
from sluice.app.serve.service import Service
from sluice.app.serve.state import StateFile
from sluice.app.serve.web import make_app


@pytest.fixture
def start_site(tmp_path: Path) -> Iterator[StartSite]:
    """Start services from configuration texts; each has "state: state.json" unless the text has another."""
    ends: list[Callable[[], None]] = []

    def start(text: str = "", environment: dict[str, str] | None = None) -> Site:
        http = "" if "http:" in text else "http: {port: 0}\n"
        loaded = load_text(f"{http}state: state.json\n{text}", tmp_path / "sluice.yaml", environment or {})
        config = loaded.config
        token = config.http.token
        engine, pictures = FakeEngine(), FakePictures()
        context = Context(
            Access(None if token is None else token.get_secret_value(), config.http.allowed_hosts),
            loaded.secrets.scrub,
            config.http.most_viewers,
        )
        context.service = Service(loaded, StateFile(tmp_path / "state.json"), engine, pictures)
        context.service.begin()
        context.metrics = lambda: "sluice_up 1\n"
        server = HttpServer(make_app(context), config.http, tmp_path, context.viewers)
        server.start()
        ends.extend([pictures.close, engine.release.set, context.service.end, server.stop])
        return Site(server.url, engine, pictures, context, tmp_path)

    yield start
    for end in reversed(ends):
        end()


@pytest.fixture
def site(start_site: StartSite) -> Site:
    """A service with one stream, without a token."""
    return start_site("streams: [{name: lobby, source: 'test:ball?live=1'}]")
