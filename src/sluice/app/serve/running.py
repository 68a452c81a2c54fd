"""``sluice serve``: from a configuration file to a service that runs until it is told to end."""

from __future__ import annotations

import logging
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Any

from sluice.app.serve.backend import make_backend
from sluice.app.serve.checking import check, is_loopback, open_model
from sluice.app.serve.context import Context
from sluice.app.serve.gate import Access
from sluice.app.serve.journal import LOGGER, Journal
from sluice.app.serve.loading import Loaded, load
from sluice.app.serve.logs import log_to_stderr
from sluice.app.serve.schema import OpenTelemetryEntry
from sluice.app.serve.server import HttpServer
from sluice.app.serve.service import Service
from sluice.app.serve.state import State, StateFile
from sluice.app.serve.web import make_app
from sluice.errors import ConfigurationError, ModelError, SluiceError, with_own_lines
from sluice.metrics import Metrics
from sluice.metrics.otel import OtelExport

OK, FAILED, WRONG_ARGUMENTS = 0, 1, 2
_EXPORTING = 3.0  # seconds that a collector which does not answer may hold up the end
_LOOK = 0.2  # seconds between two looks for a signal
_MOST_NAMES = 20  # of streams in one line of the log
_log = logging.getLogger(LOGGER)


def serve(path: Path, *, check_only: bool = False, verbose: bool = False, processes: int = 1) -> int:
    """Run a service and return the exit status.

    Args:
        path: the configuration file.
        check_only: end after the checks.
        verbose: log also what is no news, such as requests and finished segments.
        processes: how many have pipelines; 1: this one alone.

    Returns:
        0 after a signal to end, 1 if the pipeline failed, 2 for a configuration that cannot be used.
    """
    try:
        loaded = load(path)
        check(loaded)
        file = loaded.config.state
        state = StateFile(None if file is None else path.parent.resolve() / file.expanduser())
        kept = state.read()
        _check_kept(kept, state)
        if check_only:
            count = len(kept.streams(loaded.config.streams))
            print(f"{path}: no fault found; {count} stream{'' if count == 1 else 's'}")
            return OK
        log_to_stderr(loaded.secrets.scrub, verbose)
        _allow_many_files()
        with _Signals() as signals:
            return _Running(loaded, state, kept, verbose=verbose, processes=processes).until(signals)
    except (ConfigurationError, ModelError) as error:
        print(f"sluice: {with_own_lines(error)}", file=sys.stderr)
        return WRONG_ARGUMENTS
    except SluiceError as error:
        print(f"sluice: {error}", file=sys.stderr)
        return FAILED


class _Running:
    """The parts of a service, in the order in which they start; they end in the opposite one."""

    def __init__(self, loaded: Loaded, state: StateFile, kept: State, *, verbose: bool, processes: int) -> None:
        config = loaded.config
        token = config.http.token
        self._loaded = loaded
        self._state = state
        self._verbose = verbose
        self._context = Context(
            Access(None if token is None else token.get_secret_value(), config.http.allowed_hosts),
            loaded.secrets.scrub,
            config.http.most_viewers,
        )
        self._backend = make_backend(loaded, kept, processes=processes, verbose=verbose)
        folder = loaded.file.path.parent.resolve()
        self._http = HttpServer(make_app(self._context), config.http, folder, self._context.viewers)
        self._failure: SluiceError | None = None
        self._ended = threading.Event()

    def until(self, signals: _Signals) -> int:
        """Run until a signal or a failure, and return the exit status."""
        with ExitStack() as ends:  # what began last ends first
            self._http.start()
            ends.callback(self._http.stop)
            self._greet()
            ends.callback(self._backend.close)
            ends.callback(self._backend.stop)
            self._begin(ends)
            while not signals.received and not self._ended.wait(_LOOK):
                if not self._http.alive:
                    raise SluiceError("the HTTP server has failed; the log says why")
            if signals.received:
                _log.info("%s: the service ends", signal.Signals(signals.received).name)
        if self._failure is not None and not signals.received:
            print(f"sluice: {self._loaded.secrets.scrub(str(self._failure))}", file=sys.stderr)
            return FAILED
        return OK

    def _greet(self) -> None:
        print(f"sluice: {self._http.url}/", file=sys.stderr, flush=True)  # messages may go to the standard output
        http = self._loaded.config.http
        if not is_loopback(http.host) and http.tls is None:
            _log.warning("http.tls is not set: the token and the pictures travel where others can read them")

    def _begin(self, ends: ExitStack) -> None:
        """Start the pipeline, and let requests reach it."""
        wait = self._backend.start()
        threading.Thread(target=self._watch, args=(wait,), name="sluice-watch", daemon=True).start()
        metrics = self._backend.metrics()
        self._context.metrics = metrics.text
        self._context.probe = self._backend.probe
        if (entry := self._loaded.config.opentelemetry) is not None:
            ends.callback(_close, _export(metrics, entry))
        service = Service(
            self._loaded, self._state, self._backend.engine, self._backend.pictures, pids=self._backend.pids
        )
        ends.callback(service.end)
        self._context.service = service
        service.begin()
        self._tell(service, ends)
        if not service.streams():
            _log.warning(
                "there are no streams yet: add some on the page, by POST /api/streams or by sluice streams add"
            )

    def _tell(self, service: Service, ends: ExitStack) -> None:
        """Log what has begun, and from now on what happens."""
        engine = self._backend.engine
        model, names = engine.model, [stream.name for stream in service.streams()]
        runs = "no model" if model["name"] == "none" else f"the model {model['name']} ({model['runtime']})"
        shown = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
        _log.info("%s; streams: %s", runs, shown or "none")
        happened = engine.events.since()
        journal = Journal(engine.events, begun=happened[-1].number if happened else 0, all_kinds=self._verbose)
        journal.start()
        ends.callback(journal.stop)

    def _watch(self, wait: Callable[[], object]) -> None:
        """Note how the pipeline ended."""
        try:
            wait()
            failure = SluiceError("the pipeline has ended")
        except SluiceError as error:
            failure = error
        self._failure = failure
        self._context.failure = str(failure)
        self._ended.set()


class _Signals:
    """Notes the signals that end a service; the second one ends the process at once."""

    def __init__(self) -> None:
        self.received = 0
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> _Signals:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.received:
            os._exit(128 + number)
        self.received = number


def _allow_many_files() -> None:
    """Let the process open as many files as it may: a camera takes about ten, and the usual limit is 1024."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _export(metrics: Metrics, entry: OpenTelemetryEntry) -> OtelExport:
    return OtelExport(metrics, entry.endpoint, interval=entry.interval, headers=entry.headers, resource=entry.resource)


def _close(export: OtelExport) -> None:
    """Export once more, unless the collector does not answer."""
    closing = threading.Thread(target=export.close, name="sluice-export", daemon=True)
    closing.start()
    closing.join(_EXPORTING)


def _check_kept(kept: State, state: StateFile) -> None:
    """Refuse to start with a model of the state that is not there any more."""
    if kept.model is None:
        return
    try:
        open_model(kept.model)
    except SluiceError as error:
        raise ConfigurationError(
            f'the model that was swapped to before the last end cannot be used: {error}; take "model" out of '
            f"{str(state.path)!r} to start with the configuration's"
        ) from error
