"""What a configuration names is looked at before anything starts: files, models, trackers, brokers, addresses."""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from sluice.analytics import read_config as read_analytics
from sluice.app.outputs import TILED, folder_fault
from sluice.app.serve.loading import Loaded
from sluice.app.serve.marks import Location
from sluice.app.serve.names import located_model, located_source, located_vlm
from sluice.app.serve.schema import Config, TlsEntry
from sluice.app.sources import parse_sources
from sluice.app.vlm import check_vlm
from sluice.errors import ModelError, SluiceError, text_of, with_own_lines
from sluice.messages.brokers import from_url, is_url
from sluice.models.loading import load_model
from sluice.tracking.algorithms import algorithm

Faults = Iterator[tuple[Location, str]]


def check(loaded: Loaded) -> None:
    """Check what the schema cannot.

    Raises:
        FaultyConfigError: naming all that is wrong, with lines.
    """
    config, folder = loaded.config, loaded.file.path.parent
    parts = (_streams(config, folder), _model(config, folder), _files(config, folder), _http(config, folder, loaded))
    loaded.fail(fault for part in parts for fault in part)


def is_loopback(host: str) -> bool:
    """Whether an address to listen at can be reached from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def tried(at: Location, work: Callable[[], object]) -> Faults:
    """Give the error of a function as a fault of a value."""
    try:
        work()
    except SluiceError as error:
        yield at, with_own_lines(error)


def open_model(name: str, **options: Any) -> None:
    """Make a model as `load_model` does, to see whether it can be.

    Raises:
        SluiceError: it cannot be; an exception of the model's own code is its cause.
    """
    try:
        load_model(name, **options)
    except SluiceError:
        raise
    except Exception as error:
        raise ModelError(f"{name}: {text_of(error)}") from error


def _streams(config: Config, folder: Path) -> Faults:
    first: dict[str, int] = {}
    for index, stream in enumerate(config.streams):
        if (before := first.setdefault(stream.name.lower(), index)) != index:
            same = stream.name == config.streams[before].name
            as_it = "as that of" if same else "which differs in capitals only from that of"
            yield ("streams", index, "name"), f"is {stream.name!r}, {as_it} streams[{before}]"
        if config.outputs.tiled and stream.name == TILED:
            yield ("streams", index, "name"), f"is {TILED!r}, the name of the view of all streams: outputs.tiled is set"
        yield from check_source(("streams", index, "source"), located_source(stream.source, folder))
        yield from tried(("streams", index, "outputs"), partial(stream.outputs.of, config.outputs))
        if config.outputs.rtsp is None and "rtsp" in stream.outputs.model_fields_set and stream.outputs.rtsp:
            yield ("streams", index, "outputs", "rtsp"), "is true, and there is no RTSP server: set outputs.rtsp"


def check_source(at: Location, source: str) -> Faults:
    """Give what is wrong with a source."""
    try:
        found = parse_sources([source])
    except SluiceError as error:
        yield at, str(error)
        return
    if len(found) > 1:
        yield at, f"names {len(found)} files; each stream has one source"


def _model(config: Config, folder: Path) -> Faults:
    model, limits = config.model, config.thresholds

    def load() -> None:
        open_model(
            located_model(model.name, folder),
            labels=None if model.labels is None else folder / model.labels,
            runtime=model.runtime,
            device=model.device,
            confidence=limits.confidence,
            iou=limits.iou,
            classes=limits.classes,
            options=model.options,
        )

    yield from tried(("model", "name"), load)
    if config.tracker.name != "none":
        yield from tried(("tracker", "name"), lambda: algorithm(config.tracker.name))


def _files(config: Config, folder: Path) -> Faults:
    if config.analytics is not None:
        yield from tried(("analytics",), lambda: read_analytics(folder / (config.analytics or "")))
    messages = config.messages
    if messages is not None and is_url(messages):
        yield from tried(("messages",), lambda: from_url(messages))
    elif messages is not None and messages != "-":
        yield from _writable(("messages",), folder / messages)
    if config.index is not None and (folder / config.index).is_file():
        yield ("index",), f"is {str(config.index)!r}, which is a file; name a folder"
    if config.index_model is not None and config.index is None:
        yield ("index_model",), "needs index: the folder of the archive for its embeddings"
    elif config.index_model is not None:
        yield from tried(("index_model",), partial(open_model, located_model(config.index_model, folder)))
    for name, path in config.outputs.folders.items():
        if fault := folder_fault(folder / path.expanduser()):
            yield ("outputs", name, "folder"), fault
    for index, stream in enumerate(config.streams):
        own = {name: part for name in ("record", "clips", "hls") if (part := getattr(stream.outputs, name)) is not None}
        for name, part in own.items():
            if fault := folder_fault(folder / part.folder.expanduser()):
                yield ("streams", index, "outputs", name, "folder"), fault
    if config.vlm is not None:
        yield from tried(("vlm",), partial(check_vlm, located_vlm(config.vlm, folder)))
    if config.state is not None:
        yield from _writable(("state",), folder / config.state)
    for key, directories in (("media", config.directories.media), ("models", config.directories.models)):
        for index, directory in enumerate(directories):
            if not (folder / directory.expanduser()).is_dir():
                yield ("directories", key, index), f"is {str(directory)!r}, which is no directory"


def _writable(at: Location, path: Path) -> Faults:
    if path.is_dir():
        yield at, f"is {str(path)!r}, which is a directory; name a file"
    elif not path.parent.is_dir():
        yield at, f"is {str(path)!r}; there is no directory {str(path.parent)!r}"
    elif not os.access(path if path.exists() else path.parent, os.W_OK):
        yield at, f"is {str(path)!r}, which cannot be written"


def _http(config: Config, folder: Path, loaded: Loaded) -> Faults:
    http = config.http
    if http.token is None and not is_loopback(http.host):
        yield (
            ("http", "host"),
            f"is {http.host!r}, which other machines can reach, and there is no http.token; set one, as "
            "token: ${ENV:SLUICE_TOKEN}, or listen at 127.0.0.1",
        )
    rtsp = config.outputs.rtsp
    if rtsp is not None and rtsp.user is None and not is_loopback(rtsp.address):
        yield (
            ("outputs", "rtsp", "address"),
            f"is {rtsp.address!r}, which other machines can reach; set user and password, or listen at 127.0.0.1",
        )
    if http.tls is not None:
        yield from _tls(http.tls, folder)
    for index, name in enumerate(http.references):
        yield from tried(("http", "references", index), partial(loaded.secrets.text, f"${{{name}}}"))


def _tls(tls: TlsEntry, folder: Path) -> Faults:
    """Give what is wrong with the certificate and its key."""
    at: Location = ("http", "tls")
    certificate, key = folder / tls.certificate, folder / tls.key
    unreadable = [name for name in ("certificate", "key") if not _is_readable(folder / getattr(tls, name))]
    for name in unreadable:
        yield (*at, name), f"is {str(getattr(tls, name))!r}, which cannot be read"
    if unreadable:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(certificate)
    except ssl.SSLError:
        yield (*at, "certificate"), f"is {str(tls.certificate)!r}, which holds no certificate; right is one in PEM"
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=_no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            yield (*at, "key"), f"is {str(tls.key)!r}, which is not the key of the certificate {str(tls.certificate)!r}"
        else:
            yield (*at, "key"), f"is {str(tls.key)!r}, which holds no private key; right is one in PEM, not encrypted"
    except _Encrypted:
        yield (*at, "key"), f"is {str(tls.key)!r}, which is encrypted; take the password off, as `openssl pkey` does"


class _Encrypted(Exception):
    """A key asks for its password."""


def _no_password() -> str:
    raise _Encrypted


def _is_readable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.R_OK)
