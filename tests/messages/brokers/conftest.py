"""A server of each kind, started for the tests that ask for it."""

import pytest

from messages.brokers.servers import SERVERS


def started(name, folder):
    server = SERVERS[name](folder)
    try:
        server.start()
        server.prepare()
        yield server
    finally:
        server.close()


@pytest.fixture(params=SERVERS)
def server(request, tmp_path):
    """A running server of each kind in turn, with something that receives the messages."""
    yield from started(request.param, tmp_path)


@pytest.fixture
def redis_server(tmp_path):
    yield from started("redis", tmp_path)


@pytest.fixture
def webhook(tmp_path):
    yield from started("http", tmp_path)
