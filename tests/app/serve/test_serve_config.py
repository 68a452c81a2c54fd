"""The configuration file: every fault named with its line and what would be right, all at once."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner

from sluice.app.cli import app
from sluice.app.outputs import RecordOptions
from sluice.app.serve.checking import check, is_loopback
from sluice.app.serve.loading import FaultyConfigError, load_text
from sluice.errors import ConfigurationError

WRONG = """\
streams:
  - source: rtsp://viewer:${ENV:LOBBY}@cam/1
    name: lobby
    polcy: {fps: 3}
  - sorce: test:ball
    name: "x y"
    policy:
      delivery: freshes
      retry: {firts: 2}
  - name: 7
    source: ${ENV:NOPE}
    policy: 5
  - {source: a, name: n, policy: {fps: 0}}
model: people
thresholds: {confidence: 1.5, clases: [person]}
http:
  port: 99999
  token: short
  hots: 0.0.0.0
outputs: {record: {folder: out, segment_second: 3}, hls: {folder: x, segment_seconds: 0}}
tracker: {name: bytetrack, name: sort}
nonsense: 1
"""


def faults(text: str, folder: Path, environment: dict[str, str] | None = None) -> dict[str, tuple[int, str]]:
    """What is wrong with a configuration, by key: line and text."""
    try:
        check(load_text(text, folder / "sluice.yaml", environment or {}))
    except FaultyConfigError as error:
        return {fault.where: (fault.line, fault.text) for fault in error.faults}
    return {}


@pytest.mark.parametrize(
    ("where", "line", "said"),
    [
        ("streams[0].polcy", 4, "the nearest that is right is 'policy'"),
        ("streams[1].source", 5, "is missing"),
        ("streams[1].sorce", 5, "the nearest that is right is 'source'"),
        ("streams[1].name", 6, "'x y'; a name has up to 64 letters"),
        ("streams[1].policy.delivery", 8, "it is 'auto', 'every' or 'freshest'; the nearest is 'freshest'"),
        ("streams[1].policy.retry.firts", 9, "the nearest that is right is 'first'"),
        ("streams[2].name", 10, "put a text in quotes"),
        ("streams[2].source", 11, "the environment variable NOPE is not set"),
        ("streams[2].policy", 12, "it is a group of keys: connect_seconds"),
        ("streams[3].policy", 13, "fps is 0"),
        ("model", 14, "it is a group of keys: batch_size"),
        ("thresholds.confidence", 15, "less than or equal to 1"),
        ("thresholds.clases", 15, "the nearest that is right is 'classes'"),
        ("http.port", 17, "less than or equal to 65535"),
        ("http.token", 18, "shorter than 16 characters"),
        ("http.hots", 19, "the nearest that is right is 'host'"),
        ("outputs.record.segment_second", 20, "the nearest that is right is 'segment_seconds'"),
        ("tracker", 21, "the key 'name' twice"),
        ("nonsense", 22, "right are analytics, directories"),
    ],
)
def test_every_wrong_key_is_named_with_its_line_and_the_nearest_right_one(
    tmp_path: Path, where: str, line: int, said: str
) -> None:
    found = faults(WRONG, tmp_path, {"LOBBY": "p@ss"})
    assert where in found
    assert found[where][0] == line
    assert said in found[where][1]


def all_faults(text: str, folder: Path) -> list[tuple[str, str]]:
    """Where and what, of every fault."""
    with pytest.raises(FaultyConfigError) as caught:
        load_text(text, folder / "sluice.yaml", {})
    return [(fault.where, fault.text) for fault in caught.value.faults]


def test_all_faults_of_a_group_come_at_once(tmp_path: Path) -> None:
    found = all_faults(
        """
streams:
  - {name: "x y", source: 'test:ball', policy: {fps: 0, latency_ms: -1, decoder: gpu, retry: {first: -1, factor: 0}}}
outputs:
  record: {folder: r, segment_seconds: .nan, keep_bytes: 0, container: avi, keep: 1}
  clips: {classes: person, before: -1}
  rtsp: {user: 5, clients: 0}
