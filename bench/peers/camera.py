"""A camera whose pictures say when they were made: a clip in a circle, live over RTSP.

    python bench/peers/camera.py CLIP PORT

Picture n is made at n / RATE seconds of the system's monotonic clock, which all processes share, and bears the last 12
bits of n (marks.py): whoever reads it knows its age, also after the camera was away.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import cv2
import gi
import marks
import numpy as np

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer

RATE = 10  # pictures per second


def made(number: int, now: float) -> float:
    """When the picture of a number was made, in seconds of the monotonic clock: the last time before `now`."""
    newest = int(now * RATE)
    return (newest - ((newest - number) % (1 << marks.BITS))) / RATE


def pictures(clip: str) -> tuple[list[np.ndarray], str]:
    """All pictures of a clip as I420, and their caps."""
    capture, found = cv2.VideoCapture(clip), []
    while (read := capture.read())[0]:
        even = read[1][:, : read[1].shape[1] // 8 * 8]  # so that GStreamer's rows have no padding
        found.append(cv2.cvtColor(even, cv2.COLOR_BGR2YUV_I420))
    rows, width = found[0].shape
    return found, f"video/x-raw,format=I420,width={width},height={rows * 2 // 3},framerate={RATE}/1"


def play(clip: list[np.ndarray], sources: list[Gst.Element]) -> None:
    """Make pictures for ever, for the viewer that there is."""
    number = int(time.monotonic() * RATE)
    while True:
        number += 1
        time.sleep(max(0.0, number / RATE - time.monotonic()))
        if sources:
            picture = clip[number % len(clip)].copy()
            marks.draw(picture[: picture.shape[0] * 2 // 3], number % (1 << marks.BITS))
            sources[-1].emit("push-buffer", Gst.Buffer.new_wrapped(picture.tobytes()))


def main() -> None:
    """Serve one stream at /cam."""
    path, port = sys.argv[1:3]
    Gst.init(None)
    clip, caps = pictures(str(Path(path)))
    sources: list[Gst.Element] = []
    factory = GstRtspServer.RTSPMediaFactory.new()
    factory.set_launch(
        f"( appsrc name=source is-live=true format=time do-timestamp=true caps={caps} "
        f"! x264enc tune=zerolatency threads=1 speed-preset=ultrafast key-int-max={RATE} bitrate=2000 "
        "! rtph264pay name=pay0 pt=96 config-interval=-1 )"
    )
    factory.set_shared(True)
    factory.connect(
        "media-configure", lambda _factory, media: sources.append(media.get_element().get_by_name("source"))
    )
    server = GstRtspServer.RTSPServer.new()
    server.set_address("127.0.0.1")
    server.set_service(port)
    server.get_mount_points().add_factory("/cam", factory)
    if not server.attach(None):
        sys.exit(f"port {port} cannot be bound")
    threading.Thread(target=play, args=(clip, sources), daemon=True).start()
    print("ready", flush=True)
    GLib.MainLoop().run()


if __name__ == "__main__":
    main()
