"""What GStreamer's errors mean for a stream. The texts are those that elements really give."""

from __future__ import annotations

import gi
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import GLib, Gst

from sluice.app.streams.faults import classify, classify_text
from sluice.app.streams.states import StreamState

Gst.init(None)
RESOURCE, STREAM, CORE = "gst-resource-error-quark", "gst-stream-error-quark", "gst-core-error-quark"


@pytest.mark.parametrize(
    ("domain", "code", "words", "state"),
    [
        (RESOURCE, Gst.ResourceError.NOT_AUTHORIZED, "Unauthorized", "unauthorized"),
        (RESOURCE, Gst.ResourceError.OPEN_READ, "Unauthorized (401)", "unauthorized"),
        (RESOURCE, Gst.ResourceError.OPEN_READ_WRITE, "Failed to connect. (Generic error)", "refused"),
        (RESOURCE, Gst.ResourceError.NOT_FOUND, "Not Found", "not-found"),
        (RESOURCE, Gst.ResourceError.NOT_FOUND, "Could not resolve server name.", "unknown-host"),
        (RESOURCE, Gst.ResourceError.OPEN_READ, "Error resolving “nowhere.invalid”: Name or service", "unknown-host"),
        (RESOURCE, Gst.ResourceError.READ, "Could not read from resource.", "lost"),
        (STREAM, Gst.StreamError.CODEC_NOT_FOUND, "Your GStreamer installation is missing a plug-in.", "unsupported"),
        (STREAM, Gst.StreamError.TYPE_NOT_FOUND, "Could not determine type of stream.", "unsupported"),
        (STREAM, Gst.StreamError.DECODE, "Could not decode stream.", "corrupt"),
        (STREAM, Gst.StreamError.DEMUX, "This file is invalid and cannot be played.", "corrupt"),
        (STREAM, Gst.StreamError.FAILED, "Internal data stream error.", "lost"),
        (CORE, Gst.CoreError.MISSING_PLUGIN, 'No URI handler implemented for "srt".', "unsupported"),
        (RESOURCE, Gst.ResourceError.READ, "Failed to authenticate: Incorrect passphrase (10)", "unauthorized"),
        (RESOURCE, Gst.ResourceError.READ, "Error on SRT socket: Connection timeout (16)", "refused"),
        (RESOURCE, Gst.ResourceError.READ, "Error on SRT socket: Unknown or erroneous (0)", "lost"),
        ("other", 1, "there is no video stream in it", "unsupported"),
        # An address is no reason, whatever its host and path are called.
        (RESOURCE, Gst.ResourceError.READ, "rtsp://forbidden/404/unauthorized: read error", "lost"),
    ],
)
def test_errors_by_domain_code_and_words(domain: str, code: int, words: str, state: str) -> None:
    assert classify_text(domain, int(code), words) == state


def test_the_words_of_a_message_are_its_text_and_what_the_element_adds_not_the_files_it_names() -> None:
    element = Gst.ElementFactory.make("fakesrc")
    error = GLib.Error.new_literal(Gst.ResourceError.quark(), "Could not read.", int(Gst.ResourceError.READ))
    message = Gst.Message.new_error(element, error, "../gst/unauthorized.c(1): f (): /GstPipeline:p:\nEOF")
    assert classify(message) == StreamState.LOST
    message = Gst.Message.new_error(element, error, "../gst/rtsp.c(1): f (): /GstPipeline:p:\nConnection refused")
    assert classify(message) == StreamState.REFUSED
