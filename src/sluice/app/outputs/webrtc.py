"""WebRTC to browsers, by GStreamer's webrtcbin: one connection per viewer, offered by the viewer, answered at once."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.flow import PadFlow
from sluice.app.gst import elements_in, make_element
from sluice.app.outputs.encoding import find_encoder
from sluice.app.outputs.hub import Hub
from sluice.app.outputs.options import WebRtcOptions
from sluice.app.outputs.relay import Relay
from sluice.app.outputs.stage import MOST_VIEWED, Stage
from sluice.elements.guard import guarded
from sluice.errors import ConfigurationError, SluiceError

PACKAGES = ("gstreamer1.0-plugins-bad", "gstreamer1.0-nice", "gir1.2-gst-plugins-bad-1.0")
_GATHERING = 5.0  # seconds for the offer to be answered, with the addresses of this machine in the answer
_CONNECTING = 20.0  # seconds for the viewer to use the answer
# A viewer reports what it receives every few seconds. One whose reports stay away has gone: webrtcbin doesn't tell.
_LOOK, _SILENCE = 3.0, 15.0  # seconds


def missing() -> str | None:
    """Return why there is no WebRTC here, with the command that mends it; None where there is."""
    needed = ("webrtcbin", "nicesrc", "dtlssrtpenc", "rtph264pay", "capssetter")
    lacking = [name for name in needed if not Gst.ElementFactory.find(name)]
    try:
        for name in ("GstWebRTC", "GstSdp"):
            gi.require_version(name, "1.0")
    except ValueError as error:
        lacking.append(str(error))
    if lacking:
        return f"WebRTC needs {', '.join(lacking)}; install with: apt-get install {' '.join(PACKAGES)}"
    if find_encoder()[1] != "h264parse":
        return "WebRTC needs an H.264 encoder; install one with: apt-get install gstreamer1.0-plugins-ugly"
    return None


def h264_payload(offer: str) -> tuple[int, str]:
    """Return the payload type of an offer's H.264 in constrained baseline, else of any, and its profile-level-id.

    Raises:
        ConfigurationError: it offers no H.264 that may be cut into packets (packetization-mode 1).
    """
    types = [int(number) for number in re.findall(r"^a=rtpmap:(\d+) H264/90000", offer, re.M)]
    formats = {int(number): text for number, text in re.findall(r"^a=fmtp:(\d+) (.*?)\r?$", offer, re.M)}
    found = []
    for number in types:
        text = formats.get(number, "")
        profile = re.search(r"profile-level-id=([0-9a-fA-F]{6})", text)
        if "packetization-mode=1" in text:
            found.append((number, profile[1].lower() if profile else "42e01f"))
    if not found:
        raise ConfigurationError("the WebRTC offer has no H264/90000 with packetization-mode=1; offer such a video")
    return next((entry for entry in found if entry[1].startswith("42e0")), found[0])


class WebRtcViewer:
    """One connection. What is not said otherwise is for the hub's thread.

    Attributes:
        state: of the connection, as webrtcbin names it: "new", "connecting", "connected", "failed", ...
    """

    def __init__(
        self,
        hub: Hub,
        name: str,
        options: WebRtcOptions,
        acquire: Callable[[object, Callable[[], object]], Relay],
        release: Callable[[object], object],
        on_end: Callable[[WebRtcViewer], object],
    ) -> None:
        """Prepare it.

        Args:
            hub: the thread of all outputs.
            name: for logs.
            options: of all viewers.
            acquire, release: those of the encoded stream.
            on_end: called once, when the viewer has gone.
        """
        why = missing()
        if why is not None:
            raise ConfigurationError(why)
        self._hub, self._name, self._options = hub, name, options
        self._acquire, self._release, self._on_end = acquire, release, on_end
        self._stage: Stage | None = None
        self._gathered = threading.Event()
        self._failed: str | None = None
        self._inputs: list[PadFlow] = []
        self._heard = (-1, 0.0)
        self.state = "new"

    def answer(self, offer: str) -> str:
        """Answer an SDP offer; the answer has all ICE candidates in it. Waits up to five seconds: for any other thread.

        Raises:
            ConfigurationError: the offer is no SDP, or has no video that can be sent.
            SluiceError: there was no answer in time.
        """
        payload, profile = h264_payload(offer)
        try:
            self._hub.call(lambda: self._begin(offer, payload, profile))
        except Exception:  # what has begun, or begins later since the hub is busy, is of no use to anybody
            self._hub.post(self.stop)
            raise
        gathered = self._gathered.wait(_GATHERING)
        if self._failed is not None or not gathered:
            self._hub.call(self.stop)
            raise SluiceError(f"{self._name}: WebRTC: {self._failed or 'no answer within five seconds'}")
        self._hub.remind(_CONNECTING, self._stop_if_unconnected)
        return str(self._bin.get_property("local-description").sdp.as_text())

    def stop(self) -> None:
        """End the connection; without effect the second time."""
        stage, self._stage = self._stage, None
        if stage is not None:
            stage.stop()
            for handler in self._handlers:
                self._bin.disconnect(handler)
            self._release(self)
            self._on_end(self)

    @property
    def dropped(self) -> int:
        """Frames that the viewer did not get in time."""
        return 0 if self._stage is None or self._stage.target is None else self._stage.target.dropped

    def _begin(self, offer: str, payload: int, profile: str) -> None:
        gi.require_version("GstWebRTC", "1.0")
        gi.require_version("GstSdp", "1.0")
        from gi.repository import GstSdp, GstWebRTC

        parsed, message = GstSdp.SDPMessage.new_from_text(offer)
        if parsed != GstSdp.SDPResult.OK:
            raise ConfigurationError("the WebRTC offer is no SDP")
        self._webrtc = GstWebRTC
        self._bin = make_element("webrtcbin", bundle_policy="max-bundle")
        if self._options.stun is not None:
            self._bin.set_property("stun-server", self._options.stun)
        caps = Gst.Caps.from_string(
            f"application/x-rtp, media=video, encoding-name=H264, payload={payload}, clock-rate=90000, "
            f"packetization-mode=(string)1, profile-level-id=(string){profile}"
        )
        payloader = make_element("rtph264pay", config_interval=-1, pt=payload, aggregate_mode="zero-latency")
        # The profile of the offer is written over that of the stream, which any decoder of it decodes.
        setter = make_element("capssetter", caps=caps, join=False)
        chain = [make_element("h264parse"), payloader, setter]
        self._handlers = [
            self._bin.connect("notify::ice-gathering-state", _on_gathering, self),
            self._bin.connect("notify::connection-state", _on_connection, self),
        ]
        self._stage = Stage(
            self._hub,
            f"webrtc-{self._name}",
            [*chain, self._bin],
            most=MOST_VIEWED,
            on_end=self._ended,
            is_live=True,
        )
        transceiver = self._bin.emit("get-transceiver", 0)
        transceiver.set_property("direction", GstWebRTC.WebRTCRTPTransceiverDirection.SENDONLY)
        transceiver.set_property("codec-preferences", caps)
        relay = self._acquire(self, self.stop)
        self._stage.begin(relay, rebased=True)
        relay.ask_for_key()
        remote = GstWebRTC.WebRTCSessionDescription.new(GstWebRTC.WebRTCSDPType.OFFER, message)
        self._bin.emit("set-remote-description", remote, Gst.Promise.new_with_change_func(_on_remote, self))

    def _create_answer(self) -> None:
        self._bin.emit("create-answer", None, Gst.Promise.new_with_change_func(_on_answer, self))

    def _take_answer(self, reply: Gst.Structure) -> None:
        if reply is None or not reply.has_field("answer"):
            self._fail("the offer could not be answered")
            return
        self._bin.emit("set-local-description", reply.get_value("answer"), Gst.Promise.new())

    def _fail(self, why: str) -> None:
        self._failed = why
        self._gathered.set()

    def _stop_if_unconnected(self) -> None:
        if self.state != "connected":
            self.stop()

    def _listen(self) -> None:
        """Count what comes from the viewer, and end the connection when nothing does."""
        if self._stage is None:
            return
        if not self._inputs:
            for element in elements_in(self._bin, recurse=True):
                factory = element.get_factory()
                if factory is not None and factory.get_name() == "nicesrc":
                    self._inputs.append(PadFlow(element.get_static_pad("src")))
        heard = sum(flow.read().buffers for flow in self._inputs)
        now = time.monotonic()
        if heard != self._heard[0]:
            self._heard = (heard, now)
        if now > self._heard[1] + _SILENCE:
            self.stop()
        else:
            self._hub.remind(_LOOK, self._listen)

    def _ended(self, reason: str | None) -> None:
        self._fail(reason or "the stream has ended")
        stage, self._stage = self._stage, None
        if stage is not None:
            self._release(self)
            self._on_end(self)

    def _changed(self, gathering: bool) -> None:
        if gathering:
            if self._bin.get_property("ice-gathering-state") == self._webrtc.WebRTCICEGatheringState.COMPLETE:
                self._gathered.set()
            return
        self.state = self._bin.get_property("connection-state").value_nick
        if self.state == "connected":
            self._hub.post(self._listen)
        elif self.state in ("failed", "closed", "disconnected"):
            self._hub.post(self.stop)


@guarded(failure=None)
def _on_remote(promise: Gst.Promise, viewer: WebRtcViewer, *_: Any) -> None:
    reply = promise.get_reply()
    if reply is not None and reply.has_field("error"):
        viewer._fail(str(reply.get_value("error")))
        return
    viewer._create_answer()


@guarded(failure=None)
def _on_answer(promise: Gst.Promise, viewer: WebRtcViewer, *_: Any) -> None:
    viewer._take_answer(promise.get_reply())


@guarded(failure=None)
def _on_gathering(_bin: Gst.Element, _spec: Any, viewer: WebRtcViewer) -> None:
    viewer._changed(gathering=True)


@guarded(failure=None)
def _on_connection(_bin: Gst.Element, _spec: Any, viewer: WebRtcViewer) -> None:
    viewer._changed(gathering=False)
