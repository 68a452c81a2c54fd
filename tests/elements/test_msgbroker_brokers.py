"""sluicemsgbroker with a broker: nvmsgbroker's properties, the start policies, the end, and the video that goes on."""

import json
import socket
import subprocess
import sys

import pytest

from elements.batch_feed import Feed, Given, Gst
from killable import free_port
from messages.brokers.server import TOPIC
from messages.brokers.servers import Redis
from playing import stats_of
from sluice import elements
from waiting import until

PERSON = [10.0, 8.0, 20.0, 30.0, 0.875]
CHAIN = "sluicemsgconv ! sluicemsgbroker name=b"
# The end waits for a server that has just come back, however rare the attempts to reach it have become.
PATIENT = "eos-timeout=60 eos-timeout-away=60"


@pytest.fixture
def redis(tmp_path):
    server = Redis(tmp_path)
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture(autouse=True)
def state(monkeypatch, tmp_path):
    """No test leaves anything in the user's folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def stats(feed):
    return stats_of(feed.get("b"))


def frames(server):
    return [json.loads(payload)["frame"] for _, payload in server.read()]


@pytest.mark.parametrize(
    "properties",
    [
        "proto-lib=/opt/nvidia/lib/libnvds_redis_proto.so conn-str=127.0.0.1;{port} topic=detections new-api=true",
        "proto=redis conn-str=127.0.0.1;{port};detections sleep-time=10",
        "location=redis://127.0.0.1:{port}/detections",
        "location=redis://127.0.0.1:{port}/other topic=detections spool=none",
        "conn-str=redis://127.0.0.1:{port}/detections",
    ],
)
def test_every_way_to_name_a_broker(redis, properties):
    with Feed(f"{CHAIN} {properties.format(port=redis.port)}") as feed:
        for number in range(20):
            feed.push(Given([PERSON], number=number))
        assert feed.end().type == Gst.MessageType.EOS
        assert frames(redis) == list(range(20))
        counted = stats(feed)
    assert counted == {
        "queued": 20,
        "written": 20,
        "sent": 20,
        "acknowledged": 20,
        "spooled": 0,
        "dropped": 0,
        "failed": 0,
        "reconnects": 0,
    }


def test_a_broker_that_comes_later_gets_everything(redis, tmp_path):
    redis.stop()
    with Feed(f"{CHAIN} location={redis.url} {PATIENT}") as feed:
        for number in range(20):
            feed.push(Given([PERSON], number=number))
        warning = feed.message(Gst.MessageType.WARNING).parse_warning()[0].message
        assert warning.startswith(f"redis://127.0.0.1:{redis.port}/{TOPIC}: ")
        assert warning.endswith("; messages are kept and sent later, the video goes on")
        until(lambda: stats(feed)["spooled"] == 20)
        redis.start()
        assert feed.end().type == Gst.MessageType.EOS
        assert frames(redis) == list(range(20))


def test_what_the_end_leaves_is_sent_by_the_next_run(redis, tmp_path):
    redis.stop()
    with Feed(f"{CHAIN} location={redis.url} eos-timeout=0") as feed:
        feed.push(Given([PERSON], number=0))
        feed.source.end_of_stream()
        texts = []
        while not any("1 messages are not acknowledged yet; they stay in" in text for text in texts):
            texts.append(feed.message(Gst.MessageType.WARNING).parse_warning()[0].message)
        assert feed.message(Gst.MessageType.EOS).type == Gst.MessageType.EOS
    redis.start()
    with Feed(f"{CHAIN} location={redis.url}") as feed:
        feed.push(Given([PERSON], number=1))
        assert feed.end().type == Gst.MessageType.EOS
        assert frames(redis) == [0, 1]
        assert (stats(feed)["queued"], stats(feed)["acknowledged"]) == (1, 2)


@pytest.fixture
def silent():
    """The port of a server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_the_video_goes_on_before_a_broker_that_hangs(silent):
    with Feed(f"{CHAIN} location=redis://127.0.0.1:{silent}/t eos-timeout=0", live=True) as feed:
        for number in range(300):
            feed.push(Given([PERSON], number=number))
        until(lambda: stats(feed)["spooled"] == 300)
        assert stats(feed)["acknowledged"] == 0
    assert stats(feed)["spooled"] == 300


