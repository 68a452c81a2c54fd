"""All live outputs of one pipeline: makes the branches, and finds them by the names of their streams."""

from __future__ import annotations

import logging
import secrets
import threading
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.outputs import webrtc
from sluice.app.outputs.files import make_folder
from sluice.app.outputs.files_live import Clips
from sluice.app.outputs.hub import BusyOutputs, Hub
from sluice.app.outputs.live import LiveBranch
from sluice.app.outputs.options import OUTPUTS, OutputOptions
from sluice.app.outputs.pictures import Pictures
from sluice.app.outputs.rtsp import Mounted, RtspServer
from sluice.app.sources import Source
from sluice.errors import ConfigurationError

TILED = "tiled"
"""The name of the view of all streams, where there is one."""
_TICK = 0.5  # seconds between looks at what should run
_SNAPSHOT = 2.0  # seconds to wait for a frame of a stream
_log = logging.getLogger(__name__)


class LiveOutputs:
    """Called with a stream's number, source and name it makes its branch; the graph does that for every stream.

    Everything else may be called by any thread; a stream that is not there is a ConfigurationError that names those
    that are.

    Attributes:
        emit: takes kind, stream, text and details of what happened: the pipeline's event log sets it.
        options: what is made of the streams.
    """

    def __init__(
        self,
        options: OutputOptions,
        *,
        own: Mapping[str, OutputOptions] | None = None,
        emit: Callable[..., Any] | None = None,
    ) -> None:
        """Begin to serve what is served.

        Args:
            options: what is made of the streams.
            own: what is made of single streams in place of that, by their names. The RTSP server and WebRTC are of
                `options`; a stream without `rtsp` of its own is not on the server until it is switched on.
            emit: see the attribute.

        Raises:
            ConfigurationError: a package is missing, a folder cannot be written, or a port cannot be used.
        """
        for name, folder in [item for part in (options, *(own or {}).values()) for item in part.folders.items()]:
            make_folder(name, Path(folder))
        self.options = options
        self._own = dict(own or {})
        self.emit = emit
        self._branches: dict[str, LiveBranch] = {}
        self._made: weakref.WeakSet[LiveBranch] = weakref.WeakSet()  # those that are being closed among them
        self._mounted: dict[str, Mounted] = {}
        self._sessions: dict[str, tuple[str, webrtc.WebRtcViewer]] = {}
        self._lock = threading.Lock()
        self._closed = False
        why = webrtc.missing() if options.webrtc is not None else "WebRTC is not among the outputs"
        self.webrtc_available = why is None
        if options.webrtc is not None and why is not None:
            _log.warning("%s", why)
        self._why_no_webrtc = why
        self._server = RtspServer(options.rtsp) if options.rtsp is not None else None
        self._hub = Hub("sluice-outputs")
        self._hub.after(_TICK, self._tick)

    def __call__(self, number: int, source: Source | None, name: str) -> LiveBranch:
        """Make the branch of a stream.

        Raises:
            ConfigurationError: there is a stream of this name, or an element is missing.
        """
        return self._add(name, number, live=source is None or source.live)

    def watch_batches(self, pad: Gst.Pad) -> None:
        """Make the view of all streams, where it is among the outputs, of the batches that pass a pad."""
        if self.options.tiled:
            self._add(TILED, -1, live=True, batches=pad)

    # Pictures

    def snapshot(self, name: str) -> bytes | None:
        """Return the next picture of a stream as JPEG, with overlay; None where no frame comes within two seconds."""
        arrived = threading.Event()
        picture: list[bytes] = []

        def take(jpeg: bytes) -> None:
            picture[:] = [jpeg]
            arrived.set()

        unsubscribe = self.subscribe_mjpeg(name, take)
        arrived.wait(_SNAPSHOT)
        unsubscribe()
        return picture[0] if picture else None

    def subscribe_mjpeg(self, name: str, callback: Callable[[bytes], None]) -> Callable[[], None]:
        """Have every picture of a stream passed to a function, which returns at once; return what ends that.

        Raises:
            ConfigurationError: there is no such stream, pictures are off, or there are too many viewers.
        """
        pictures = self._pictures(name)
        numbers: list[int] = []

        def unsubscribe() -> None:
            for number in numbers:
                pictures.unsubscribe(number)

        try:
            self._hub.call(lambda: numbers.append(pictures.subscribe(callback)))
        except BusyOutputs:  # it is subscribed later, and nobody would look
            self._hub.post(unsubscribe)
            raise
        return lambda: self._hub.post(unsubscribe)

    # WebRTC

    def webrtc_answer(self, name: str, offer: str) -> tuple[str, str]:
        """Answer a viewer's SDP offer; return the connection's id and the answer, which has all candidates in it.

        Raises:
            ConfigurationError: there is no such stream, no WebRTC here, the offer cannot be answered, or there are too
                many viewers.
        """
        if self._why_no_webrtc is not None:
            raise ConfigurationError(self._why_no_webrtc)
        assert self.options.webrtc is not None
        branch = self._branch(name)
        session = secrets.token_urlsafe(16)
        viewer = webrtc.WebRtcViewer(
            self._hub,
            name,
            self.options.webrtc,
            branch.encoded,
            branch.release,
            lambda _: self._sessions.pop(session, None),
        )
        with self._lock:
            if len(self._sessions) >= self.options.webrtc.viewers:
                raise ConfigurationError(f"there are {len(self._sessions)} WebRTC viewers already; try again later")
            self._sessions[session] = (name, viewer)
        try:
            return session, viewer.answer(offer)
        except BaseException:
            self._sessions.pop(session, None)
            raise

    def webrtc_state(self, session: str) -> str:
        """Return how a connection is: "new", "connecting", "connected"; "closed" once it is gone."""
        known = self._sessions.get(session)
        return known[1].state if known is not None else "closed"

    def webrtc_close(self, session: str) -> None:
        """End a viewer's connection; without effect where it has ended."""
        known = self._sessions.get(session)
        if known is not None:
            self._hub.call(known[1].stop)

    # Control

    def clip(self, name: str, reason: str = "request") -> None:
        """Write a clip around this moment.

        Raises:
            ConfigurationError: there is no such stream, or clips are off.
        """
        branch = self._branch(name)
        clips = self._hub.call(lambda: branch.standing.get("clips"))
        if not isinstance(clips, Clips):
            raise ConfigurationError(f"{name}: clips are not among the outputs")
        at = branch.now()
        self._hub.post(lambda: clips.trigger(reason, at))

    def enable(self, name: str, output: str, on: bool) -> None:
        """Switch an output of one stream on or off while it runs.

        Raises:
            ConfigurationError: there is no such stream or output.
        """
        branch = self._branch(name)
        if output not in OUTPUTS or (output == "rtsp" and self._server is None):
            raise ConfigurationError(f"{name}: no output {output!r}; there are {', '.join(OUTPUTS)}, if configured")
        if output == "rtsp":
            if on and name not in self._mounted:
                self._mount(name, branch)
            elif not on:
                self._unmount(name)
            return

        def switch() -> None:
            standing = branch.standing.get(output)
            if standing is None:
                raise ConfigurationError(f"{name}: {output} is not configured")
            standing.switch(on)

        self._hub.call(switch)

    def rtsp_url(self, name: str) -> str | None:
        """Return where a stream can be viewed; None where there is no RTSP server."""
        self._branch(name)
        return self._server.url(name) if self._server is not None and name in self._mounted else None

    @property
    def rtsp_base(self) -> str | None:
        """What the streams' URLs begin with; None where there is no RTSP server."""
        return None if self._server is None else self._server.url("")

    def names(self) -> list[str]:
        """Return the names of the streams that have outputs."""
        with self._lock:
            return list(self._branches)

    def stats(self) -> dict[str, dict[str, int]]:
        """Return per stream what was made of it; see `LiveBranch.stats`."""
        with self._lock:
            branches = dict(self._branches)
        if not branches:
            return {}
        found = self._hub.call(lambda: {name: branch.stats() for name, branch in branches.items()})
        for name, numbers in found.items():
            sessions = [viewer for of, viewer in list(self._sessions.values()) if of == name]
            numbers["webrtc-viewers"] = len(sessions)
            numbers["viewers-dropped"] = sum(viewer.dropped for viewer in sessions)
            if (mounted := self._mounted.get(name)) is not None:
                numbers["viewers-dropped"] += mounted.dropped
                numbers["rtsp-viewers"] = mounted.viewers
        return found

    def close(self) -> None:
        """Finish all files and serve nothing more; waits for the files, six seconds at most."""
        if self._closed:
            return
        self._closed = True
        for _, viewer in list(self._sessions.values()):
            self._hub.call(viewer.stop)
        closing = [threading.Thread(target=branch.close, daemon=True) for branch in list(self._made)]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()
        if self._server is not None:
            self._server.stop()
        self._hub.stop()

    # Inside

    def _add(self, name: str, number: int, *, live: bool, batches: Gst.Pad | None = None) -> LiveBranch:
        with self._lock:
            if self._closed:
                raise ConfigurationError("the outputs were closed; make new ones for another run")
            if name in self._branches:
                raise ConfigurationError(f"there is a stream {name!r} among the outputs already")
        options = self._own.get(name, self.options)
        branch = LiveBranch(
            *(self._hub, number, name, options),
            live=live,
            tell=self._tell,
            on_close=self._forget,
            batches=batches,
        )
        with self._lock:
            self._branches[name] = branch
            self._made.add(branch)
        if options.rtsp is not None:
            self._mount(name, branch)
        return branch

    def _branch(self, name: str) -> LiveBranch:
        with self._lock:
            branch = self._branches.get(name)
            if branch is None:
                raise ConfigurationError(
                    f"there is no stream {name!r}; there are {', '.join(self._branches) or 'none'}"
                )
            return branch

    def _pictures(self, name: str) -> Pictures:
        pictures = self._branch(name).pictures
        if pictures is None:
            raise ConfigurationError(f"{name}: pictures are not among the outputs")
        return pictures

    def _mount(self, name: str, branch: LiveBranch) -> None:
        if self._server is None:
            return
        mounted = self._mounted[name] = Mounted(self._hub, branch.encoded, branch.release)
        self._server.mount(name, mounted)

    def _unmount(self, name: str) -> None:
        mounted = self._mounted.pop(name, None)
        if mounted is not None and self._server is not None:
            self._server.unmount(name)
            self._hub.call(mounted.stop)

    def _forget(self, branch: LiveBranch) -> None:
        """Let a branch go that is being closed."""
        with self._lock:
            self._branches.pop(branch.name, None)
        self._unmount(branch.name)
        for name, viewer in list(self._sessions.values()):
            if name == branch.name:
                self._hub.call(viewer.stop)

    def _tell(self, kind: str, stream: str, text: str, **details: Any) -> None:
        if self.emit is not None:
            self.emit(kind, stream, text, details)
        else:
            _log.info("%s: %s", kind, text)

    def _tick(self) -> None:
        if self._closed:
            return
        self._hub.after(_TICK, self._tick)
        with self._lock:
            branches = list(self._branches.values())
        for branch in branches:  # each by itself: what one raises is not the others' affair
            self._hub.post(branch.tick)
