"""AMQP 0-9-1 (RabbitMQ) through pika: RabbitMQ's own choice for Python, without dependencies.

Its event loop runs on the delivery's thread while there is something to wait for, so that a whole batch of publisher
confirms is under way at once; pika's blocking connection would wait for each.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from sluice.messages.brokers.endpoint import Endpoint
from sluice.messages.brokers.tls import tls_context
from sluice.messages.brokers.transport import ConnectionLostError, Message, TransportError, client_library

_PERSISTENT = 2
_GOODBYE = 0.5  # seconds


class AmqpTransport:
    """Publishes persistent messages with publisher confirms, and the id as property ``message_id``."""

    def __init__(self, endpoint: Endpoint) -> None:
        """Check the options.

        Raises:
            ConfigurationError: pika is missing, or an option cannot be used.
        """
        self._library: Any = client_library("pika", "amqp", "pika")
        self._endpoint = endpoint
        self._mandatory = endpoint.flag("mandatory")
        self._parameters = self._make_parameters()
        self._connection: Any = None
        self._channel: Any = None
        self._problem = ""
        self._lost = False
        self._confirmed = self._published = 0
        self._unordered: set[int] = set()  # confirmed before one that was published earlier

    def _make_parameters(self) -> Any:
        endpoint, options, library = self._endpoint, self._endpoint.options, self._library
        context = tls_context(endpoint)
        tls = None if context is None else library.SSLOptions(context, endpoint.host)
        timeout = endpoint.number("connect-timeout")
        return library.ConnectionParameters(
            endpoint.host,
            endpoint.port,
            options["vhost"],
            library.PlainCredentials(options["username"] or "guest", options["password"] or "guest"),
            frame_max=int(endpoint.number("amqp-framesize", 4096)),
            heartbeat=int(endpoint.number("amqp-heartbeat")),
            connection_attempts=1,
            socket_timeout=timeout,
            stack_timeout=timeout,
            ssl_options=tls,
        )

    def connect(self) -> None:
        """Open a connection and a channel with publisher confirms; raise `TransportError` with the broker's reason."""
        self._problem, self._lost = "", False
        self._confirmed = self._published = 0
        self._unordered = set()
        self._connection = self._library.SelectConnection(
            self._parameters,
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._on_channel),
            on_open_error_callback=self._on_refused,
            on_close_callback=self._on_lost,
        )
        ready = self._run_until(lambda: self._channel is not None, self._endpoint.number("connect-timeout"))
        if not ready:
            raise TransportError(self._problem or "the broker does not answer")

    def send(self, batch: Sequence[Message]) -> list[str | None]:
        """Publish persistent messages and wait for the broker's confirms; one that no queue would get has no answer."""
        first = self._published
        if not first:
            # Alone, so that nothing overtakes it when no queue is bound yet.
            self._publish(batch[:1])
            self._wait_for_confirms()
        if not self._problem:
            self._publish(batch[self._published - first :])
            self._wait_for_confirms()
        if self._confirmed == first:
            raise (ConnectionLostError if self._lost else TransportError)(
                self._problem or "the broker does not acknowledge"
            )
        return [None] * (self._confirmed - first)

    def _publish(self, messages: Sequence[Message]) -> None:
        for message in messages:
            properties = self._library.BasicProperties(
                content_type="text/plain", delivery_mode=_PERSISTENT, message_id=message.id
            )
            self._channel.basic_publish(
                self._endpoint.options["exchange"],
                self._endpoint.topic,
                message.payload,
                properties,
                mandatory=self._mandatory,
            )
        self._published += len(messages)

    def _wait_for_confirms(self) -> None:
        """Wait until all that was published is confirmed, or nothing comes any more."""
        timeout, before = self._endpoint.number("ack-timeout"), -1
        while before < self._confirmed < self._published and not self._problem:
            before = self._confirmed
            self._run_until(lambda: self._confirmed > before, timeout)  # noqa: B023 - called at once

    def idle(self) -> None:
        """Let pika answer heartbeats; raise `TransportError` if the connection is lost."""
        self._run_until(lambda: False, 0)
        if self._problem:
            raise TransportError(self._problem)

    def close(self) -> None:
        """Close the connection; the broker's farewell is waited for, but not for long."""
        connection = self._connection
        if connection is None:
            return
        if connection.is_open:
            self._problem = ""
            connection.close()
            self._run_until(lambda: bool(connection.is_closed), _GOODBYE)
        self._connection = self._channel = None
        connection.ioloop.close()

    def _run_until(self, done: Callable[[], bool], timeout: float) -> bool:
        """Run the event loop until something is done, the connection is lost or the time is over; whether it is done.

        The callbacks below stop the loop whenever something has happened.
        """
        loop, late = self._connection.ioloop, threading.Event()

        def end() -> None:
            late.set()
            loop.stop()

        timer = loop.call_later(timeout, end)
        while not done() and not late.is_set() and not self._problem:
            loop.start()
        loop.remove_timeout(timer)
        return done()

    def _stop_loop(self) -> None:
        if self._connection is not None:
            self._connection.ioloop.stop()

    def _on_channel(self, channel: Any) -> None:
        channel.add_on_close_callback(self._on_lost)
        channel.add_on_return_callback(self._on_return)
        channel.confirm_delivery(self._on_confirm, callback=lambda _frame: self._on_ready(channel))

    def _on_ready(self, channel: Any) -> None:
        self._channel = channel
        self._stop_loop()

    def _on_lost(self, _source: Any, reason: Any) -> None:
        self._problem, self._lost = self._problem or f"the connection was lost: {_told(reason)}", True
        self._stop_loop()

    def _on_refused(self, _source: Any, reason: Any) -> None:
        self._problem = self._problem or f"no connection: {_told(reason)}"
        self._stop_loop()

    def _on_return(self, _channel: Any, _method: Any, _properties: Any, _body: bytes) -> None:
        exchange, key = self._endpoint.options["exchange"], self._endpoint.topic
        self._problem = (
            f"no queue is bound to exchange {exchange!r} for routing key {key!r}; bind one, or set mandatory=0 "
            "if messages that nobody receives may go"
        )
        self._stop_loop()

    def _on_confirm(self, frame: Any) -> None:
        method = frame.method
        if not isinstance(method, self._library.spec.Basic.Ack):
            self._problem = self._problem or "the broker could not keep a message"
        elif not self._problem:  # a returned message is confirmed after its return, and has arrived nowhere
            self._unordered |= set(range(self._confirmed + 1, method.delivery_tag)) if method.multiple else set()
            self._unordered.add(method.delivery_tag)
            while self._confirmed + 1 in self._unordered:
                self._confirmed += 1
                self._unordered.remove(self._confirmed)
        self._stop_loop()


def _told(reason: Any) -> str:
    """Return what an exception of pika says; of attempts to connect, which wrap one another, what the last one says."""
    while True:
        inner = [*getattr(reason, "exceptions", ()), getattr(reason, "exception", None), *getattr(reason, "args", ())]
        wrapped = next((error for error in reversed(inner) if isinstance(error, Exception)), None)
        if wrapped is None:
            return str(reason) or type(reason).__name__
        reason = wrapped