def test_a_full_spool_of_a_live_source_drops_the_oldest(silent):
    chain = f"{CHAIN} location=redis://127.0.0.1:{silent}/t eos-timeout=0 spool-size=65536"
    with Feed(chain, live=True) as feed:
        for number in range(100):
            feed.push(Given([PERSON] * 50, number=number))
        until(lambda: stats(feed)["spooled"] + stats(feed)["dropped"] == 100)
        assert stats(feed)["dropped"] > 0


def test_start_policy_fail_is_an_error_that_says_why():
    port = free_port()
    text = Feed(f"{CHAIN} location=redis://127.0.0.1:{port}/t start-policy=fail").refusal().message
    assert f"redis://127.0.0.1:{port}/t cannot be reached, and start-policy is fail: " in text
    assert "refused" in text


def test_start_policy_fail_starts_where_the_broker_is(redis):
    with Feed(f"{CHAIN} location={redis.url} start-policy=fail") as feed:
        feed.push(Given([PERSON]))
        assert feed.end().type == Gst.MessageType.EOS


def test_start_policy_wait_holds_the_first_frame_until_the_broker_is_there(redis):
    redis.stop()
    with Feed(f"queue ! {CHAIN} location={redis.url} start-policy=wait") as feed:
        for number in range(3):
            feed.send(Given([PERSON], number=number))
        assert feed.message(Gst.MessageType.WARNING) is not None
        assert feed.sink.try_pull_sample(0.5 * Gst.SECOND) is None
        redis.start()
        for _ in range(3):
            assert feed.pull() is not None
        assert feed.end().type == Gst.MessageType.EOS
        assert frames(redis) == [0, 1, 2]


def test_a_stop_ends_the_wait_for_the_broker():
    feed = Feed(f"queue ! {CHAIN} location=redis://127.0.0.1:{free_port()}/t start-policy=wait")
    feed.pipeline.set_state(Gst.State.PLAYING)
    feed.send(Given([PERSON]))
    assert feed.message(Gst.MessageType.WARNING) is not None
    assert feed.pipeline.set_state(Gst.State.NULL) == Gst.StateChangeReturn.SUCCESS


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ("proto-lib=libnvds_kafka_proto.so", "conn-str is ''; it is host;port, or host;port;topic"),
        ("proto-lib=libnvds_kafka_proto.so conn-str=a;1", "kafka needs a topic"),
        ("proto-lib=libnvds_kafka_proto.so proto=mqtt", "proto is mqtt, but proto-lib is the one of kafka"),
        ("proto-lib=libnvds_azure_proto.so", "proto-lib 'libnvds_azure_proto.so' has no counterpart here"),
        ("location=mqtt://a/t proto=kafka", "proto is kafka, but the address is one of mqtt"),
        ("location=mqtt://a/t conn-str=a;1", "location and conn-str both name a broker"),
        ("location=m.jsonl proto=mqtt conn-str=a;1;t", "location 'm.jsonl' is a file, but a broker is named too"),
        ("location=gopher://a/t", "gopher:// is no scheme of a message broker"),
    ],
)
def test_wrong_properties_are_refused_by_name(properties, words):
    assert words in Feed(f"sluicemsgbroker {properties}").refusal().message


def test_passwords_are_not_read_back():
    elements.register("sluicemsgbroker")
    element = Gst.ElementFactory.make("sluicemsgbroker")
    element.set_property("conn-str", "a;5672;user;hunter2")
    element.set_property("location", "mqtt://user:hunter2@a/t")
    assert element.get_property("conn-str") == "a;5672;user;***"
    assert element.get_property("location") == "mqtt://user:***@a/t"


