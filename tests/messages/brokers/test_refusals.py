"""Messages that a broker never takes, against real ones: named, counted, kept aside, and the others go on."""

import asyncio
import json
import sqlite3
from contextlib import closing

import pytest

from messages.brokers.conftest import started
from messages.brokers.sending import firsts, numbers
from messages.brokers.server import TOPIC
from sluice.messages import Overflow, Writer
from sluice.messages.brokers import from_url, open_delivery


def check(url, folder, reason, size=2_000_000):
    """Send four messages of which the broker does not take the third."""
    problems = []
    spool = folder / "spool.db"
    delivery = open_delivery(
        from_url(url), spool=str(spool), patience=30, on_away=problems.append, on_refused=problems.append
    )
    writer = Writer(delivery, capacity=100, overflow=Overflow.WAIT, on_error=lambda error: problems.append(error))
    texts = ["", "", "x" * size, ""]
    payloads = [json.dumps({"stream": 0, "n": n, "text": text}).encode() for n, text in enumerate(texts)]
    big = payloads[2]
    for payload in payloads:
        writer.put(payload)
    assert writer.close(40)
    counters = delivery.counters
    assert (counters.acknowledged, counters.failed, counters.dropped, counters.spooled) == (3, 1, 0, 0)
    (told,) = [text for text in map(str, problems) if "set aside" in text]
    assert f"-3 of {len(big)} bytes is set aside in the table refused of '{spool}': " in told
    assert reason in told
    with closing(sqlite3.connect(spool)) as database:
        ((number, payload),) = database.execute("SELECT id, payload FROM refused").fetchall()
    assert (number, payload) == (3, big)


def test_kafka(tmp_path):
    for server in started("kafka", tmp_path):
        check(f"{server.url};message.max.bytes=1000000", tmp_path, "size too large")
        assert numbers(server.read()) == [0, 1, 3]


@pytest.mark.parametrize("limit", ["message_size_limit", "max_packet_size"])
def test_mqtt_5(tmp_path, limit):
    from messages.brokers.servers import Mosquitto

    server = Mosquitto(tmp_path)
    with (tmp_path / "conf").open("a") as file:
        file.write(f"{limit} 1000000\n")
    try:
        server.start()
        server.prepare()
        check(server.url, tmp_path, "the connection was lost" if limit == "message_size_limit" else "larger than the")
        # A connection that is lost may take answers with it: what they were for is sent twice.
        assert firsts(numbers(server.read())) == [0, 1, 3]
    finally:
        server.close()


def test_several_among_many(tmp_path):
    """Each is set aside by name, wherever it lies in a batch, and none of the others is lost or out of order."""
    from messages.brokers.servers import Mosquitto

    server = Mosquitto(tmp_path)
    with (tmp_path / "conf").open("a") as file:
        file.write("message_size_limit 1000\n")
    large = {0, 3, 4, 250, 299}
    told = []
    try:
        server.start()
        server.prepare()
        delivery = open_delivery(
            from_url(server.url), spool=str(tmp_path / "spool.db"), patience=60, on_away=str, on_refused=told.append
        )
        writer = Writer(delivery, capacity=400, overflow=Overflow.WAIT, on_error=told.append)
        for n in range(300):
            writer.put(json.dumps({"stream": 0, "n": n, "text": "x" * (2000 if n in large else 10)}).encode())
        assert writer.close(90)
        counters = delivery.counters
        assert (counters.acknowledged, counters.failed, counters.spooled) == (295, 5, 0)
        assert firsts(numbers(server.read())) == [n for n in range(300) if n not in large]
    finally:
        server.close()
    with closing(sqlite3.connect(tmp_path / "spool.db")) as database:
        assert {number - 1 for (number,) in database.execute("SELECT id FROM refused")} == large
    assert any("set aside" in text for text in told)


def test_redis(redis_server, tmp_path):
    redis_server.client().config_set("proto-max-bulk-len", 1 << 20)
    check(redis_server.url, tmp_path, "the connection was lost")
    assert numbers(redis_server.read()) == [0, 1, 3]


def test_rabbitmq(rabbit, tmp_path):
    check(rabbit.url, tmp_path, "PRECONDITION_FAILED - message size")
    assert firsts(numbers(rabbit.read())) == [0, 1, 3]


def test_nats_server(tmp_path):
    for server in started("nats", tmp_path):
        check(server.url, tmp_path, "larger than the server takes")
        assert numbers(server.read()) == [0, 1, 3]


def test_nats_stream(tmp_path):
    for server in started("nats", tmp_path):
        asyncio.run(make_small_stream(server.port))
        check(server.url, tmp_path, "the stream takes no message of this size", size=100_000)
        assert numbers(server.read()) == [0, 1, 3]


async def make_small_stream(port):
    import nats

    client = await nats.connect(f"nats://127.0.0.1:{port}")
    await client.jetstream().add_stream(name="sluice", subjects=[TOPIC], max_msg_size=10_000)
    await client.close()


def test_webhook(webhook, tmp_path):
    webhook.statuses = [204, 204, 413]
    check(webhook.url, tmp_path, "status 413")
    assert numbers(webhook.read()) == [0, 1, 3]
