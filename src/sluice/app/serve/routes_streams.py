"""``/api/streams``: list, add, remove, restart, and change how they are treated."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Response
from pydantic import TypeAdapter, ValidationError

from sluice.app.serve.bodies import Accepted, NewStream, PolicyChange, Question, Stream, Streams
from sluice.app.serve.context import Context, Name, errors
from sluice.app.serve.loading import explain, shown
from sluice.app.serve.service import Service, as_dict
from sluice.app.streams import StreamPolicy, StreamStatus
from sluice.errors import ConfigurationError

_POLICY = TypeAdapter(StreamPolicy)


def router(context: Context) -> APIRouter:
    """Return the routes."""
    api = APIRouter(prefix="/api/streams", tags=["streams"])

    def stream(service: Service, status: StreamStatus) -> Stream:
        body = as_dict(status)
        body["uri"], body["reason"] = context.scrub(status.uri), context.scrub(status.reason)
        return Stream(**body, policy=service.policy(status.name))

    @api.get("", responses=errors())
    async def list_streams() -> Streams:
        """All streams, with their states."""
        return await context.read(lambda service: Streams(streams=[stream(service, one) for one in service.streams()]))

    @api.post("", status_code=201, responses=errors(400, 409, 413, 422))
    async def add_stream(body: NewStream, response: Response) -> Stream:
        """Add a stream. It is opened at once; its state says whether that works."""

        def add(service: Service) -> Stream:
            return stream(service, service.add(body.source, body.name, body.policy))

        added = await context.change(add, f"the stream {body.name}")
        response.headers["Location"] = f"/api/streams/{body.name}"
        return added

    @api.get("/{name}", responses=errors(404, 422))
    async def get_stream(name: Name) -> Stream:
        """One stream."""
        return await context.read(lambda service: stream(service, service.stream(name)))

    @api.delete("/{name}", status_code=204, responses=errors(404, 409, 422))
    async def remove_stream(name: Name) -> None:
        """Take a stream out. It stays out after a restart of the service."""
        await context.change(lambda service: service.remove(name), f"the stream {name}")

    @api.post("/{name}/restart", status_code=202, responses=errors(404, 409, 422))
    async def restart_stream(name: Name) -> Accepted:
        """Open a stream anew, whatever its state."""
        await context.change(lambda service: service.restart(name), f"the stream {name}")
        return Accepted()

    @api.post("/{name}/ask", status_code=202, responses=errors(400, 404, 409, 413, 422))
    async def ask_about_stream(name: Name, body: Question) -> Accepted:
        """Have the vision-language model asked about a stream, from its next frame on; see `/api/answers`."""
        await context.change(lambda service: service.ask(name, body.prompt), f"the stream {name}")
        return Accepted()

    @api.patch("/{name}", responses=errors(400, 404, 409, 413, 422))
    async def change_stream(name: Name, body: PolicyChange) -> Stream:
        """Change members of a stream's policy; it is restarted where that is needed."""

        def update(service: Service) -> Stream:
            return stream(service, service.update(name, merged(service.policy(name), body.policy)))

        return await context.change(update, f"the stream {name}")

    return api


def merged(policy: StreamPolicy, changes: Mapping[str, Any]) -> StreamPolicy:
    """Return a policy with some members changed.

    Raises:
        ConfigurationError: a member is unknown or has a wrong value; names it and what would be right.
    """
    whole = {**dataclasses.asdict(policy), **changes}
    try:
        return _POLICY.validate_python(whole)
    except ValidationError as error:
        texts = [
            f"{shown(at) or 'policy'}: {text}"
            for at, text in explain(error.errors(include_url=False), StreamPolicy, whole)
        ]
        raise ConfigurationError("; ".join(texts)) from error
