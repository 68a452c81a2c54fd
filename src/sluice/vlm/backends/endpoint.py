"""Any OpenAI-compatible chat endpoint that takes images: vLLM, SGLang, llama.cpp's server, a cloud.

The requests are made by the `openai` client, which every such server is tested with. It runs on an event loop on a
thread of its own, where a running request can be cancelled at any time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import socket
import threading
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import CancelledError, Future, InvalidStateError
from typing import Any
from urllib.parse import urlsplit

from sluice.errors import ConfigurationError
from sluice.vlm.backends import BackendOptions, Question
from sluice.vlm.backends.chat import chat_messages
from sluice.vlm.failures import NoAnswer, Reason

_FIRST_DELAY, _MOST_DELAY = 0.5, 8.0  # seconds before a question is put again: those of the openai client
_LEAST_BODY = 1 << 20  # bytes of a response that are always read: an answer may come with long reasoning
_BYTES_PER_CHARACTER = 8  # with JSON's escapes
_SHOWN = 300
_MAY_PASS = (Reason.UNREACHABLE, Reason.RATE_LIMITED, Reason.SERVER_ERROR)
_JOIN = 0.25  # seconds for each step of closing, so that a stop stays within two


class _Loop(asyncio.SelectorEventLoop):
    """Looks hosts up on daemon threads of their own.

    A resolver may hang for minutes, which nothing can end; asyncio's own threads would be waited for when the program
    ends.
    """

    async def getaddrinfo(self, host: Any, port: Any, **more: Any) -> Any:
        found: Future[Any] = Future()

        def look_up() -> None:
            with contextlib.suppress(InvalidStateError):  # nobody waits for it any more
                try:
                    found.set_result(socket.getaddrinfo(host, port, **more))
                except Exception as error:  # a name that cannot be encoded is no OSError
                    found.set_exception(error)

        threading.Thread(target=look_up, name="sluice-vlm-lookup", daemon=True).start()
        return await asyncio.wrap_future(found)


class Endpoint:
    """See the module.

    Attributes:
        troubles: requests that failed, those that were made again included, by reason.
    """

    most_at_once: int | None = None

    def __init__(self, url: str, options: BackendOptions) -> None:
        """Check the URL and read the key; nothing is connected to before the first question.

        Raises:
            ConfigurationError: the URL cannot be used, there is no model name, or the key's variable is not set.
        """
        parts = _parts(url)
        if not options.model:
            raise ConfigurationError(
                f"model is not set; an endpoint needs the name of one (`curl {parts.scheme}://{parts.netloc}/v1/models`"
                " lists them)"
            )
        self._url = url
        self._options = options
        self._key = _key(options.api_key_env)
        self._host = f"{parts.scheme}://{parts.netloc}"
        self.name = options.model
        self.troubles: Counter[str] = Counter()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._client: Any = None
        self._running: set[Future[str]] = set()
        self._lock = threading.Lock()
        self._cancelled = False
        self._not_before = 0.0

    def open(self) -> None:
        """Start the client; raises ConfigurationError where it is not installed, or cannot use the URL."""
        try:
            from openai import AsyncOpenAI, DefaultAsyncHttpxClient
        except ImportError as error:
            raise ConfigurationError(
                f"endpoints need the package openai, which cannot be imported: {error}; pip install 'sluice-video[vlm]'"
            ) from error
        # A redirect would have the pictures, and perhaps the key, sent to a host that nobody named.
        http = DefaultAsyncHttpxClient(event_hooks={"response": [self._bound]}, follow_redirects=False)
        try:
            self._client = AsyncOpenAI(
                base_url=self._url,
                api_key=self._key or "none",
                timeout=self._options.timeout,
                max_retries=0,
                http_client=http,
                # A compressed response could be a thousand times longer than what arrives.
                default_headers={"Accept-Encoding": "identity"},
            )
        except Exception as error:  # the client's own errors for what it takes for no URL
            raise ConfigurationError(f"the endpoint's URL {self._url!r} cannot be used: {error}") from error
        self._loop = _Loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sluice-vlm-http", daemon=True)
        self._thread.start()

    def answer(self, question: Question) -> str:
        """Return what the endpoint says, after as many attempts as that takes and `timeout` allows.

        Raises:
            NoAnswer: there is no answer; says why, without the key.
        """
        body = self._body(question)
        attempts = self._attempts(body)
        with self._lock:
            if self._cancelled or self._loop is None:
                attempts.close()
                raise NoAnswer(Reason.STOPPED, "the element was stopped")
            future = asyncio.run_coroutine_threadsafe(attempts, self._loop)
            self._running.add(future)
        try:
            return future.result()
        except CancelledError:
            raise NoAnswer(Reason.STOPPED, "the element was stopped before the answer") from None
        finally:
            with self._lock:
                self._running.discard(future)

    def cancel(self) -> None:
        """End all requests, and refuse further ones."""
        with self._lock:
            self._cancelled = True
            running = list(self._running)
        for future in running:
            future.cancel()

    def close(self) -> None:
        """Close all connections; returns within a second, whatever the endpoint does."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        with contextlib.suppress(Exception):  # a connection that cannot be closed in order is closed with its socket
            asyncio.run_coroutine_threadsafe(self._finish(), loop).result(2 * _JOIN)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_JOIN)
        if not thread.is_alive():
            loop.close()
        self._loop = None

    async def _finish(self) -> None:
        """Let cancelled requests come to their end, then close all connections."""
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=_JOIN)
        await self._client.close()

    def _body(self, question: Question) -> dict[str, Any]:
        options = self._options
        body: dict[str, Any] = {"model": options.model, "messages": chat_messages(question, options.system)}
        if options.max_tokens:
            body["max_tokens"] = options.max_tokens
        if options.guided and isinstance(question.schema, dict):
            shape = {"name": "answer", "schema": question.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": shape}
        return {**body, "temperature": 0, **options.extra}

    def _attempts(self, body: dict[str, Any]) -> Coroutine[Any, Any, str]:
        last: list[NoAnswer] = []

        async def within_time() -> str:
            try:
                return await asyncio.wait_for(self._tries(body, last), self._options.timeout)
            except asyncio.TimeoutError:
                if last:
                    raise NoAnswer(
                        last[-1].reason, f"{last[-1]}; it did not pass within {self._options.timeout:g} s"
                    ) from None
                raise self._trouble(
                    Reason.TIMED_OUT, f"no answer from {self._host} within {self._options.timeout:g} s"
                ) from None

        return within_time()

    async def _tries(self, body: dict[str, Any], last: list[NoAnswer]) -> str:
        delay = _FIRST_DELAY
        for left in range(self._options.retries, -1, -1):
            await self._wait_for_gate()
            try:
                return await self._once(body)
            except NoAnswer as error:
                last.append(error)
                if error.reason not in _MAY_PASS or not left:
                    raise
            await asyncio.sleep(delay * random.uniform(0.75, 1.0))
            delay = min(delay * 2, _MOST_DELAY)
        raise AssertionError("every round returns or raises")

    async def _wait_for_gate(self) -> None:
        """Wait until the endpoint may be asked again, after it said when."""
        while (seconds := self._not_before - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(seconds)

    async def _once(self, body: dict[str, Any]) -> str:
        import openai

        try:
            # As extra_body, so that the client checks no member: servers have many of their own.
            raw = await self._client.chat.completions.with_raw_response.create(
                model=body["model"], messages=body["messages"], extra_body=body
            )
            return self._text(raw.content)
        except NoAnswer:
            raise
        except openai.APITimeoutError as error:
            raise self._trouble(
                Reason.TIMED_OUT, f"no answer from {self._host} within {self._options.timeout:g} s"
            ) from error
        except openai.APIStatusError as error:
            raise self._of_status(error) from error
        except Exception as error:
            for cause in _causes(error):
                if isinstance(cause, NoAnswer):
                    raise cause from error
            deepest = list(_causes(error))[-1]
            text = f"{self._host} cannot be asked: {type(deepest).__name__}: {deepest}"
            raise self._trouble(Reason.UNREACHABLE, text) from error

    def _of_status(self, error: Any) -> NoAnswer:
        status = error.status_code
        text = f"{self._host} answered {status}: {error.message}"
        wait = _seconds(error.response.headers.get("retry-after"))
        if wait is not None and status in (429, 503):
            limit = self._options.retry_after_limit
            self._not_before = asyncio.get_running_loop().time() + min(wait, limit)
            text += f" (Retry-After: {wait:g} s{f', obeyed for {limit:g} s' if wait > limit else ''})"
        if 300 <= status < 400:
            place = error.response.headers.get("location", "nowhere")
            text += f" (a redirect to {place}, which is not followed; name the endpoint's own URL)"
        if status == 429:
            return self._trouble(Reason.RATE_LIMITED, text)
        if status >= 500 or status == 408:
            return self._trouble(Reason.SERVER_ERROR, text)
        return self._trouble(Reason.REFUSED, text)

    def _text(self, data: bytes) -> str:
        try:
            message = json.loads(data)["choices"][0]["message"]
            content = message["content"]
            if isinstance(content, list):  # some servers answer in parts
                content = "".join(part["text"] for part in content if part.get("type") == "text")
            if not isinstance(content, str):
                raise TypeError(f"its content is {type(content).__name__}")
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            shown = data[:80].decode("utf-8", "replace")
            raise self._trouble(
                Reason.BAD_RESPONSE, f"{self._host} answered with no chat completion ({error}): {shown!r}"
            ) from error
        if len(content) > self._options.most_characters:
            text = f"the answer has {len(content)} characters, more than {self._options.most_characters}"
            raise self._trouble(Reason.TOO_LARGE, text)
        return content

    async def _bound(self, response: Any) -> None:
        """Limit how much of a response is read, whatever its status; called when its head has arrived."""
        coding = response.headers.get("content-encoding", "identity")
        if coding != "identity":
            raise self._trouble(Reason.BAD_RESPONSE, f"{self._host} answered in the encoding {coding}, unasked")
        most = max(_LEAST_BODY, _BYTES_PER_CHARACTER * self._options.most_characters)
        fault = NoAnswer(Reason.TOO_LARGE, f"the response of {self._host} is longer than {most} bytes")
        response.stream = _bounded(response.stream, most, fault, self.troubles)

    def _trouble(self, reason: Reason, text: str) -> NoAnswer:
        """Count a failed request; its text never holds the key, whatever the endpoint said."""
        self.troubles[reason.value] += 1
        text = " ".join(text.split())
        if self._key:
            text = text.replace(self._key, "***")
        return NoAnswer(reason, text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def _bounded(stream: Any, most: int, fault: NoAnswer, troubles: Counter[str]) -> Any:
    """Return a response's stream that fails after so many bytes; of the stream's own class, as the client asks for."""

    class Bounded(type(stream)):  # type: ignore[misc]
        def __init__(self) -> None:
            """Nothing of the base class is used but its type."""

        async def __aiter__(self) -> AsyncIterator[bytes]:
            read = 0
            async for chunk in stream:
                read += len(chunk)
                if read > most:
                    troubles[fault.reason.value] += 1
                    raise fault
                yield chunk

        async def aclose(self) -> None:
            await stream.aclose()

    return Bounded()


def _parts(url: str) -> Any:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise ConfigurationError(f"the endpoint's URL cannot be read: {error}") from error
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError(
            "the endpoint's URL holds a user or password, which logs would show; name the environment variable that "
            "holds the key with api-key-env"
        )
    if not parts.hostname:
        raise ConfigurationError(f"the endpoint's URL {url!r} names no host; right is http://host:8000/v1")
    return parts


def _key(variable: str) -> str:
    if not variable:
        return ""
    key = os.environ.get(variable, "").strip()
    if not key:
        # Without the name: whoever gives the key in its place must not find it in a log.
        raise ConfigurationError(
            "api-key-env names an environment variable that is not set or empty; it takes the name of the variable, "
            "never the key itself"
        )
    return key


def _seconds(text: str | None) -> float | None:
    """Read a Retry-After header in seconds; dates are not told, as clocks differ."""
    try:
        seconds = float(text or "")
    except ValueError:
        return None
    return seconds if 0 <= seconds < 1e9 else None


def _causes(error: BaseException) -> list[BaseException]:
    found = [error]
    while (cause := found[-1].__cause__ or found[-1].__context__) is not None and cause not in found:
        found.append(cause)
    return found
