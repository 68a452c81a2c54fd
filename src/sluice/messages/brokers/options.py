"""The options of each protocol: what NVIDIA's configuration files call them, their defaults, and what they mean."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Option:
    """One option; given in a URL's query, or in group [message-broker] of a configuration file.

    Attributes:
        default: the text it has when it is not given.
        meaning: for people.
        secret: never shown in a log, an error or a property.
    """

    default: str
    meaning: str
    secret: bool = False


@dataclass(frozen=True)
class Protocol:
    """A protocol: where its transport is, how it is named elsewhere, and its options beside `COMMON`.

    Attributes:
        transport: module:class.
        schemes: of URLs; with "s" or "+tls" at the end they mean TLS.
        library: NVIDIA's adaptor, whose name ``proto-lib`` may give; "" if there is none.
        port: default port.
        topic: what the topic is called there; "" where there is none.
        options: by name.
        ignored: keys of NVIDIA's configuration files that mean nothing here, and why.
    """

    transport: str
    schemes: tuple[str, ...]
    library: str
    port: int
    topic: str
    options: dict[str, Option]
    ignored: dict[str, str]


COMMON = {
    "username": Option("", "user; USER_<PROTOCOL> in the environment wins"),
    "password": Option("", "password; PASSWORD_<PROTOCOL> in the environment wins", secret=True),
    "enable-tls": Option("0", "1: TLS; also by the URL's scheme"),
    "tls-cafile": Option("", "file of certificates to trust instead of the system's"),
    "tls-certfile": Option("", "our certificate, for brokers that ask for one"),
    "tls-keyfile": Option("", "the key of tls-certfile"),
    "connect-timeout": Option("5", "seconds a connection may take"),
    "ack-timeout": Option("10", "seconds without an acknowledgement after which the connection counts as lost"),
    "id-in-payload": Option("0", "1: puts member message_id first into each JSON object"),
    "spool": Option("", "see the property spool, which wins"),
}

_SHARED = {"share-connection": "each element has a connection of its own"}
_NOT_CONSUMED = "nothing is consumed"
_ADDRESS = {
    "hostname": Option("", "host, where conn-str names none"),
    "port": Option("", "port, where conn-str names none"),
}

PROTOCOLS = {
    "kafka": Protocol(
        transport="sluice.messages.brokers.kafka:KafkaTransport",
        schemes=("kafka", "kafkas"),
        library="libnvds_kafka_proto.so",
        port=9092,
        topic="topic",
        options={
            "partition-key": Option("sensor.id", "path in the JSON payload to the text or number that is the key"),
            "proto-cfg": Option("", "librdkafka's own settings: key=value;key=value", secret=True),
            "producer-proto-cfg": Option("", "more of them", secret=True),
        },
        ignored={
            "consumer-group-id": _NOT_CONSUMED,
            "consumer-proto-cfg": _NOT_CONSUMED,
            **_SHARED,
        },
    ),
    "mqtt": Protocol(
        transport="sluice.messages.brokers.mqtt:MqttTransport",
        schemes=("mqtt", "mqtts"),
        library="libnvds_mqtt_proto.so",
        port=1883,
        topic="topic",
        options={
            "version": Option("5", "3.1.1 or 5; only 5 carries the message id beside the payload"),
            "qos": Option("1", "1: at least once, 2: once from us to the broker"),
            "client-id": Option("", "name of this client; random without one"),
            "keep-alive": Option("60", "seconds between signs of life"),
            "tls-capath": Option("", "folder of certificates to trust"),
        },
        ignored={
            "loop-timeout": "the client waits for its socket",
            "set-threaded": "the client has a thread of its own",
            **_SHARED,
        },
    ),
    "amqp": Protocol(
        transport="sluice.messages.brokers.amqp:AmqpTransport",
        schemes=("amqp", "amqps"),
        library="libnvds_amqp_proto.so",
        port=5672,
        topic="routing key",
        options={
            **_ADDRESS,
            "exchange": Option("amq.topic", "exchange to publish to"),
            "topic": Option("deepstream_topic", "routing key, where none is given"),
            "vhost": Option("/", "virtual host"),
            "mandatory": Option("1", "1: a message that no queue receives is kept; 0: it is gone, as with NVIDIA's"),
            "amqp-framesize": Option("131072", "most bytes of a frame"),
            "amqp-heartbeat": Option("0", "seconds between signs of life; 0: none"),
        },
        ignored=_SHARED,
    ),
    "redis": Protocol(
        transport="sluice.messages.brokers.redis:RedisTransport",
        schemes=("redis", "rediss"),
        library="libnvds_redis_proto.so",
        port=6379,
        topic="stream",
        options={
            **_ADDRESS,
            "db": Option("0", "number of the database"),
            "payloadkey": Option("metadata", "field of a stream's entry that holds the message"),
            "streamsize": Option("", "about how many entries the stream keeps; all without it"),
        },
        ignored={
            "consumergroup": _NOT_CONSUMED,
            "consumername": _NOT_CONSUMED,
            "flush-timeout": "what is not acknowledged stays in the spool",
            "sensorid": "nothing is wrapped",
            **_SHARED,
        },
    ),
    "nats": Protocol(
        transport="sluice.messages.brokers.nats:NatsTransport",
        schemes=("nats", "nats+tls"),
        library="",
        port=4222,
        topic="subject",
        options={
            "stream": Option("", "JetStream stream to create for the subject where no stream takes it"),
            "token": Option("", "token to log in with", secret=True),
        },
        ignored={},
    ),
    "http": Protocol(
        transport="sluice.messages.brokers.http:HttpTransport",
        schemes=("http", "https"),
        library="",
        port=80,
        topic="",
        options={
            "url": Option("", "where to POST each message", secret=True),
            "authorization": Option("", "value of the header Authorization", secret=True),
            "content-type": Option("application/json", "value of the header Content-Type"),
        },
        ignored={},
    ),
}
"""The protocols by name."""