""",
        tmp_path,
    )
    said = [f"{where}: {text}" for where, text in found]
    for part in (
        "streams[0].name: is 'x y'",
        "fps is 0",
        "latency_ms is -1",
        "policy.decoder: is 'gpu'",
        "retry.first is -1",
        "retry.factor is 0",
        "segment_seconds is nan",
        "keep_bytes is 0",
        "record.container: is 'avi'",
        "record.keep: is no key",
        "clips.folder: is missing",
        "clips.classes: is 'person'",
        "rtsp.user: is the number 5",
        "clients is 0",
    ):
        assert sum(part in line for line in said) == 1, (part, said)
    # Nothing is said to be wrong only because something else was left out, such as a user without a password.
    assert not any("go together" in line for line in said)
    assert len(set(said)) == len(said) == 14


@pytest.mark.parametrize(
    ("text", "where", "said"),
    [
        ("http: [1]", "http", "is a list; it is a group of keys: allowed_hosts"),
        ("http: 1", "http", "is a single value; it is a group of keys: allowed_hosts"),
        ("model: {options: [a]}", "model.options", "is a list; it is a group of keys, as {key: value}"),
        ("thresholds: {confidence: .nan}", "thresholds.confidence", "is .nan, which is no number; it should be less"),
        ("opentelemetry: {endpoint: 'a:1'}", "opentelemetry.endpoint", "is 'a:1'; it begins with http:// or https://"),
        ("look_for: ['']", "look_for[0]", "is empty"),
        ("outputs: {tiled_size: [1, 2, 3]}", "outputs.tiled_size", "has 3 values; right are at most 2"),
    ],
)
def test_faults_are_told_in_plain_words(tmp_path: Path, text: str, where: str, said: str) -> None:
    ((at, told),) = all_faults(text, tmp_path)
    assert at == where
    assert told.startswith(said)


def test_nothing_is_reported_that_is_not_wrong_and_no_value_of_a_secret(tmp_path: Path) -> None:
    text = "streams: [{name: a, source: '${ENV:URL}', fps: 3}]\nhttp: {token: '${ENV:SHORT}'}"
    with pytest.raises(FaultyConfigError) as caught:
        load_text(text, tmp_path / "a.yaml", {"URL": "rtsp://u:hunter22@cam", "SHORT": "tooshort"})
    assert [fault.where for fault in caught.value.faults] == ["streams[0].fps", "http.token"]
    assert "hunter22" not in str(caught.value)
    assert "tooshort" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "where", "said"),
    [
        ("streams: [{name: a, source: 'test:ball'}, {name: a, source: 'test:snow'}]", "streams[1].name", "streams[0]"),
        (
            "streams: [{name: a, source: 'test:ball'}, {name: A, source: 'test:snow'}]",
            "streams[1].name",
            "capitals only",
        ),
        ("streams: [{name: a, source: 'rtsp://[::1'}]", "streams[0].source", "is no address"),
        ("streams: [{name: a, source: nowhere.mp4}]", "streams[0].source", "there is no file"),
        ("streams: [{name: a, source: 'gopher://x'}]", "streams[0].source", "unknown scheme 'gopher'"),
        ("model: {name: poeple}", "model.name", "people"),
        ("model: {name: people, options: {hit: 1}}", "model.name", "hit"),
        ("tracker: {name: bytetrak}", "tracker.name", "bytetrack"),
        ("analytics: missing.txt", "analytics", "missing.txt"),
        ("messages: 'kafka://'", "messages", "kafka"),
        ("messages: nowhere/out.jsonl", "messages", "there is no directory"),
        ("state: nowhere/state.json", "state", "there is no directory"),
        ("directories: {media: [nowhere]}", "directories.media[0]", "is no directory"),
        ("http: {host: 0.0.0.0}", "http.host", "there is no http.token"),
        ("http: {host: '::'}", "http.host", "there is no http.token"),
        ("http: {tls: {certificate: a.pem, key: b.pem}}", "http.tls.key", "cannot be read"),
        ("http: {references: ['ENV:UNSET']}", "http.references[0]", "UNSET is not set"),
        ("streams: [{name: a, source: 'test:ball', outputs: {rtsp: true}}]", "streams[0].outputs.rtsp", "no RTSP"),
        ("streams: [{name: a, source: 'test:ball', outputs: {bitrate: 7}}]", "streams[0].outputs", "bitrate is 7"),
        ("index_model: people", "index_model", "needs index"),
        ("{index: archive, index_model: poeple}", "index_model", "people"),
        ("index: net.onnx", "index", "is a file"),
        ("outputs: {hls: {folder: ''}}", "outputs.hls.folder", "is empty; it names a file or folder"),
        ("directories: {media: [' ']}", "directories.media[0]", "is empty"),
        ("vlm: {backend: nobody}", "vlm", "nobody"),
        ("vlm: {backend: 'net.py:Nothing'}", "vlm", "net.py"),
        ("vlm: {backend: 'raises.py:Teller'}", "vlm", "raises.py:Teller: ValueError: no camera today"),
        ("vlm: {backend: 'http://a/v1', model: m, schema: none.json}", "vlm", "none.json"),
        ("vlm: {backend: 'http://a/v1', model: m, config: net.onnx, policy: newest}", "vlm", "net.onnx"),
        ("vlm: {backend: 'http://a/v1', model: m, properties: {timout: 3}}", "vlm", "no property 'timout'"),
        ("outputs: {hls: {folder: net.onnx}}", "outputs.hls.folder", "which is a file; name a folder"),
        ("outputs: {clips: {folder: net.onnx/deep/er}}", "outputs.clips.folder", "net.onnx', which is a file"),
        (
            "streams: [{name: a, source: 'test:ball', outputs: {record: {folder: net.onnx}}}]",
            "streams[0].outputs.record.folder",
            "which is a file",
        ),
        ("outputs: {rtsp: {address: 0.0.0.0}}", "outputs.rtsp.address", "user and password"),
    ],
)
def test_what_the_file_names_is_looked_at(tmp_path: Path, text: str, where: str, said: str) -> None:
    (tmp_path / "net.onnx").write_bytes(b"\xff\x00")
    (tmp_path / "raises.py").write_text(
        "class Teller:\n    def __init__(self):\n        raise ValueError('no camera today')\n    answer = print\n"
    )
    found = faults(text, tmp_path)
    assert list(found) == [where] if "tls" not in text else where in found
    assert said in found[where][1]


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate and its key, another key, one that is encrypted, and a file that is neither."""
    openssl, folder = shutil.which("openssl"), tmp_path_factory.mktemp("pem")
    if openssl is None:
        pytest.skip("no openssl: apt-get install openssl")

    def run(*arguments: str) -> None:
        subprocess.run([openssl, *arguments], cwd=folder, check=True, capture_output=True)

    run("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key", "-out", "certificate", "-subj", "/CN=a")
    run("genpkey", "-algorithm", "RSA", "-out", "other")
    run("pkey", "-in", "key", "-aes256", "-passout", "pass:abcd", "-out", "encrypted")
    (folder / "garbage").write_bytes(b"no PEM")
    return folder


