"""Pictures: one as JPEG, live ones as multipart JPEG, and by WebRTC."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from sluice.app.serve.context import CHANGING, Context, Name, errors
from sluice.app.serve.live import BOUNDARY, LiveResponse, multipart, pictures
from sluice.app.serve.service import Service, UnknownStreamError
from sluice.errors import ConfigurationError

MOST_STREAMS = 256
_SDP = "application/sdp"
_Rate = Annotated[float, Query(ge=0.1, le=60, description="The most pictures per second.")]
_Names = Annotated[list[str], Query(max_length=MOST_STREAMS, description="A stream's name; as often as wanted.")]
_Session = Annotated[str, Path(pattern=r"^[\w-]{1,64}$")]
_JPEG = {"description": "The picture.", "content": {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}}}
_LIVE = {
    "description": "JPEG pictures without end, each a part whose header X-Stream names the stream.",
    "content": {f"multipart/x-mixed-replace; boundary={BOUNDARY}": {"schema": {"type": "string", "format": "binary"}}},
}
_ANSWER = {"description": "The answer.", "content": {_SDP: {"schema": {"type": "string"}}}}
_OFFER = {"requestBody": {"required": True, "content": {_SDP: {"schema": {"type": "string"}}}}}


def router(context: Context) -> APIRouter:
    """Return the routes."""
    api = APIRouter(prefix="/api", tags=["pictures"])

    @api.get("/streams/{name}/snapshot.jpg", response_class=Response, responses={**errors(404, 422), 200: _JPEG})
    async def get_snapshot(name: Name) -> Response:
        """The newest picture of a stream, with what is drawn on it."""

        def read(service: Service) -> bytes:
            service.check_pictures(name)
            picture = service.pictures.snapshot(name)
            if picture is None:
                raise UnknownStreamError(f"there is no picture of {name!r} yet")
            return picture

        return Response(await context.read(read), media_type="image/jpeg")

    @api.get("/streams/{name}/live.mjpeg", response_class=LiveResponse, responses={**errors(404, 409, 422), 200: _LIVE})
    async def follow_stream(name: Name, fps: _Rate = 25) -> LiveResponse:
        """Live pictures of a stream, as a browser shows them in place of an image."""
        await context.read(lambda service: service.check_pictures(name))
        return follow([name], fps)

    @api.get("/live", response_class=LiveResponse, responses={**errors(409, 422), 200: _LIVE})
    async def follow_streams(
        stream: _Names,
        fps: _Rate = 10,
    ) -> LiveResponse:
        """Live pictures of many streams in one answer: browsers open only six connections to one host."""
        return follow(list(dict.fromkeys(stream)), fps)

    def follow(names: list[str], fps: float) -> LiveResponse:
        service = context.running()
        context.viewers.check()
        found = multipart(pictures(service.pictures, names, context.viewers, context.reads, fps))
        return LiveResponse(found, media_type=f"multipart/x-mixed-replace; boundary={BOUNDARY}")

    @api.post(
        "/streams/{name}/whep",
        status_code=201,
        response_class=Response,
        responses={**errors(404, 409, 413, 422), 201: _ANSWER},
        openapi_extra=_OFFER,
    )
    async def begin_webrtc(name: Name, request: Request) -> Response:
        """Begin to send a stream by WebRTC, as WHEP does: an SDP offer, and the answer with all candidates."""
        if request.headers.get("content-type", "").partition(";")[0].strip() != _SDP:
            raise ConfigurationError(f"the body is no SDP offer; its Content-Type is {_SDP}")
        try:
            offer = (await request.body()).decode()
        except UnicodeDecodeError:
            raise ConfigurationError("the SDP offer is no UTF-8 text") from None

        def begin(service: Service) -> tuple[str, str]:
            service.check_pictures(name)
            return service.pictures.webrtc_answer(name, offer)

        context.viewers.check()
        service = context.running()
        session, answer = await context.reads.run(lambda: begin(service), patience=CHANGING)
        where = f"/api/streams/{name}/whep/{session}"
        return Response(answer, 201, {"Location": where}, media_type=_SDP)

    @api.delete("/streams/{name}/whep/{session}", status_code=204, responses=errors(404, 422))
    async def end_webrtc(name: Name, session: _Session) -> None:  # noqa: ARG001 - the name is part of the path
        """End a WebRTC session."""
        await context.read(lambda service: service.pictures.webrtc_close(session))

    return api
