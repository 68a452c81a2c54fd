"""A running service as tests see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx
from serve_doubles import FakeEngine, FakePictures

from sluice.app.serve.context import Context
from sluice.app.serve.service import Service
from waiting import PATIENCE


@dataclass
class Site:
    """A running service.

    Attributes:
        url: where it is.
        engine: the double of the pipeline.
        pictures: the double of its outputs.
        context: the application's.
        folder: where its configuration and state lie.
    """

    url: str
    engine: FakeEngine
    pictures: FakePictures
    context: Context
    folder: Path

    @property
    def service(self) -> Service:
        assert self.context.service is not None
        return self.context.service

    def client(self, token: str | None = None, **headers: str) -> httpx.Client:
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return httpx.Client(base_url=self.url, headers=headers, timeout=PATIENCE)


StartSite = Callable[..., Site]
