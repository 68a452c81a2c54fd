"""What the controller knows of one worker."""

from __future__ import annotations

from dataclasses import dataclass, field

from sluice.app.fleet.cluster import Call, Handle
from sluice.app.fleet.orders import Report


@dataclass
class Known:
    """A worker, and what the controller knows of it; times are those of the controller's clock.

    Attributes:
        name: the worker's.
        handle: how it is spoken to.
        model: the model it was started with.
        asked: when it was last asked how it is.
        node: id of its node, "" before that is known.
        starting: the call that ends when it has started; None afterwards.
        reporting: the question how it is, while it is on its way.
        syncing: the order of its streams, while it is on its way.
        stopping: the order to stop, None before.
        stop_by: when it is ended if it has not stopped.
        heard: when it last answered, 0 before.
        lost: whether it was given up; it may come back.
        report: its last answer.
        last_event: number of the last of its events that were read.
        told: the streams that it was last told of, with their epochs.
    """

    name: str
    handle: Handle
    model: str
    asked: float
    node: str = ""
    starting: Call | None = None
    reporting: Call | None = None
    syncing: Call | None = None
    stopping: Call | None = None
    stop_by: float = 0.0
    heard: float = 0.0
    lost: bool = False
    report: Report | None = None
    last_event: int = 0
    told: dict[str, int] = field(default_factory=dict)

    @property
    def up(self) -> bool:
        """Whether streams may be placed on it."""
        return self.starting is None and not self.lost and self.stopping is None
