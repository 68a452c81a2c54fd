"""Addresses, nvmsgbroker's properties and configuration files, and that secrets are shown nowhere."""

import re
import sys
from pathlib import Path

import pytest

from sluice.errors import ConfigurationError
from sluice.messages.brokers import (
    PROTOCOLS,
    default_spool,
    from_properties,
    from_url,
    hide_secrets,
    is_url,
    protocol_of_library,
)
from sluice.messages.brokers.options import COMMON


@pytest.mark.parametrize(
    ("url", "protocol", "hosts", "topic"),
    [
        ("kafka://a:9093/t", "kafka", ("a:9093",), "t"),
        ("kafka://a,b:1/t", "kafka", ("a:9092", "b:1"), "t"),
        ("mqtt://a/x/y/z", "mqtt", ("a:1883",), "x/y/z"),
        ("mqtts://a/t", "mqtt", ("a:8883",), "t"),
        ("amqp://a", "amqp", ("a:5672",), "deepstream_topic"),
        ("amqps://a/k", "amqp", ("a:5671",), "k"),
        ("redis://[::1]:7/s", "redis", ("[::1]:7",), "s"),
        ("nats+tls://a/s.t", "nats", ("a:4222",), "s.t"),
        ("mqtt://a/with%20space", "mqtt", ("a:1883",), "with space"),
    ],
)
def test_urls(url, protocol, hosts, topic):
    endpoint = from_url(url)
    assert (endpoint.protocol, endpoint.hosts, endpoint.topic) == (protocol, hosts, topic)
    assert endpoint.flag("enable-tls") == (url.partition("://")[0] != protocol)


def test_an_address_of_a_webhook_keeps_its_query():
    endpoint = from_url("https://user:hunter2@a/hook?key=k1")
    assert endpoint.options["url"] == "https://a/hook?key=k1"
    assert (endpoint.options["username"], endpoint.options["password"]) == ("user", "hunter2")
    assert endpoint.shown == "https://a/hook"


@pytest.mark.parametrize(
    ("protocol", "conn_str", "topic", "hosts", "expected"),
    [
        ("kafka", "a;9092", "t", ("a:9092",), "t"),
        ("kafka", "a;9092;u", "", ("a:9092",), "u"),
        ("kafka", "a ; 9092 ; u", "", ("a:9092",), "u"),
        ("mqtt", "a;1883;u", "t", ("a:1883",), "t"),
        ("redis", "a;6379;u", "", ("a:6379",), "u"),
        ("amqp", "a;5672;guest;hunter2", "t", ("a:5672",), "t"),
    ],
)
def test_connection_strings(protocol, conn_str, topic, hosts, expected):
    endpoint = from_properties(protocol, conn_str, topic)
    assert (endpoint.hosts, endpoint.topic) == (hosts, expected)
    if protocol == "amqp":
        assert (endpoint.options["username"], endpoint.options["password"]) == ("guest", "hunter2")


def test_every_adaptor_of_nvidia_that_has_a_counterpart():
    for name, protocol in PROTOCOLS.items():
        if protocol.library:
            assert protocol_of_library(f"/opt/nvidia/deepstream/deepstream/lib/{protocol.library}") == name
    with pytest.raises(
        ConfigurationError, match=r"'libnvds_azure_proto\.so' has no counterpart here.*IoT Hub also takes"
    ):
        protocol_of_library("libnvds_azure_proto.so")
    with pytest.raises(ConfigurationError, match=r"'x\.so' has no counterpart here; libnvds_kafka_proto"):
        protocol_of_library("x.so")


@pytest.fixture
def config(tmp_path):
    def write(text):
        path = tmp_path / "cfg.txt"
        path.write_text(text)
        return str(path)

    return write


def test_a_configuration_file_of_nvidia(config, monkeypatch):
    path = config(
        "# comment\n[message-broker]\nhostname = h\nport=7000\npassword=from-file\npayloadkey=data\n"
        "consumergroup=g\nshare-connection = 1\n"
    )
    endpoint = from_properties("redis", "", "s", path)
    assert (endpoint.hosts, endpoint.options["payloadkey"]) == (("h:7000",), "data")
    assert endpoint.options["password"] == "from-file"
    monkeypatch.setenv("PASSWORD_REDIS", "from-environment")
    assert from_properties("redis", "a;1", "s", path).options["password"] == "from-environment"
    assert from_properties("redis", "a;1", "s", path).hosts == ("a:1",)
    path = config('[message-broker]\nproto-cfg = "acks=all;linger.ms=5"\npartition-key = sensorId\n')
    assert from_properties("kafka", "a;1;t", "", path).options["proto-cfg"] == "acks=all;linger.ms=5"


