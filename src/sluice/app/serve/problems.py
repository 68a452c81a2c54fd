"""Errors of the API as problem details (RFC 9457): what was wrong, and what would be right."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException

from sluice.app.model_control import BusyModel
from sluice.app.outputs.hub import BusyOutputs
from sluice.app.serve.calls import BusyError, UnfinishedError
from sluice.app.serve.loading import explain, shown
from sluice.app.serve.paths import OutsideError
from sluice.app.serve.processes.channel import ProcessDownError
from sluice.app.serve.service import NotReadyError, TakenNameError, UnknownStreamError
from sluice.errors import SluiceError

MEDIA_TYPE = "application/problem+json"
_log = logging.getLogger(__name__)
# The first class that fits counts.
_STATUS: tuple[tuple[type[SluiceError], HTTPStatus], ...] = (
    (OutsideError, HTTPStatus.FORBIDDEN),
    (UnknownStreamError, HTTPStatus.NOT_FOUND),
    (TakenNameError, HTTPStatus.CONFLICT),
    (BusyError, HTTPStatus.CONFLICT),
    (BusyModel, HTTPStatus.CONFLICT),
    (NotReadyError, HTTPStatus.SERVICE_UNAVAILABLE),
    (ProcessDownError, HTTPStatus.SERVICE_UNAVAILABLE),
    (UnfinishedError, HTTPStatus.GATEWAY_TIMEOUT),
    (BusyOutputs, HTTPStatus.GATEWAY_TIMEOUT),
    (SluiceError, HTTPStatus.UNPROCESSABLE_ENTITY),
)


class Mistake(BaseModel):
    """One value of a request that cannot be used."""

    where: str
    """The value, such as ``policy.fps``."""
    text: str
    """What is wrong, and what would be right."""


class Problem(BaseModel):
    """An error, as RFC 9457 has it."""

    title: str
    """The HTTP status in words."""
    status: int
    """The HTTP status."""
    detail: str
    """What was wrong, and what would be right."""
    mistakes: list[Mistake] = []
    """The values that cannot be used, where it was the request's body."""


def problem(
    status: int, detail: str, *, mistakes: list[Mistake] | None = None, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """Return a response that says what was wrong."""
    body = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail, mistakes=mistakes or [])
    return JSONResponse(body.model_dump(), status, headers, media_type=MEDIA_TYPE)


def answer_errors(app: FastAPI, scrub: Callable[[str], str]) -> None:
    """Have every error of an application answered with a problem, without secrets."""

    async def refuse(_request: Request, error: Exception) -> JSONResponse:
        status = next(status for kind, status in _STATUS if isinstance(error, kind))
        return problem(status, scrub(str(error)))

    async def refuse_values(request: Request, error: Exception) -> JSONResponse:
        """Status 400 for a body that is no JSON, else 422, with the place of each mistake."""
        assert isinstance(error, RequestValidationError)
        mistakes = [Mistake(where=where, text=scrub(text)) for where, text in _mistakes(request, error)]
        broken = any(item["type"] == "json_invalid" for item in error.errors())
        return problem(
            HTTPStatus.BAD_REQUEST if broken else HTTPStatus.UNPROCESSABLE_ENTITY,
            "; ".join(f"{mistake.where}: {mistake.text}" for mistake in mistakes),
            mistakes=mistakes,
        )

    async def pass_on(_request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        return problem(error.status_code, scrub(str(error.detail)), headers=error.headers)

    async def fail(request: Request, error: Exception) -> JSONResponse:
        _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "the service has a fault; its log has the traceback")

    app.add_exception_handler(SluiceError, refuse)
    app.add_exception_handler(RequestValidationError, refuse_values)
    app.add_exception_handler(HTTPException, pass_on)
    app.add_exception_handler(Exception, fail)


def _mistakes(request: Request, error: RequestValidationError) -> list[tuple[str, str]]:
    """Return what is wrong with a request, by the names of its values."""
    found: list[tuple[str, str]] = []
    body: list[ErrorDetails] = []
    for item in error.errors():
        part, *where = item["loc"]  # "body", "path" or "query", and where in it
        if item["type"] == "json_invalid":
            found.append(("body", f"is no JSON: {item['ctx']['error']} at character {where[0]}"))
        elif part == "body" and where:
            body.append(cast("ErrorDetails", {**item, "loc": tuple(where)}))
        else:
            message = item["msg"].removeprefix("Input ")
            found.append((".".join(map(str, where)) or part, message[0].lower() + message[1:]))
    field = getattr(request.scope.get("route"), "body_field", None)
    top = None if field is None else field.field_info.annotation
    return found + [(shown(at) or "body", text) for at, text in explain(body, top, error.body)]
