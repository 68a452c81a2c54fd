"""What the routes of the API share, and the types of their parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from fastapi import Path

from sluice.app.serve.calls import Calls
from sluice.app.serve.gate import Access
from sluice.app.serve.live import Viewers
from sluice.app.serve.problems import Problem
from sluice.app.serve.schema import NAME_PATTERN
from sluice.app.serve.service import NotReadyError, Service

Result = TypeVar("Result")
Name = Annotated[str, Path(pattern=NAME_PATTERN, description="A stream's name.")]
READING, CHANGING = 5.0, 15.0
"""Seconds that a request waits for the engine; see `Calls`."""
_MOST_HEALTH = 16


@dataclass
class Context:
    """One web application's surroundings.

    Attributes:
        access: who may do what.
        scrub: removes secrets from a text.
        service: the service, once it is there.
        failure: why there will be none any more.
        metrics: gives the text for Prometheus, once there is one.
        probe: asks all that works for the service something; None: the service's streams are asked for.
    """

    access: Access
    scrub: Callable[[str], str]
    most_viewers: int = 64
    service: Service | None = None
    failure: str | None = None
    metrics: Callable[[], str] | None = None
    probe: Callable[[], object] | None = None
    reads: Calls = field(default_factory=Calls)
    changes: Calls = field(default_factory=Calls)
    health: Calls = field(default_factory=lambda: Calls(_MOST_HEALTH))
    viewers: Viewers = field(init=False)

    def __post_init__(self) -> None:
        """Allow the viewers."""
        self.viewers = Viewers(self.most_viewers)

    def running(self) -> Service:
        """Return the service.

        Raises:
            NotReadyError: it does not run yet, or no more.
        """
        if self.service is None or not self.service.ready:
            raise NotReadyError("the service starts or stops; try again in a moment")
        return self.service

    async def read(self, work: Callable[[Service], Result]) -> Result:
        """Return what the service says, from a thread that may wait."""
        service = self.running()
        return await self.reads.run(lambda: work(service), patience=READING)

    async def ask_health(self) -> None:
        """Ask the pipeline something, apart from all else that is asked.

        Raises:
            UnfinishedError: it does not answer.
            BusyError: it has not answered for several times.
        """
        service = self.service
        if service is not None:
            await self.health.run(self.probe or service.streams, patience=READING)

    async def change(self, work: Callable[[Service], Result], key: str) -> Result:
        """Have the service do something; of two changes of the same thing, the second is refused."""
        service = self.running()
        return await self.changes.run(lambda: work(service), patience=CHANGING, key=key)


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return what an operation may answer besides its result, for the OpenAPI document."""
    texts = {
        400: "The body is no JSON.",
        401: "The token is missing or wrong.",
        403: "It may not be used, or a page of another origin asks.",
        404: "There is no such thing.",
        409: "It is there already, or being changed.",
        413: "The body is too large.",
        421: "The service does not answer to this host name.",
        422: "A value cannot be used.",
        503: "The service starts or stops.",
        504: "It takes longer, and goes on.",
    }
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    always = (401, 403, 421, 503, 504)
    return {
        status: {"description": texts[status], "model": Problem, "content": content}
        for status in sorted({*always, *statuses})
    }