def test_the_url_wins_over_the_file_and_the_property_over_both(config):
    path = config("[message-broker]\nqos=2\nclient-id=c\n")
    endpoint = from_url("mqtt://a/t?qos=1", "u", path)
    assert (endpoint.options["qos"], endpoint.options["client-id"], endpoint.topic) == ("1", "c", "u")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: from_url("rtsp://a/t"), "rtsp:// is no scheme of a message broker; known are amqp, amqps"),
        (lambda: from_url("kafka://a"), "kafka needs a topic: set topic, or write kafka://host/topic"),
        (lambda: from_url("nats://a"), "nats needs a subject"),
        (lambda: from_url("mqtt://a:99999/t"), "'a:99999' is no host and port of mqtt; write host:port"),
        (lambda: from_url("mqtt:///t"), "'' is no host and port"),
        (lambda: from_url("mqtt://[::1/t"), "is no URL: Invalid IPv6 URL"),
        (lambda: from_url("mqtt://a,b/t"), "mqtt takes one host, not 2"),
        (lambda: from_url("mqtt://a/t?q0s=1"), "the URL has the unknown option 'q0s'; did you mean qos?"),
        (lambda: from_url("mqtt://a/t?ack-timeout=x"), "ack-timeout is 'x'; it is a number of at least 0.1"),
        (lambda: from_url("mqtt://a/t?id-in-payload=x"), "id-in-payload is 'x'; it is 0 or 1"),
        (lambda: from_url("mqtt://a/t?tls-certfile=c"), "tls-certfile and tls-keyfile belong together"),
        (lambda: from_properties("kafka", "localhost", "t"), "conn-str is 'localhost'; it is host;port"),
        (lambda: from_properties("http", ""), "http needs an address: set location=https://host/path"),
        (
            lambda: from_properties("kafka", "a;1", "t", "/dev/zero"),
            "'/dev/zero' cannot be read: it is a folder, device",
        ),
        (lambda: from_properties("kafka", "a;1", "t", "/nonexistent"), "config '/nonexistent' cannot be read: No such"),
        (lambda: from_url("mqtt://a/t?version=4").transport(), "version is '4'; MQTT has 3.1.1 and 5"),
        (lambda: from_url("mqtt://a/t?qos=0").transport(), "qos is '0'; it is 1 or 2, since 0 acknowledges nothing"),
        (lambda: from_url("kafka://a/t?proto-cfg=acks").transport(), "proto-cfg is key=value;key=value"),
        (lambda: from_url("kafka://a/t?proto-cfg=akks=1").transport(), 'cannot be used: No such .* "akks"'),
        (lambda: from_url("redis://a/t?db=x").transport(), "db is 'x'; it is a number of at least 0"),
        (lambda: from_url("amqp://a/t?mandatory=2").transport(), "mandatory is '2'; it is 0 or 1"),
    ],
)
def test_what_cannot_work_is_refused_by_name(call, words):
    with pytest.raises(ConfigurationError, match=words):
        call()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[message-broker]\npasword=hunter2\n", "has the unknown option 'pasword'; did you mean password?"),
        ("[broker]\npassword=hunter2\n", r"has no group \[message-broker\]; it has \['broker'\]"),
        ("password=hunter2\n", r"is no key file \(MissingSectionHeaderError, line 1\)"),
        ("[message-broker]\nhunter2\n", r"is no key file \(ParsingError, line 2\)"),
        ("[message-broker]\nx=1\nx=hunter2\n", r"is no key file \(DuplicateOptionError, line 3\)"),
    ],
)
def test_errors_in_a_configuration_file_show_no_values(config, text, words):
    with pytest.raises(ConfigurationError, match=words) as caught:
        from_properties("mqtt", "a;1", "t", config(text))
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(caught.value.__cause__)


