"""Viewers by RTSP, JPEG and WebRTC: they see the stream, may come and go, and cost nothing when they are not there."""

from __future__ import annotations

import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import gi
import pytest
from live_stream import Stream, decode

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.outputs import OutputOptions, PictureOptions, RecordOptions, RtspOptions, WebRtcOptions, webrtc
from sluice.app.outputs.hub import BusyOutputs
from sluice.app.outputs.rtsp import server_library
from sluice.contract.structures import required_structure
from sluice.errors import ConfigurationError
from waiting import PATIENCE, until
from webrtc_browser import Browser


def _has_rtsp() -> bool:
    try:
        server_library()
    except ConfigurationError:
        return False
    return True


needs_rtsp = pytest.mark.skipif(not _has_rtsp(), reason="gir1.2-gst-rtsp-server-1.0 is not installed")
needs_webrtc = pytest.mark.skipif(webrtc.missing() is not None, reason=str(webrtc.missing()))


class RtspClient:
    """rtspsrc and a decoder; counts pictures."""

    def __init__(self, url: str, protocols: str = "tcp") -> None:
        self.frames = 0
        self.size = (0, 0)
        self._pipeline = Gst.parse_launch(
            f"rtspsrc location={url} latency=0 protocols={protocols} ! decodebin ! "
            "fakesink name=sink sync=false signal-handoffs=true"
        )
        self._pipeline.get_by_name("sink").connect("handoff", self._count)
        self._pipeline.set_state(Gst.State.PLAYING)

    def _count(self, _sink: Gst.Element, _buffer: Gst.Buffer, pad: Gst.Pad) -> None:
        structure = required_structure(pad.get_current_caps(), 0)
        self.size = (structure.get_value("width"), structure.get_value("height"))
        self.frames += 1

    def error(self) -> str | None:
        message = self._pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR)
        return None if message is None else f"{message.parse_error()[0].message} {message.parse_error()[1]}"

    def stop(self) -> None:
        self._pipeline.set_state(Gst.State.NULL)


@needs_rtsp
def test_a_client_sees_the_stream_and_nothing_is_encoded_without_one() -> None:
    with Stream(OutputOptions(rtsp=RtspOptions(port=0))) as stream:
        until(lambda: stream.stats()["frames"] > 10)
        assert stream.stats()["encoded"] == 0
        assert not stream.stats()["draw-active"]
        client = RtspClient(stream.outputs.rtsp_url("cam 1"))
        until(lambda: client.frames > 40, what="pictures at the client")
        assert client.size == (160, 120)
        assert stream.stats()["rtsp-viewers"] == 1
        client.stop()
        until(lambda: not stream.stats()["encode-active"], what="the end of encoding")
        again = RtspClient(stream.outputs.rtsp_url("cam 1"), "udp")
        until(lambda: again.frames > 10, what="pictures at a later client")
        again.stop()


@needs_rtsp
def test_two_clients_share_one_encoder() -> None:
    with Stream(OutputOptions(rtsp=RtspOptions(port=0))) as stream:
        clients = [RtspClient(stream.outputs.rtsp_url("cam 1")) for _ in range(2)]
        until(lambda: all(client.frames > 20 for client in clients))
        assert stream.stats()["viewers"] == 1
        assert stream.stats()["encoded"] <= stream.stats()["frames"]
        for client in clients:
            client.stop()


@needs_rtsp
def test_a_password_is_asked_for() -> None:
    with Stream(OutputOptions(rtsp=RtspOptions(port=0, user="eve", password="s3cret"))) as stream:
        url = stream.outputs.rtsp_url("cam 1")
        assert "s3cret" not in url
        for wrong in (url, url.replace("//", "//eve:wrong@")):
            client = RtspClient(wrong)
            until(lambda client=client: "nauthorized" in (client.error() or ""), "the refusal")  # type: ignore[misc]
            client.stop()
        client = RtspClient(url.replace("//", "//eve:s3cret@"))
        until(lambda: client.frames > 5)
        client.stop()


