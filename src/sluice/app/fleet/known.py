"""What the controller knows of one worker."""

from __future__ import annotations

from dataclasses import dataclass, field

from sluice.app.fleet.cluster import Call, Handle
from sluice.app.fleet.orders import Report
from sluice.app.streams.states import StreamState

_AGAIN = 10.0  # seconds between two attempts to have a worker change to the model that it shall run, and
_BUSY = 1.0  # where it could not take the order because it was loading another: that may end at any moment
_REFUSED_AGAIN = 30.0  # between two attempts to have it run streams that it could not add


@dataclass
class Known:
    """A worker, and what the controller knows of it; times are those of the controller's clock.

    Attributes:
        name: the worker's.
        handle: how it is spoken to.
        model: the model it was started with.
        asked: when it was last asked how it is, or to start.
        capacity: most streams of it, when it was asked for.
        node: id of its node, "" before that is known.
        starting: the call that ends when it has started; None afterwards.
        reporting: the question how it is, while it is on its way.
        syncing: the order of its streams, while it is on its way.
        synced: when that was given.
        stopping: the order to stop, None before.
        stop_by: when it is ended if it has not stopped.
        heard: when it last answered, 0 before.
        lost: whether it was given up; it may come back, unless it is dead.
        dead: whether its process has ended, or is to be ended.
        report: its last answer.
        last_event: number of the last of its events that were read.
        told: the streams that it was last told of, with their epochs.
        made: how it was made; see `WorkerOrder`.
        refused: why it could not add streams, by name.
        refused_at: when it said so.
        given: the model that it was last told to change to, and when; an order that it was too busy for does not count.
        swapping: that order, while it is on its way.
        took: what `given` was before.
        busy_until: when it may be told again, after it was too busy.
        moved: how many frames had left its streams when that number last changed, and when that was.
    """

    name: str
    handle: Handle
    model: str
    asked: float
    capacity: int
    node: str = ""
    starting: Call | None = None
    reporting: Call | None = None
    syncing: Call | None = None
    synced: float = 0.0
    stopping: Call | None = None
    stop_by: float = 0.0
    heard: float = 0.0
    lost: bool = False
    dead: bool = False
    report: Report | None = None
    last_event: int = 0
    told: dict[str, int] = field(default_factory=dict)
    made: str = ""
    refused: dict[str, str] = field(default_factory=dict)
    refused_at: float = 0.0
    given: tuple[str, float] = ("", 0.0)
    swapping: Call | None = None
    took: tuple[str, float] = ("", 0.0)
    busy_until: float = 0.0
    moved: tuple[int, float] = (-1, 0.0)

    @property
    def up(self) -> bool:
        """Whether streams may be placed on it."""
        return self.starting is None and not self.lost and self.stopping is None

    def may_take_refused(self, now: float) -> bool:
        """Whether it is to be told again of streams that it could not add: a file may be there, a camera let go of."""
        return bool(self.refused) and now - self.refused_at >= _REFUSED_AGAIN

    def lacks_model(self, wanted: str, now: float) -> bool:
        """Whether it is to be told to change to a model: it neither runs nor loads it, or loads another.

        A worker without streams is not: models change between two frames. Nor is one that has just said it was busy.
        """
        if self.report is None or not self.report.epochs:
            return False
        counts, (given, when) = self.report.counts, self.given
        settled = given in ("", wanted) or bool(counts.refusal)  # it does not load another one
        if counts.model == wanted and settled:
            return False
        return now >= self.busy_until and not (given == wanted and now - when < _AGAIN)

    def give_model(self, wanted: str, now: float) -> None:
        """Tell it to change to a model."""
        self.swapping = self.handle.swap_model(wanted)
        self.took, self.given = self.given, (wanted, now)

    def was_busy(self, now: float) -> None:
        """Take back the order to change the model: it still loads what it had been told to before."""
        self.given, self.busy_until = self.took, now + _BUSY

    def is_stuck(self, now: float, after: float) -> bool:
        """Whether its streams play and none has given a frame for so many seconds, by its last report."""
        streams = self.report.streams if self.report is not None else ()
        frames = sum(stream.frames_out for stream in streams)
        if frames != self.moved[0] or not any(stream.state == StreamState.PLAYING for stream in streams):
            self.moved = (frames, now)
        return now - self.moved[1] > after