SECRET = "hunter2"
WITH_SECRETS = [
    f"mqtt://u:{SECRET}@a/t",
    f"kafka://u:{SECRET}@a/t",
    f"kafka://a/t?proto-cfg=sasl.password={SECRET};acks=all",
    f"nats://a/t?token={SECRET}",
    f"https://a/hook?key={SECRET}",
    f"https://u:{SECRET}@a/hook",
]


@pytest.mark.parametrize("url", WITH_SECRETS)
def test_secrets_are_shown_nowhere(url):
    endpoint = from_url(url)
    for text in (repr(endpoint), str(endpoint), endpoint.shown, hide_secrets(url), str(default_spool(endpoint))):
        assert SECRET not in text
    assert SECRET not in endpoint.scrub(f"connection to {url} failed: {SECRET}")


def test_secrets_of_connection_strings():
    assert hide_secrets(f"a;5672;user;{SECRET}") == "a;5672;user;***"
    assert hide_secrets(f"HostName=a;X=d;SharedAccessKey={SECRET}=") == "HostName=a;X=d;SharedAccessKey=***"
    assert hide_secrets("a;9092;topic") == "a;9092;topic"
    assert hide_secrets("/path/of/a/file?x.jsonl") == "/path/of/a/file?x.jsonl"


def test_each_address_has_its_own_spool_in_the_users_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    one, two = (default_spool(from_url(f"mqtt://a/{topic}")) for topic in ("x/y", "x-y"))
    assert one != two
    assert one == default_spool(from_url("mqtt://user:other@a/x/y?qos=2"))
    assert one.parent == tmp_path / "sluice" / "spool"
    assert re.fullmatch(r"mqtt-a-1883-x-y-[0-9a-f]{8}\.db", one.name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("m.jsonl", False), ("/a/b", False), ("file:///a", False), ("mqtt://a/t", True), ("-", False)],
)
def test_what_is_a_url(name, expected):
    assert is_url(name) is expected


LIBRARIES = {
    "kafka": ("confluent_kafka", "confluent-kafka"),
    "mqtt": ("paho.mqtt.client", "paho-mqtt"),
    "amqp": ("pika", "pika"),
    "redis": ("redis", "redis"),
    "nats": ("nats", "nats-py"),
    "http": ("urllib3", "urllib3"),
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_missing_library_is_named_with_the_command_that_installs_it(protocol, monkeypatch):
    module, package = LIBRARIES[protocol]
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigurationError, match=f"needs the Python package {package} .*sluice-video.{protocol}"):
        from_url(f"{protocol}://a/t").transport()


DOCUMENT = Path(__file__).parents[3] / "docs" / "brokers.md"


def test_every_option_is_in_the_document_with_its_default_and_meaning():
    text = DOCUMENT.read_text()
    for protocol in [COMMON, *(described.options for described in PROTOCOLS.values())]:
        for name, option in protocol.items():
            default = f"`{option.default}`" if option.default else ""
            assert f"| `{name}` | {default} | {option.meaning} |" in text
    for described in PROTOCOLS.values():
        for name in described.ignored:
            assert f"`{name}`" in text


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mqtt://host/cams/+/seen", r"topic is 'cams/\+/seen'; MQTT's to publish to has no \+"),
        ("mqtt://host/" + "x" * 65_536, "65535 bytes at most"),
        ("mqtt://host/t?keep-alive=1e9", "keep-alive is '1e9'; it is 65535 at most"),
        ("mqtt://host/t?ack-timeout=inf", "ack-timeout is 'inf'; it is 86400 at most"),
        ("nats://host/two words", "topic is 'two words'; a subject to publish to is words between dots"),
        ("nats://host/cams.>", "topic is 'cams.>'"),
        ("nats://host/cams..seen", r"topic is 'cams\.\.seen'"),
        ("kafka://host/what is seen!", "topic is 'what is seen!'; Kafka's have letters, digits"),
        ("http:///hook", "has no host; write http://host/path"),
        ("https://host:70000/hook", "is no address: Port out of range"),
    ],
)
def test_what_no_broker_of_the_kind_can_take_is_refused_before_it_is_tried(url, words):
    with pytest.raises(ConfigurationError, match=words):
        from_url(url).transport()