@pytest.mark.parametrize(
    ("certificate", "key", "where", "said"),
    [
        ("certificate", "other", "key", "is not the key of the certificate"),
        ("certificate", "garbage", "key", "holds no private key"),
        ("certificate", "encrypted", "key", "is encrypted"),
        ("certificate", ".", "key", "cannot be read"),
        ("garbage", "key", "certificate", "holds no certificate"),
        ("key", "key", "certificate", "holds no certificate"),
        ("missing", "key", "certificate", "cannot be read"),
    ],
)
def test_certificates_are_looked_at(pem: Path, certificate: str, key: str, where: str, said: str) -> None:
    found = faults(f"http: {{tls: {{certificate: {certificate}, key: {key}}}}}", pem)
    assert list(found) == [f"http.tls.{where}"]
    assert said in found[f"http.tls.{where}"][1]
    assert faults("http: {tls: {certificate: certificate, key: key}}", pem) == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "line 1"),
        ("a: &x [*x]", "without end"),
        ("[1]\n---\n[2]", "line 2"),
        ("? [a]\n: 1", "a key must be a plain name"),
        ("a: !!python/object:os.system {}", "line 1"),
        ("- 1", "group of keys"),
    ],
)
def test_what_is_no_configuration_at_all_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        load_text(text, tmp_path / "a.yaml")


def test_what_is_no_list_or_number_is_told_in_plain_words(tmp_path: Path) -> None:
    assert faults("streams: 5", tmp_path)["streams"][1] == (
        "is 5; it is a list, as [1, 2] or with a line that begins with '-' for each"
    )
    assert faults("http: {port: 80x}", tmp_path)["http.port"][1] == "is '80x'; it should be a valid integer"


@pytest.mark.parametrize(
    ("code", "said", "line"),
    [
        ("class Bad:\n    def infer(self, frames)\n", "SyntaxError: expected ':'", 2),
        ("class Bad:\n    def __init__(self):\n        raise KeyError(7)\n    infer = print\n", "KeyError: 7", 3),
    ],
)
def test_a_model_that_breaks_is_a_fault_with_its_own_lines(tmp_path: Path, code: str, said: str, line: int) -> None:
    (tmp_path / "bad.py").write_text(code)
    _, text = faults("model: {name: bad.py}", tmp_path)["model.name"]
    assert said in text.splitlines()[0]
    assert f'File "{tmp_path / "bad.py"}", line {line}' in text


def test_anchors_that_stand_for_too_much_are_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(ConfigurationError, match="more than 100000 values"):
        load_text("\n".join(lines), tmp_path / "a.yaml")


