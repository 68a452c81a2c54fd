"""The HTTP server: uvicorn on a thread of its own, so that the main thread is free for signals and for the pipeline."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import threading
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from sluice.app.serve.live import Viewers
from sluice.app.serve.schema import HttpEntry
from sluice.errors import ConfigurationError

_STARTING, _STOPPING = 10.0, 5.0
_BACKLOG = 128
_CONNECTIONS = 256  # besides the viewers
_log = logging.getLogger(__name__)


class HttpServer:
    """Serves an application until it is stopped.

    Attributes:
        url: where it is reached; known as soon as it is made.
    """

    def __init__(self, app: ASGIApp, http: HttpEntry, folder: Path, viewers: Viewers) -> None:
        """Take the port.

        Raises:
            ConfigurationError: it cannot be taken, or the certificate is not one.
        """
        self._viewers = viewers
        self._socket = _listen(http.host, http.port)
        host, port = self._socket.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        self.url = f"{'http' if http.tls is None else 'https'}://{shown}:{port}"
        config = uvicorn.Config(
            app,
            log_config=None,  # what it logs goes where all goes, without secrets
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="off",
            ws="none",
            limit_concurrency=_CONNECTIONS + http.most_viewers,
            timeout_graceful_shutdown=int(_STOPPING) - 2,
            ssl_certfile=None if http.tls is None else folder / http.tls.certificate,
            ssl_keyfile=None if http.tls is None else folder / http.tls.key,
        )
        try:
            config.load()
        except OSError as error:
            self._socket.close()
            raise ConfigurationError(f"http.tls: certificate and key cannot be used: {error}") from error
        self._server = uvicorn.Server(config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sluice-http", daemon=True)

    def start(self) -> None:
        """Begin to answer.

        Raises:
            ConfigurationError: it does not begin.
        """
        self._thread.start()
        if not self._started.wait(_STARTING) or not self._thread.is_alive():
            raise ConfigurationError(f"the HTTP server at {self.url} did not start; the log says why")

    @property
    def alive(self) -> bool:
        """Whether it answers."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """End what is being sent, and answer no more; takes five seconds at most."""
        if self._loop is not None and self._thread.is_alive():
            self._server.should_exit = True
            self._loop.call_soon_threadsafe(self._viewers.close)
            self._thread.join(_STOPPING)
        self._socket.close()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception:
            _log.exception("the HTTP server failed")
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        serving = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        while not self._server.started and not serving.done():
            await asyncio.sleep(0.01)
        self._started.set()
        await serving


def _listen(host: str, port: int) -> socket.socket:
    try:
        version = ipaddress.ip_address(host.strip("[]")).version
    except ValueError:  # a name
        version = 4
    family = socket.AF_INET6 if version == 6 else socket.AF_INET
    try:
        return socket.create_server((host.strip("[]"), port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ConfigurationError(
            f"http: {host}, port {port}, cannot be listened at: {error.strerror or error}"
        ) from error
