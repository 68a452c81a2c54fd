"""Redis Streams through redis-py, the client of Redis' own makers; its socket timeouts bound every call."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from sluice.messages.brokers.endpoint import Endpoint
from sluice.messages.brokers.transport import ConnectionLostError, Message, client_library


class RedisTransport:
    """Adds entries to a stream: field ``metadata`` (payloadkey) is the message, field ``id`` its id."""

    def __init__(self, endpoint: Endpoint) -> None:
        """Check the options.

        Raises:
            ConfigurationError: redis-py is missing, or an option cannot be used.
        """
        self._library: Any = client_library("redis", "redis", "redis")
        self._endpoint = endpoint
        size = endpoint.options["streamsize"]
        self._size = int(endpoint.number("streamsize", 1)) if size else None
        self._db = int(endpoint.number("db"))
        self._tls = endpoint.flag("enable-tls")
        self._client: Any = None

    def connect(self) -> None:
        """Connect, log in and ping; raises what redis-py raises."""
        endpoint, options = self._endpoint, self._endpoint.options
        tls = {
            "ssl": True,
            "ssl_ca_certs": options["tls-cafile"] or None,
            "ssl_certfile": options["tls-certfile"] or None,
            "ssl_keyfile": options["tls-keyfile"] or None,
        }
        self._client = self._library.Redis(
            host=endpoint.host,
            port=endpoint.port,
            db=self._db,
            username=options["username"] or None,
            password=options["password"] or None,
            socket_connect_timeout=endpoint.number("connect-timeout"),
            socket_timeout=endpoint.number("ack-timeout"),
            retry=None,  # a batch that may have arrived is sent again by the delivery, which counts it
            **(tls if self._tls else {}),
        )
        self._client.ping()

    def send(self, batch: Sequence[Message]) -> list[str | None]:
        """Add the messages to the stream in one transaction: the server takes all of them or none."""
        # A transaction: of a batch, Redis takes all messages or none, so that none overtakes one that was refused.
        pipeline = self._client.pipeline(transaction=True)
        for message in batch:
            entry = {self._endpoint.options["payloadkey"]: message.payload, "id": message.id}
            pipeline.xadd(self._endpoint.topic, entry, maxlen=self._size, approximate=True)
        try:
            pipeline.execute()
        except self._library.exceptions.ConnectionError as error:
            raise ConnectionLostError(f"the connection was lost: {error}") from error
        return [None] * len(batch)

    def idle(self) -> None:
        """Ping; raises when the connection is lost."""
        self._client.ping()

    def close(self) -> None:
        """Close the client."""
        client, self._client = self._client, None
        if client is not None:
            with suppress(Exception):  # a server that is away cannot be taken leave of
                client.close()
