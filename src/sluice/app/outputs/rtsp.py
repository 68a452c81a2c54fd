"""An RTSP server for the annotated streams, by gst-rtsp-server: the library that GStreamer has for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GLib, Gst

from sluice.app.outputs.encoding import find_encoder
from sluice.app.outputs.hub import Hub
from sluice.app.outputs.options import RtspOptions
from sluice.app.outputs.relay import Relay, Target
from sluice.app.outputs.stage import MOST_VIEWED, pass_key_requests
from sluice.elements.guard import guarded
from sluice.errors import ConfigurationError

PACKAGE = "gir1.2-gst-rtsp-server-1.0"
_ROLE = "viewer"
_PAYLOADERS = {"h264parse": "rtph264pay config-interval=-1", "mpeg4videoparse": "rtpmp4vpay config-interval=1"}
Acquire = Callable[[object, Callable[[], object]], Relay]


def server_library() -> Any:
    """Return the bindings of gst-rtsp-server.

    Raises:
        ConfigurationError: they are not installed, with the command that installs them.
    """
    try:
        gi.require_version("GstRtspServer", "1.0")
        from gi.repository import GstRtspServer
    except (ValueError, ImportError) as error:
        raise ConfigurationError(
            f"the RTSP server needs the package {PACKAGE}; install it with: apt-get install {PACKAGE}"
        ) from error
    return GstRtspServer


class RtspServer:
    """The server, with one mount point per stream, on a main loop of its own.

    Attributes:
        port: where it listens.
    """

    def __init__(self, options: RtspOptions) -> None:
        """Begin to listen.

        Raises:
            ConfigurationError: the library is missing, or the address or port cannot be used.
        """
        library = self._library = server_library()
        self._options = options
        self._context = GLib.MainContext.new()
        self._loop = GLib.MainLoop.new(self._context, False)
        self._server = library.RTSPServer.new()
        self._server.set_address(options.address)
        self._server.set_service(str(options.port))
        self._server.get_session_pool().set_max_sessions(options.clients)
        if options.user is not None:
            self._server.set_auth(self._make_auth(options.user, options.password or ""))
        try:
            self._source = self._server.create_source(None)
        except GLib.Error as error:
            raise ConfigurationError(f"RtspOptions: address and port cannot be used: {error.message}") from error
        self._source.attach(self._context)
        self.port = self._server.get_bound_port()
        self._cleaner = GLib.timeout_source_new_seconds(2)
        self._cleaner.set_callback(self._clean)
        self._cleaner.attach(self._context)
        self._thread = threading.Thread(target=self._loop.run, name="sluice-rtsp", daemon=True)
        self._thread.start()

    def url(self, name: str) -> str:
        """Return where a stream can be viewed."""
        return f"rtsp://{self._options.address}:{self.port}{path_of(name)}"

    def clients(self) -> int:
        """Return how many sessions there are."""
        return int(self._server.get_session_pool().get_n_sessions())

    def mount(self, name: str, media: Mounted) -> None:
        """Serve a stream under its name."""
        factory = self._library.RTSPMediaFactory.new()
        factory.set_shared(True)
        factory.set_launch(media.launch)
        factory.set_suspend_mode(self._library.RTSPSuspendMode.NONE)
        factory.set_latency(0)
        if self._options.user is not None:
            permissions = self._library.RTSPPermissions.new()
            for permission in ("media.factory.access", "media.factory.construct"):
                permissions.add_permission_for_role(_ROLE, permission, True)
            factory.set_permissions(permissions)
        factory.connect("media-configure", media.configure)
        self._server.get_mount_points().add_factory(path_of(name), factory)

    def unmount(self, name: str) -> None:
        """Serve it no more and let its viewers go."""
        path = path_of(name)
        self._server.get_mount_points().remove_factory(path)
        self._server.client_filter(lambda _server, client: self._leave(client, path))

    def stop(self) -> None:
        """Let all viewers go and listen no more."""
        self._server.client_filter(lambda *_: self._library.RTSPFilterResult.REMOVE)
        self._source.destroy()
        self._cleaner.destroy()
        self._loop.quit()
        self._thread.join(2.0)

    def _leave(self, client: Any, path: str) -> Any:
        """Drop the sessions of a client that are on one path; a filter for its sessions' media."""
        result = self._library.RTSPFilterResult

        def of_session(_client: Any, session: Any) -> Any:
            matches = [media for media in (session.get_media(path),) if media and media[0] is not None]
            return result.REMOVE if matches else result.KEEP

        client.session_filter(of_session)
        return result.KEEP

    def _clean(self, *_: Any) -> bool:
        self._server.get_session_pool().cleanup()
        return True

    def _make_auth(self, user: str, password: str) -> Any:
        auth = self._library.RTSPAuth.new()
        token = self._library.RTSPToken.new()
        token.set_string("media.factory.role", _ROLE)
        auth.add_basic(self._library.RTSPAuth.make_basic(user, password), token)
        return auth


def path_of(name: str) -> str:
    """Return the mount point of a stream."""
    return "/" + quote(name, safe="-._~")


class Mounted:
    """One stream on the server: gives every medium that it makes for its viewers a target at the encoder's relay."""

    def __init__(self, hub: Hub, acquire: Acquire, release: Callable[[object], object]) -> None:
        """Prepare it; `acquire` and `release` are those of the encoded stream."""
        self._hub, self._acquire, self._release = hub, acquire, release
        self._targets: dict[Any, Target] = {}
        parser = find_encoder()[1]
        self.launch = (
            f"( appsrc name=frames is-live=true format=time ! {parser} ! {_PAYLOADERS[parser]} name=pay0 pt=96 )"
        )

    @property
    def viewers(self) -> int:
        """How many there are."""
        streams = [media.get_stream(0) for media in list(self._targets)]
        return sum(len(stream.transport_filter(None)) for stream in streams if stream is not None)

    @property
    def dropped(self) -> int:
        """Frames that present viewers did not get in time."""
        return sum(target.dropped for target in list(self._targets.values()))

    @guarded(failure=None)
    def configure(self, _factory: Any, media: Any) -> None:
        """Take a new medium; called on the server's thread."""
        entry = media.get_element().get_child_by_name("frames")
        media.connect("unprepared", self._unprepared)
        self._hub.post(lambda: self._begin(media, entry))

    def _unprepared(self, media: Any) -> None:
        self._hub.post(lambda: self._end(media))

    def _begin(self, media: Any, entry: Gst.Element) -> None:
        relay = self._acquire(media, lambda: self._end(media))
        pass_key_requests(entry, relay)
        self._targets[media] = relay.attach(entry, most=MOST_VIEWED, rebased=True)
        relay.ask_for_key()

    def _end(self, media: Any) -> None:
        target = self._targets.pop(media, None)
        if target is not None:
            target.detach()
        self._release(media)

    def stop(self) -> None:
        """End all media; for the hub's thread."""
        for media in list(self._targets):
            self._end(media)