def test_a_message_that_the_broker_never_takes_is_a_warning_and_the_others_arrive(redis):
    redis.client().config_set("proto-max-bulk-len", 1 << 20)
    with Feed(f"{CHAIN} location={redis.url}") as feed:
        for number, count in enumerate((1, 12_000, 1)):
            feed.push(Given([PERSON] * count, number=number))
        texts = []
        while not any("-2 of " in text and "set aside in the table refused of" in text for text in texts):
            texts.append(feed.message(Gst.MessageType.WARNING).parse_warning()[0].message)
        assert feed.end().type == Gst.MessageType.EOS
        assert frames(redis) == [0, 2]
        counted = stats(feed)
    assert (counted["queued"], counted["acknowledged"], counted["failed"]) == (3, 2, 1)


PROGRAM = """
import sys
from sluice import elements
import gi
gi.require_version("Gst", "1.0")
from gi.repository import Gst

Gst.init(None)
for name in ("sluicemux", "sluicemsgconv", "sluicemsgbroker"):
    elements.register(name)
pipeline = Gst.parse_launch(
    "sluicemux name=m width=64 height=64 batch-size=1 ! sluicemsgconv ! sluicemsgbroker name=b "
    "! appsink name=s sync=false "
    "videotestsrc num-buffers=100000 ! video/x-raw,format=I420,width=64,height=64 ! m.sink_0"
)
for pair in sys.argv[1:]:
    pipeline.get_by_name("b").set_property(*pair.split("=", 1))
pipeline.set_state(Gst.State.PLAYING)
sink, number = pipeline.get_by_name("s"), 0
while sink.emit("pull-sample") is not None:
    number += 1
    print(number, flush=True)
"""


@pytest.mark.parametrize("there", [True, False])
def test_no_crash_loses_a_message_of_a_frame_that_went_on(redis, tmp_path, there):
    """The source is no live one, so that frames wait for their messages to be spooled."""
    spool = tmp_path / "spool.db"
    if not there:
        redis.stop()
    command = [sys.executable, "-c", PROGRAM, f"location={redis.url}", f"spool={spool}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for _ in range(200):
            assert process.stdout.readline()
        process.kill()
        gone_on = 200 + sum(line.endswith("\n") for line in process.stdout)
    if not there:
        redis.start()
    with Feed(f"{CHAIN} location={redis.url} spool={spool} {PATIENT}") as feed:
        assert feed.end().type == Gst.MessageType.EOS
    arrived = list(dict.fromkeys(frames(redis)))
    assert gone_on >= 200
    assert arrived == list(range(len(arrived)))
    assert len(arrived) >= gone_on


def test_a_broker_that_dies_while_the_element_starts_loses_nothing(redis):
    with Feed(f"{CHAIN} location={redis.url} {PATIENT}") as feed:
        redis.stop()
        for number in range(20):
            feed.push(Given([PERSON], number=number))
        until(lambda: stats(feed)["spooled"] == 20)
        redis.start()
        assert feed.end().type == Gst.MessageType.EOS
        assert frames(redis) == list(range(20))


def test_a_broker_that_dies_at_the_end_leaves_the_rest_in_the_spool(redis):
    with Feed(f"{CHAIN} location={redis.url}?ack-timeout=1&connect-timeout=1") as feed:
        feed.push(Given([PERSON], number=0))
        until(lambda: stats(feed)["acknowledged"] == 1)
        redis.pause()
        for number in range(1, 20):
            feed.push(Given([PERSON], number=number))
        feed.source.end_of_stream()
        redis.go_on()
        redis.stop()
        assert feed.message(Gst.MessageType.EOS) is not None
        left = stats(feed)["spooled"]
    redis.start()
    with Feed(f"{CHAIN} location={redis.url} {PATIENT}") as feed:
        assert feed.end().type == Gst.MessageType.EOS
        assert stats(feed)["acknowledged"] == left
    assert list(dict.fromkeys(frames(redis))) == list(range(20))
