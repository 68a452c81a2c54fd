"""HTTP POST to a webhook through urllib3: one kept connection, no dependencies, and often installed already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from sluice.errors import ConfigurationError
from sluice.messages.brokers.endpoint import Endpoint
from sluice.messages.brokers.tls import tls_context
from sluice.messages.brokers.transport import Message, TransportError, client_library

# Answers that are about this one message: it is malformed, too large or not what the server takes.
_FOR_GOOD = (400, 413, 415, 422)


class HttpTransport:
    """Posts one message per request, with its id in the header ``Idempotency-Key``; any 2xx acknowledges it."""

    def __init__(self, endpoint: Endpoint) -> None:
        """Check the options.

        Raises:
            ConfigurationError: urllib3 is missing, or an option cannot be used.
        """
        self._library: Any = client_library("urllib3", "http", "urllib3")
        self._endpoint = endpoint
        options = endpoint.options
        self._url = options["url"]
        try:
            host, _port = self._address()
        except ValueError as error:
            raise ConfigurationError(f"{endpoint.shown} is no address: {error}") from None
        if not host:
            raise ConfigurationError(f"{endpoint.shown} has no host; write http://host/path")
        self._tls = tls_context(endpoint)
        self._headers = {"Content-Type": options["content-type"]}
        if options["username"]:
            login = f"{options['username']}:{options['password']}"
            self._headers |= self._library.make_headers(basic_auth=login)
        if options["authorization"]:
            self._headers["Authorization"] = options["authorization"]
        self._pool: Any = None

    def connect(self) -> None:
        """See that something listens at the address; raises `OSError`. No request is sent."""
        library = self._library
        seconds = self._endpoint.number
        self._pool = library.PoolManager(
            num_pools=1,
            maxsize=1,
            retries=False,
            timeout=library.Timeout(connect=seconds("connect-timeout"), read=seconds("ack-timeout")),
            ssl_context=self._tls,
        )
        # A webhook has no greeting; that something listens there is what can be known.
        with library.util.connection.create_connection(self._address(), seconds("connect-timeout")):
            pass

    def _address(self) -> tuple[str, int]:
        parts = urlsplit(self._url)
        return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)

    def send(self, batch: Sequence[Message]) -> list[str | None]:
        """Post the messages one by one; status 2xx acknowledges one, those of `_FOR_GOOD` refuse it for good."""
        answers: list[str | None] = []
        for message in batch:
            try:
                answers.append(self._post(message))
            except Exception:
                if not answers:
                    raise
                break  # those before it are settled; this one is sent again, and raises then
        return answers

    def _post(self, message: Message) -> str | None:
        headers = {**self._headers, "Idempotency-Key": message.id}
        answer = self._pool.request("POST", self._url, body=message.payload, headers=headers, redirect=False)
        if 200 <= answer.status < 300:
            return None
        if answer.status in _FOR_GOOD:
            return f"the server refuses a message with status {answer.status} {answer.reason}"
        raise TransportError(f"the server answers with status {answer.status} {answer.reason}")

    def idle(self) -> None:
        """Nothing to do: a connection that was closed meanwhile is made anew by the next request."""

    def close(self) -> None:
        """Close the connections of the pool."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.clear()
