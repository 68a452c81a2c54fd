"""TLS and passwords against real servers."""

import shutil
import ssl
import subprocess

import pytest

from messages.brokers.servers import Mosquitto, Nats, Rabbit, Redis, Webhook
from sluice.errors import ConfigurationError
from sluice.messages.brokers import from_url, open_delivery
from waiting import until

SECRET = "hunter2"


def run(*command):
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """An authority, and certificates of it for the server and for us."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("certificates")
    authority = ["-CA", folder / "ca.crt", "-CAkey", folder / "ca.key"]
    new = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    new += ["-addext", "keyUsage=critical,keyCertSign,cRLSign"]  # Python 3.13 takes no authority without it
    for name in ("ca", "other"):
        run(*new, "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.crt", "-subj", f"/CN={name}")
    request = ["openssl", "req", "-newkey", "rsa:2048", "-nodes"]
    for name in ("server", "client"):
        run(*request, "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.csr", "-subj", f"/CN={name}")
        (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
        sign = ["openssl", "x509", "-req", "-in", folder / f"{name}.csr", *authority, "-days", "2"]
        run(*sign, "-CAcreateserial", "-out", folder / f"{name}.crt", "-extfile", folder / "names")
    return folder


class SecureMosquitto(Mosquitto):
    def __init__(self, folder, certificates):
        super().__init__(folder)
        passwords = folder / "passwords"
        run("mosquitto_passwd", "-c", "-b", passwords, "cam", SECRET)
        configuration = (folder / "conf").read_text().replace("allow_anonymous true", "allow_anonymous false")
        tls = {"cafile": "ca.crt", "certfile": "server.crt", "keyfile": "server.key"}
        lines = [f"{name} {certificates / file}" for name, file in tls.items()]
        (folder / "conf").write_text(
            "\n".join([configuration, f"password_file {passwords}", *lines, "require_certificate true", ""])
        )


@pytest.fixture
def mosquitto(tmp_path, certificates):
    server = SecureMosquitto(tmp_path, certificates)
    try:
        server.start()
        yield server
    finally:
        server.close()


def outcome(url, monkeypatch, password=SECRET, config=""):
    """Send one message; return the counters and what was told, without the wait of the second attempt."""
    monkeypatch.setenv("PASSWORD_MQTT", password)
    monkeypatch.setenv("PASSWORD_REDIS", password)
    problems = []
    endpoint = from_url(url, config=config)
    delivery = open_delivery(endpoint, spool="none", on_away=problems.append, on_refused=problems.append)
    try:
        delivery.write([b"x"])
        until(lambda: problems or delivery.counters.acknowledged)
        return delivery.counters.acknowledged, problems
    finally:
        delivery.close()


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_mqtt_with_tls_certificate_and_password(mosquitto, certificates, monkeypatch, version):
    base = f"mqtts://cam@127.0.0.1:{mosquitto.port}/t?version={version}&tls-cafile={certificates}/ca.crt"
    ours = f"&tls-certfile={certificates}/client.crt&tls-keyfile={certificates}/client.key"
    assert outcome(base + ours, monkeypatch) == (1, [])
    acknowledged, problems = outcome(base + ours, monkeypatch, password="wrong-password")
    assert acknowledged == 0
    assert "refuses the connection: Not authorized" in problems[0] or "Bad user name" in problems[0]
    assert "wrong-password" not in problems[0]
    acknowledged, problems = outcome(base, monkeypatch)
    assert acknowledged == 0
    assert len(problems) == 1


class TlsRedis(Redis):
    def command(self):
        files = ["--tls-cert-file", "server.crt", "--tls-key-file", "server.key", "--tls-ca-cert-file", "ca.crt"]
        files[1::2] = [str(self.certificates / name) for name in files[1::2]]
        return [*super().command()[:1], "--port", "0", "--tls-port", str(self.port), "--save", "", *files]

    @property
    def url(self):
        return super().url.replace("redis:", "rediss:")


class TlsNats(Nats):
    def command(self):
        files = {"--tlscert": "server.crt", "--tlskey": "server.key", "--tlscacert": "ca.crt"}
        options = [f"{name}={self.certificates / file}" for name, file in files.items()]
        return [*super().command(), "--tlsverify", *options]

    @property
    def url(self):
        return super().url.replace("nats:", "nats+tls:")


class TlsRabbit(Rabbit):
    def environment(self):
        options = [f'{{{name},"{self.certificates / file}"}}' for name, file in RABBIT_FILES.items()]
        options += ["{verify,verify_peer}", "{fail_if_no_peer_cert,true}"]
        (self.folder / "tls.config").write_text(
            f"[{{rabbit, [{{tcp_listeners, []}}, {{ssl_listeners, [{self.port}]}}, "
            f"{{ssl_options, [{','.join(options)}]}}]}}].\n"
        )
        # Without a port of its own, which would be that of a listener without TLS.
        rest = {name: value for name, value in super().environment().items() if name != "RABBITMQ_NODE_PORT"}
        return {**rest, "RABBITMQ_CONFIG_FILE": str(self.folder / "tls.config")}

    def connection(self):
        import pika

        context = ssl.create_default_context(cafile=self.certificates / "ca.crt")
        context.load_cert_chain(self.certificates / "client.crt", self.certificates / "client.key")
        tls = pika.SSLOptions(context, "127.0.0.1")
        return pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", self.port, socket_timeout=2, ssl_options=tls)
        )

    @property
    def url(self):
        return super().url.replace("amqp:", "amqps:") + "?mandatory=0"


RABBIT_FILES = {"cacertfile": "ca.crt", "certfile": "server.crt", "keyfile": "server.key"}


class TlsWebhook(Webhook):
    def secure(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificates / "server.crt", self.certificates / "server.key")
        context.load_verify_locations(self.certificates / "ca.crt")
        context.verify_mode = ssl.CERT_REQUIRED
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)

    @property
    def url(self):
        return super().url.replace("http:", "https:")


@pytest.fixture(params=[TlsRedis, TlsNats, TlsRabbit, TlsWebhook], ids=["redis", "nats", "amqp", "http"])
def tls_server(request, tmp_path, certificates):
    server = request.param(tmp_path)
    server.certificates = certificates
    try:
        server.start()
        yield server
    finally:
        server.close()


def test_tls_with_certificates_on_both_sides(tls_server, certificates, tmp_path, monkeypatch):
    url, files = tls_server.url, [f"tls-{name}={certificates / file}" for name, file in OURS.items()]
    config = tmp_path / "tls.txt"

    def attempt(*options):
        config.write_text("\n".join(["[message-broker]", *options]))
        return outcome(url, monkeypatch, password="", config=str(config))

    assert attempt(*files) == (1, [])
    for name, unknown in (("an authority that is not ours", [f"tls-cafile={certificates}/other.crt"]), ("none", [])):
        acknowledged, problems = attempt(*unknown, *files[1:])
        assert acknowledged == 0, name
        assert "CERTIFICATE_VERIFY_FAILED" in problems[0], name
        assert "certificate" in problems[0], name
    acknowledged, problems = attempt(files[0])  # without our own certificate
    assert acknowledged == 0
    assert problems


OURS = {"cafile": "ca.crt", "certfile": "client.crt", "keyfile": "client.key"}


def test_kafka_with_tls_names_the_authority_that_it_does_not_trust(certificates, tmp_path, monkeypatch):
    """librdkafka's mock cluster speaks no TLS; any server shows that ours looks at the certificate."""
    server = TlsWebhook(tmp_path)
    server.certificates = certificates
    try:
        server.start()
        url = f"kafkas://127.0.0.1:{server.port}/t?connect-timeout=5&tls-cafile={certificates}"
        acknowledged, problems = outcome(f"{url}/other.crt", monkeypatch, password="")
        assert acknowledged == 0
        assert "certificate verify failed" in problems[0]
        _, problems = outcome(f"{url}/ca.crt", monkeypatch, password="")
        assert "certificate verify failed" not in problems[0]
    finally:
        server.close()


def test_mqtt_trusts_nobody_unasked(mosquitto, monkeypatch):
    acknowledged, problems = outcome(f"mqtts://cam@127.0.0.1:{mosquitto.port}/t", monkeypatch)
    assert acknowledged == 0
    assert "CERTIFICATE_VERIFY_FAILED" in problems[0]


def test_certificates_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(ConfigurationError, match="tls-cafile '/nonexistent' cannot be used"):
        from_url("mqtts://a/t?tls-cafile=/nonexistent").transport()
    with pytest.raises(ConfigurationError, match="tls-certfile '/nonexistent' cannot be used"):
        from_url("mqtts://a/t?tls-certfile=/nonexistent&tls-keyfile=/nonexistent").transport()


class SecureRedis(Redis):
    def command(self):
        return [*super().command(), "--requirepass", SECRET]


def test_redis_with_a_password(tmp_path, monkeypatch):
    server = SecureRedis(tmp_path)
    try:
        server.start()
        assert outcome(server.url, monkeypatch) == (1, [])
        acknowledged, problems = outcome(server.url, monkeypatch, password="wrong-password")
        assert acknowledged == 0
        assert "invalid" in problems[0]
        assert "wrong-password" not in problems[0]
    finally:
        server.close()
