"""Servers of RTMP and SRT for tests, as processes of their own, so that they can be killed and started again.

RTMP is served by nginx with its RTMP module, which hands on what a publisher of GStreamer sends it, as cameras do; SRT
by GStreamer itself, listening. All of it on loopback.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from killable import Killable, free_port
from waiting import until

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
RTMP_MODULE = next(
    (path for path in Path("/usr/lib").glob("**/nginx/modules/ngx_rtmp_module.so")), Path("ngx_rtmp_module.so")
)
_PICTURES = (
    "videotestsrc is-live=true pattern={pattern} ! video/x-raw,width=160,height=128,framerate=25/1 "
    "! x264enc tune=zerolatency speed-preset=ultrafast key-int-max=10 bitrate=300 ! h264parse "
)


def missing_for_rtmp() -> str | None:
    """Why there is no RTMP server here; None where there is."""
    if NGINX is None or not RTMP_MODULE.exists():
        return "no RTMP server: apt-get install nginx libnginx-mod-rtmp"
    return _missing_elements("rtmp2src", "rtmp2sink", "flvmux", "x264enc")


def missing_for_srt() -> str | None:
    """Why there is no SRT server here; None where there is."""
    return _missing_elements("srtsrc", "srtsink", "mpegtsmux", "x264enc")


def _missing_elements(*names: str) -> str | None:
    Gst.init(None)
    lacking = [name for name in names if Gst.ElementFactory.find(name) is None]
    return f"GStreamer has no {', '.join(lacking)} here" if lacking else None


def gst_launch(line: str) -> subprocess.Popen[bytes]:
    """A process that plays a launch line."""
    command = ["gst-launch-1.0", "-q", *line.split()]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def end(process: subprocess.Popen[bytes] | None) -> None:
    """Kill a process, as a power cut does."""
    if process is not None:
        process.kill()
        process.wait()


class RtmpServer(Killable):
    """nginx, and what publishes a picture to it; as a context manager both end with the block."""

    def __init__(self, folder: Path) -> None:
        """Prepare a server whose files are in a folder."""
        self.port = free_port()
        self._folder = folder
        self._server: subprocess.Popen[bytes] | None = None
        self._publisher: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where the picture is."""
        return f"rtmp://127.0.0.1:{self.port}/live/cam"

    def start(self) -> None:
        """Start the server and its publisher, and wait until it listens."""
        assert NGINX is not None
        config = self._folder / "nginx.conf"
        config.write_text(
            f"load_module {RTMP_MODULE}; daemon off; master_process off; pid {self._folder}/nginx.pid;\n"
            f"error_log {self._folder}/error.log; events {{ }}\n"
            f"rtmp {{ access_log off; server {{ listen 127.0.0.1:{self.port}; application live {{ live on; }} }} }}\n"
        )
        self._server = subprocess.Popen([NGINX, "-p", str(self._folder), "-e", "stderr", "-c", str(config)])
        until(lambda: _listens(self.port))
        self.publish()

    def publish(self) -> None:
        """Begin to send the picture, with another pattern than nothing."""
        self._publisher = gst_launch(
            f"{_PICTURES.format(pattern='ball')} ! flvmux streamable=true ! rtmp2sink location={self.url}"
        )

    def kill_publisher(self) -> None:
        """Let the picture be lost while the server goes on."""
        end(self._publisher)
        self._publisher = None

    def kill(self) -> None:
        """End both at once."""
        self.kill_publisher()
        end(self._server)
        self._server = None


class SrtServer(Killable):
    """A camera that listens for SRT; as a context manager it ends with the block."""

    def __init__(self, passphrase: str = "") -> None:
        """Prepare it; a passphrase has 10 characters at least."""
        self.port = free_port(socket.SOCK_DGRAM)
        self._passphrase = passphrase
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, passphrase: str = "") -> str:
        """Where the picture is."""
        key = f"&passphrase={passphrase}" if passphrase else ""
        return f"srt://127.0.0.1:{self.port}?mode=caller{key}"

    def start(self) -> None:
        """Start it; it listens a moment later."""
        key = f"passphrase={self._passphrase} pbkeylen=16" if self._passphrase else ""
        self._process = gst_launch(
            f"{_PICTURES.format(pattern='ball')} ! mpegtsmux alignment=7 "
            f"! srtsink uri=srt://127.0.0.1:{self.port}?mode=listener wait-for-connection=false {key}"
        )

    def kill(self) -> None:
        """End it at once."""
        end(self._process)
        self._process = None


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
