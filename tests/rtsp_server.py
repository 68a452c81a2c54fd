"""RTSP servers for tests, each in a process of its own, so that it can be killed, stopped and started again.

A test uses `RtspServer`; run as a program this file is the server. Its streams are pictures of one colour or a pattern,
encoded live; what they are is told by the mount point's entry in `mounts`.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from killable import Killable, free_port
from waiting import PATIENCE

NTP_TO_UNIX = 2_208_988_800  # seconds from 1900 to 1970


@dataclass
class Mount:
    """One stream of a server.

    Attributes:
        path: where it is found, with the leading "/".
        pattern: videotestsrc's.
        color: of a "solid-color" pattern, 0xAARRGGBB.
        width, height: of its pictures in pixels.
        fps: its rate.
        encoder, payer: what encodes it and puts it into packets, as GStreamer's launch lines.
        frames: the stream ends after so many; -1: never.
        other: encoder and payer that take over when the server is told to "switch". In sessions that there are, the
            packets keep the payload type that says that they are of the first; new ones are told of the change.
    """

    path: str = "/cam"
    pattern: str = "ball"
    color: int = 0
    width: int = 160
    height: int = 128
    fps: int = 25
    encoder: str = "x264enc tune=zerolatency speed-preset=ultrafast key-int-max=10 bitrate=300"
    payer: str = "rtph264pay config-interval=-1"
    frames: int = -1
    other: tuple[str, str] | None = None

    def launch(self) -> str:
        """Return the launch line of the server's media."""
        size = f"width={self.width},height={self.height},framerate={self.fps}/1"
        pictures = (
            f"videotestsrc is-live=true pattern={self.pattern} foreground-color={self.color} "
            f"num-buffers={self.frames} ! capsfilter name=size caps=video/x-raw,{size}"
        )
        if self.other is not None:
            ways = ((self.encoder, self.payer), self.other)
            ends = (
                f"t. ! queue ! {encoder} ! {payer} pt=96 ! which.sink_{n}" for n, (encoder, payer) in enumerate(ways)
            )
            one = "input-selector name=which sync-streams=false ! identity name=pay0"
            return f"( {pictures} ! tee name=t {' '.join(ends)} {one} )"
        return f"( {pictures} ! {self.encoder} ! breakmydata name=noise probability=0 ! {self.payer} name=pay0 pt=96 )"


