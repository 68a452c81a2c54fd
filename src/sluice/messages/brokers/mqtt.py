"""MQTT 3.1.1 and 5 through Eclipse's paho-mqtt: the reference client, no dependencies, with a thread of its own."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from sluice.errors import ConfigurationError
from sluice.messages.brokers.endpoint import Endpoint
from sluice.messages.brokers.tls import tls_context
from sluice.messages.brokers.transport import ConnectionLostError, Message, TransportError, client_library

_REFUSAL = 0x80
# Reason codes of MQTT 5 that are about this one message: packet too large, payload format invalid.
_FOR_GOOD = (0x95, 0x99)
_IN_FLIGHT = 20  # messages without an answer; what mosquitto and most brokers take

_LARGEST = 268_435_455  # bytes of an MQTT packet, by the standard
_LONGEST_TOPIC = 65_535  # bytes, by the standard
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
        topic = endpoint.topic
        if set(topic) & set("+#\0") or len(topic.encode()) > _LONGEST_TOPIC:
            raise ConfigurationError(
                f"topic is {topic[:80]!r}; MQTT's to publish to has no +, # or NUL, and {_LONGEST_TOPIC} bytes at most"
            )
        self._five = options["version"] == "5"
        self._tls = tls_context(endpoint)
        self._keep_alive = int(endpoint.number("keep-alive", 1))
        self._name = options["client-id"] or f"sluice-{uuid.uuid4().hex[:16]}"
        self._changed = threading.Condition()
        self._answers: dict[int, int] = {}
        self._state: str | None = None  # why there is no connection; "": there is one, None: not known yet
        self._problem = ""
        self._largest, self._window = _LARGEST, _IN_FLIGHT
        self._client: Any = None

    def connect(self) -> None:
        """Connect and wait for the broker's greeting; raise `TransportError` with its reason."""
        client = self._client = self._make_client()
        self._state, self._answers, self._problem = None, {}, ""
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
        if self._tls is not None:
            client.tls_set_context(self._tls)
        client.max_inflight_messages_set(_IN_FLIGHT)
        client.on_connect, client.on_disconnect, client.on_publish = self._on_connect, self._on_lost, self._on_answer
        return client

    def send(self, batch: Sequence[Message]) -> list[str | None]:
        """Publish the messages, no more at once than the broker takes, and wait for its answers."""
        answers: list[str | None] = []
        # paho keeps _IN_FLIGHT of a batch under way; a broker that takes fewer gets fewer at once.
        step = len(batch) if self._window >= _IN_FLIGHT else self._window
        while len(answers) < len(batch) and not self._problem:
            some = batch[len(answers) : len(answers) + step]
            answers += self._in_order(
                some, self._publish([message for message in some if not self._too_large(message)])
            )
        if not answers:
            raise (ConnectionLostError if self._state else TransportError)(self._problem)
        return answers

    def _publish(self, messages: Sequence[Message]) -> dict[str, int]:
        """Publish messages and wait; return the reason code of each that has an answer, by message id."""
        client, topic, qos = self._client, self._endpoint.topic, int(self._endpoint.options["qos"])
        numbers = {
            client.publish(topic, message.payload, qos, properties=self._properties(message)).mid: message.id
            for message in messages
        }
        with self._changed:
            seen = -1
            while self._state == "" and seen < len(self._answers) < len(numbers):
                seen = len(self._answers)
                self._changed.wait_for(
                    lambda: self._state != "" or len(self._answers) > seen,  # noqa: B023 - called at once
                    self._endpoint.number("ack-timeout"),
                )
            answers, self._answers = self._answers, {}
        return {numbers[number]: code for number, code in answers.items() if number in numbers}

    def _in_order(self, batch: Sequence[Message], codes: dict[str, int]) -> list[str | None]:
        """Return the answers up to the first message that has none, or was refused for another reason than itself."""
        answers: list[str | None] = []
        for message in batch:
            code = codes.get(message.id)
            if self._too_large(message):
                answers.append(f"a message of {len(message.payload)} bytes is larger than the broker takes")
            elif code in _FOR_GOOD:
                answers.append(f"the broker refuses a message with reason code {code:#x}")
            elif code is None or code >= _REFUSAL:
                refusal = f"the broker refuses messages with reason code {code:#x}" if code else ""
                self._problem = refusal or self._state or "the broker does not acknowledge"
                break
            else:
                answers.append(None)
        return answers

    def _too_large(self, message: Message) -> bool:
        return len(message.payload) + len(self._endpoint.topic) + _HEADER > self._largest

    def _properties(self, message: Message) -> Any:
        if not self._five:
            return None
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        properties: Any = Properties(PacketTypes.PUBLISH)
        properties.UserProperty = ("message-id", message.id)
        return properties

    def idle(self) -> None:
        """Raise `TransportError` if the connection is lost; heartbeats are answered on paho's own thread."""
        if self._state != "":
            raise TransportError(self._state or "the connection was lost")

    def close(self) -> None:
        """Take leave of the broker and end paho's thread."""
        client, self._client = self._client, None
        if client is not None:
            with suppress(Exception):  # a broker that is away cannot be taken leave of
                client.disconnect()
            client.loop_stop()

    # On the client's own thread

    def _on_connect(self, _client: Any, _data: Any, _flags: Any, reason: Any, properties: Any) -> None:
        self._window = getattr(properties, "ReceiveMaximum", _IN_FLIGHT)
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
