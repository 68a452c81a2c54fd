"""The running service: what the API does, without HTTP. Every method may wait and may be called by any thread."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sluice.app.serve.answers import Answers
from sluice.app.serve.engine import Engine, Pictures
from sluice.app.serve.history import History
from sluice.app.serve.loading import Loaded
from sluice.app.serve.names import allowed_model, located_model, located_source, models_in
from sluice.app.serve.paths import check_source
from sluice.app.serve.references import check_allowed
from sluice.app.serve.schema import StreamEntry, Thresholds
from sluice.app.serve.state import State, StateFile
from sluice.app.streams import Event, StreamPolicy, StreamStatus
from sluice.errors import ConfigurationError, SluiceError
from sluice.models.loading import MODELS
from sluice.vlm.prompts import Prompt


class UnknownStreamError(ConfigurationError):
    """There is no stream of that name."""


class TakenNameError(ConfigurationError):
    """There is a stream of that name already."""


class NotReadyError(SluiceError):
    """The service starts or stops, and changes nothing meanwhile."""


class Service:
    """An engine, its configuration and what was changed since.

    Attributes:
        loaded: the configuration.
        engine: the pipeline.
        pictures: live pictures of the streams.
        history: the numbers of the last minutes.
        answers: what language models said about the streams.
        pids: returns the ids of other processes that work for this one.
    """

    def __init__(
        self,
        loaded: Loaded,
        state: StateFile,
        engine: Engine,
        pictures: Pictures,
        *,
        pids: Callable[[], Sequence[int]] = tuple,
    ) -> None:
        """Take over an engine without streams.

        Raises:
            ConfigurationError: the state that was kept is damaged.
        """
        self.loaded = loaded
        self.engine = engine
        self.pictures = pictures
        self.history = History(engine)
        self.answers = Answers(loaded.secrets.scrub)
        self.pids = pids
        self._begun = time.monotonic()
        self._file = state
        self._state = state.read()
        self._changing = threading.Lock()  # of the state alone: never held while the engine is called
        self._folder = loaded.file.path.parent.resolve()
        self._entries: dict[str, StreamEntry] = {}
        self._unsubscribe: Callable[[], None] = lambda: None
        self._ready = False

    @property
    def uptime(self) -> float:
        """Seconds since the service was made, whatever was done to the clock."""
        return time.monotonic() - self._begun

    @property
    def ready(self) -> bool:
        """Whether changes are taken."""
        return self._ready

    def begin(self) -> None:
        """Add the streams of the configuration and those kept; one that cannot be added is an event."""
        for entry in self._state.streams(self.loaded.config.streams):
            self._entries[entry.name] = entry
            try:
                self.engine.add(self._opened(entry), name=entry.name, policy=entry.policy)
            except SluiceError as error:
                self.note("stream-not-added", entry.name, f"{entry.name} could not be added: {error}")
        self._unsubscribe = self.engine.events.subscribe(self._heard)
        self.history.start()
        self._ready = True

    def end(self) -> None:
        """Take no more changes."""
        self._ready = False
        self._unsubscribe()
        self.history.stop()

    def note(self, kind: str, stream: str | None, text: str) -> None:
        """Note an event, without secrets."""
        self.engine.events.add(kind, stream, self.loaded.secrets.scrub(text))

    # Streams

    def streams(self) -> list[StreamStatus]:
        """All streams."""
        return list(self.engine.streams)

    def stream(self, name: str) -> StreamStatus:
        """One stream.

        Raises:
            UnknownStreamError: there is none of that name.
        """
        try:
            return self.engine.stream(name)
        except ConfigurationError as error:
            raise UnknownStreamError(str(error)) from None

    def _has(self, name: str) -> bool:
        try:
            self.stream(name)
        except UnknownStreamError:
            return False
        return True

    def check_pictures(self, name: str) -> None:
        """Raise UnknownStreamError unless there are pictures of a stream, or of all under this name."""
        if name not in self.pictures.names():
            self.stream(name)

    def policy(self, name: str) -> StreamPolicy:
        """How a stream is treated."""
        entry = self._entries.get(name)
        return StreamPolicy() if entry is None else entry.policy

    def add(self, source: str, name: str, policy: StreamPolicy) -> StreamStatus:
        """Add a stream.

        Raises:
            TakenNameError: there is one of that name.
            OutsideError: the source is a file outside the directories allowed.
            ConfigurationError: it is no source.
        """
        self._check_ready()
        check_allowed(source, self.loaded.config.http.references)
        if self._has(name) or name in self.pictures.names():  # of which one is the view of all streams
            raise TakenNameError(f"there is a stream {name!r} already; choose another name or remove it first")
        entry = StreamEntry(source=source, name=name, policy=policy)
        opened = check_source(self.loaded.secrets.text(source), self._directories("media"))
        self.engine.add(opened, name=name, policy=policy)
        with self._changing:
            self._entries[name] = entry
            others = [added for added in self._state.added if added.name != name]
            self._keep(added=[*others, entry])
        return self.stream(name)

    def remove(self, name: str) -> None:
        """Take a stream out; raises UnknownStreamError."""
        self._check_ready()
        if name not in self._entries:  # one that could not be added may be removed too
            self.stream(name)
        with self._changing:
            self._entries.pop(name, None)
            configured = {stream.name for stream in self.loaded.config.streams}
            self._keep(
                added=[added for added in self._state.added if added.name != name],
                removed=sorted({*self._state.removed, name} & configured),
                policies={key: policy for key, policy in self._state.policies.items() if key != name},
            )
        if self._has(name):
            self.engine.remove(name)

    def restart(self, name: str) -> None:
        """Open a stream anew; raises UnknownStreamError."""
        self._check_ready()
        self.stream(name)
        self.engine.restart(name)

    def ask(self, name: str, prompt: str | None) -> None:
        """Have the vision-language model asked about a stream, from its next frame on.

        Raises:
            UnknownStreamError: there is no such stream.
            ConfigurationError: there is no such model, or the prompt has an unknown placeholder.
            NotReadyError: no frame of the stream has come by yet.
        """
        self._check_ready()
        self.stream(name)
        if self.loaded.config.vlm is None:
            raise ConfigurationError("there is no vision-language model: the configuration has no vlm")
        if prompt is not None:
            Prompt(prompt)
        if not self.engine.ask(name, prompt):
            raise NotReadyError(f"no frame of the stream {name!r} has come by yet; ask again once it plays")

    def update(self, name: str, policy: StreamPolicy) -> StreamStatus:
        """Change how a stream is treated; raises UnknownStreamError."""
        self._check_ready()
        self.stream(name)
        self.engine.update(name, policy)
        with self._changing:
            entry = self._entries[name].model_copy(update={"policy": policy})
            self._entries[name] = entry
            added = [entry if kept.name == name else kept for kept in self._state.added]
            if entry in added:
                self._keep(added=added)
            else:
                self._keep(policies={**self._state.policies, name: policy})
        return self.stream(name)

    # The model

    def models(self) -> list[str]:
        """What may be swapped to: registered models, those that the configuration names, and files."""
        return list(dict.fromkeys([*MODELS, *self._named_models(), *models_in(self._directories("models"))]))

    def swap(self, model: str, policy: str) -> int:
        """Have the model replaced; return the number of the event behind which another one says what came of it.

        Raises:
            OutsideError: it may not be used.
            SluiceError: it cannot be.
        """
        self._check_ready()
        named = allowed_model(model, self._named_models(), self._directories("models"))
        named = located_model(named, self._folder)
        return self.engine.swap_model(named, policy)

    def thresholds(self) -> Thresholds:
        """Which detections count."""
        return self._state.thresholds or self.loaded.config.thresholds

    def set_thresholds(self, changes: Mapping[str, Any]) -> None:
        """Have some thresholds changed, None to the model's own; what comes of it is an event.

        Raises:
            ConfigurationError: a value cannot be used.
        """
        self._check_ready()
        self.engine.set_thresholds(**changes)

    # Helpers

    def _heard(self, event: Event) -> None:
        """Keep what has worked, and only that: a model that was refused must not keep the next start from working."""
        if event.kind == "model-swapped":
            model, thresholds = event.details["model"], Thresholds.model_validate(event.details["thresholds"])
            own = model == located_model(self.loaded.config.model.name, self._folder)
            changed = thresholds != self.loaded.config.thresholds
            with self._changing:
                self._keep(model=None if own else model, thresholds=thresholds if changed else None)
        elif event.kind == "vlm-answered" and event.stream is not None:
            self.answers.add(event.stream, event.text, event.time)

    def _check_ready(self) -> None:
        if not self._ready:
            raise NotReadyError("the service starts or stops; try again in a moment")

    def _opened(self, entry: StreamEntry) -> str:
        """Return what is opened for a stream: credentials included."""
        if entry in self.loaded.config.streams or entry not in self._state.added:
            return located_source(entry.source, self._folder)
        check_allowed(entry.source, self.loaded.config.http.references)
        return check_source(self.loaded.secrets.text(entry.source), self._directories("media"))

    def _named_models(self) -> list[str]:
        return [self.loaded.config.model.name, *self.loaded.config.model.offered]

    def _directories(self, key: str) -> Sequence[Path]:
        return [self._folder / path.expanduser() for path in getattr(self.loaded.config.directories, key)]

    def _keep(self, **changes: Any) -> None:
        self._state = State.model_validate({**dict(self._state), **changes})
        try:
            self._file.write(self._state)
        except OSError as error:
            self.note("state-not-kept", None, f"the state {str(self._file.path)!r} cannot be written: {error.strerror}")


def as_dict(status: StreamStatus) -> dict[str, Any]:
    """Return a status as JSON takes it."""
    return {**dataclasses.asdict(status), "state": str(status.state)}
