"""What is measured in all processes, as one pipeline would tell it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from sluice.app.serve.processes.crew import Crew, Member
from sluice.app.serve.processes.engine import SharedEngine, ask_all
from sluice.app.streams import StreamState, StreamStatus
from sluice.metrics import ElementNumbers, Metrics, Snapshot, StreamNumbers
from sluice.metrics.process import ProcessNumbers, read_process


class SharedMonitor:
    """The numbers of all processes. Any thread may ask.

    Attributes:
        metrics: as Prometheus and OpenTelemetry take them.
    """

    def __init__(self, crew: Crew, engine: SharedEngine) -> None:
        """Measure processes; raises ConfigurationError if prometheus-client is not installed."""
        self._crew = crew
        self._engine = engine
        self._known: dict[Member, Snapshot] = {}
        self.metrics = Metrics(self.snapshot)

    def snapshot(self) -> Snapshot:
        """Return all numbers as they are now; of a process that does not answer, as they were."""
        answers = ask_all(self._crew, "numbers")
        self._known.update({member: found for member, found in answers.items() if found is not None})
        parts = [
            # How the streams of one that is silent are is told by the engine.
            self._known[member] if found is not None else dataclasses.replace(self._known[member], streams=())
            for member, found in answers.items()
            if member in self._known
        ]
        merged = merged_snapshot(parts, self._engine.streams)
        last = self._crew.events.since()
        return dataclasses.replace(
            merged,
            model_busy=self._engine.model_seconds,
            events=last[-1].number if last else 0,
            workers=self._processes(),
        )

    def _processes(self) -> tuple[ProcessNumbers, ...]:
        return tuple(read_process(pid) for pid in self._crew.pids)


def merged_snapshot(parts: Sequence[Snapshot], streams: Iterable[StreamStatus]) -> Snapshot:
    """Return the numbers of several processes as those of one.

    Args:
        parts: what each says.
        streams: all streams; one that no process tells of is shown as it is here.

    Counters of elements, of the model and of messages are added up. How long a call of the model takes is the mean of
    all calls, and the longest.
    """
    told = {stream.name: stream for part in parts for stream in part.streams}
    calls = [sum(element.batches for element in part.elements if element.name == "sluiceinfer") for part in parts]
    means = [part.model_seconds[0] for part in parts]
    total = sum(calls)
    mean = sum(count * each for count, each in zip(calls, means, strict=True)) / total if total else max([0.0, *means])
    return Snapshot(
        streams=tuple(told.get(status.name) or _untold(status) for status in streams),
        states=tuple(state.value for state in StreamState),
        elements=_elements(parts),
        batch_size=max((part.batch_size for part in parts), default=0),
        latencies=tuple(found for part in parts for found in part.latencies),
        last=next((part.last for part in parts if part.last), ""),
        model_seconds=(mean, max((part.model_seconds[1] for part in parts), default=0.0)),
        model_busy=max((part.model_busy for part in parts), default=0.0),
        model=_sum(part.model for part in parts),
        messages=_sum(part.messages for part in parts),
        spooled=sum(part.spooled for part in parts),
        outputs=tuple(output for part in parts for output in part.outputs),
        viewers={key: count for part in parts for key, count in part.viewers.items()},
    )


def _elements(parts: Iterable[Snapshot]) -> tuple[ElementNumbers, ...]:
    found: dict[str, ElementNumbers] = {}
    for element in (element for part in parts for element in part.elements):
        known = found.get(element.name, ElementNumbers(element.name))
        found[element.name] = ElementNumbers(
            element.name,
            known.batches + element.batches,
            known.frames + element.frames,
            known.in_flight + element.in_flight,
        )
    return tuple(found.values())


def _sum(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in counts:
        for name, count in each.items():
            total[name] = total.get(name, 0) + count
    return total


def _untold(status: StreamStatus) -> StreamNumbers:
    """Return a stream whose process says nothing."""
    return StreamNumbers(
        status.name,
        status.number,
        str(status.state),
        frames_in=status.frames_in,
        frames_out=status.frames_out,
        dropped=status.dropped,
        overtaken=status.overtaken,
        reconnects=status.reconnects,
        live=status.live,
    )
