"""Runs a graph: starts it, listens to its bus on a thread of its own, tends its streams, ends it and reports."""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.accounts import Progress, leave_out_broken, progress_of
from sluice.app.allocation import keep_few_arenas, keep_pictures_apart
from sluice.app.graph import Graph
from sluice.app.gst import elements_in
from sluice.app.hearing import HEARD, Hearing, keep_what_is_heard
from sluice.app.measuring import Measuring
from sluice.app.model_control import ModelControl
from sluice.app.options import Options
from sluice.app.planned import Planned
from sluice.app.region import outside
from sluice.app.roster import Roster
from sluice.app.starting import start_elements
from sluice.app.streams.branch import BranchFactory
from sluice.app.streams.events import EventLog
from sluice.app.streams.policy import StreamPolicy
from sluice.app.streams.states import StreamStatus
from sluice.app.streams.stream import Stream
from sluice.app.streams.tending import Tending
from sluice.app.summary import Summary
from sluice.contract import counters
from sluice.contract.provider import provider
from sluice.errors import ConfigurationError, SluiceError, text_of

# A stop, which takes at most two seconds: for so long the frames on their way are waited for, then the files are
# finished without the rest, and at last everything is stopped, finished or not.
_DRAINING = 0.7
_FINISHING = 1.3
_STOPPING = 2.0
_LOOK = 0.05  # seconds between looks at the streams, and
_LOOK_EACH = 0.001  # at least so many for each stream: hundreds would keep a core busy
_REMOVING = 5.0  # seconds that a caller waits for a stream to be gone