@needs_rtsp
def test_an_output_switched_off_lets_its_viewers_go() -> None:
    with Stream(OutputOptions(rtsp=RtspOptions(port=0))) as stream:
        url = stream.outputs.rtsp_url("cam 1")
        client = RtspClient(url)
        until(lambda: client.frames > 5)
        stream.outputs.enable("cam 1", "rtsp", False)
        until(lambda: not stream.stats()["encode-active"], what="the end of encoding")
        client.stop()
        assert stream.outputs.rtsp_url("cam 1") is None
        refused = RtspClient(url)
        until(lambda: "ot found" in (refused.error() or ""), "the refusal")
        refused.stop()
        stream.outputs.enable("cam 1", "rtsp", True)
        back = RtspClient(stream.outputs.rtsp_url("cam 1"))
        until(lambda: back.frames > 5)
        back.stop()


@needs_rtsp
def test_a_port_in_use_is_named() -> None:
    with (
        Stream(OutputOptions(rtsp=RtspOptions(port=0))) as stream,
        pytest.raises(ConfigurationError, match=str(stream.outputs._server.port)),
    ):
        Stream(OutputOptions(rtsp=RtspOptions(port=stream.outputs._server.port)))


def test_a_snapshot_is_of_the_annotated_stream_and_made_on_demand() -> None:
    with Stream(OutputOptions()) as stream:
        until(lambda: stream.stats()["frames"] > 5)
        assert stream.stats()["pictures"] == 0
        picture = until(lambda: stream.outputs.snapshot("cam 1"), "a picture, for which it waits two seconds")
        assert decode(picture).shape == (120, 160, 3)
        assert decode(picture).max() > 200  # the ball
        until(lambda: not stream.stats()["draw-active"], what="the end of drawing")
        made = stream.stats()["pictures"]
        arrived = stream.stats()["frames"]
        until(lambda: stream.stats()["frames"] > arrived + 10)
        assert stream.stats()["pictures"] == made


def test_there_is_no_snapshot_of_a_stream_without_frames() -> None:
    stream = Stream(OutputOptions())
    assert stream.outputs.snapshot("cam 1") is None
    stream.outputs.close()


def test_pictures_come_at_no_more_than_the_rate() -> None:
    with Stream(OutputOptions(pictures=PictureOptions(fps=5)), fps=50) as stream:
        until(lambda: stream.stats()["frames"] > 5)
        got: list[bytes] = []
        unsubscribe = stream.outputs.subscribe_mjpeg("cam 1", got.append)
        before = stream.stats()["frames"]
        until(lambda: stream.stats()["frames"] > before + 100)
        until(lambda: len(got) >= 6, "pictures")
        unsubscribe()
        came = stream.stats()["frames"] - before
        assert len(got) <= came / 10 + 4  # of 50 frames per second
        assert len(set(got)) > 3


def test_too_many_viewers_are_refused() -> None:
    with Stream(OutputOptions(pictures=PictureOptions(viewers=2))) as stream:
        ends = [stream.outputs.subscribe_mjpeg("cam 1", lambda _: None) for _ in range(2)]
        with pytest.raises(ConfigurationError, match="2 viewers"):
            stream.outputs.subscribe_mjpeg("cam 1", lambda _: None)
        ends[0]()
        until(lambda: stream.stats()["pictures-viewers"] == 1)
        stream.outputs.subscribe_mjpeg("cam 1", lambda _: None)


def test_a_viewer_that_hangs_stops_nothing_else(tmp_path: Any) -> None:
    release = threading.Event()
    with Stream(OutputOptions(record=RecordOptions(tmp_path))) as stream:
        stream.outputs.subscribe_mjpeg("cam 1", lambda _: release.wait(20))
        until(lambda: stream.stats()["pictures"] >= 1)
        before = stream.stats()
        until(lambda: stream.stats()["record-frames"] > before["record-frames"] + 50)
        release.set()
    numbers = stream.branch.stats()
    assert numbers["record-dropped"] == 0


