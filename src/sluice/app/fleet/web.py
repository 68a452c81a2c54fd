"""The web view of a fleet: a page, ``/api/fleet`` and ``/metrics``, behind the same gate as a service's."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import FileResponse, PlainTextResponse
from fastapi.staticfiles import StaticFiles
from pydantic import SecretStr
from starlette.exceptions import HTTPException

from sluice import __version__
from sluice.app.fleet.view import FleetView, Status
from sluice.app.serve.bodies import Health
from sluice.app.serve.checking import is_loopback
from sluice.app.serve.gate import Access, Gate
from sluice.app.serve.live import Viewers
from sluice.app.serve.problems import answer_errors
from sluice.app.serve.schema import SHORTEST_TOKEN, HttpEntry
from sluice.app.serve.server import HttpServer
from sluice.app.serve.web import PAGE as SHARED
from sluice.app.serve.web import add_session
from sluice.errors import ConfigurationError, SluiceError

PAGE = Path(__file__).parent / "page"


def make_app(view: FleetView, access: Access) -> FastAPI:
    """Return the application."""
    app = FastAPI(title="Sluice fleet", version=__version__, docs_url=None, redoc_url=None)
    answer_errors(app, lambda text: text)

    @app.get("/api/fleet")
    def fleet() -> Status:
        """How the fleet is: its streams, workers and nodes."""
        try:
            return view.status()
        except SluiceError as error:
            raise HTTPException(503, str(error)) from error

    @app.get("/metrics", response_class=PlainTextResponse)
    def metrics() -> PlainTextResponse:
        """All numbers for Prometheus."""
        return PlainTextResponse(view.metrics(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/healthz")
    async def healthz() -> Health:
        """Whether this view works; it says nothing of the fleet. Needs no token."""
        return Health()

    add_session(app, access)

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(PAGE / "index.html", headers={"Cache-Control": "no-cache"})

    app.mount("/page/fleet", StaticFiles(directory=PAGE), name="fleet")
    app.mount("/page", StaticFiles(directory=SHARED), name="page")
    app.add_middleware(Gate, access=access)
    return app


def serve_view(view: FleetView, http: HttpEntry) -> HttpServer:
    """Begin to serve a fleet's view; `stop` of what is returned ends it.

    Raises:
        ConfigurationError: the port cannot be taken.
    """
    token = None if http.token is None else http.token.get_secret_value()
    server = HttpServer(make_app(view, Access(token, http.allowed_hosts)), http, Path(), Viewers(http.most_viewers))
    server.start()
    return server


def http_entry(host: str, port: int, token_file: Path | None, allowed_hosts: Sequence[str]) -> HttpEntry:
    """Return where and to whom a view is served, by the rules of a service.

    Raises:
        ConfigurationError: the token cannot be read or is too short, or there is none and other machines can reach it.
    """
    try:
        token = os.environ.get("SLUICE_TOKEN") if token_file is None else token_file.read_text().strip()
    except OSError as error:
        raise ConfigurationError(f"--token-file {token_file}: {error.strerror}") from error
    if not token and not is_loopback(host):
        raise ConfigurationError(
            f"--host is {host!r}, which other machines can reach, and there is no token; set SLUICE_TOKEN or "
            "--token-file, or listen at 127.0.0.1"
        )
    if token and len(token) < SHORTEST_TOKEN:
        raise ConfigurationError(f"the token is too short; it has {SHORTEST_TOKEN} characters at least")
    return HttpEntry(
        host=host, port=port, token=SecretStr(token) if token else None, allowed_hosts=tuple(allowed_hosts)
    )
