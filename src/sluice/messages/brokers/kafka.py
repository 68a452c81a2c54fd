"""Kafka through confluent-kafka: librdkafka, which NVIDIA's adaptor uses too, so its settings (proto-cfg) hold here."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from typing import Any

from sluice.errors import ConfigurationError
from sluice.messages.brokers.endpoint import Endpoint
from sluice.messages.brokers.transport import Message, TransportError, client_library

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_POLL = 0.1  # seconds
# Beside partition-key, where the payload says what it is about: DeepStream's minimal schema, then Sluice's.
_KEYS = ("sensorId", "stream")


class KafkaTransport:
    """Produces with the idempotent producer: one order per partition, and the message's id in header ``message-id``."""

    def __init__(self, endpoint: Endpoint) -> None:
        """Check the options.

        Raises:
            ConfigurationError: confluent-kafka is missing, or an option cannot be used.
        """
        self._library: Any = client_library("confluent_kafka", "kafka", "confluent-kafka")
        self._endpoint = endpoint
        self._problem = ""
        if not _TOPIC.fullmatch(endpoint.topic):
            raise ConfigurationError(
                f"topic is {endpoint.topic[:80]!r}; Kafka's have letters, digits, '.', '_' and '-', 249 at most"
            )
        self._settings = self._make_settings()
        self._producer: Any = None
        try:
            self._library.Producer(self._settings)
        except self._library.KafkaException as error:
            text = error.args[0].str()
            raise ConfigurationError(endpoint.scrub(f"Kafka's settings cannot be used: {text}")) from None

    def _make_settings(self) -> dict[str, Any]:
        options = self._endpoint.options
        settings: dict[str, Any] = {
            "bootstrap.servers": ",".join(self._endpoint.hosts),
            "enable.idempotence": True,
            "message.timeout.ms": 0,  # retried in order by librdkafka until the delivery gives the connection up
            "linger.ms": 0,
            "socket.connection.setup.timeout.ms": max(1000, int(self._endpoint.number("connect-timeout") * 1000)),
            "error_cb": self._on_error,
            "logger": _quiet(),
        }
        tls = self._endpoint.flag("enable-tls")
        settings |= {
            key: options[name]
            for key, name in (
                ("ssl.ca.location", "tls-cafile"),
                ("ssl.certificate.location", "tls-certfile"),
                ("ssl.key.location", "tls-keyfile"),
            )
            if options[name]
        }
        if options["username"]:
            settings |= {
                "sasl.mechanism": "PLAIN",
                "sasl.username": options["username"],
                "sasl.password": options["password"],
            }
        settings["security.protocol"] = ("sasl_" if options["username"] else "") + ("ssl" if tls else "plaintext")
        for name in ("proto-cfg", "producer-proto-cfg"):
            for pair in filter(None, map(str.strip, options[name].split(";"))):
                key, equals, value = pair.partition("=")
                if not equals:
                    raise ConfigurationError(f"{name} is key=value;key=value; one part of it has no '='")
                settings[key.strip()] = value.strip()
        return settings

    def connect(self) -> None:
        """Make a producer and ask for the topic's partitions; raise `TransportError` with librdkafka's reason."""
        self._problem = ""
        self._producer = self._library.Producer(self._settings)
        try:
            self._producer.list_topics(self._endpoint.topic, timeout=self._endpoint.number("connect-timeout"))
        except self._library.KafkaException as error:
            self._producer.poll(0)  # which calls _on_error
            raise TransportError(self._problem or error.args[0].str()) from error

    def send(self, batch: Sequence[Message]) -> list[str | None]:
        """Produce the messages, idempotent and each with its stream's key, and wait for the delivery reports."""
        answers: dict[int, Any] = {}
        for place, message in enumerate(batch):
            self._produce(message, place, answers)
        deadline = time.monotonic() + self._endpoint.number("ack-timeout")
        while len(answers) < len(batch) and time.monotonic() < deadline:
            if self._producer.poll(_POLL):
                deadline = time.monotonic() + self._endpoint.number("ack-timeout")
        return self._in_order([answers.get(place, False) for place in range(len(batch))])

    def _produce(self, message: Message, place: int, answers: dict[int, Any]) -> None:
        """Give a message to librdkafka, whose answer goes to its place: None, or a KafkaError."""
        try:
            self._producer.produce(
                self._endpoint.topic,
                message.payload,
                key=partition_key(message.payload, self._endpoint.options["partition-key"]),
                headers={"message-id": message.id},
                on_delivery=lambda error, _message: answers.__setitem__(place, error),
            )
        except self._library.KafkaException as error:  # larger than message.max.bytes
            answers[place] = error.args[0]

    def _in_order(self, found: list[Any]) -> list[str | None]:
        """Return the answers up to the first message that has none, or failed for another reason than itself."""
        for_good = (self._library.KafkaError.MSG_SIZE_TOO_LARGE, self._library.KafkaError.INVALID_RECORD)
        answers: list[str | None] = []
        for error in found:
            if error is not None and (error is False or error.code() not in for_good):
                if not answers:
                    raise TransportError(self._problem or (error and error.str()) or "the broker does not acknowledge")
                break
            answers.append(None if error is None else f"the broker refuses a message: {error.str()}")
        return answers

    def idle(self) -> None:
        """Let librdkafka call back; it keeps, and restores, its connections by itself."""
        self._producer.poll(0)

    def close(self) -> None:
        """Drop the producer together with what it has not delivered."""
        producer, self._producer = self._producer, None
        if producer is not None:
            # Without this the producer would go on to deliver what is sent anew through the next one.
            producer.purge()
            producer.poll(0)

    def _on_error(self, error: Any) -> None:
        self._problem = error.str()


def _quiet() -> Any:
    """Return a logger that shows nothing: librdkafka would write to the standard error, at each attempt."""
    import logging

    logger = logging.getLogger("sluice.kafka")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


def partition_key(payload: bytes, given: str) -> bytes | None:
    """Return the key that keeps a stream's messages in one partition, and so in order; None where there is none.

    Args:
        payload: the message.
        given: the member of a JSON object that it is, as names between dots, before those that are known.
    """
    try:
        value = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    for path in (given, *_KEYS):
        found = value
        for name in path.split("."):
            found = found.get(name) if isinstance(found, dict) else None
        if isinstance(found, str | int) and not isinstance(found, bool):
            return str(found).encode("utf-8", "replace")  # half a surrogate pair is no character
    return None
