"""What is measured in all processes, as one pipeline would tell it."""

from __future__ import annotations

import dataclasses
import os
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence

from sluice.app.serve.processes.crew import Crew, Member
from sluice.app.serve.processes.engine import SharedEngine, ask_all
from sluice.app.serve.processes.worker import Worker
from sluice.app.streams import StreamState, StreamStatus
from sluice.metrics import ElementNumbers, Metrics, Snapshot, StreamNumbers
from sluice.metrics.process import ProcessNumbers, read_process


class SharedMonitor:
    """The numbers of all processes. Any thread may ask.

    What a process that has ended had counted at the last look stays in the sums: a sum that fell would be taken for one
    that began anew at 0, and all that is left of it for an increase.

    Attributes:
        metrics: as Prometheus and OpenTelemetry take them.
    """

    def __init__(self, crew: Crew, engine: SharedEngine) -> None:
        """Measure processes; raises ConfigurationError if prometheus-client is not installed."""
        self._crew = crew
        self._engine = engine
        self._lock = threading.Lock()
        self._known: dict[Worker, Snapshot] = {}
        self._ended = Snapshot()
        self.metrics = Metrics(self.snapshot)

    def snapshot(self) -> Snapshot:
        """Return all numbers as they are now; of a process that does not answer, as they were."""
        before = {member: member.worker for member in self._crew.members}
        answers = ask_all(self._crew, "numbers")
        merged = merged_snapshot(self._parts(before, answers), self._engine.streams)
        last = self._crew.events.since()
        return dataclasses.replace(
            merged,
            model_busy=self._engine.model_seconds,
            events=last[-1].number if last else 0,
            workers=self._processes(),
        )

    def _parts(
        self, before: Mapping[Member, Worker | None], answers: Mapping[Member, Snapshot | None]
    ) -> list[Snapshot]:
        """Return what each process says, and what those that have ended said."""
        with self._lock:
            running = {worker: member for member in self._crew.members if (worker := member.worker) is not None}
            for worker, member in running.items():
                found = answers.get(member)
                if found is not None and before[member] is worker:  # else it may be the answer of the one before
                    self._known[worker] = found
            for worker in self._known.keys() - running.keys():
                self._ended = merged_snapshot([self._ended, _counted(self._known.pop(worker))], ())
            # How the streams of one that is silent are is told by the engine.
            said = [
                known if answers.get(running[worker]) is not None else dataclasses.replace(known, streams=())
                for worker, known in self._known.items()
            ]
            return [*said, self._ended]

    def _processes(self) -> tuple[ProcessNumbers, ...]:
        times = os.times()
        ended = ProcessNumbers(0, 0, 0, times.children_user + times.children_system, sys.getswitchinterval())
        return (*(read_process(pid) for pid in self._crew.pids), ended)


def _counted(snapshot: Snapshot) -> Snapshot:
    """Return what stays of a process's numbers after its end: what its sums and the mean of its calls are made of."""
    return Snapshot(
        elements=tuple(dataclasses.replace(element, in_flight=0) for element in snapshot.elements),
        model_seconds=snapshot.model_seconds,
        model=snapshot.model,
        messages=snapshot.messages,
    )


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
