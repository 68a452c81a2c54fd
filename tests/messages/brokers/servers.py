"""Real brokers on loopback: each can be started, stopped and started again with what it holds, and read to its end."""

from __future__ import annotations

import asyncio
import http.server
import itertools
import os
import shutil
import subprocess
import sys
import threading
import uuid
from pathlib import Path

from killable import free_port
from messages.brokers.server import TOPIC, Server, answers
from waiting import PATIENCE, until


class Redis(Server):
    program = "redis-server"

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}/{TOPIC}"

    def command(self):
        keeping = ["--appendonly", "yes", "--appendfsync", "always"]
        return [self.find(), "--port", str(self.port), "--save", "", *keeping, "--dir", str(self.folder)]

    def client(self):
        import redis

        return redis.Redis(port=self.port)

    def read(self):
        return [(entry[b"id"].decode(), entry[b"metadata"]) for _, entry in self.client().xrange(TOPIC)]


_MARK = b"mark "


class Mosquitto(Server):
    program = "mosquitto"
    version = "5"

    def __init__(self, folder):
        super().__init__(folder)
        self.received = []
        self.marks = set()
        self.reader = None
        (folder / "conf").write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\npersistence true\n"
            f"persistence_location {folder}/\nmax_queued_messages 0\nuser {os.environ.get('USER', 'root')}\n"
        )

    @property
    def url(self):
        return f"mqtt://127.0.0.1:{self.port}/{TOPIC}?version={self.version}"

    def command(self):
        return [self.find(), "-c", str(self.folder / "conf")]

    def prepare(self):
        import paho.mqtt.client as mqtt

        self.reader = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2, "reader", protocol=mqtt.MQTTv5 if self.version == "5" else mqtt.MQTTv311
        )
        self.reader.reconnect_delay_set(1, 1)
        self.reader.on_connect = lambda client, *_: client.subscribe(TOPIC, qos=1)
        self.reader.on_message = self._take
        subscribed = threading.Event()
        self.reader.on_subscribe = lambda *_: subscribed.set()
        # A session that outlives connections, so that the broker keeps what comes before the reader is back.
        if self.version == "5":
            from paho.mqtt.packettypes import PacketTypes
            from paho.mqtt.properties import Properties

            lasting = Properties(PacketTypes.CONNECT)
            lasting.SessionExpiryInterval = 3600
            self.reader.connect("127.0.0.1", self.port, clean_start=False, properties=lasting)
        else:
            self.reader._clean_session = False
            self.reader.connect("127.0.0.1", self.port)
        self.reader.loop_start()
        assert subscribed.wait(PATIENCE)

    def _take(self, _client, _data, message):
        if message.payload.startswith(_MARK):
            self.marks.add(message.payload)
        else:
            name = dict(getattr(message.properties, "UserProperty", ())).get("message-id")
            self.received.append((name, message.payload))

    def read(self):
        # What is acknowledged to the sender may be on its way to the reader yet, or wait until that is connected again;
        # a message that is published now comes after all of it.
        mark = _MARK + uuid.uuid4().hex.encode()
        self.reader.publish(TOPIC, mark, qos=1)
        until(lambda: mark in self.marks, "the arrival of the mark behind all messages")
        return list(self.received)

    def close(self):
        if self.reader is not None:
            self.reader.disconnect()
            self.reader.loop_stop()
        super().close()


class Mosquitto311(Mosquitto):
    version = "3.1.1"

    @property
    def url(self):
        return f"{super().url}&id-in-payload=1"


class Rabbit(Server):
    program = "rabbitmq-server"

    def __init__(self, folder):
        super().__init__(folder)
        self.epmd, self.distribution = free_port(), free_port()

    @property
    def url(self):
        return f"amqp://127.0.0.1:{self.port}/{TOPIC}"

    def command(self):
        # Debian's script in /usr/sbin changes to a user of its own; this is the program behind it.
        program = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
        return [str(program) if program.exists() else self.find()]

    def environment(self):
        return {
            **os.environ,
            "HOME": str(self.folder),
            "RABBITMQ_NODENAME": f"sluice{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self.distribution),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.folder / "log-files"),
            "RABBITMQ_PID_FILE": str(self.folder / "pid"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "no-file"),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "no-file"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-setcookie sluice -rabbit max_message_size 1000000",
            "ERL_EPMD_PORT": str(self.epmd),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }

    def ready(self):
        if not super().ready():
            return False
        try:
            self.connection().close()
        except Exception:
            return False
        return True

    def connection(self):
        import pika

        return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.port, socket_timeout=2))

    def prepare(self):
        with self.connection() as connection:
            channel = connection.channel()
            channel.queue_declare("all", durable=True)
            channel.queue_bind("all", "amq.topic", TOPIC)

    def empty(self):
        with self.connection() as connection:
            connection.channel().queue_purge("all")

    def read(self):
        found = []
        with self.connection() as connection:
            channel = connection.channel()
            count = channel.queue_declare("all", passive=True).method.message_count
            messages = channel.consume("all", inactivity_timeout=PATIENCE)
            for method, properties, body in itertools.islice(messages, count):
                assert method is not None, f"{len(found)} of {count} messages"
                found.append((properties.message_id, body))
            channel.cancel()
        return found

    def close(self):
        super().close()
        # Erlang's port mapper outlives the node that started it.
        program = shutil.which("epmd")
        if program:
            subprocess.run([program, "-port", str(self.epmd), "-kill"], capture_output=True, check=False)


