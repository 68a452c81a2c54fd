"""What every request passes before anything of it is acted on: host, origin, token, size; and headers on every answer.

* Host: a page elsewhere whose name was made to mean this machine (DNS rebinding) has that name in its Host header.
* Origin: a page elsewhere cannot change anything, nor show what is here.
* Token: in the header Authorization, or, for the page, in a cookie that scripts cannot read.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import socket
from collections.abc import Collection
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sluice.app.serve.problems import problem

LARGEST_BODY = 64 << 10
"""Bytes of a request; an SDP offer, the largest there is, has about 10 KiB."""
_TOO_LARGE = f"a request's body has {LARGEST_BODY >> 10} KiB at most"
_OPEN_PATHS = ("/", "/healthz", "/readyz", "/api/session")
_OPEN_FOLDER = "/page/"
_SAFE_METHODS = ("GET", "HEAD")
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "media-src 'self' blob:; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Access:
    """Who may reach the service, and how that is proved."""

    def __init__(self, token: str | None, allowed_hosts: Collection[str]) -> None:
        """Ask for a token, if there is one; answer to these host names, to this machine's own and to IP addresses."""
        self._token = None if token is None else token.encode()
        self._hosts = {"localhost", socket.gethostname().lower()} | {host.lower() for host in allowed_hosts}

    def is_token(self, given: str) -> bool:
        """Whether this is the token; takes as long for a wrong one as for the right one."""
        return self._token is None or hmac.compare_digest(given.encode("utf-8", "surrogatepass"), self._token)

    def cookie(self) -> str:
        """What the page's cookie holds: it proves that the token was given, and does not tell it."""
        return hmac.new(self._token or b"", b"sluice page", hashlib.sha256).hexdigest()

    def admits(self, headers: Headers, cookie_name: str) -> bool:
        """Whether a request proves that it may."""
        if self._token is None:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_token(given.strip()):
            return True
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return False
        found = cookies.get(cookie_name)
        return found is not None and hmac.compare_digest(found.value.encode(), self.cookie().encode())

    def knows_host(self, host: str) -> bool:
        """Whether a Host header names this service."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in self._hosts:
            return True
        try:  # an address was not looked up, so nobody could have given it another meaning
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def cookie_name(host: str) -> str:
    """Return the cookie's name: cookies do not keep the ports of a host apart."""
    return f"sluice-{host.rpartition(':')[2] if host[-1:].isdigit() else 'page'}"


class Gate:
    """ASGI middleware in front of the whole application."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        """Guard an application."""
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, send_with_headers)
            return
        body = _Body(receive, send_with_headers)
        await self._app(scope, body.receive, body.send)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return why a request is refused."""
        headers, path = Headers(scope=scope), scope["path"]
        host = headers.get("host", "")
        if not self._access.knows_host(host):
            return problem(
                HTTPStatus.MISDIRECTED_REQUEST,
                f"this service does not answer to the host {host!r}; list it in http.allowed_hosts if it should",
            )
        if not _same_origin(headers, host, scope["method"], path):
            return problem(HTTPStatus.FORBIDDEN, "a page of another origin may not use this service")
        is_open = path in _OPEN_PATHS or path.startswith(_OPEN_FOLDER)
        if not is_open and not self._access.admits(headers, cookie_name(host)):
            return problem(
                HTTPStatus.UNAUTHORIZED,
                "the token is missing or wrong; right is the header Authorization: Bearer TOKEN, with http.token of "
                "the configuration",
                headers={"WWW-Authenticate": "Bearer"},
            )
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > LARGEST_BODY:
            return problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _TOO_LARGE)
        return None


def _same_origin(headers: Headers, host: str, method: str, path: str) -> bool:
    """Whether a request comes from this service's page, or from no page at all."""
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2].lower() != host.lower():
        return False
    if headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
        return True
    # A link on another page may open this one, and nothing else.
    return method in _SAFE_METHODS and path == "/" and headers.get("sec-fetch-mode") == "navigate"


class _Body:
    """Counts a request's body as it is read, where its length was not said or not true."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._size = 0
        self._answering = False

    async def receive(self) -> Message:
        """Pass on a part of the body.

        Raises:
            HTTPException: there is too much of it.
        """
        message = await self._receive()
        self._size += len(message.get("body", b""))
        if self._size <= LARGEST_BODY:
            return message
        if self._answering:
            return {"type": "http.disconnect"}
        raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _TOO_LARGE)

    async def send(self, message: Message) -> None:
        """Pass on a part of the answer."""
        self._answering = True
        await self._send(message)
