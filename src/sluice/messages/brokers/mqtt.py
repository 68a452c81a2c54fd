"""MQTT 3.1.1 and 5 through Eclipse's paho-mqtt: the reference client, no dependencies, with a thread of its own."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from sluice.errors import ConfigurationError
from sluice.messages.brokers.endpoint import Endpoint
from sluice.messages.brokers.transport import Message, TransportError, client_library

_REFUSAL = 0x80
# Reason codes of MQTT 5 that are about this one message: packet too large, payload format invalid.
_FOR_GOOD = (0x95, 0x99)
_IN_FLIGHT = 20  # messages without an answer; what mosquitto and most brokers take

_LARGEST = 268_435_455  # bytes of an MQTT packet, by the standard
_HEADER = 128  # bytes of a PUBLISH packet beside topic and payload


class MqttTransport:
    """Publishes with QoS 1 or 2; in MQTT 5 with the message's id as user property ``message-id``."""

    def __init__(self, endpoint: Endpoint) -> None:
        """Check the options.

        Raises:
            ConfigurationError: paho-mqtt is missing, or an option cannot be used.
        """
        self._library: Any = client_library("paho.mqtt.client", "mqtt", "paho-mqtt")
        self._endpoint = endpoint
        options = endpoint.options
        if options["version"] not in ("3.1.1", "5"):
            raise ConfigurationError(f"version is {options['version']!r}; MQTT has 3.1.1 and 5")
        if options["qos"] not in ("1", "2"):
            raise ConfigurationError(f"qos is {options['qos']!r}; it is 1 or 2, since 0 acknowledges nothing")
        self._five = options["version"] == "5"
        self._keep_alive = int(endpoint.number("keep-alive", 1))
        self._name = options["client-id"] or f"sluice-{uuid.uuid4().hex[:16]}"
        self._changed = threading.Condition()
        self._answers: dict[int, int] = {}
        self._state: str | None = None  # why there is no connection; "": there is one, None: not known yet
        self._largest = _LARGEST
        self._client: Any = None

    def connect(self) -> None:
        client = self._client = self._make_client()
        self._state, self._answers = None, {}
        client.connect_timeout = timeout = self._endpoint.number("connect-timeout")
        client.connect(self._endpoint.host, self._endpoint.port, self._keep_alive)
        client.loop_start()
        with self._changed:
            self._changed.wait_for(lambda: self._state is not None, timeout)
        if self._state != "":
            raise TransportError(self._state or "the broker does not answer")

    def _make_client(self) -> Any:
        library, options = self._library, self._endpoint.options
        version = library.MQTTv5 if self._five else library.MQTTv311
        client = library.Client(
            library.CallbackAPIVersion.VERSION2, self._name, protocol=version, reconnect_on_failure=False
        )
        if options["username"]:
            client.username_pw_set(options["username"], options["password"] or None)
        if self._endpoint.flag("enable-tls"):
            client.tls_set(
                options["tls-cafile"] or options["tls-capath"] or None,
                options["tls-certfile"] or None,
                options["tls-keyfile"] or None,
            )
        client.max_inflight_messages_set(_IN_FLIGHT)
        client.on_connect, client.on_disconnect, client.on_publish = self._on_connect, self._on_lost, self._on_answer
        return client

    def send(self, batch: Sequence[Message]) -> list[str | None]:
        fitting = next((place for place, message in enumerate(batch) if self._too_large(message)), len(batch))
        if not fitting:
            return [f"a message of {len(batch[0].payload)} bytes is larger than the broker takes"]
        client, qos = self._client, int(self._endpoint.options["qos"])
        numbers = [
            client.publish(self._endpoint.topic, message.payload, qos, properties=self._properties(message)).mid
            for message in batch[:fitting]
        ]
        with self._changed:
            seen = -1
            while self._state == "" and len(self._answers) < len(numbers) and seen < len(self._answers):
                seen = len(self._answers)
                self._changed.wait_for(
                    lambda: self._state != "" or len(self._answers) > seen,  # noqa: B023 - called at once
                    self._endpoint.number("ack-timeout"),
                )
            answers, self._answers = self._answers, {}
        return _in_order([answers.get(number) for number in numbers])

    def _too_large(self, message: Message) -> bool:
        return len(message.payload) + len(self._endpoint.topic) + _HEADER > self._largest

    def _properties(self, message: Message) -> Any:
        if not self._five:
            return None
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        properties: Any = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        properties.UserProperty = ("message-id", message.id)
        return properties

    def idle(self) -> None:
        if self._state != "":
            raise TransportError(self._state or "the connection was lost")

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(Exception):
                client.disconnect()
            client.loop_stop()

    # On the client's own thread

    def _on_connect(self, client: Any, _data: Any, _flags: Any, reason: Any, properties: Any) -> None:
        most = getattr(properties, "ReceiveMaximum", _IN_FLIGHT)
        client.max_inflight_messages_set(min(most, _IN_FLIGHT))
        self._largest = getattr(properties, "MaximumPacketSize", _LARGEST)
        self._tell(f"the broker refuses the connection: {reason}" if reason.is_failure else "")

    def _on_lost(self, _client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        self._tell(self._state or f"the connection was lost: {reason}")

    def _tell(self, state: str) -> None:
        with self._changed:
            self._state = state
            self._changed.notify_all()

    def _on_answer(self, _client: Any, _data: Any, number: int, reason: Any, _properties: Any) -> None:
        with self._changed:
            self._answers[number] = reason.value
            self._changed.notify_all()


def _in_order(codes: list[int | None]) -> list[str | None]:
    """Return the answers up to the first message without one.

    Raises:
        TransportError: the first of them is a refusal that is not about the message itself.
    """
    answers: list[str | None] = []
    for code in codes:
        if code is None:
            break
        if code >= _REFUSAL and code not in _FOR_GOOD:
            if answers:
                break
            raise TransportError(f"the broker refuses messages with reason code {code:#x}")
        answers.append(None if code < _REFUSAL else f"the broker refuses a message with reason code {code:#x}")
    return answers
