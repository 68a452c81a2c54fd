"""What is told to the element that fetches a stream, and found out about its address before it is asked."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit
from urllib.request import getproxies

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.sources import Source
from sluice.app.streams.policy import StreamPolicy
from sluice.app.streams.states import StreamState
from sluice.errors import ConfigurationError

_TRANSPORTS = {"tcp": "tcp", "udp": "udp+udp-mcast"}
# Seconds without a packet after which UDP is given up for TCP: firewalls swallow it without a word.
_UDP_PATIENCE = 2.0
_TEARDOWN = 100 * Gst.MSECOND  # that saying goodbye to a camera may take
_PACKAGES = {
    "rtsp": "gstreamer1.0-plugins-good",
    "rtsps": "gstreamer1.0-plugins-good",
    "http": "gstreamer1.0-plugins-good",
    "https": "gstreamer1.0-plugins-good",
    "v4l2": "gstreamer1.0-plugins-good",
    "udp": "gstreamer1.0-plugins-good",
    "rtmp": "gstreamer1.0-plugins-bad",
    "rtmps": "gstreamer1.0-plugins-bad",
    "srt": "gstreamer1.0-plugins-bad",
}
_RESOLVED_HERE = ("rtsp", "rtsps", "rtspt", "rtspu", "rtsph", "rtmp", "rtmps", "srt")
"""Schemes whose elements say of an unknown host no more than "failed to connect". HTTP may go through a proxy, which
knows more hosts than this machine does."""


class UnknownHost(ConfigurationError):
    """There is no host of a name."""


def check_scheme(source: Source) -> None:
    """Refuse an address that no element here opens.

    Raises:
        ConfigurationError: with the package that has one.
    """
    scheme = urlsplit(source.uri).scheme.lower()
    if Gst.uri_protocol_is_supported(Gst.URIType.SRC, scheme):
        return
    package = _PACKAGES.get(scheme, "a GStreamer plugin for it")
    raise ConfigurationError(f"no element opens {scheme}:// addresses here; install {package}")


def check_host(source: Source) -> None:
    """Look the host of an address up; may wait for a name server.

    Raises:
        UnknownHost: there is none of that name; its text is what the system says.
    """
    parts = urlsplit(source.uri)
    if parts.scheme.lower() not in _RESOLVED_HERE or not parts.hostname:
        return
    try:
        socket.getaddrinfo(parts.hostname, None)
    except (OSError, UnicodeError) as error:
        raise UnknownHost(str(getattr(error, "strerror", error))) from error


def diagnose(source: Source) -> tuple[StreamState, str] | None:
    """Find out why a web server gave nothing, where its element does not say; may wait some seconds.

    Returns:
        the state and what the system says; None where a connection can be had, or goes through a proxy.
    """
    parts = urlsplit(source.uri)
    scheme = parts.scheme.lower()
    if scheme not in ("http", "https") or getproxies().get(scheme):
        return None
    try:
        socket.create_connection((parts.hostname or "", parts.port or (443 if scheme == "https" else 80)), 3.0).close()
    except (socket.gaierror, UnicodeError) as error:
        return StreamState.UNKNOWN_HOST, str(getattr(error, "strerror", error))
    except OSError as error:
        return StreamState.REFUSED, str(error.strerror or error)
    return None


def set_up(element: Gst.Element, policy: StreamPolicy) -> None:
    """Tell a source element what a policy says."""
    factory = element.get_factory()
    name = factory.get_name() if factory is not None else ""
    if name == "rtspsrc":
        _set_up_rtsp(element, policy)
    elif name == "souphttpsrc":
        element.set_property("timeout", max(1, round(policy.connect_seconds)))
    elif name == "srtsrc":
        if element.find_property("auto-reconnect") is not None:  # it would try again for ever, and never say why
            element.set_property("auto-reconnect", False)
    elif name == "udpsrc":
        element.set_property("timeout", round(policy.stall_seconds * Gst.SECOND))


def _set_up_rtsp(element: Gst.Element, policy: StreamPolicy) -> None:
    if policy.transport in _TRANSPORTS:
        Gst.util_set_object_arg(element, "protocols", _TRANSPORTS[policy.transport])
    element.set_property("latency", round(policy.latency_ms))
    element.set_property("tcp-timeout", round(policy.connect_seconds * 1e6))
    element.set_property("timeout", round(min(_UDP_PATIENCE, policy.stall_seconds / 2) * 1e6))
    element.set_property("teardown-timeout", _TEARDOWN)
    if element.find_property("add-reference-timestamp-meta") is not None:  # since GStreamer 1.22
        element.set_property("add-reference-timestamp-meta", True)
