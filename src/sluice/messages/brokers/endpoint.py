"""Where messages go: the broker, topic and options from a URL, or from nvmsgbroker's properties."""

from __future__ import annotations

import configparser
import difflib
import importlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from sluice.errors import ConfigurationError
from sluice.messages.brokers.options import COMMON, PROTOCOLS, Option
from sluice.messages.brokers.transport import Transport

GROUP = "message-broker"
_HIDDEN = "***"
_YES = ("1", "true", "yes")
_NO = ("0", "false", "no", "")
_SCHEMES = {scheme: name for name, protocol in PROTOCOLS.items() for scheme in protocol.schemes}
_AZURE = ("libnvds_azure_proto.so", "libnvds_azure_edge_proto.so")

_DAY = 86_400
_MOST = {"connect-timeout": _DAY, "ack-timeout": _DAY, "keep-alive": 65_535, "amqp-heartbeat": 65_535}
_LARGEST = 2**53


@dataclass(frozen=True)
class Endpoint:
    """A broker and a topic.

    Attributes:
        protocol: a name of `PROTOCOLS`.
        hosts: "host:port", more than one for Kafka and NATS; empty for HTTP.
        topic: topic, routing key, stream or subject; "" for HTTP.
        options: text of every option, given or by default.
    """

    protocol: str
    hosts: tuple[str, ...]
    topic: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def host(self) -> str:
        """Name or address of the first host."""
        return self.hosts[0].rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """Port of the first host."""
        return int(self.hosts[0].rpartition(":")[2])

    @property
    def shown(self) -> str:
        """The endpoint for people, without user, password or query."""
        if self.protocol == "http":
            parts = urlsplit(self.options["url"])
            return f"{parts.scheme}://{parts.netloc}{parts.path}"
        return f"{self.protocol}://{','.join(self.hosts)}/{self.topic}"

    def number(self, name: str, least: float = 0) -> float:
        """Return an option as a number.

        Raises:
            ConfigurationError: it is none, less than ``least``, or more than the protocol or a clock can have.
        """
        most = _MOST.get(name, _LARGEST)
        try:
            value = float(self.options[name])
        except ValueError:
            value = float("nan")
        if not value >= least:
            raise ConfigurationError(f"{name} is {self.options[name]!r}; it is a number of at least {least:g}")
        if value > most:
            raise ConfigurationError(f"{name} is {self.options[name]!r}; it is {most:g} at most")
        return value

    def flag(self, name: str) -> bool:
        """Return an option as a truth value.

        Raises:
            ConfigurationError: it is neither 0 nor 1.
        """
        value = self.options[name].lower()
        if value not in _YES + _NO:
            raise ConfigurationError(f"{name} is {value!r}; it is 0 or 1")
        return value in _YES

    def scrub(self, text: str) -> str:
        """Return a text in which no secret option stands any more."""
        known = {**COMMON, **PROTOCOLS[self.protocol].options}
        secrets = [value for name, value in self.options.items() if known[name].secret and value]
        if self.protocol == "http":
            secrets += list(filter(None, [urlsplit(self.options["url"]).query]))
        for secret in [*secrets, *(value for text in secrets for value in _values_of_settings(text))]:
            text = text.replace(secret, _HIDDEN)
        return text

    def transport(self) -> Transport:
        """Make the transport, not yet connected.

        Raises:
            ConfigurationError: its library is missing, or an option cannot be used.
        """
        module, name = PROTOCOLS[self.protocol].transport.split(":")
        made: Transport = getattr(importlib.import_module(module), name)(self)
        return made


def is_url(location: str) -> bool:
    """Whether a location names a broker and not a file."""
    return bool(re.match(r"[a-z][a-z0-9+.-]*://", location)) and not location.startswith("file://")


