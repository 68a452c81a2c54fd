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


@pytest.fixture(scope="session")
def lasting_rabbit(tmp_path_factory):
    """RabbitMQ takes ten seconds to start, so that one serves all tests."""
    yield from started("amqp", tmp_path_factory.mktemp("rabbit"))


@pytest.fixture
def rabbit(lasting_rabbit):
    """A running RabbitMQ with an empty queue."""
    if lasting_rabbit.process is None:
        lasting_rabbit.start()
    lasting_rabbit.empty()
    return lasting_rabbit


@pytest.fixture(params=SERVERS)
def server(request, tmp_path):
    """A running server of each kind in turn, with something that receives the messages."""
    if request.param == "amqp":
        yield request.getfixturevalue("rabbit")
    else:
        yield from started(request.param, tmp_path)


@pytest.fixture
def redis_server(tmp_path):
    yield from started("redis", tmp_path)


@pytest.fixture
def webhook(tmp_path):
    yield from started("http", tmp_path)
