"""What a browser does to see a stream by WebRTC, without a browser."""

from __future__ import annotations

import threading
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from waiting import PATIENCE, until


class Browser:
    """A webrtcbin that offers to receive video, and counts what it decodes."""

    def __init__(self) -> None:
        for name in ("GstWebRTC", "GstSdp"):
            gi.require_version(name, "1.0")
        from gi.repository import GstSdp, GstWebRTC

        self._webrtc, self._sdp = GstWebRTC, GstSdp
        self.frames = 0
        self._pipeline = Gst.Pipeline.new()
        self._bin = Gst.ElementFactory.make("webrtcbin")
        Gst.util_set_object_arg(self._bin, "bundle-policy", "max-bundle")
        self._pipeline.add(self._bin)
        caps = Gst.Caps.from_string(
            "application/x-rtp,media=video,encoding-name=H264,payload=102,clock-rate=90000,"
            "packetization-mode=(string)1,profile-level-id=(string)42e01f"
        )
        self._bin.emit("add-transceiver", GstWebRTC.WebRTCRTPTransceiverDirection.RECVONLY, caps)
        self._bin.connect("pad-added", self._on_pad)
        self._pipeline.set_state(Gst.State.PLAYING)
        self._kept: list[Any] = []

    def offer(self) -> str:
        made = threading.Event()

        def take(promise: Gst.Promise, *_: Any) -> None:
            reply = promise.get_reply()
            offer = reply.get_value("offer")
            self._kept += [promise, reply, offer]
            self._bin.emit("set-local-description", offer, Gst.Promise.new())
            made.set()

        self._bin.emit("create-offer", None, Gst.Promise.new_with_change_func(take))
        assert made.wait(PATIENCE)
        complete = self._webrtc.WebRTCICEGatheringState.COMPLETE
        until(lambda: self._bin.get_property("ice-gathering-state") == complete)
        return str(self._bin.get_property("local-description").sdp.as_text())

    def accept(self, answer: str) -> None:
        _, message = self._sdp.SDPMessage.new_from_text(answer)
        described = self._webrtc.WebRTCSessionDescription.new(self._webrtc.WebRTCSDPType.ANSWER, message)
        self._bin.emit("set-remote-description", described, Gst.Promise.new())

    def _on_pad(self, _bin: Gst.Element, pad: Gst.Pad) -> None:
        if pad.direction != Gst.PadDirection.SRC:
            return
        decoder = Gst.parse_bin_from_description(
            "rtph264depay ! h264parse ! avdec_h264 ! fakesink name=sink sync=false signal-handoffs=true", True
        )
        decoder.get_by_name("sink").connect("handoff", self._count)
        self._pipeline.add(decoder)
        decoder.sync_state_with_parent()
        pad.link(decoder.get_static_pad("sink"))

    def _count(self, *_: Any) -> None:
        self.frames += 1

    def stop(self) -> None:
        self._pipeline.set_state(Gst.State.NULL)
