"""Runs a graph: starts it, listens to its bus on a thread of its own, ends it and reports."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GLib, Gst

from sluice import errors
from sluice.app.graph import Graph
from sluice.app.gst import describe
from sluice.app.options import Options
from sluice.app.outputs import distinct_names
from sluice.app.sources import Source, redact
from sluice.app.summary import StreamSummary, Summary
from sluice.contract.provider import provider
from sluice.errors import SluiceError

# A stop, which takes at most two seconds: for so long the frames on their way are waited for, then the files are
# finished without the rest, and at last everything is stopped, finished or not.
_DRAINING = 0.7
_FINISHING = 1.3
_STOPPING = 2.0
_LOOK = 50 * Gst.MSECOND
_HEARD = Gst.MessageType.ERROR | Gst.MessageType.WARNING | Gst.MessageType.LATENCY | Gst.MessageType.ELEMENT
# How many texts of one kind a summary keeps; a camera that warns with every frame must not fill the memory.
_MOST_TEXTS = 20
_STREAM_ERROR = GLib.quark_to_string(Gst.StreamError.quark())


@dataclass(frozen=True)
class Progress:
    """How far a stream is: its name, the frames seen behind the tracker, and its state.

    Attributes:
        fraction: 0..1 of the stream, None where its length is unknown.
        state: "running", "ended" or "failed".
    """

    name: str
    frames: int
    fraction: float | None
    state: str


class Job:
    """One run of one graph. Its thread is a daemon: what hangs can't keep the process from ending.

    Attributes:
        queue: frames for a program that iterates, or None.
        started: whether all elements were started.
    """

    def __init__(self, sources: list[Source], options: Options, iterated: bool) -> None:
        """Build the graph; raises ConfigurationError as `Graph` does."""
        self._graph = Graph(sources, options, iterated)
        self.queue = self._graph.queue
        self._streams = [StreamSummary(source.shown) for source in sources]
        self._warned = [0] * len(sources)
        self._summary = Summary(
            self._streams,
            model=options.model_name,
            runtime=options.runtime_name,
            tracker=options.tracker,
            provider=provider().name,
        )
        if self._graph.tiled:
            self._summary.outputs = [str(branch.path) for branch in self._graph.branches]
        else:
            for stream, branch in zip(self._streams, self._graph.branches, strict=False):
                stream.output = str(branch.path)
        self._fatal: SluiceError | None = None
        self._ended_ends: set[int] = set()
        self._broken_ends: set[int] = set()
        self.started = False
        self._stop = threading.Event()
        self._stopped_at: float | None = None
        self._cut = False
        self._done = threading.Event()
        self._started = time.monotonic()
        self._thread = threading.Thread(target=self._listen, name="sluice-pipeline", daemon=True)

    # For the caller's thread

    def start(self) -> None:
        """Load the model, start the shared elements and then the sources.

        Raises:
            ModelError: the model cannot be loaded.
            SluiceError: an element could not be started; a source that could not is a failed stream instead.
        """
        self._started = time.monotonic()
        try:
            self._start_elements()
        except BaseException as error:  # an interruption too
            self._summary.errors.append(str(error))
            self._graph.close()
            self._done.set()
            raise
        self.started = True
        self._thread.start()

    def _start_elements(self) -> None:
        pipeline = self._graph.pipeline
        # Those that may refuse their settings come first: the sinks empty an earlier run's files as they open them.
        first = [element for element in (self._graph.infer, self._graph.tracker) if element is not None]
        states = [(element, Gst.State.READY) for element in first] + [(pipeline, Gst.State.PLAYING)]
        if any(element.set_state(state) == Gst.StateChangeReturn.FAILURE for element, state in states):
            message = pipeline.get_bus().timed_pop_filtered(0, Gst.MessageType.ERROR)
            if message is None:
                raise SluiceError("the pipeline could not be started")
            raise _interruption(message) or _as_exception(message)
        for index in range(len(self._streams)):
            if not self._graph.add_source(index):
                self._fail(index, None)

    def wait(self) -> None:
        """Wait for the end; a KeyboardInterrupt gets through.

        Raises:
            SluiceError: an error that ended the whole run.
        """
        while not self._done.wait(0.2):
            pass
        if self._fatal is not None:
            raise self._fatal

    def stop(self) -> None:
        """End every stream now, finish the files as far as that takes no longer than two seconds, and stop.

        Before everything has started it is noted only, and done then.
        """
        self._stop.set()
        if self._thread.is_alive():
            self._done.wait(_STOPPING)

    @property
    def summary(self) -> Summary:
        """The summary; a snapshot until the run is over."""
        if not self._done.is_set():
            self._count()
        return self._summary

    def progress(self) -> list[Progress]:
        """How far each stream is."""
        found = []
        names = distinct_names(source.source.name for source in self._graph.sources)  # as the videos are named
        for index, (name, source) in enumerate(zip(names, self._graph.sources, strict=True)):
            state = "failed" if self._streams[index].failed else "ended" if source.ended else "running"
            frames = self._graph.collector.counts[index].frames
            found.append(Progress(name, frames, source.fraction(self._graph.options.frames), state))
        return found

    # For the thread that listens

    def _listen(self) -> None:
        bus = self._graph.pipeline.get_bus()
        try:
            while True:
                message = bus.timed_pop_filtered(_LOOK, _HEARD)
                while message is not None:  # what was posted before the end is heard before the end
                    self._handle(message)
                    message = bus.pop_filtered(_HEARD)
                if self._fatal is not None or self._ended():
                    break
                if self._stop.is_set() and self._stopping():
                    break
        except BaseException as error:
            self._fatal = SluiceError(f"{type(error).__name__}: {error}")
            raise
        finally:
            self._finish()

    def _stopping(self) -> bool:
        """Take the next step of a stop when its time has come; return whether the time is up."""
        now = time.monotonic()
        if self._stopped_at is None:
            self._stopped_at = now
            self._summary.stopped = True
            self._end_all()
        if now > self._stopped_at + _DRAINING and not self._cut:
            self._cut = True
            self._in_background(self._graph.end_branches)
        return now > self._stopped_at + _FINISHING

    def _handle(self, message: Gst.Message) -> None:
        if message.type == Gst.MessageType.ERROR:
            self._handle_error(message)
        elif message.type == Gst.MessageType.WARNING:
            self._handle_warning(message)
        elif message.type == Gst.MessageType.LATENCY:
            self._graph.pipeline.recalculate_latency()
        elif message.type == Gst.MessageType.ELEMENT and message.has_name("GstBinForwarded"):
            inner = message.get_structure().get_value("message")
            if inner.type == Gst.MessageType.EOS and inner.src in self._graph.ends:
                self._ended_ends.add(self._graph.ends.index(inner.src))

    def _handle_error(self, message: Gst.Message) -> None:
        place = self._graph.stream_of(message)
        if place is not None and place[0] == "branch":
            self._broken_ends.add(place[1])
        if place is None or (place[0] == "branch" and self._graph.tiled):
            self._fatal = _as_exception(message)
        elif place[0] == "source":
            if not (self._summary.stopped or self._graph.sources[place[1]].ended_on_request):
                self._fail(place[1], message)
        else:
            self._ended_ends.add(place[1])
            if self._graph.collector.counts[place[1]].frames:  # a file for which no frame came cannot be finished
                self._fail(place[1], message)

    def _handle_warning(self, message: Gst.Message) -> None:
        text = redact(describe(message)[0])
        place = self._graph.stream_of(message)
        if place is None or (self._graph.tiled and place[0] == "branch"):
            if len(self._summary.warnings) < _MOST_TEXTS:
                self._summary.warnings.append(text)
            return
        stream = self._streams[place[1]]
        self._warned[place[1]] += 1
        if len(stream.warnings) < _MOST_TEXTS:
            stream.warnings.append(text)
        if place[0] == "source" and message.parse_warning()[0].domain == _STREAM_ERROR:
            stream.damaged = True

    def _fail(self, index: int, message: Gst.Message | None) -> None:
        """Note why a stream failed and let the mux go on without it."""
        source, noted = self._graph.sources[index], self._streams[index].errors
        if message is not None and len(noted) < _MOST_TEXTS:
            text, debug = describe(message)
            text = redact(f"{source.source.shown}: {text}" + _reason(debug))
            noted += [text] if text not in noted else []
        self._in_background(source.end)

    def _end_all(self) -> None:
        if self.queue is not None:
            self.queue.close(discard=True)
        for source in self._graph.sources:
            self._in_background(source.end)

    @staticmethod
    def _in_background(work: Callable[[], None]) -> None:
        """Send EOS from a thread that may wait for room in the stream's queue."""
        threading.Thread(target=work, name="sluice-end", daemon=True).start()

    def _ended(self) -> bool:
        return len(self._ended_ends) == len(self._graph.ends)

    def _finish(self) -> None:
        for source, stream in zip(self._graph.sources, self._streams, strict=True):
            damage = source.damage() if source.ended and not self._summary.stopped else []
            stream.damaged = stream.damaged or bool(damage)
            stream.warnings += damage
        self._graph.close()
        self._count()
        for stream, source in zip(self._streams, self._graph.sources, strict=True):
            if stream.frames_in == 0 and not stream.errors and not self._summary.stopped and self._fatal is None:
                stream.errors.append(f"{source.source.shown}: it delivered no frame")
        self._check_outputs()
        if self._fatal is not None:
            self._summary.errors.append(str(self._fatal))
        if self.queue is not None:
            self.queue.close()
        self._done.set()

    def _check_outputs(self) -> None:
        """Take out of the summary the files that hold no whole video, with a warning; the failed say why they are."""
        summary = self._summary
        for index, branch in enumerate(self._graph.branches):
            if not branch.frames_out:
                why = "no frame reached it"
            elif index in self._broken_ends:
                why = "it could not be written to its end"
            elif index not in self._ended_ends:
                why = "it was not finished in time"
            else:
                continue
            path = str(branch.path)
            for stream in self._streams:
                if stream.output == path:
                    stream.output = None
                    stream.warnings += [] if stream.failed else [f"{path} is no whole video: {why}"]
            if path in summary.outputs:
                summary.outputs.remove(path)
                summary.warnings.append(f"{path} is no whole video: {why}")

    def _count(self) -> None:
        """Bring the summary's numbers up to date."""
        graph = self._graph
        for index, (stream, source) in enumerate(zip(self._streams, graph.sources, strict=True)):
            counts = graph.collector.counts[index]
            stream.frames_in = source.frames_in
            stream.frames_out = graph.frames_out(index)
            stream.objects, stream.tracks = counts.objects, counts.tracks
            stream.dropped = source.frames_dropped + (self.queue.dropped[index] if self.queue else 0)
        self._summary.seconds = time.monotonic() - self._started
        self._summary.skipped = graph.inferred_with_errors()
        self._summary.unconfirmed = graph.unconfirmed()
        frames = sum(stream.frames_out for stream in self._streams)
        self._summary.fps = frames / self._summary.seconds if self._summary.seconds else 0.0


def _interruption(message: Gst.Message) -> KeyboardInterrupt | None:
    """Return the interruption behind an error: of the thread that starts elements, where their guards catch it."""
    if _exception_named(message) != KeyboardInterrupt.__name__:
        return None
    return KeyboardInterrupt(describe(message)[0].rpartition(":")[2].strip())


def _exception_named(message: Gst.Message) -> str:
    """Return the class of the Python exception that an element's error tells of, "" where there is none."""
    details = message.parse_error_details()
    return details.get_string("exception") or "" if details is not None else ""


def _as_exception(message: Gst.Message) -> SluiceError:
    """Return an element's error as an exception: of our own class where one is behind it, else with its traceback."""
    text, debug = describe(message)
    text = f"{message.src.get_name()}: {text}"
    kind = getattr(errors, _exception_named(message), None)
    if kind is not None:
        return kind(redact(text))  # type: ignore[no-any-return]
    return SluiceError(redact(f"{text}\n{debug}" if "Traceback" in debug else text + _reason(debug)))


def _reason(debug: str) -> str:
    """Return the part of a GStreamer debug text that says more than the message: what follows the element's path."""
    reason = debug.partition(":\n")[2].strip().splitlines()
    return f" ({reason[0]})" if reason else ""
