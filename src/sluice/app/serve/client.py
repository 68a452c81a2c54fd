"""A client of a running service, for the command line; the standard library's HTTP is enough for it."""

from __future__ import annotations

import http.client
import json
import os
import time
import urllib.error
import urllib.request
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from sluice.app.credentials import redact
from sluice.errors import ConfigurationError, SluiceError

DEFAULT_URL = "http://127.0.0.1:8080"
_PATIENCE = 20.0  # seconds; the service answers within fifteen
_LOOK = 0.3  # seconds between two looks at what has happened
_LARGEST_ANSWER = 64 << 20


class ServiceError(SluiceError):
    """The service cannot be reached, or refuses."""


class UnknownOutcomeError(ServiceError):
    """What the service was asked for has begun, and how it ended is not known."""


class Client:
    """Calls the REST API of one service."""

    def __init__(self, url: str | None = None, token_file: Path | None = None) -> None:
        """Call a service.

        Args:
            url: where it is; default: SLUICE_URL in the environment, else the address that a service has by default.
            token_file: file with its token; default: SLUICE_TOKEN in the environment. Never an argument of a command,
                which everybody on the machine can read.

        Raises:
            ConfigurationError: the URL is none, the file cannot be read, or the token is none that a header can hold.
        """
        self._url = (url or os.environ.get("SLUICE_URL") or DEFAULT_URL).rstrip("/")
        if not _is_address(self._url):
            raise ConfigurationError(f"the service's URL is {redact(self._url)!r}; right is {DEFAULT_URL}")
        self._token = os.environ.get("SLUICE_TOKEN", "").strip()
        if token_file is not None:
            try:
                self._token = token_file.read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                reason = getattr(error, "strerror", None) or "it is no text in UTF-8"
                raise ConfigurationError(f"{str(token_file)!r} cannot be read: {reason}") from error
        if not (self._token.isascii() and self._token.isprintable()):  # or an error would show it
            raise ConfigurationError("the token has characters other than ASCII's, or more than one line")

    def streams(self) -> list[dict[str, Any]]:
        """All streams."""
        streams: list[dict[str, Any]] = self._member("streams", "GET", "/api/streams")
        return streams

    def add(self, source: str, name: str, policy: dict[str, Any]) -> None:
        """Add a stream."""
        self._call("POST", "/api/streams", {"source": source, "name": name, "policy": policy})

    def remove(self, name: str) -> None:
        """Take a stream out."""
        self._call("DELETE", f"/api/streams/{quote(name, safe='')}")

    def restart(self, name: str) -> None:
        """Open a stream anew."""
        self._call("POST", f"/api/streams/{quote(name, safe='')}/restart")

    def swap(self, model: str, policy: str) -> int:
        """Have the model changed; return the number of the event that `swapped` wants."""
        begun: int = self._member("event", "POST", "/api/models/swap", {"model": model, "policy": policy})
        return begun

    def swapped(self, begun: int, seconds: float) -> str | None:
        """Wait for so many seconds at most until a change of the model has ended.

        Args:
            begun: what `swap` returned.
            seconds: the longest wait.

        Returns:
            what runs now, in words; None if the change has not ended yet.

        Raises:
            ServiceError: the new model was refused; says why.
            UnknownOutcomeError: the service answers no more.
        """
        deadline = time.monotonic() + seconds
        while True:
            try:
                happened = self._call("GET", f"/api/events?since={begun}")
            except ServiceError as error:
                raise UnknownOutcomeError(f"how the change of the model ended is not known: {error}") from error
            for event in happened["events"]:
                if event["kind"] == "model-swapped":
                    return str(event["text"])
                if event["kind"] == "model-refused":
                    raise ServiceError(f"{event['text'].rstrip('.')}; the one before goes on")
            begun = happened["last"]
            if time.monotonic() >= deadline:
                return None
            time.sleep(_LOOK)

    def metrics(self) -> str:
        """All numbers, in Prometheus' text format."""
        return self._fetch("GET", "/metrics").decode(errors="replace")

    def _member(self, name: str, method: str, path: str, body: object = None) -> Any:
        """A member of the object that is answered."""
        answer = self._call(method, path, body)
        if not isinstance(answer, dict) or name not in answer:
            raise self._other()
        return answer[name]

    def _call(self, method: str, path: str, body: object = None) -> Any:
        content = self._fetch(method, path, body)
        try:
            return json.loads(content) if content else None
        except ValueError as error:
            raise self._other() from error

    def _other(self) -> ServiceError:
        return ServiceError(f"what answers at {self._url} is no `sluice serve`; name the service's address by --url")

    def _fetch(self, method: str, path: str, body: object = None) -> bytes:
        request = urllib.request.Request(self._url + path, method=method)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        if self._token:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            with urllib.request.urlopen(request, timeout=_PATIENCE) as response:
                content: bytes = response.read(_LARGEST_ANSWER)
        except urllib.error.HTTPError as error:
            raise ServiceError(_refusal(error)) from error
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise ServiceError(f"{self._url} does not answer: {reason}; is `sluice serve` running there?") from error
        except http.client.HTTPException as error:
            raise self._other() from error
        return content


def _is_address(url: str) -> bool:
    """Whether a URL names a host that speaks HTTP, and perhaps a port and a path, but no user or password."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises where it is no number
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc


def _refusal(error: urllib.error.HTTPError) -> str:
    if error.code == HTTPStatus.UNAUTHORIZED:
        return "the token is missing or wrong; right is the service's http.token, in SLUICE_TOKEN or by --token-file"
    try:
        return str(json.loads(error.read(_LARGEST_ANSWER))["detail"])
    except (ValueError, KeyError, TypeError):
        return f"the service answers {error.code} {error.reason}"
