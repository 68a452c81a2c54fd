"""NATS JetStream through nats-py, the client of NATS' own makers; its event loop runs on the delivery's thread."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

from sluice.errors import ConfigurationError
from sluice.messages.brokers.endpoint import Endpoint
from sluice.messages.brokers.tls import tls_context
from sluice.messages.brokers.transport import ConnectionLostError, Message, TransportError, client_library

_SUBJECT = re.compile(r"[^\s.*>]+(\.[^\s.*>]+)*")
_ROUND = 0.02  # seconds for pings and pongs in `idle`
_HEADER = 128  # bytes of the headers
_MARGIN = 1.0  # seconds beyond the client's own time limits
_AGAIN = 0.1  # seconds between the client's two attempts to connect
_LARGER_THAN_THE_STREAM_TAKES = 10054  # JSStreamMessageExceedsMaximumErr of nats-server's errors.json


class NatsTransport:
    """Publishes to JetStream; the id in header ``Nats-Msg-Id``, by which the server leaves out what it has already."""

    def __init__(self, endpoint: Endpoint) -> None:
        """Check the options.

        Raises:
            ConfigurationError: nats-py is missing, or an option cannot be used.
        """
        self._library: Any = client_library("nats", "nats", "nats-py")
        self._endpoint = endpoint
        if not _SUBJECT.fullmatch(endpoint.topic):
            raise ConfigurationError(
                f"topic is {endpoint.topic!r}; a subject to publish to is words between dots, without blanks, * and >"
            )
        self._tls = tls_context(endpoint)
        self._problem = ""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._trouble = asyncio.Event()
        self._client: Any = None
        self._stream: Any = None

    def connect(self) -> None:
        """Connect; find, or make, the JetStream stream of the subject. Raises `TransportError` with the reason."""
        self._problem = ""
        self._loop, self._trouble = asyncio.new_event_loop(), asyncio.Event()
        try:
            self._run(self._connect(), self._endpoint.number("connect-timeout") + _MARGIN)
        except (TimeoutError, self._library.errors.Error) as error:
            # What the client raises in the end does not say what happened; that its callback was told.
            raise TransportError(self._problem or str(error) or "the server does not answer") from error

    async def _connect(self) -> None:
        endpoint, options = self._endpoint, self._endpoint.options
        timeout = endpoint.number("connect-timeout")
        self._client = self._library.NATS()
        await self._client.connect(
            [f"nats://{host}" for host in endpoint.hosts],
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=_AGAIN,
            connect_timeout=timeout,
            error_cb=self._on_error,
            disconnected_cb=self._on_lost,
            user=options["username"] or None,
            password=options["password"] or None,
            token=options["token"] or None,
            tls=self._tls,
        )
        self._stream = self._client.jetstream(timeout=timeout)
        await self._check_stream()

    async def _check_stream(self) -> None:
        """Look whether a stream takes the subject; make one if it is named."""
        from nats.js.errors import NotFoundError

        topic, name = self._endpoint.topic, self._endpoint.options["stream"]
        try:
            await self._stream.find_stream_name_by_subject(topic)
        except NotFoundError:
            if not name:
                raise TransportError(
                    f"no JetStream stream takes the subject {topic!r}; make one, or set stream=NAME to have it made"
                ) from None
            await self._stream.add_stream(name=name, subjects=[topic])

    def send(self, batch: Sequence[Message]) -> list[str | None]:
        """Publish the messages to JetStream and wait for its acknowledgements; one by one after a refusal."""
        answers: list[str | None] = self._run(self._send(batch), None)
        return answers

    async def _send(self, batch: Sequence[Message]) -> list[str | None]:
        self._problem, self._trouble = "", asyncio.Event()
        futures = [await self._publish(message) for message in batch]
        trouble = asyncio.ensure_future(self._trouble.wait())
        answers: list[str | None] = []
        for future in futures:
            await asyncio.wait(
                {future, trouble}, timeout=self._endpoint.number("ack-timeout"), return_when=asyncio.FIRST_COMPLETED
            )
            error = future.exception() if future.done() else TimeoutError("the server does not acknowledge")
            if error is not None:
                self._problem = self._problem or str(error)
                break
            answers.append(future.result() if isinstance(future.result(), str) else None)
        trouble.cancel()
        for future in futures[len(answers) :]:
            # Answers that nobody waits for any more.
            future.add_done_callback(lambda done: done.cancelled() or done.exception())
        if len(answers) < len(batch) and self._client.is_connected and self._trouble.is_set():
            answers += await self._send_singly(batch[len(answers) :])
        if not answers:
            raise (TransportError if self._client.is_connected else ConnectionLostError)(self._problem)
        return answers

    async def _send_singly(self, batch: Sequence[Message]) -> list[str | None]:
        """Send messages one by one, for the answers to each: of many, the client tells only that one was refused.

        What has arrived already is left out by the server, which knows its id.
        """
        from nats.js.errors import APIError

        answers: list[str | None] = []
        for message in batch:
            if (refusal := self._too_large(message)) is None:
                try:
                    await self._stream.publish(
                        self._endpoint.topic,
                        message.payload,
                        timeout=self._endpoint.number("ack-timeout"),
                        headers={"Nats-Msg-Id": message.id},
                    )
                except APIError as error:
                    if error.err_code != _LARGER_THAN_THE_STREAM_TAKES:
                        self._problem = str(error)
                        break
                    refusal = f"the stream takes no message of this size: {error.description}"
                except self._library.errors.Error as error:
                    self._problem = str(error)
                    break
            answers.append(refusal)
        return answers

    async def _publish(self, message: Message) -> asyncio.Future[Any]:
        """Publish a message; its answer is text if the server will never take it."""
        refusal = self._too_large(message)
        if refusal is not None:
            refused: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            refused.set_result(refusal)
            return refused
        published: asyncio.Future[Any] = await self._stream.publish_async(
            self._endpoint.topic, message.payload, headers={"Nats-Msg-Id": message.id}
        )
        return published

    def _too_large(self, message: Message) -> str | None:
        largest = self._client.max_payload - _HEADER
        if len(message.payload) <= largest:
            return None
        return f"a message of {len(message.payload)} bytes is larger than the server takes ({largest})"

    def idle(self) -> None:
        """Run the client's event loop for a moment; raise `TransportError` if the connection is lost."""
        self._run(asyncio.sleep(_ROUND), None)
        if self._problem or not self._client.is_connected:
            raise TransportError(self._problem or "the connection was lost")

    def close(self) -> None:
        """Close the client and its event loop, with every task that still waits in it."""
        loop, client, self._loop, self._client = self._loop, self._client, None, None
        if loop is None:
            return
        with suppress(Exception):  # a server that is away cannot be taken leave of
            if client is not None:
                loop.run_until_complete(asyncio.wait_for(client.close(), _MARGIN))
        loop.run_until_complete(_cancel_others())
        loop.close()

    def _run(self, work: Coroutine[Any, Any, Any], timeout: float | None) -> Any:
        if self._loop is None:
            raise TransportError("there is no connection")
        return self._loop.run_until_complete(asyncio.wait_for(work, timeout))

    async def _on_error(self, error: Exception) -> None:
        self._problem = str(error) or type(error).__name__
        self._trouble.set()

    async def _on_lost(self) -> None:
        self._problem = self._problem or "the connection was lost"
        self._trouble.set()


async def _cancel_others() -> None:
    """End the tasks that the client has left behind."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