def test_viewers_come_and_go_and_nothing_stays() -> None:
    with Stream(OutputOptions()) as stream:
        until(lambda: stream.stats()["frames"] > 5)
        threads = threading.active_count()
        errors: list[BaseException] = []

        def view(count: int) -> None:
            try:
                for _ in range(count):
                    got = threading.Event()
                    end = stream.outputs.subscribe_mjpeg("cam 1", lambda _, got=got: got.set())
                    assert got.wait(PATIENCE)
                    end()
            except BaseException as error:
                errors.append(error)

        viewers = [threading.Thread(target=view, args=(25,)) for _ in range(8)]
        for thread in viewers:
            thread.start()
        for thread in viewers:
            thread.join()
        assert not errors
        until(lambda: stream.stats()["pictures-viewers"] == 0)
        until(lambda: not stream.stats()["draw-active"])
        until(lambda: threading.active_count() <= threads)
        assert stream.stats()["draw-failures"] == 0


@needs_webrtc
def test_a_browser_sees_the_stream() -> None:
    with Stream(OutputOptions(webrtc=WebRtcOptions())) as stream:
        browser = Browser()
        session, answer = stream.outputs.webrtc_answer("cam 1", browser.offer())
        assert "a=candidate" in answer
        assert "a=sendonly" in answer
        browser.accept(answer)
        until(lambda: browser.frames > 40, "pictures at the browser")
        assert stream.outputs.webrtc_state(session) == "connected"
        assert stream.stats()["webrtc-viewers"] == 1
        stream.outputs.webrtc_close(session)
        assert stream.outputs.webrtc_state(session) == "closed"
        until(lambda: not stream.stats()["encode-active"], what="the end of encoding")
        browser.stop()


@needs_webrtc
def test_a_browser_that_is_gone_is_let_go() -> None:
    with Stream(OutputOptions(webrtc=WebRtcOptions())) as stream:
        browser = Browser()
        session, answer = stream.outputs.webrtc_answer("cam 1", browser.offer())
        browser.accept(answer)
        until(lambda: browser.frames > 5)
        browser.stop()
        until(lambda: stream.outputs.webrtc_state(session) == "closed", "the end of the connection")
        assert stream.stats()["webrtc-viewers"] == 0


@needs_webrtc
def test_connections_are_bounded() -> None:
    with Stream(OutputOptions(webrtc=WebRtcOptions(viewers=1))) as stream:
        first, second = Browser(), Browser()
        session, _ = stream.outputs.webrtc_answer("cam 1", first.offer())
        with pytest.raises(ConfigurationError, match="1 WebRTC viewers"):
            stream.outputs.webrtc_answer("cam 1", second.offer())
        stream.outputs.webrtc_close(session)
        stream.outputs.webrtc_answer("cam 1", second.offer())
        first.stop()
        second.stop()


@needs_webrtc
@pytest.mark.parametrize(
    ("offer", "why"), [("nonsense", "no H264"), ("v=0\r\nm=audio 9 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n", "no H264")]
)
def test_an_offer_that_cannot_be_answered_says_why(offer: str, why: str) -> None:
    with Stream(OutputOptions(webrtc=WebRtcOptions())) as stream:
        with pytest.raises(ConfigurationError, match=why):
            stream.outputs.webrtc_answer("cam 1", offer)
        assert stream.stats()["webrtc-viewers"] == 0


def test_the_h264_that_every_browser_has_is_chosen() -> None:
    offer = (
        "m=video 9 UDP/TLS/RTP/SAVPF 96 102 104 106\r\na=rtpmap:96 VP8/90000\r\na=rtpmap:102 H264/90000\r\n"
        "a=fmtp:102 level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42001f\r\n"
        "a=rtpmap:104 H264/90000\r\na=fmtp:104 packetization-mode=0;profile-level-id=42e01f\r\n"
        "a=rtpmap:106 H264/90000\r\na=fmtp:106 packetization-mode=1;profile-level-id=42e01f\r\n"
    )
    assert webrtc.h264_payload(offer) == (106, "42e01f")
    assert webrtc.h264_payload(offer.replace("106", "107").split("a=rtpmap:107")[0]) == (102, "42001f")


