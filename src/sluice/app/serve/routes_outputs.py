"""``/api/streams/NAME/outputs`` and ``/clip``: what is made of a stream, switched on and off while it plays."""

from __future__ import annotations

from fastapi import APIRouter

from sluice.app.serve.bodies import Accepted, Clip, OutputChange, Outputs
from sluice.app.serve.context import Context, Name, errors
from sluice.app.serve.service import Service


def router(context: Context) -> APIRouter:
    """Return the routes."""
    api = APIRouter(prefix="/api/streams/{name}", tags=["outputs"])

    def outputs(service: Service, name: str) -> Outputs:
        service.check_pictures(name)
        rtsp = service.pictures.rtsp_url(name)
        return Outputs(
            rtsp=None if rtsp is None else context.scrub(rtsp), numbers=service.pictures.stats().get(name, {})
        )

    @api.get("/outputs", responses=errors(404, 422))
    async def get_outputs(name: Name) -> Outputs:
        """What was made of a stream so far, and where it can be viewed by RTSP."""
        return await context.read(lambda service: outputs(service, name))

    @api.patch("/outputs", responses=errors(400, 404, 409, 413, 422))
    async def switch_outputs(name: Name, body: OutputChange) -> Outputs:
        """Switch outputs of a stream on or off, of those that the configuration has; until the service ends."""

        def switch(service: Service) -> Outputs:
            service.check_pictures(name)
            for output, on in body.model_dump(exclude_none=True).items():
                service.pictures.enable(name, output, on)
            return outputs(service, name)

        return await context.change(switch, f"the outputs of {name}")

    @api.post("/clip", status_code=202, responses=errors(400, 404, 409, 413, 422))
    async def write_clip(name: Name, body: Clip) -> Accepted:
        """Write a clip around this moment; an event names the file."""

        def clip(service: Service) -> None:
            service.check_pictures(name)
            service.pictures.clip(name, body.reason)

        await context.change(clip, f"the clips of {name}")
        return Accepted()

    return api
