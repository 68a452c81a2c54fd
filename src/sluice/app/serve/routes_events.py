"""Events, answers of language models, statistics, history and metrics: what happens, in words and numbers."""

from __future__ import annotations

from typing import Annotated

import gi
from fastapi import APIRouter, Header, Query
from fastapi.responses import PlainTextResponse

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice import __version__
from sluice.app.serve.bodies import (
    Happening,
    Happenings,
    HistoryAnswer,
    HistorySample,
    Statistics,
    TextAnswers,
    Totals,
)
from sluice.app.serve.context import Context, errors
from sluice.app.serve.history import INTERVAL, Sample
from sluice.app.serve.live import LiveResponse, server_sent_events
from sluice.app.serve.service import NotReadyError, Service
from sluice.app.streams import Event, StreamState
from sluice.errors import ConfigurationError
from sluice.metrics.process import read_process

# webrtcbin of 1.22 never frees its ICE agent and its sockets; that of 1.26 does. None between them was tried.
_WEBRTC_LETS_GO = (1, 26)
_Since = Annotated[int, Query(ge=0, le=2**53, description="Number of the last event seen; 0: all that are kept.")]


def router(context: Context) -> APIRouter:
    """Return the routes."""
    api = APIRouter(tags=["monitoring"])

    def happening(event: Event) -> Happening:
        details = {key: _plain(value, context) for key, value in event.details.items()}
        return Happening(
            number=event.number,
            time=event.time,
            kind=event.kind,
            stream=event.stream,
            text=context.scrub(event.text),
            details=details,
        )

    @api.get("/api/events", responses=errors(422))
    async def list_events(since: _Since = 0, limit: Annotated[int, Query(ge=1, le=1000)] = 200) -> Happenings:
        """Events behind a number, oldest first; of more than the limit, the oldest, or without a number the newest."""

        def read(service: Service) -> Happenings:
            events = service.engine.events.since(since)
            chosen = events[:limit] if since else events[-limit:]
            last = chosen[-1].number if chosen else since
            return Happenings(events=[happening(event) for event in chosen], last=last)

        return await context.read(read)

    @api.get("/api/events/stream", response_class=LiveResponse, responses={**errors(409, 422), 200: _SENT_EVENTS})
    async def follow_events(since: _Since = 0, last_event_id: Annotated[str | None, Header()] = None) -> LiveResponse:
        """Events as they happen, as server-sent events; a reader that comes back goes on where it stopped."""
        service = context.running()
        context.viewers.check()
        if last_event_id is not None:
            if not (last_event_id.isascii() and last_event_id.isdecimal() and len(last_event_id) < 16):
                raise ConfigurationError(f"Last-Event-ID is {last_event_id!r}; it is the number of an event")
            since = int(last_event_id)
        events = server_sent_events(
            service.engine.events, since, context.viewers, lambda event: happening(event).model_dump()
        )
        return LiveResponse(events, media_type="text/event-stream")

    @api.get("/api/answers", responses=errors(422))
    async def list_answers(since: Annotated[float, Query(ge=0, description="Seconds since 1970.")] = 0) -> TextAnswers:
        """What language models said about streams after a time, oldest first."""
        return await context.read(lambda service: TextAnswers(answers=service.answers.since(since)))

    @api.get("/api/statistics", responses=errors())
    async def get_statistics() -> Statistics:
        """How the service does."""
        return await context.read(lambda service: _statistics(service, context))

    @api.get("/api/history", responses=errors())
    async def get_history() -> HistoryAnswer:
        """Frames per second of each stream over the last minutes."""

        def read(service: Service) -> HistoryAnswer:
            return HistoryAnswer(interval=INTERVAL, samples=[_sample(sample) for sample in service.history.samples()])

        return await context.read(read)

    @api.get("/metrics", response_class=PlainTextResponse, responses=errors())
    async def get_metrics() -> PlainTextResponse:
        """All numbers for Prometheus."""
        text = context.metrics
        if text is None:
            raise NotReadyError("the service starts; try again in a moment")
        return PlainTextResponse(
            await context.read(lambda _service: text()), media_type="text/plain; version=0.0.4; charset=utf-8"
        )

    return api


_SENT_EVENTS = {"description": "Server-sent events.", "content": {"text/event-stream": {"schema": {"type": "string"}}}}


def _plain(value: object, context: Context) -> object:
    """Return a detail as JSON takes it, without secrets."""
    if isinstance(value, int | float | bool) or value is None:
        return value
    if isinstance(value, list | tuple):
        return [_plain(item, context) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item, context) for key, item in value.items()}
    return context.scrub(str(value))


def _sample(sample: Sample) -> HistorySample:
    return HistorySample(time=sample.time, fps=dict(sample.fps), dropped=sample.dropped)


def _statistics(service: Service, context: Context) -> Statistics:
    streams = service.streams()
    processes = [read_process(), *map(read_process, service.pids())]
    return Statistics(
        version=__version__,
        uptime=service.uptime,
        cpu_seconds=sum(process.cpu_seconds for process in processes),
        memory_bytes=sum(process.rss for process in processes),
        viewers=context.viewers.count,
        webrtc=service.pictures.webrtc_available,
        webrtc_advised=service.pictures.webrtc_available and Gst.version() >= _WEBRTC_LETS_GO,
        advice=service.history.advice,
        totals=Totals(
            streams=len(streams),
            playing=sum(stream.state is StreamState.PLAYING for stream in streams),
            fps=sum(stream.fps for stream in streams),
            frames_in=sum(stream.frames_in for stream in streams),
            frames_out=sum(stream.frames_out for stream in streams),
            dropped=sum(stream.dropped for stream in streams),
            reconnects=sum(stream.reconnects for stream in streams),
        ),
    )
