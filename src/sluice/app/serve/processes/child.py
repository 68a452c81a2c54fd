"""One process of a service: a pipeline with its outputs, called by the process that has the API.

``python -m sluice.app.serve.processes.child FD`` is given a `Task` over the socket FD. It ends when it is told to, or
when the other side has gone.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from sluice.app.job import Job
from sluice.app.monitor import Monitor
from sluice.app.outputs import LiveOutputs
from sluice.app.pipeline import Pipeline
from sluice.app.serve.logs import log_to_stderr
from sluice.app.serve.processes.channel import Answerer, Failure
from sluice.app.serve.processes.task import Task
from sluice.app.serve.references import Secrets
from sluice.app.spawning import connect
from sluice.app.streams import StreamPolicy
from sluice.errors import SluiceError

_ENDING = 12.0  # seconds in which all files are finished; whoever hangs longer while nobody is there is ended


def main(descriptor: int) -> None:
    """Run one process's task."""
    connection = connect(descriptor)
    task: Task = connection.recv()
    over = threading.Event()
    try:
        child = Child(connection, task)
        threading.Thread(target=child.obey, args=(over,), name="sluice-orders", daemon=True).start()
        child.start()
    except BaseException as error:
        Answerer(connection, {}, lambda: None).tell("failed", Failure.of(error, with_lines=True))
        os._exit(1)  # what was begun of a pipeline could hold the end up
    over.wait()
    child.end()


class Child:
    """The pipeline and its outputs, and what can be called of them."""

    def __init__(self, connection: Connection, task: Task) -> None:
        """Make the pipeline; raises SluiceError as it and its outputs do."""
        self._secrets = Secrets(Path(), {})
        self._hide(task.hidden)
        log_to_stderr(self._secrets.scrub, task.verbose)
        self._outputs = LiveOutputs(task.outputs, own=task.own)
        self._pipeline = Pipeline([], service=True, branches=self._outputs, **task.pipeline)
        self._monitor = Monitor(self._pipeline, self._outputs)
        self._answerer = Answerer(connection, self._methods(), self._tell_events)
        self._showing = _Showing(self._answerer.tell)
        self._telling = threading.Lock()
        self._told = 0  # number of the last event that was told

    def start(self) -> None:
        """Load the model and begin; raises SluiceError where that cannot be."""
        self._pipeline.events.subscribe(lambda _event: self._tell_events())
        job = self._pipeline.start()
        self._monitor.attach()
        threading.Thread(target=self._watch, args=(job,), name="sluice-watch", daemon=True).start()
        self._answerer.tell(
            "started", {"model": self._pipeline.model, "webrtc_available": self._outputs.webrtc_available}
        )

    def obey(self, over: threading.Event) -> None:
        """Answer calls until the order to end, or until nobody could give it any more."""
        self._answerer.serve()
        # The other side ends what takes too long; it may be gone itself.
        ending = threading.Timer(_ENDING, os._exit, (1,))
        ending.daemon = True
        ending.start()
        over.set()
        self._pipeline.stop()  # also while it starts

    def end(self) -> None:
        """End all streams and finish all files."""
        self._pipeline.stop()
        self._outputs.close()
        self._tell_events()

    def _methods(self) -> Mapping[str, Callable[..., Any]]:
        pipeline, outputs = self._pipeline, self._outputs
        return {
            "streams": lambda: pipeline.streams,
            "stream": pipeline.stream,
            "add": self._add,
            "remove": pipeline.remove,
            "restart": pipeline.restart,
            "update": pipeline.update,
            "ask": pipeline.ask,
            "model": lambda: pipeline.model,
            "model_seconds": lambda: pipeline.model_seconds,
            "swap_model": pipeline.swap_model,
            "set_thresholds": pipeline.set_thresholds,
            "numbers": self._monitor.snapshot,
            "snapshot": outputs.snapshot,
            "pictured": outputs.names,
            "look": self._look,
            "look_away": lambda key: self._showing.end(key),
            "clip": outputs.clip,
            "enable": outputs.enable,
            "rtsp_url": outputs.rtsp_url,
            "stats": outputs.stats,
            "webrtc_answer": outputs.webrtc_answer,
            "webrtc_close": outputs.webrtc_close,
        }

    def _add(self, source: str, name: str, policy: StreamPolicy | None, number: int, hidden: tuple[str, ...]) -> str:
        self._hide(hidden)
        return self._pipeline.add(source, name=name, policy=policy, number=number)

    def _hide(self, values: Iterable[str]) -> None:
        for value in values:
            self._secrets.hide(value)

    def _look(self, key: int, name: str) -> None:
        self._showing.begin(key, self._outputs.subscribe_mjpeg(name, self._showing.putter(key)))

    def _tell_events(self) -> None:
        """Tell what has happened since the last time; called before every answer, so that it is known before that."""
        with self._telling:
            events = self._pipeline.events.since(self._told)
            if events:
                self._told = events[-1].number
                self._answerer.tell("events", events)

    def _watch(self, job: Job) -> None:
        """Tell how the pipeline ended."""
        failure = SluiceError("the pipeline has ended")
        try:
            job.wait()
        except SluiceError as error:
            failure = error
        self._tell_events()
        self._answerer.tell("ended", Failure.of(failure))


class _Showing:
    """Sends pictures on a thread of its own, of each subscription the newest: nobody else waits for the connection."""

    def __init__(self, tell: Callable[[str, Any], None]) -> None:
        self._tell = tell
        self._ends: dict[int, Callable[[], None]] = {}
        self._newest: dict[int, bytes] = {}
        self._filled = threading.Condition()
        threading.Thread(target=self._send, name="sluice-pictures", daemon=True).start()

    def putter(self, key: int) -> Callable[[bytes], None]:
        """Return what takes the pictures of a subscription, and returns at once."""

        def put(picture: bytes) -> None:
            with self._filled:
                self._newest[key] = picture
                self._filled.notify()

        return put

    def begin(self, key: int, end: Callable[[], None]) -> None:
        """Keep what ends a subscription."""
        self._ends[key] = end

    def end(self, key: int) -> None:
        """End a subscription; without effect where it has ended."""
        end = self._ends.pop(key, None)
        if end is not None:
            end()

    def _send(self) -> None:
        while True:
            with self._filled:
                while not self._newest:
                    self._filled.wait()
                newest, self._newest = self._newest, {}
            for key, picture in newest.items():
                self._tell("picture", (key, picture))


if __name__ == "__main__":
    main(int(sys.argv[1]))
