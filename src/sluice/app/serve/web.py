"""The web application: the API's routes, the page, and the gate in front of both."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from sluice import __version__
from sluice.app.serve import routes_events, routes_model, routes_outputs, routes_pictures, routes_streams
from sluice.app.serve.bodies import Health, Token
from sluice.app.serve.calls import BusyError, UnfinishedError
from sluice.app.serve.context import Context, errors
from sluice.app.serve.gate import Access, Gate, cookie_name
from sluice.app.serve.problems import answer_errors

PAGE = Path(__file__).parent / "page"
_ABOUT = """Streams, models and events of a running `sluice serve`.

Errors are problem details (RFC 9457): `detail` says what was wrong and what would be right."""


def make_app(context: Context) -> FastAPI:
    """Return the application."""
    # No page with the documentation: FastAPI's own loads its parts from elsewhere.
    app = FastAPI(title="Sluice", version=__version__, description=_ABOUT, docs_url=None, redoc_url=None)
    answer_errors(app, context.scrub)
    _add_health(app, context)
    add_session(app, context.access)
    for routes in (routes_streams, routes_outputs, routes_model, routes_events, routes_pictures):
        app.include_router(routes.router(context))

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(PAGE / "index.html", headers={"Cache-Control": "no-cache"})

    app.mount("/page", StaticFiles(directory=PAGE), name="page")
    app.add_middleware(Gate, access=context.access)
    return app


def _add_health(app: FastAPI, context: Context) -> None:
    @app.get("/healthz", tags=["health"], responses={503: errors()[503]})
    async def healthz() -> Health:
        """Whether the process works; if not, it should be started anew. Needs no token."""
        if context.failure is not None:
            raise HTTPException(503, "the pipeline has ended; the log says why")
        try:
            await context.ask_health()
        except (UnfinishedError, BusyError):
            raise HTTPException(503, "the pipeline does not answer") from None
        return Health()

    @app.get("/readyz", tags=["health"], responses={503: errors()[503]})
    async def readyz() -> Health:
        """Whether the model is loaded and streams are taken. Needs no token."""
        context.running()
        return await healthz()


def add_session(app: FastAPI, access: Access) -> None:
    """Let the page in by a cookie."""

    @app.post("/api/session", status_code=204, tags=["session"], responses=errors(400, 413, 422))
    async def begin_session(body: Token, request: Request, response: Response) -> None:
        """Give the token once, and be let in by a cookie from then on; for the page."""
        if not access.is_token(body.token):
            raise HTTPException(401, "the token is wrong; right is http.token of the configuration")
        response.set_cookie(
            cookie_name(request.headers.get("host", "")),
            access.cookie(),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )

    @app.delete("/api/session", status_code=204, tags=["session"], responses=errors())
    async def end_session(request: Request, response: Response) -> None:
        """Forget the cookie."""
        response.delete_cookie(cookie_name(request.headers.get("host", "")), httponly=True, samesite="strict")
