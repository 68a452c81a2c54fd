"""What is wanted of a fleet, kept in Ray's own store: it outlives actors and, where Ray has a Redis, the head."""

from __future__ import annotations

import json
from dataclasses import dataclass

from sluice.app.fleet.schema import Fleet

_KEY = "sluice/fleet/{}"


@dataclass(frozen=True)
class Kept:
    """What is kept.

    Attributes:
        fleet: what is wanted.
        drained: ids of the nodes that are not to be used.
        generation: number of the last controller; see `sluice.app.fleet.fence`.
    """

    fleet: Fleet
    drained: tuple[str, ...] = ()
    generation: int = 0


class Store:
    """Keeps one fleet; every method waits for Ray's head."""

    def __init__(self, fleet: str) -> None:
        """Keep the fleet of that name."""
        self._fleet = fleet

    def read(self) -> Kept | None:
        """Return what was kept, None if nothing was."""
        from ray.experimental.internal_kv import _internal_kv_get

        text = _internal_kv_get(_KEY.format(self._fleet))
        if text is None:
            return None
        found = json.loads(text)
        return Kept(Fleet.model_validate(found["fleet"]), tuple(found["drained"]), int(found["generation"]))

    def write(self, kept: Kept) -> None:
        """Keep this."""
        from ray.experimental.internal_kv import _internal_kv_put

        text = json.dumps(
            {"fleet": kept.fleet.model_dump(mode="json"), "drained": kept.drained, "generation": kept.generation}
        )
        _internal_kv_put(_KEY.format(self._fleet), text, overwrite=True)

    def forget(self, generation: int) -> None:
        """Keep nothing but the generation: a fleet of the same name that begins later counts on from it."""
        self.write(Kept(Fleet(name=self._fleet), (), generation))
