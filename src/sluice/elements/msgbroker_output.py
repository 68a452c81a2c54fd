"""Where ``sluicemsgbroker`` brings its messages: a queue and its thread before a file, or before a broker's delivery.

Imported at NULL→READY.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sluice.errors import ConfigurationError, SluiceError
from sluice.messages.brokers import (
    PROTOCOLS,
    Delivery,
    Endpoint,
    TransportError,
    from_properties,
    from_url,
    is_url,
    open_delivery,
    protocol_of_library,
)
from sluice.messages.sinks import open_sink
from sluice.messages.writer import Overflow, Writer

FILES = ("stdout", "file")

# A stop waits this long (seconds) for messages still queued; less than the two seconds a stop may take.
_PATIENCE = 1.5
_START_MARGIN = 1.0  # seconds beyond connect-timeout for a start that waits for the connection


@dataclass(frozen=True)
class Reports:
    """Whom to tell: called on threads of the output, without a lock held.

    Attributes:
        failure: the disk or the standard output took no message, for this reason.
        warning: something the reader should know.
        info: what is well again.
    """

    failure: Callable[[Exception], None]
    warning: Callable[[str], None]
    info: Callable[[str], None]


class Output:
    """A `Writer` and its sink, from the element's properties."""

    def __init__(self, properties: Mapping[str, Any], reports: Reports) -> None:
        """Open the sink and start its threads.

        Args:
            properties: of the element, by name.
            reports: whom to tell.

        Raises:
            ConfigurationError: properties do not fit together, or the sink cannot be opened.
        """
        self._reports = reports
        overflow = Overflow.WAIT if properties["overflow"] == "auto" else Overflow(properties["overflow"])
        endpoint = find_endpoint(properties)
        self.delivery: Delivery | None = None
        if endpoint is None:
            self.shown = "the standard output" if properties["location"] in ("", "-") else repr(properties["location"])
            sink: Any = open_sink(
                properties["proto"],
                properties["location"],
                append=properties["append"],
                rotate_size=properties["rotate-size"],
                rotate_count=properties["rotate-count"],
            )
        else:
            self.shown = endpoint.shown
            self._connect_timeout = endpoint.number("connect-timeout")
            sink = self.delivery = self._open(endpoint, properties, overflow)
        self._writer = Writer(sink, capacity=properties["queue-size"], overflow=overflow, on_error=self._on_error)
        self.put = self._writer.put
        self.when_written = self._writer.when_written
        self.wait_written = self._writer.wait_written

    def _open(self, endpoint: Endpoint, properties: Mapping[str, Any], overflow: Overflow) -> Delivery:
        return open_delivery(
            endpoint,
            spool=properties["spool"],
            spool_size=properties["spool-size"],
            fsync=properties["spool-fsync"],
            overflow=overflow,
            patience=properties["eos-timeout"],
            patience_away=properties["eos-timeout-away"],
            on_away=lambda text: self._reports.warning(
                f"{endpoint.shown}: {text}; messages are kept and sent later, the video goes on"
            ),
            on_refused=lambda text: self._reports.warning(f"{endpoint.shown}: {text}; the others go on"),
            on_wait=lambda text: self._reports.warning(f"{endpoint.shown}: {text}"),
            on_back=lambda text: self._reports.info(f"{endpoint.shown}: {text}"),
        )

    def require_connection(self) -> None:
        """Wait for the first attempt to connect.

        Raises:
            SluiceError: there is none, with the reason.
        """
        if self.delivery is None:
            return
        problem = self.delivery.wait_connected(self._connect_timeout + _START_MARGIN, attempts=False)
        if problem is not None:
            raise SluiceError(f"{self.shown} cannot be reached, and start-policy is fail: {problem}")

    def wait_for_broker(self) -> None:
        """Wait for a connection until `release`."""
        if self.delivery is not None:
            self.delivery.wait_connected()

    def set_overflow(self, overflow: Overflow) -> None:
        """Change what a full queue and a full spool do."""
        self._writer.set_overflow(overflow)
        if self.delivery is not None:
            self.delivery.set_overflow(overflow)

    def release(self) -> None:
        """Let every waiting streaming thread go on."""
        self._writer.release()
        if self.delivery is not None:
            self.delivery.release()

    def resume(self) -> None:
        """End `release`."""
        self._writer.resume()
        if self.delivery is not None:
            self.delivery.resume()

    def close(self) -> bool:
        """Bring away what can be in a second and a half; whether the queue is empty."""
        if self.delivery is not None:
            self.delivery.hurry()
        return self._writer.close(_PATIENCE)

    @property
    def counters(self) -> dict[str, int]:
        """The counters of the queue, and with a broker those behind it."""
        counted = vars(self._writer.counters)
        if self.delivery is not None:
            behind = vars(self.delivery.counters)
            lost = {name: counted[name] + behind[name] for name in ("dropped", "failed")}
            counted = {**counted, **behind, **lost, "written": behind["acknowledged"]}
        return counted

    def _on_error(self, error: Exception) -> None:
        if isinstance(error, TransportError):
            self._reports.warning(f"{self.shown}: {error}")
        elif self.delivery is not None:
            self._reports.failure(SluiceError(f"a message could not be spooled for {self.shown}: {error}"))
        else:
            self._reports.failure(SluiceError(f"a message could not be written to {self.shown}: {error}"))


def find_endpoint(properties: Mapping[str, Any]) -> Endpoint | None:
    """Return the broker that the properties name; None for a file or the standard output.

    Raises:
        ConfigurationError: they name none, or two.
    """
    proto, location, conn_str = properties["proto"], properties["location"], properties["conn-str"]
    topic, config = properties["topic"], properties["config"]
    if proto not in ("", *FILES, *PROTOCOLS):
        raise ConfigurationError(f"proto {proto!r} is not known; {', '.join([*PROTOCOLS, *FILES])} are")
    if properties["proto-lib"]:
        of_library = protocol_of_library(properties["proto-lib"])
        if proto not in ("", of_library):
            raise ConfigurationError(f"proto is {proto}, but proto-lib is the one of {of_library}; set only one")
        proto = of_library
    if is_url(location):
        if conn_str:
            raise ConfigurationError("location and conn-str both name a broker; set only one")
        endpoint = from_url(location, topic, config)
    elif proto in PROTOCOLS or is_url(conn_str):
        if location:
            raise ConfigurationError(f"location {location!r} is a file, but a broker is named too; set only one")
        endpoint = from_properties(proto, conn_str, topic, config)
    else:
        for name in ("conn-str", "topic", "config"):
            if properties[name]:
                raise ConfigurationError(
                    f"{name} is set, but no broker is; set proto-lib=libnvds_kafka_proto.so or proto=kafka, "
                    f"or another of {', '.join(PROTOCOLS)}"
                )
        return None
    if proto not in ("", endpoint.protocol):
        raise ConfigurationError(f"proto is {proto}, but the address is one of {endpoint.protocol}")
    return endpoint