class Nats(Server):
    program = "nats-server"

    @property
    def url(self):
        return f"nats://127.0.0.1:{self.port}/{TOPIC}?stream=sluice"

    def command(self):
        return [self.find(), "-js", "-a", "127.0.0.1", "-p", str(self.port), "-sd", str(self.folder)]

    def read(self):
        return asyncio.run(self._read())

    async def _read(self):
        import nats

        client = await nats.connect(f"nats://127.0.0.1:{self.port}")
        stream = client.jetstream()
        state = (await stream.stream_info("sluice")).state
        found = []
        reader = await stream.subscribe(TOPIC, ordered_consumer=True)
        while len(found) < state.messages:
            message = await reader.next_msg(PATIENCE)
            found.append((message.headers["Nats-Msg-Id"], message.data))
        await client.close()
        return found


KAFKA = Path(__file__).parent / "kafka_mock.py"


class Kafka(Server):
    """librdkafka's mock cluster of one broker, which is taken down and up again by a command on its input."""

    program = "librdkafka's mock cluster"

    @property
    def url(self):
        return f"kafka://127.0.0.1:{self.port}/{TOPIC}?proto-cfg=reconnect.backoff.max.ms=500"

    def start(self):
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, KAFKA], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            self.port = int(self.process.stdout.readline())
        else:
            self._tell("up")
        until(lambda: answers(self.port), what="the start of the mock cluster")

    def stop(self):
        if self.process is not None:
            self._tell("down")

    def _tell(self, word):
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == f"{word}\n"

    def read(self):
        import confluent_kafka as kafka

        consumer = kafka.Consumer(
            {"bootstrap.servers": f"127.0.0.1:{self.port}", "group.id": "r", "auto.offset.reset": "earliest"}
        )
        partitions = consumer.list_topics(TOPIC, timeout=PATIENCE).topics[TOPIC].partitions
        ends = {
            p: consumer.get_watermark_offsets(kafka.TopicPartition(TOPIC, p), timeout=PATIENCE)[1] for p in partitions
        }
        consumer.assign([kafka.TopicPartition(TOPIC, p, 0) for p in partitions])
        found = []
        while len(found) < sum(ends.values()):
            message = consumer.poll(PATIENCE)
            assert message is not None, f"{len(found)} of {ends}"
            if message.error() is None:
                found.append((dict(message.headers())["message-id"].decode(), message.value()))
        consumer.close()
        return found

    def close(self):
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.communicate()


class Webhook(Server):
    """Python's own HTTP server; answers with the status that a payload asks for, 204 else."""

    program = "http.server"

    def __init__(self, folder):
        super().__init__(folder)
        self.received = []
        self.headers = []
        self.statuses = []
        self.server = None
        self.open = set()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/hook"

    def start(self):
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                super().setup()
                outer.open.add(self.connection)

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if len(body) < int(self.headers["Content-Length"]):
                    return  # the sender died in the middle of it
                status = outer.statuses.pop(0) if outer.statuses else 204
                if status == 204:
                    outer.received.append((self.headers["Idempotency-Key"], body))
                outer.headers.append(dict(self.headers))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.secure()
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def secure(self):
        """Have the server, which does not run yet, speak TLS; this one speaks none."""

    def stop(self):
        server, self.server = self.server, None
        if server is not None:
            server.shutdown()
            server.server_close()
            for connection in list(self.open):
                connection.close()
            self.open.clear()

    def read(self):
        return list(self.received)


SERVERS = {
    "kafka": Kafka,
    "mqtt": Mosquitto,
    "mqtt-3.1.1": Mosquitto311,
    "amqp": Rabbit,
    "redis": Redis,
    "nats": Nats,
    "http": Webhook,
}
