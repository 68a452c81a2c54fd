"""Sources over HTTP: files and HLS, from a server on loopback that may vanish."""

from __future__ import annotations

import http.server
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from live import happened, plays, quick, status

import sluice
from sluice.app.streams import StreamState
from waiting import until

CLIP = Path(__file__).parents[2] / "examples" / "data" / "pedestrians.mp4"


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A file server that writes no log, and asks for a password under /secret/."""

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path.startswith("/secret/") and self.headers.get("Authorization") is None:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="cameras"')
            self.end_headers()
            return
        super().do_GET()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    """The address of a server of files in the test's folder."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_file_over_http_gives_every_frame(site: str, tmp_path: Path) -> None:
    (tmp_path / "clip.mp4").write_bytes(CLIP.read_bytes())
    here, there = sluice.Pipeline([CLIP, f"{site}/clip.mp4"]).run().streams
    assert (there.frames_out, there.failed) == (here.frames_out, False)
    assert there.frames_out > 50


def test_hls_plays_to_the_end_of_its_list(site: str, tmp_path: Path) -> None:
    for number in range(2):
        launch = (
            "gst-launch-1.0 -q videotestsrc num-buffers=50 ! video/x-raw,width=160,height=128,framerate=25/1 "
            f"! x264enc key-int-max=25 tune=zerolatency ! mpegtsmux ! filesink location={tmp_path}/{number}.ts"
        )
        subprocess.run(launch.split(), check=True, timeout=60)
    (tmp_path / "list.m3u8").write_text(
        "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:2\n#EXT-X-PLAYLIST-TYPE:VOD\n"
        "#EXTINF:2.0,\n0.ts\n#EXT-X-DISCONTINUITY\n#EXTINF:2.0,\n1.ts\n#EXT-X-ENDLIST\n"
    )
    (stream,) = sluice.Pipeline(f"{site}/list.m3u8").run().streams
    assert (stream.frames_out, stream.failed) == (100, False)


def test_what_a_web_server_says_is_told(site: str) -> None:
    with sluice.Pipeline([], service=True) as pipeline:
        pipeline.start()
        pipeline.add(f"{site}/none.mp4", name="none", policy=quick())
        pipeline.add(f"{site}/secret/clip.mp4", name="secret", policy=quick())
        until(lambda: happened(pipeline, "stream-not-found", "none"), "404")
        until(lambda: happened(pipeline, "stream-unauthorized", "secret"), "401")


def test_files_and_pictures_loop_in_a_service(tmp_path: Path, site: str) -> None:
    import cv2
    import numpy as np

    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(3):
        cv2.imwrite(str(folder / f"{number}.png"), np.full((48, 64, 3), 80 * number, np.uint8))
    with sluice.Pipeline([], service=True) as pipeline:
        pipeline.start()
        pipeline.add(folder, name="pictures", policy=quick(loop=True))
        plays(pipeline, "pictures", 10)
        assert status(pipeline, "pictures").state in (StreamState.PLAYING, StreamState.CONNECTING)
        assert status(pipeline, "pictures").reconnects == 0  # a loop is no failure