def test_webrtc_that_is_off_is_named() -> None:
    with Stream(OutputOptions()) as stream:
        assert not stream.outputs.webrtc_available
        with pytest.raises(ConfigurationError, match="WebRTC is not among the outputs"):
            stream.outputs.webrtc_answer("cam 1", "")


def test_closing_is_quick_with_everything_on(tmp_path: Any) -> None:
    options = OutputOptions(record=RecordOptions(tmp_path), webrtc=WebRtcOptions())
    with Stream(options) as stream:
        until(lambda: stream.stats()["record-frames"] > 5)
        stream.outputs.subscribe_mjpeg("cam 1", lambda _: None)
        began = time.monotonic()
    assert time.monotonic() - began < 6


def test_closed_outputs_answer_at_once() -> None:
    stream = Stream(OutputOptions())
    stream.outputs.close()
    began = time.monotonic()
    assert stream.outputs.stats() == {}
    with pytest.raises(ConfigurationError, match="no stream 'cam 1'"):
        stream.outputs.snapshot("cam 1")
    with pytest.raises(ConfigurationError, match="were closed"):
        stream.outputs(1, None, "cam 2")
    stream.branch.close()
    assert time.monotonic() - began < 5


def test_pictures_that_cannot_be_made_leave_no_viewer(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(factory: str, **_: Any) -> Any:
        raise ConfigurationError(f"GStreamer has no element {factory!r}")

    with Stream(OutputOptions()) as stream:
        monkeypatch.setattr("sluice.app.outputs.pictures.make_element", refuse)
        with pytest.raises(ConfigurationError, match="jpegenc"):
            stream.outputs.subscribe_mjpeg("cam 1", lambda _: None)
        assert stream.stats()["pictures-viewers"] == 0


def test_pictures_whose_drawing_cannot_begin_are_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise ConfigurationError("GStreamer has no element 'videobox'")

    with Stream(OutputOptions()) as stream:
        with monkeypatch.context() as without:
            without.setattr("sluice.app.outputs.live.drawing", refuse)
            with pytest.raises(ConfigurationError, match="videobox"):
                stream.outputs.snapshot("cam 1")
        until(lambda: stream.outputs.snapshot("cam 1"), "a picture, for which it waits two seconds")


def test_who_was_told_that_the_outputs_are_busy_is_no_viewer_later(monkeypatch: pytest.MonkeyPatch) -> None:
    with Stream(OutputOptions()) as stream:
        hub, go_on = stream.branch.hub, threading.Event()
        with monkeypatch.context() as impatient:
            impatient.setattr(hub, "call", partial(hub.call, timeout=0.1))
            hub.post(lambda: go_on.wait(30))
            with pytest.raises(BusyOutputs):
                stream.outputs.subscribe_mjpeg("cam 1", lambda _: None)
        go_on.set()
        assert stream.stats()["pictures-viewers"] == 0  # behind all that the hub was given


def test_one_stream_whose_outputs_fail_leaves_those_of_the_others_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail() -> None:
        raise PermissionError("of the test")

    with Stream(OutputOptions(record=RecordOptions(tmp_path / "r"))) as stream:
        first = stream.branch
        other = stream.outputs(1, None, "cam 2")
        monkeypatch.setattr(first, "tick", fail)
        ticked = threading.Event()
        monkeypatch.setattr(other, "tick", ticked.set)
        assert ticked.wait(30)
        other.bin.set_state(Gst.State.NULL)


def test_the_end_of_all_outputs_waits_for_a_stream_that_is_being_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    written, failures = threading.Event(), list[BaseException]()

    def close() -> None:
        try:
            stream.branch.close()
        except BaseException as error:
            failures.append(error)

    with Stream(OutputOptions()) as stream:
        monkeypatch.setattr(stream.branch, "_idle", written.is_set)
        first, second = threading.Thread(target=close), threading.Thread(target=stream.outputs.close)
        first.start()
        until(lambda: "cam 1" not in stream.outputs.names(), "it is being closed")
        second.start()
        second.join(0.5)
        assert second.is_alive()
        written.set()
        first.join(30)
        second.join(30)
        assert not second.is_alive()
        assert failures == []
