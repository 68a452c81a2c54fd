"""Outputs that go on for as long as their stream does: they are begun again after a failure, and counted."""

from __future__ import annotations

import contextlib
import datetime
import logging
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Protocol

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.gst import make_element
from sluice.app.outputs.hub import Hub
from sluice.app.outputs.relay import Relay
from sluice.app.outputs.stage import Stage

_FIRST_RETRY, _LAST_RETRY = 1.0, 30.0  # seconds before an output that failed is tried again, doubled every time
_FRAGMENT_MS = 1000  # what a killed process loses of an MP4 file
_log = logging.getLogger(__name__)


class Around(Protocol):
    """What an output knows of its stream; `LiveBranch` is one."""

    hub: Hub
    name: str

    @property
    def flowing(self) -> bool:
        """Whether frames may still come."""

    def encoded(self, user: object, on_lost: Callable[[], object]) -> Relay:
        """Return the encoded stream, which is made until it is given back."""

    def release(self, user: object) -> None:
        """Give it back."""

    def tell(self, kind: str, text: str, **details: Any) -> None:
        """Report an event of the stream."""


class Standing:
    """Base of the outputs that go on. All methods are for the hub's thread, but those that need the disk.

    Attributes:
        kind: its name among the outputs.
        counts: what it did.
        enabled: whether it is switched on.
        relay: what its stage is fed by, while there is one.
    """

    kind = ""

    def __init__(self, around: Around) -> None:
        """Prepare it; `tick` begins it."""
        self.around = around
        self.enabled = True
        self.stage: Stage | None = None
        self.relay: Relay | None = None
        self.counts = {"failures": 0, "frames": 0, "dropped": 0}
        self._before = (0, 0)
        self._next_try = 0.0
        self._wait = _FIRST_RETRY
        self._closing = False
        self._preparing = False
        self._prepared: str | None = None  # why not; "" where nothing is in the way, None before it is known

    # For the branch

    def prepare(self, patience: float) -> None:
        """Do what needs the disk before the beginning; for a thread that may wait so many seconds, not the hub's."""
        self._preparing = True
        thread = threading.Thread(target=self._prepare, name="sluice-outputs-prepare", daemon=True)
        thread.start()
        thread.join(patience)

    def tick(self) -> None:
        """Begin it where it should run and does not; called twice a second."""
        self.count()
        wanted = self.enabled and not self._closing and self.around.flowing
        if wanted and self.stage is None and time.monotonic() >= self._next_try:
            self._begin_prepared()
        elif self.stage is not None and self.enabled:
            self.look()

    def switch(self, on: bool) -> None:
        """Switch it on or off; off finishes what it writes."""
        self.enabled = on
        self._next_try, self._wait = 0.0, _FIRST_RETRY
        if not on:
            self.finish()
        self.tick()

    def close(self) -> None:
        """Begin nothing more; what is being written ends with the stream."""
        self._closing = True

    def finish(self) -> None:
        """Finish what is being written, if anything is."""
        if self.stage is not None:
            self.stage.finish()

    def abandon(self) -> None:
        """Give up what is being written, since it hangs."""
        stage, self.stage, self.relay = self.stage, None, None
        if stage is not None:
            stage.stop()
            self.around.release(self)
            self._failed("it hangs and is given up")

    @property
    def idle(self) -> bool:
        """Whether nothing is being written."""
        return self.stage is None

    def count(self) -> None:
        """Bring `counts` up to date."""
        target = self.stage.target if self.stage is not None else None
        pushed, dropped = (target.pushed, target.dropped) if target is not None else (0, 0)
        self.counts["frames"] = self._before[0] + pushed
        self.counts["dropped"] = self._before[1] + dropped

    # For the kinds

    def make_room(self) -> None:
        """Do what needs the disk before `build`; not on the hub's thread. What it raises is a failure of the output."""

    def build(self) -> Stage:
        """Make its stage."""
        raise NotImplementedError

    def look(self) -> None:
        """See whether all is well; called twice a second while it runs. It asks no disk."""

    def on_message(self, structure: Gst.Structure) -> None:
        """Take what its elements post."""

    def _prepare(self) -> None:
        try:
            self.make_room()
            found = ""
        except OSError as error:
            found = str(error)
        self.around.hub.post(lambda: self._note_prepared(found))

    def _note_prepared(self, found: str) -> None:
        self._preparing, self._prepared = False, found
        self.tick()

    def _begin_prepared(self) -> None:
        if self._preparing:
            return
        found, self._prepared = self._prepared, None
        if found is None:
            self._preparing = True
            self.around.hub.aside(self._prepare)
        elif found:
            self._failed(found)
        else:
            self._begin()

    def _begin(self) -> None:
        try:
            self.relay = relay = self.around.encoded(self, self._lost)
            self.stage = self.build()
        except Exception as error:  # a folder that cannot be made, an element that is missing
            self.relay = None
            self._failed(str(error))
            self.around.release(self)
            return
        self.stage.begin(relay)

    def _lost(self) -> None:
        self.finish()

    def _ended(self, reason: str | None) -> None:
        self.count()
        self._before = (self.counts["frames"], self.counts["dropped"])
        self.stage = self.relay = None
        self.around.release(self)
        if reason is not None:
            self._failed(reason)
        else:
            self._wait = _FIRST_RETRY
            self._next_try = time.monotonic() + 0.1

    def _failed(self, reason: str) -> None:
        self.counts["failures"] += 1
        self._next_try = time.monotonic() + self._wait
        self._wait = min(_LAST_RETRY, 2 * self._wait)
        self.around.tell(f"{self.kind}-failed", f"{self.around.name}: {self.kind}: {reason}", output=self.kind)