def hide_secrets(text: str) -> str:
    """Return a URL or connection string with its passwords and queries replaced, to be shown."""
    if is_url(text):
        text = re.sub(r"(://[^:/@?]*):[^/?]*@", rf"\1:{_HIDDEN}@", text)
        return re.sub(r"(?<=\?).*", _HIDDEN, text)
    parts = text.split(";")  # host;port;user;password, or key=value of a cloud
    shown = [re.sub(r"(?i)^(.*(?:key|password|secret|token)[^=]*=).*", rf"\1{_HIDDEN}", part) for part in parts[:3]]
    return ";".join([*shown, *[_HIDDEN for _ in parts[3:]]])


def from_url(url: str, topic: str = "", config: str = "") -> Endpoint:
    """Read ``scheme://[user[:password]@]host[:port][,host…]/topic[?option=value&…]``; of HTTP, the address to POST to.

    Args:
        url: see above.
        topic: wins over the URL's.
        config: configuration file, whose options the URL's win over.

    Raises:
        ConfigurationError: it cannot be used; names the part.
    """
    scheme = url.partition("://")[0].lower()
    protocol = _SCHEMES.get(scheme)
    if protocol is None:
        raise ConfigurationError(
            f"{scheme}:// is no scheme of a message broker; known are {', '.join(sorted(_SCHEMES))} and file"
        )
    given = _read_config(config, protocol)
    try:
        parts = urlsplit(url)
        login, _, hosts = parts.netloc.rpartition("@")
        bare = urlunsplit(parts._replace(netloc=hosts))
        urlsplit(bare)  # a bracket may be the user's, its other half the host's
    except ValueError as error:
        raise ConfigurationError(f"{hide_secrets(url)!r} is no URL: {error}") from None
    user, _, password = login.partition(":")
    given |= {name: unquote(text) for name, text in (("username", user), ("password", password)) if text}
    if protocol == "http":
        given["enable-tls"] = "1" if scheme == "https" else "0"
        return _finish(protocol, (), "", {**given, "url": bare})
    given |= _checked(dict(parse_qsl(parts.query, keep_blank_values=True)), protocol, "the URL")
    if scheme != protocol:
        given["enable-tls"] = "1"
    tls = given.get("enable-tls", "0").lower() in _YES
    return _finish(protocol, _hosts(hosts, protocol, tls), topic or unquote(parts.path[1:]), given)


def from_properties(protocol: str, conn_str: str, topic: str = "", config: str = "") -> Endpoint:
    """Read nvmsgbroker's properties.

    Args:
        protocol: a name of `PROTOCOLS`.
        conn_str: ``host;port``, then ``;topic`` or for AMQP ``;user;password``.
        topic: the property.
        config: file with group [message-broker].

    Raises:
        ConfigurationError: they cannot be used; names the property.
    """
    if is_url(conn_str):
        return from_url(conn_str, topic, config)
    given = _read_config(config, protocol)
    if protocol == "http":
        return from_url(given.get("url", ""), config=config) if given.get("url") else _finish(protocol, (), "", given)
    parts = [part.strip() for part in conn_str.split(";")]
    host, port = [*parts, ""][:2]
    more = parts[2:]
    host, port = host or given.get("hostname", ""), port or given.get("port", "")
    if not host or not port:
        raise ConfigurationError(f"conn-str is {hide_secrets(conn_str)!r}; it is host;port, or host;port;topic")
    if protocol == "amqp":
        given |= dict(zip(("username", "password"), more, strict=False))
    elif more:
        topic = topic or more[0]
    tls = given.get("enable-tls", "0").lower() in _YES
    return _finish(protocol, _hosts(f"{host}:{port}", protocol, tls), topic, given)


def protocol_of_library(proto_lib: str) -> str:
    """Return the protocol of an NVIDIA adaptor's file name.

    Raises:
        ConfigurationError: there is none for it here.
    """
    name = Path(proto_lib).name
    for protocol, described in PROTOCOLS.items():
        if described.library == name:
            return protocol
    known = ", ".join(described.library for described in PROTOCOLS.values() if described.library)
    hint = "; IoT Hub also takes MQTT 3.1.1 with TLS: proto=mqtt, version=3.1.1" if name in _AZURE else ""
    raise ConfigurationError(f"proto-lib {name!r} has no counterpart here; {known} have one{hint}")