class Job:
    """One run of one graph. Its thread is a daemon: what hangs can't keep the process from ending.

    Attributes:
        queue: frames for a program that iterates, or None.
        started: whether all elements were started.
        events: what has happened.
        model: changes the model.
        measuring: measures the shared elements, if somebody asks.
    """

    def __init__(
        self,
        planned: Sequence[Planned],
        options: Options,
        iterated: bool,
        *,
        branches: BranchFactory | None = None,
        events: EventLog | None = None,
    ) -> None:
        """Build the graph; raises ConfigurationError as `Graph` does."""
        if options.service:
            keep_few_arenas()
        self._graph = Graph([plan.source for plan in planned], options, iterated, branches)
        self._options = options
        self.queue = self._graph.queue
        self.events = events or EventLog(time.time)
        self.model = ModelControl(self._graph.infer, options, self.events)
        self.measuring = Measuring(self.elements, options.messages)
        self._host_frames = counters.host_frames()  # before this run: the counter is the process's
        self._roster: Roster[Stream] = Roster()
        self._summary = Summary(
            [],
            model=options.model_name,
            runtime=options.runtime_name,
            tracker=options.tracker,
            provider=provider().name,
        )
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._woken = False  # whether the thread that listens is told of what came into the inbox
        self._tending = Tending(self._graph, self.events, self._summary, self._post, options.service, random.random)
        keep_what_is_heard(self._graph.pipeline.get_bus())
        self._hearing = Hearing(self._graph, self._roster, self._tending, self._summary, self.model, self.events)
        if branches is not None and hasattr(branches, "emit"):  # outputs that have events of their own
            branches.emit = self._hearing.hear_output
        self.started = False
        self._begun = threading.Lock()  # held while it is decided who begins a stream that is added
        self._stop = threading.Event()
        self._stopped_at: float | None = None
        self._cut = False
        self._done = threading.Event()
        self._started = time.monotonic()
        self._looked = 0.0
        self._thread = threading.Thread(target=self._listen, name="sluice-pipeline", daemon=True)
        try:
            for plan in planned:
                self._graph.join(self._enlist(plan))
        except BaseException:
            self._graph.close([])
            raise
        if self._graph.endings.tiled:
            self._summary.outputs = [str(b.path) for b in self._graph.endings.branches.values() if b.path is not None]

    # For the caller's thread

    def start(self) -> None:
        """Load the model, start the shared elements and then the sources.

        Raises:
            ModelError: the model cannot be loaded.
            SluiceError: an element could not be started; a source that could not is a failed stream instead.
        """
        self._started = time.monotonic()
        keep_pictures_apart()
        try:
            self._graph.memory.prepare()
            start_elements(self._graph)
            self.measuring.started()
        except BaseException as error:  # an interruption too
            self._summary.errors.append(str(error))
            self._graph.close([])
            self._done.set()
            self.events.close()
            raise
        self.model.started()
        with self._begun:
            self.started = True
            streams = self._roster.all()
        for stream in streams:
            self._begin(stream)
        self._thread.start()

    def wait(self) -> None:
        """Wait for the end; a KeyboardInterrupt gets through.

        Raises:
            SluiceError: an error that ended the whole run.
        """
        while not self._done.wait(0.2):
            pass
        if self._hearing.fatal is not None:
            raise self._hearing.fatal

    def stop(self) -> None:
        """End every stream now, finish the files as far as that takes no longer than two seconds, and stop.

        Before everything has started it is noted only, and done then.
        """
        self._stop.set()
        if self._thread.is_alive():
            self._wake()
            self._done.wait(_STOPPING)

    def add(self, plan: Planned) -> str:
        """Add a stream while the others play; it is opened on a thread of its own. Return its name.

        Raises:
            ConfigurationError: its name is taken, or the run is over.
        """
        if self._done.is_set() or self._stop.is_set():
            raise ConfigurationError("no stream can be added: the run is over")
        with self._begun:
            stream = self._enlist(plan)
            begins = self.started
        if begins:
            self._begin(stream)
        return stream.name

    def remove(self, name: str) -> None:
        """Take a stream out, finish its file, and free what was kept for it; waits some seconds for that at most.

        Raises:
            UnknownStream: there is none of that name.
        """
        stream = self._roster.get(name)
        gone = threading.Event()

        def forget() -> None:
            self._roster.remove(stream)
            self._hearing.ended &= set(self._graph.endings.elements)
            self._hearing.broken &= set(self._graph.endings.elements)
            if self._options.service:
                self._summary.streams.remove(stream.summary)
            if not self._options.service and not self._roster.all():
                self._stop.set()  # nothing is left that could end it
            gone.set()

        if not stream.leaving:
            stream.leaving = True
            self._post(lambda: self._tending.remove(stream, lambda: self._post(forget)))
            gone.wait(_REMOVING)

    def restart(self, name: str) -> None:
        """Close a stream's source and open it anew, whatever state it is in.

        Raises:
            UnknownStream: there is none of that name.
            ConfigurationError: the stream has ended for the elements behind it too, as all do in a run that is no
                service.
        """
        stream = self._roster.get(name)
        if stream.finished or stream.ending:
            raise ConfigurationError(f"the stream {name!r} has ended; add it anew")
        self._post(lambda: self._tending.begin(stream))

    def update(self, name: str, policy: StreamPolicy) -> None:
        """Treat a stream by another policy from now on; where that concerns how it is opened, it is opened anew.

        Raises:
            UnknownStream: there is none of that name.
            ConfigurationError: its picture has nothing of the policy's region.
        """
        stream = self._roster.get(name)
        session = stream.session
        fault = outside(policy.region, session.size) if session is not None else ""
        if fault and policy.region != stream.policy.region:  # else something else is changed
            raise ConfigurationError(f"the stream {name!r}: {fault}")
        self._post(lambda: self._tending.update(stream, policy))

    @property
    def vlm(self) -> Gst.Element | None:
        """The element that asks a slow model; None without one."""
        return self._graph.behind.vlm

    @property
    def streams(self) -> list[StreamStatus]:
        """What each stream is doing."""
        return self._tending.statuses(self._roster.all())

    def stream(self, name: str) -> StreamStatus:
        """What one stream is doing.

        Raises:
            UnknownStream: there is none of that name.
        """
        return self._tending.status(self._roster.get(name))

    @property
    def summary(self) -> Summary:
        """The summary; a snapshot until the run is over."""
        if not self._done.is_set():
            self._count()
        return self._summary

    @property
    def model_seconds(self) -> float:
        """Seconds that all calls of the model took so far."""
        return self._graph.model_seconds()

    def progress(self) -> list[Progress]:
        """How far each stream is."""
        return progress_of(self._roster.all(), self._options.frames)

    def elements(self) -> list[Gst.Element]:
        """The elements of the pipeline itself, not those within its bins."""
        return elements_in(self._graph.pipeline)

    # For the thread that listens

    def _enlist(self, plan: Planned) -> Stream:
        policy = plan.policy or self._options.policy
        make = self._tending.maker(plan.source, policy)
        stream = self._roster.add(plan.source, plan.name, make, plan.number)
        stream.members = plan.members
        self._summary.streams.append(stream.summary)
        self.events.add("stream-added", stream.name, f"{stream.source.shown} is added", number=stream.number)
        return stream

    def _begin(self, stream: Stream) -> None:
        stream.worker.submit(partial(self._tending.join, stream))
        self._post(partial(self._tending.begin, stream))

    def _post(self, work: Callable[[], None]) -> None:
        """Have something done by the thread that listens."""
        self._inbox.put(work)
        if not self._woken:
            self._wake()

    def _wake(self) -> None:
        self._woken = True
        self._graph.pipeline.post_message(
            Gst.Message.new_application(self._graph.pipeline, Gst.Structure.new_empty("sluice-wake"))
        )

    def _listen(self) -> None:
        bus = self._graph.pipeline.get_bus()
        try:
            while True:
                message = bus.timed_pop_filtered(int(_LOOK * Gst.SECOND), HEARD)
                while message is not None:  # what was posted before the end is heard before the end
                    if self._hearing.hear(message):
                        self._looked = 0.0
                    message = bus.pop_filtered(HEARD)
                self._hearing.heard_all()
                self._woken = False  # before the inbox is emptied: what comes after that wakes anew
                while not self._inbox.empty():
                    self._inbox.get()()
                self._look()
                if self._ended():
                    break
                if self._hearing.fatal is not None:  # what has arrived at the files is worth finishing them
                    self._stop.set()
                if self._stop.is_set() and self._stopping():
                    break
        except BaseException as error:
            self._hearing.fatal = SluiceError(text_of(error))
            raise
        finally:
            self._finish()

    def _look(self) -> None:
        """Look at every stream, as often as is of use."""
        now = time.monotonic()
        streams = self._roster.all()
        if now - self._looked < max(_LOOK, _LOOK_EACH * len(streams)):
            return
        self._looked = now
        for stream in streams:
            self._tending.look(stream, now)

    def _stopping(self) -> bool:
        """Take the next step of a stop when its time has come; return whether the time is up."""
        now = time.monotonic()
        if self._stopped_at is None:
            self._stopped_at = now
            self._summary.stopped = self._hearing.fatal is None
            self._graph.hold_nothing_back()
            self._end_all()
        if now > self._stopped_at + _DRAINING and not self._cut:
            self._cut = True
            for stream in self._roster.all():
                self._in_background(partial(self._graph.finish, stream))
            self._in_background(self._graph.endings.end)
        return now > self._stopped_at + _FINISHING

    def _end_all(self) -> None:
        if self.queue is not None:
            self.queue.close(discard=True)
        self._graph.mux.set_property("drop-pipeline-eos", False)
        streams = self._roster.all()
        for stream in streams:
            self._tending.end(stream)
        if not streams and self._summary.streams:
            self._in_background(lambda: self._graph.infer.get_static_pad("sink").send_event(Gst.Event.new_eos()))

    @staticmethod
    def _in_background(work: Callable[[], object]) -> None:
        """Do what may wait for room in a stream's queue."""
        threading.Thread(target=work, name="sluice-end", daemon=True).start()

    def _ended(self) -> bool:
        ends = self._graph.endings.elements
        if self._options.service and not self._stop.is_set():
            return False
        return all(end in self._hearing.ended for end in ends)

    def _finish(self) -> None:
        streams = self._roster.all()
        self._graph.close(streams)
        self.measuring.close()
        self._count()
        for stream in streams:
            summary = stream.summary
            if (
                summary.frames_in == 0
                and not summary.errors
                and not self._summary.stopped
                and self._hearing.fatal is None
            ):
                summary.errors.append(f"{stream.source.shown}: it delivered no frame")
        leave_out_broken(
            self._summary, self._graph.endings.branches, streams, self._hearing.ended, self._hearing.broken
        )
        if self._hearing.fatal is not None:
            self._summary.errors.append(str(self._hearing.fatal))
        if self.queue is not None:
            self.queue.close()
        self.events.add("pipeline-ended", None, "the run is over", stopped=self._summary.stopped)
        self.events.close()
        self._done.set()

    def _count(self) -> None:
        """Bring the summary's numbers up to date."""
        self._tending.count(self._roster.all())
        graph = self._graph
        self._summary.seconds = time.monotonic() - self._started
        self._summary.skipped = graph.inferred_with_errors()
        self._summary.busy = graph.model_seconds() / max(self._summary.seconds, 1e-9)
        self._summary.unconfirmed = graph.unconfirmed()
        self._summary.segments = graph.behind.segments()
        self._summary.host_frames = counters.host_frames() - self._host_frames
        self._summary.host_reason = graph.memory.why_not
        frames = sum(stream.frames_out for stream in self._summary.streams)
        self._summary.fps = frames / self._summary.seconds if self._summary.seconds else 0.0