@dataclass
class RtspServer(Killable):
    """A server process; as a context manager it's ended with the block.

    Attributes:
        mounts: its streams.
        port: where it listens, which a restart keeps.
        user, password: asked of everybody, where a user is given.
        clock_offset: seconds by which the server's clock, and so its sender reports, are ahead of this machine's.
    """

    mounts: list[Mount] = field(default_factory=lambda: [Mount()])
    port: int = field(default_factory=free_port)
    user: str = ""
    password: str = ""
    clock_offset: float = 0.0
    _process: subprocess.Popen[str] | None = None

    def url(self, path: str = "/cam", user_info: str = "") -> str:
        """Return the address of a stream; `user_info` is put before the host as it is."""
        return f"rtsp://{user_info + '@' if user_info else ''}127.0.0.1:{self.port}{path}"

    def start(self) -> None:
        """Start the server and wait until it listens."""
        told = {key: value for key, value in asdict(self).items() if not key.startswith("_")}
        self._process = subprocess.Popen(
            ["/usr/bin/python3", __file__, json.dumps(told)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.port = int(self._answer())

    def kill(self) -> None:
        """End the process at once, as a power cut does; the port stays reserved for `start` by nobody."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def freeze(self) -> None:
        """Let the process stand still: its connections stay, and nothing comes."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def tell(self, command: str, **values: Any) -> None:
        """Have the server do something: "size" (path, width, height), "noise" (path, share of the bytes to replace),
        "switch" (path: to the other encoder)."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"command": command, **values}) + "\n")
        self._process.stdin.flush()
        assert self._answer() == "done"

    def _signal(self, number: int) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    def _answer(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], PATIENCE)
        line = self._process.stdout.readline().strip() if ready else ""
        if not line:
            raise RuntimeError("the RTSP server did not answer")
        return line


def serve(told: dict[str, Any]) -> None:
    """Be the server."""
    import gi

    gi.require_version("Gst", "1.0")
    gi.require_version("GstRtsp", "1.0")
    gi.require_version("GstRtspServer", "1.0")
    from gi.repository import GLib, Gst, GstRtsp, GstRtspServer

    Gst.init(None)
    server = GstRtspServer.RTSPServer.new()
    server.set_address("127.0.0.1")
    server.set_service(str(told["port"]))
    clock = _clock(Gst, told["clock_offset"]) if told["clock_offset"] else None
    medias: dict[str, Any] = {}
    factories: dict[str, tuple[Any, Mount]] = {}
    for entry in told["mounts"]:
        mount = Mount(**entry)
        factory = GstRtspServer.RTSPMediaFactory.new()
        factory.set_launch(mount.launch())
        factory.set_shared(True)
        if clock is not None:
            factory.set_clock(clock)
        factory.connect("media-configure", _configure, mount.path, medias, clock)
        if told["user"]:
            _protect(Gst, GstRtsp, GstRtspServer, server, factory, told)
        server.get_mount_points().add_factory(mount.path, factory)
        factories[mount.path] = factory, mount
    if not server.attach(None):
        sys.exit("the port cannot be bound")
    print(server.get_bound_port(), flush=True)

    def hear(_fd: int, _condition: Any) -> bool:
        line = sys.stdin.readline()
        if line:
            _obey(Gst, json.loads(line), medias, factories)
            print("done", flush=True)
        else:
            loop.quit()
        return bool(line)

    loop = GLib.MainLoop()
    GLib.io_add_watch(sys.stdin.fileno(), GLib.IO_IN | GLib.IO_HUP, hear)
    loop.run()


def _clock(gst: Any, offset: float) -> Any:
    """A clock of NTP time that is ahead of this machine's."""
    clock = gst.SystemClock(clock_type=gst.ClockType.REALTIME)
    internal = clock.get_internal_time()
    clock.set_calibration(internal, internal + int((NTP_TO_UNIX + offset) * gst.SECOND), 1, 1)
    return clock


def _configure(_factory: Any, media: Any, path: str, medias: dict[str, Any], clock: Any) -> None:
    medias[path] = media
    if clock is not None:
        media.connect("prepared", _use_clock)


def _use_clock(media: Any) -> None:
    """Have the sender reports tell the time of the media's own clock."""
    element = media.get_element()
    while element.get_parent() is not None:
        element = element.get_parent()
    iterator = element.iterate_elements()
    while True:
        answer, found = iterator.next()
        if answer != 1:  # GST_ITERATOR_OK
            return
        if found.get_factory().get_name() == "rtpbin":
            found.set_property("ntp-time-source", 3)  # clock-time


def _protect(gst: Any, rtsp: Any, server_module: Any, server: Any, factory: Any, told: dict[str, Any]) -> None:
    auth = server_module.RTSPAuth.new()
    token = server_module.RTSPToken()
    token.set_string(server_module.RTSP_TOKEN_MEDIA_FACTORY_ROLE, "viewer")
    auth.add_basic(server_module.RTSPAuth.make_basic(told["user"], told["password"]), token)
    server.set_auth(auth)
    permissions = server_module.RTSPPermissions.new()
    permissions.add_permission_for_role("viewer", server_module.RTSP_PERM_MEDIA_FACTORY_ACCESS, True)
    permissions.add_permission_for_role("viewer", server_module.RTSP_PERM_MEDIA_FACTORY_CONSTRUCT, True)
    factory.set_permissions(permissions)


def _obey(gst: Any, said: dict[str, Any], medias: dict[str, Any], factories: dict[str, tuple[Any, Mount]]) -> None:
    element = medias[said["path"]].get_element()
    if said["command"] == "size":
        size = f"width={said['width']},height={said['height']},framerate=25/1"
        element.get_by_name("size").set_property("caps", gst.Caps.from_string(f"video/x-raw,{size}"))
    elif said["command"] == "switch":
        selector = element.get_by_name("which")
        selector.set_property("active-pad", selector.get_static_pad("sink_1"))
        factory, mount = factories[said["path"]]
        assert mount.other is not None
        encoder, payer = mount.other
        factory.set_launch(replace(mount, encoder=encoder, payer=payer, other=None).launch())
    elif said["command"] == "noise":
        element.get_by_name("noise").set_property("probability", said["share"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("told")
    serve(json.loads(parser.parse_args().told))
