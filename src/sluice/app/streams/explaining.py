"""What is wrong with a source, in words that say what would be right, in front of those of whoever noticed it."""

from __future__ import annotations

from urllib.parse import urlsplit

from sluice.app.sources import Source
from sluice.app.streams.states import StreamState


def explain(state: StreamState, source: Source, said: str) -> str:
    """Return the reason of a fault.

    Args:
        state: what it is.
        source: whose.
        said: what GStreamer or the system says of it, which is put behind our words; without credentials.
    """
    ours = _of_network(state, source) if source.remote else _of_machine(state, source)
    return f"{ours} ({said})" if ours and said else ours or said


def _of_network(state: StreamState, source: Source) -> str:
    parts = urlsplit(source.uri)
    host = _host(source, parts.hostname or "")
    if state is StreamState.REFUSED:
        at = _host(source, parts.hostname or "", parts.port)
        return f"nothing answers at {at}; right are an address and a port at which the camera listens"
    if state is StreamState.UNKNOWN_HOST:
        return f"{host} is not known; right is a name that this machine's name server knows, or an IP address"
    if state is StreamState.NOT_FOUND:
        return f"{host} answers and has no such stream; right is a path from the camera's manual or its own page"
    if state is StreamState.UNAUTHORIZED:
        return _unauthorized(source, parts.scheme.lower())
    return _of_data(state)


def _unauthorized(source: Source, scheme: str) -> str:
    if scheme == "srt":
        return "the passphrase is missing or wrong; right is the sender's, as srt://HOST:PORT?passphrase=..."
    if source.uri != source.shown:
        return "the user name or the password is wrong; right are those that the camera's own page takes"
    return f"a user name and a password are asked for; right is {scheme}://USER:PASSWORD@HOST/..."


def _of_machine(state: StreamState, source: Source) -> str:
    """Say it of a file, a device or a generated stream."""
    if state is StreamState.NOT_FOUND and source.uri.startswith("v4l2:"):
        return "there is no such device; `ls /dev/video*` lists those there are"
    if state is StreamState.NOT_FOUND:
        return "there is no such file"
    return _of_data(state) if state is not StreamState.LOST else ""


def _of_data(state: StreamState) -> str:
    return {
        StreamState.LOST: "the connection broke, or the other side ended it",
        StreamState.UNSUPPORTED: "nothing here decodes it, or it holds no video; `sluice doctor` says what is missing",
        StreamState.CORRUPT: "what comes is damaged beyond decoding",
    }.get(state, "")


def _host(source: Source, name: str, port: int | None = None) -> str:
    """Name the host, unless it may be a part of a password that should have been escaped."""
    if not name:
        return "its address"
    if name not in source.shown.lower():
        return "the host behind the first '@'"
    return f"the host {name!r}" + (f", port {port}" if port else "")