def test_anchors_and_merges_serve_for_what_cameras_share(tmp_path: Path) -> None:
    text = """
streams:
  - {name: a, source: 'test:ball', policy: &slow {fps: 5, latency_ms: 500}}
  - {name: b, source: 'test:snow', policy: {<<: *slow, loop: true}}
"""
    first, second = load_text(text, tmp_path / "a.yaml").config.streams
    assert (first.policy.fps, second.policy.fps, second.policy.latency_ms, second.policy.loop) == (5, 5, 500, True)


def test_a_stream_may_have_other_outputs_than_the_rest(tmp_path: Path) -> None:
    text = """
streams:
  - {name: a, source: 'test:ball', outputs: {record: {folder: a}, overlay: false}}
  - {name: b, source: 'test:ball', outputs: {record: null, rtsp: false}}
  - {name: c, source: 'test:ball'}
outputs: {record: {folder: all}, rtsp: {}, bitrate: 500000}
"""
    config = load_text(text, tmp_path / "a.yaml").config
    first, second, third = (stream.outputs.of(config.outputs) for stream in config.streams)
    assert (first.record, first.overlay, first.bitrate) == (RecordOptions(Path("a")), False, 500000)
    assert first.rtsp == config.outputs.rtsp
    assert (second.record, second.rtsp, second.overlay) == (None, None, True)
    assert third == config.outputs


def test_the_view_of_all_streams_has_a_name_that_no_stream_may_have(tmp_path: Path) -> None:
    stream = "streams: [{name: tiled, source: 'test:ball'}]\n"
    assert faults(stream, tmp_path) == {}
    line, said = faults(f"{stream}outputs: {{tiled: true}}", tmp_path)["streams[0].name"]
    assert line == 1
    assert "the view of all streams" in said


def test_references_are_variables_and_files_and_escape_what_a_url_needs(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("p@ss/w:o#rd\n")
    text = """
streams:
  - {name: a, source: 'rtsp://u:${FILE:password}@cam/1?x=$${kept}'}
  - {name: b, source: '${ENV:WHOLE}'}
http: {port: '${ENV:PORT}', token: '${FILE:password}-and-more'}
"""
    loaded = load_text(text, tmp_path / "a.yaml", {"WHOLE": "rtsp://u:secret@cam/2", "PORT": "8123"})
    assert loaded.config.streams[0].source == "rtsp://u:p%40ss%2Fw:o%23rd@cam/1?x=${kept}"
    assert loaded.config.streams[1].source == "rtsp://u:secret@cam/2"
    assert loaded.config.http.port == 8123
    assert loaded.secrets.scrub("p@ss/w:o#rd rtsp://u:secret@cam/2 cam") == "*** rtsp://cam/2 cam"
    assert "p@ss" not in repr(loaded.config.http)


@pytest.mark.parametrize(
    "text", ["${ENV:UNSET}", "${FILE:missing}", "${FILE:.}", "${SECRET}", "${ENV:}", "${ENV:A", "$${ ${"]
)
def test_a_reference_that_leads_nowhere_is_named(tmp_path: Path, text: str) -> None:
    found = faults(f"messages: '{text}'", tmp_path)
    assert list(found) == ["messages"]


@pytest.mark.parametrize(
    ("host", "only_here"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False),
     ("192.0.2.1", False), ("cams.example", False), ("", False)],
)  # fmt: skip
def test_which_addresses_other_machines_reach(host: str, only_here: bool) -> None:
    assert is_loopback(host) is only_here


def test_the_command_checks_and_says_all(tmp_path: Path) -> None:
    path = tmp_path / "sluice.yaml"
    path.write_text(WRONG)
    wrong = CliRunner().invoke(app, ["serve", str(path), "--check"])
    assert wrong.exit_code == 2
    assert "line 4: streams[0].polcy" in wrong.output
    assert "line 22: nonsense" in wrong.output
    path.write_text("streams: [{name: a, source: 'test:ball?live=1'}]")
    right = CliRunner().invoke(app, ["serve", str(path), "--check"])
    assert right.exit_code == 0
    assert "no fault found; 1 stream\n" in right.output
    assert CliRunner().invoke(app, ["serve", str(tmp_path / "missing.yaml")]).exit_code == 2
    assert CliRunner().invoke(app, ["serve"]).exit_code == 2


@pytest.mark.parametrize("path", sorted(Path(__file__).parents[3].glob("examples/serve/*.yaml")), ids=lambda p: p.name)
def test_the_examples_are_as_the_schema_says(path: Path) -> None:
    schema = json.loads(CliRunner().invoke(app, ["serve", "--schema"]).output)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(yaml.safe_load(path.read_text()), schema)
    environment = {"SLUICE_TOKEN": "t" * 24, "ENTRANCE_PASSWORD": "secret"}
    load_text(path.read_text(), path, environment)
