"""The promise against real brokers: at least once, in order, while the broker goes away and our process is killed."""

import json
import time
import uuid
from base64 import b64encode

import pytest

from messages.brokers import sender
from messages.brokers.sending import RATE, Sender, firsts, numbers
from messages.brokers.server import TOPIC
from sluice.messages import Overflow, Writer
from sluice.messages.brokers import from_url, open_delivery
from waiting import until

OUTAGE = 4.0  # seconds
_IN_MEMORY = RATE  # messages that may wait for the disk when the process is killed: a second's, on a busy machine


def test_nothing_is_lost_and_order_is_kept_across_an_outage_and_a_crash(server, tmp_path):
    spool = tmp_path / "spool.db"
    one = Sender(server.url, spool, 0, 100_000)
    one.wait_given(RATE)
    server.stop()
    away = time.monotonic()
    time.sleep(OUTAGE / 2)
    given, on_disk = one.kill()
    second = given + 1  # one more may have been given without our knowing
    two = Sender(server.url, spool, second, 500)
    time.sleep(max(0.0, away + OUTAGE - time.monotonic()))
    server.start()
    counters = two.finish()
    received = server.read()

    assert given > RATE
    assert given - on_disk <= _IN_MEMORY
    found = numbers(received)
    lost = set(range(second + 500)) - set(found)
    assert lost <= set(range(on_disk, second))  # given to a queue in memory at the moment of the kill
    for stream in range(sender.STREAMS):
        seen = firsts(number for number in found if number % sender.STREAMS == stream)
        assert seen == sorted(seen)
    assert counters["dropped"] == counters["failed"] == counters["spooled"] == 0
    assert counters["queued"] == 500
    # Sent twice at most: what was under way without an answer when the server stopped, or the process was killed.
    assert len(found) - len(set(found)) <= 2 * 128
    check_ids(received)


def check_ids(received):
    """A message and its duplicates share an id that no other message has."""
    ids = [name or json.loads(payload)["message_id"] for name, payload in received]
    assert len(set(ids)) == len(set(numbers(received)))
    assert len(set(zip(ids, numbers(received), strict=True))) == len(set(ids))


def deliver(url, payloads, **options):
    problems = []
    delivery = open_delivery(
        from_url(url), **{"spool": "none", "on_away": problems.append, "on_refused": problems.append, **options}
    )
    writer = Writer(delivery, capacity=100_000, overflow=Overflow.WAIT, on_error=lambda error: problems.append(error))
    for payload in payloads:
        writer.put(payload)
    return delivery, writer, problems


def test_messages_arrive_once_in_order_and_unchanged_and_the_loss_of_an_idle_connection_is_noticed(server):
    payloads = [sender.payload(number) for number in range(500)]
    payloads += [json.dumps({"stream": 0, "n": 500, "text": "ü" * 50_000}).encode()]
    delivery, writer, problems = deliver(server.url, payloads)
    until(lambda: delivery.counters.acknowledged == 501, what="the acknowledgement of all messages")
    assert problems == []
    counters = delivery.counters
    assert (counters.sent, counters.acknowledged, counters.spooled, counters.reconnects) == (501, 501, 0, 0)
    received = server.read()
    in_payload = "id-in-payload" in server.url
    bodies = [json.loads(payload) for _, payload in received] if in_payload else [payload for _, payload in received]
    expected = [json.loads(payload) for payload in payloads] if in_payload else payloads
    for stream in range(sender.STREAMS):
        ours = [body for body, n in zip(bodies, numbers(received), strict=True) if n % sender.STREAMS == stream]
        if in_payload:
            ours = [{name: value for name, value in body.items() if name != "message_id"} for body in ours]
        assert ours == [body for n, body in enumerate(expected) if n % sender.STREAMS == stream]
    check_ids(received)
    time.sleep(2.5)
    assert problems == []
    server.stop()
    time.sleep(1.2)
    server.start()
    writer.put(sender.payload(501))
    assert writer.close(30)
    again = [n for n in numbers(server.read()) if n % sender.STREAMS == 501 % sender.STREAMS]  # order is a stream's
    assert again[-1] == 501
    assert (delivery.counters.acknowledged, delivery.counters.spooled) == (502, 0)


