"""TLS and passwords against a real mosquitto and redis-server."""

import shutil
import subprocess

import pytest

from messages.brokers.server import wait_for
from messages.brokers.servers import Mosquitto, Redis
from sluice.errors import ConfigurationError
from sluice.messages.brokers import from_url, open_delivery

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
    run(*new, "-keyout", folder / "ca.key", "-out", folder / "ca.crt", "-subj", "/CN=authority")
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


def outcome(url, monkeypatch, password=SECRET):
    """Send one message; return the counters and what was told, without the wait of the second attempt."""
    monkeypatch.setenv("PASSWORD_MQTT", password)
    monkeypatch.setenv("PASSWORD_REDIS", password)
    problems = []
    endpoint = from_url(url)
    delivery = open_delivery(endpoint, spool="none", on_away=problems.append, on_refused=problems.append)
    try:
        delivery.write([b"x"])
        wait_for(lambda: problems or delivery.counters.acknowledged, 20)
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