def last_written() -> deque[Path]:
    """Return what keeps the last files that an output wrote: far more than anybody keeps beside one another."""
    return deque(maxlen=10_000)


def utc_name(when: datetime.datetime | None = None) -> str:
    """Return a time as it stands in file names, in UTC: 20260131T235959.123Z."""
    when = when or datetime.datetime.now(datetime.timezone.utc)
    return when.strftime("%Y%m%dT%H%M%S.") + f"{when.microsecond // 1000:03}Z"


def safe_name(text: str) -> str:
    """Return a name as it can stand in a path."""
    return re.sub(r"[^\w.-]+", "_", text).strip(".") or "stream"


def free_path(path: Path) -> Path:
    """Return the path, or one with a number before its ending where there is such a file already."""
    candidate, number = path, 1
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return candidate


class Tidying:
    """Looks after an output's files beside the hub's thread: their folder may be large, its disk slow or away."""

    def __init__(self, hub: Hub, work: Callable[[], object]) -> None:
        """Prepare it; `work` is called by one thread at a time, and what it raises is logged."""
        self._hub, self._work = hub, work
        self._changing = threading.Lock()
        self._asked = 0  # since a thread is at it; 0 while none is

    def ask(self) -> None:
        """Have the work done soon, after this moment; for the hub's thread, which does not wait."""
        with self._changing:
            self._asked += 1
            if self._asked > 1:  # the thread that is at it does it again
                return
        self._hub.aside(self._run)

    @property
    def is_at_work(self) -> bool:
        """Whether what was asked for last is still to be done."""
        return self._asked > 0

    def _run(self) -> None:
        while True:
            asked = self._asked
            try:
                self._work()
            except Exception:
                _log.exception("files were not looked after")
            with self._changing:
                if self._asked == asked:
                    self._asked = 0
                    return


def prune(
    folder: Path,
    suffix: str,
    keep: int | None,
    keep_bytes: int | None,
    current: Path | None,
    written: Collection[Path] = (),
) -> list[Path]:
    """Delete the oldest files until both limits are kept; return those deleted.

    Files go by their names, which tell when they were begun; behind them those of this process in the order in which it
    wrote them, as the clock may have been set back meanwhile.

    Args:
        folder: whose files with the suffix are counted.
        suffix: of the files, as ".mp4".
        keep: the most files; None: no limit.
        keep_bytes: the most bytes in them; None: no limit.
        current: the one being written, which is neither counted nor deleted.
        written: the last ones that this process wrote, the newest last.
    """
    sizes: dict[Path, int] = {}
    for path in folder.glob(f"*{suffix}"):
        with contextlib.suppress(FileNotFoundError):  # somebody else tidies up too
            if path != current:
                sizes[path] = path.stat().st_size
    # Read after the folder: a file that this process began meanwhile is on the list before it is there.
    order = {path: number for number, path in enumerate(tuple(written))}
    files = sorted(sizes, key=lambda path: (order.get(path, -1), path))
    deleted = []
    while files and (
        (keep is not None and len(files) > keep) or (keep_bytes is not None and sum(sizes.values()) > keep_bytes)
    ):
        oldest = files.pop(0)
        sizes.pop(oldest)
        oldest.unlink(missing_ok=True)
        deleted.append(oldest)
    return deleted


def make_muxer(container: str) -> Gst.Element:
    """Return a muxer whose files can be played up to the last second when the process is killed."""
    if container == "mkv":
        return make_element("matroskamux", offset_to_zero=True, streamable=False)
    return make_element("mp4mux", fragment_duration=_FRAGMENT_MS, fragment_mode="first-moov-then-finalise")


def make_file_sink() -> Gst.Element:
    """Return a sink that leaves every byte to the system at once."""
    return make_element("filesink", buffer_mode="unbuffered", sync=False)