def test_a_server_that_hangs_is_given_up_and_tried_again(redis_server):
    delivery, writer, problems = deliver(f"{redis_server.url}?ack-timeout=1&connect-timeout=1", [sender.payload(0)])
    until(lambda: delivery.counters.acknowledged == 1, what="the acknowledgement")
    redis_server.pause()
    for number in range(1, 200):
        writer.put(sender.payload(number))
    until(lambda: problems, what="the word that the server is away")
    assert "imeout" in problems[0] or "imed out" in problems[0]
    redis_server.go_on()
    assert writer.close(30)
    assert firsts(numbers(redis_server.read())) == list(range(200))
    assert delivery.counters.reconnects >= 1


def test_what_no_queue_receives_is_kept_until_one_does(rabbit):
    nobody = f"nobody-{uuid.uuid4().hex}"  # the broker outlives the test, and keeps what is bound
    delivery, writer, problems = deliver(rabbit.url.replace(TOPIC, nobody), [b"0", b"1", b"2"])
    until(lambda: problems, what="the word that nobody receives")
    assert problems[0].startswith(f"no queue is bound to exchange 'amq.topic' for routing key '{nobody}'; bind one, or")
    until(lambda: delivery.counters.spooled == 3, what="the spooling of the messages behind it")
    with rabbit.connection() as connection:
        connection.channel().queue_bind("all", "amq.topic", nobody)
    assert writer.close(30)
    assert [payload for _, payload in rabbit.read()] == [b"0", b"1", b"2"]


def test_what_no_queue_receives_may_go_where_that_is_said(rabbit):
    delivery, writer, problems = deliver(f"{rabbit.url.replace(TOPIC, 'somebody')}?mandatory=0", [b"0"])
    assert writer.close(30)
    assert (delivery.counters.acknowledged, problems, rabbit.read()) == (1, [], [])


def test_nvidias_adaptor_writes_the_same_entry(redis_server):
    _, writer, _ = deliver(redis_server.url, [b'{"a":1}'])
    assert writer.close(30)
    ((_, entry),) = redis_server.client().xrange(TOPIC)
    assert entry[b"metadata"] == b'{"a":1}'


def test_a_stream_keeps_about_as_many_entries_as_asked(redis_server):
    _, writer, _ = deliver(f"{redis_server.url}?streamsize=100&payloadkey=p", [b"x"] * 2000)
    assert writer.close(30)
    assert 100 <= redis_server.client().xlen(TOPIC) <= 300
    assert redis_server.client().xrange(TOPIC)[-1][1][b"p"] == b"x"


@pytest.mark.parametrize(("status", "again"), [(503, True), (429, True), (401, True), (400, False), (413, False)])
def test_a_webhooks_refusal_is_final_only_when_it_is_about_the_message(webhook, status, again):
    webhook.statuses = [204, status]
    delivery, writer, problems = deliver(webhook.url, [b"1", b"2", b"3"])
    assert writer.close(30)
    assert [payload for _, payload in webhook.received] == ([b"1", b"2", b"3"] if again else [b"1", b"3"])
    assert delivery.counters.failed == (0 if again else 1)
    assert any(str(status) in str(problem) or "does not acknowledge" in str(problem) for problem in problems)


def test_a_webhook_gets_login_type_and_id_in_headers(webhook, monkeypatch):
    monkeypatch.setenv("PASSWORD_HTTP", "secret")
    _, writer, _ = deliver(webhook.url.replace("//", "//user@"), [b"1"])
    assert writer.close(30)
    (headers,) = webhook.headers
    assert headers["authorization"] == "Basic " + b64encode(b"user:secret").decode()
    assert headers["Content-Type"] == "application/json"
    assert headers["Idempotency-Key"].endswith("-1")


def test_two_processes_do_not_share_a_spool(redis_server, tmp_path):
    spool = tmp_path / "spool.db"
    first = Sender(redis_server.url, spool, 0, 100_000)  # runs until it is killed
    first.wait_given(1)
    second = Sender(redis_server.url, spool, 0, 1)
    status, error = second.wait()
    assert status == 1
    assert f"the spool '{spool}' is in use" in error
    assert "give each its own with spool=" in error
    first.kill()