def _finish(protocol: str, hosts: tuple[str, ...], topic: str, given: dict[str, str]) -> Endpoint:
    described = PROTOCOLS[protocol]
    for name, variable in (("username", "USER"), ("password", "PASSWORD")):
        given[name] = os.environ.get(f"{variable}_{protocol.upper()}", given.get(name, ""))
    options = {name: given.get(name, option.default) for name, option in {**COMMON, **described.options}.items()}
    topic = topic.strip() or options.get("topic", "")
    if described.topic and not topic:
        raise ConfigurationError(
            f"{protocol} needs a {described.topic}: set topic, or write {protocol}://host/{described.topic}"
        )
    if protocol == "http" and not options["url"]:
        raise ConfigurationError("http needs an address: set location=https://host/path")
    endpoint = Endpoint(protocol, hosts, topic, options)
    for name in ("connect-timeout", "ack-timeout"):
        endpoint.number(name, 0.1)
    endpoint.flag("id-in-payload")
    if bool(options["tls-certfile"]) != bool(options["tls-keyfile"]):
        raise ConfigurationError("tls-certfile and tls-keyfile belong together; give both or none")
    return endpoint


def _hosts(text: str, protocol: str, tls: bool) -> tuple[str, ...]:
    """Return "host:port" of each host of a list."""
    default = {"mqtt": 8883, "amqp": 5671}.get(protocol, PROTOCOLS[protocol].port) if tls else PROTOCOLS[protocol].port
    hosts = []
    for entry in text.split(","):
        match = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^:\s\[\]\0]+)(?::(\d{1,5}))?", entry)
        if match is None or not 0 < int(match[2] or default) < 65536:
            raise ConfigurationError(f"{entry!r} is no host and port of {protocol}; write host:port")
        hosts.append(f"{match[1]}:{match[2] or default}")
    if len(hosts) > 1 and protocol not in ("kafka", "nats"):
        raise ConfigurationError(f"{protocol} takes one host, not {len(hosts)}: {text!r}")
    return tuple(hosts)


def _read_config(path: str, protocol: str) -> dict[str, str]:
    """Return the options of a configuration file's group [message-broker]."""
    if not path:
        return {}
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=("#", ";"))
    try:
        file = Path(path).expanduser()
        if file.exists() and not file.is_file():
            raise ConfigurationError(f"config {path!r} cannot be read: it is a folder, device or pipe, not a file")
        parser.read_string(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"config {path!r} cannot be read: {error.strerror}") from error
    except (configparser.Error, UnicodeDecodeError) as error:
        # The parser's own text would show the line, which may hold a password.
        line = getattr(error, "lineno", None) or next(iter(getattr(error, "errors", ())), (None,))[0]
        where = f", line {line}" if line else ""
        raise ConfigurationError(f"config {path!r} is no key file ({type(error).__name__}{where})") from None
    if not parser.has_section(GROUP):
        raise ConfigurationError(f"config {path!r} has no group [{GROUP}]; it has {parser.sections()}")
    given = {name: value.strip().strip('"') for name, value in parser[GROUP].items()}
    return _checked(given, protocol, f"config {path!r}")


def _checked(given: dict[str, str], protocol: str, where: str) -> dict[str, str]:
    """Return the options that mean something here; an unknown one is refused."""
    described = PROTOCOLS[protocol]
    known: dict[str, Option] = {**COMMON, **described.options}
    for name in given:
        if name not in known and name not in described.ignored:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"{protocol} has {', '.join(sorted(known))}"
            raise ConfigurationError(f"{where} has the unknown option {name!r}; {hint}")
    return {name: value for name, value in given.items() if name in known}


def _values_of_settings(text: str) -> list[str]:
    """Return the values of ``key=value;key=value`` that may be secrets."""
    pairs = [part.partition("=") for part in text.split(";")]
    return [value.strip() for name, _, value in pairs if value and re.search("password|secret|key|token", name)]
