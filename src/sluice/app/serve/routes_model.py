"""``/api/models`` and ``/api/thresholds``: what is executed, and which of its results count."""

from __future__ import annotations

from fastapi import APIRouter

from sluice.app.serve.bodies import Accepted, Model, Models, Swap, SwapBegun, ThresholdChange
from sluice.app.serve.context import Context, errors
from sluice.app.serve.schema import Thresholds
from sluice.app.serve.service import Service

_MODEL = "the model"


def router(context: Context) -> APIRouter:
    """Return the routes."""
    api = APIRouter(prefix="/api", tags=["model"])

    @api.get("/models", responses=errors())
    async def list_models() -> Models:
        """The model that is executed, and those that may be swapped to."""

        def read(service: Service) -> Models:
            current = {key: context.scrub(str(value)) for key, value in service.engine.model.items()}
            return Models(current=Model(**current), available=service.models())

        return await context.read(read)

    @api.post("/models/swap", status_code=202, responses=errors(400, 409, 413, 422))
    async def swap_model(body: Swap) -> SwapBegun:
        """Change the model while the streams go on. How that ends is said by the first event behind the one named."""
        event = await context.change(lambda service: service.swap(body.model, body.policy), _MODEL)
        return SwapBegun(event=event)

    @api.get("/thresholds", responses=errors())
    async def get_thresholds() -> Thresholds:
        """Which detections count."""
        return await context.read(lambda service: service.thresholds())

    @api.patch("/thresholds", status_code=202, responses=errors(400, 409, 413, 422))
    async def change_thresholds(body: ThresholdChange) -> Accepted:
        """Change some of them; null: the model's own. It is loaded anew for that; an event says how that went."""
        given = body.model_dump(exclude_unset=True)
        await context.change(lambda service: service.set_thresholds(given), _MODEL)
        return Accepted()

    return api
