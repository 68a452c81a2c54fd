"""How many messages are lost while a broker is away for 20 s.

    python bench/peers/outage.py MODEL.onnx out/bench

One live camera of ten pictures a second and a Mosquitto of this machine, which is killed 5 s after the program's start
and is back 20 s later. Each frame's message has the frame's number: those that never reach a subscriber are lost. The
subscriber's session outlives the outage, so that it misses nothing that the broker took.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from live import Camera, free_port
from paho.mqtt.client import CallbackAPIVersion, Client, MQTTMessage
from programs import HERE, write

_BEFORE, _AWAY, _AFTER = 5.0, 20.0, 20.0  # seconds
_WAYS = {
    "Sluice, messages=mqtt://": ("sluice_mqtt.py",),
    "publish in the loop, QoS 0 (paho's default)": ("loop_mqtt.py", "0"),
    "publish in the loop, QoS 1": ("loop_mqtt.py", "1"),
}


class Broker:
    """A Mosquitto that keeps on disk what it took."""

    def __init__(self, folder: Path) -> None:
        """Start it on a free port."""
        program = shutil.which("mosquitto", path="/usr/sbin:/usr/bin:/usr/local/sbin")
        if program is None:
            sys.exit("mosquitto is not installed: make test installs it")
        self.port = free_port()
        settings = folder / "mosquitto.conf"
        settings.write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\npersistence true\nuser root\n"
            f"persistence_location {folder}/\nmax_queued_messages 0\nautosave_interval 1\n"
        )
        self._command = [program, "-c", str(settings)]
        self.start()

    def start(self) -> None:
        """Start it and give it a second."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(1)

    def kill(self) -> None:
        """End it as a power cut does."""
        self._process.kill()
        self._process.wait()


@dataclass
class Run:
    """One way to send, once: messages by their frames' numbers, which begin with 0."""

    way: str
    made: int
    arrived: int
    twice: int

    @property
    def lost(self) -> int:
        """Messages that never arrived."""
        return self.made - self.arrived


def subscribe(port: int, numbers: list[int]) -> Client:
    """Note the number of each message that arrives."""

    def take(_client: Client, _data: object, message: MQTTMessage) -> None:
        numbers.append(json.loads(message.payload)["frame"])

    client = Client(CallbackAPIVersion.VERSION2, client_id="reader", clean_session=False)
    client.on_message = take
    client.on_connect = lambda client, *_: client.subscribe("objects", qos=1)
    client.reconnect_delay_set(1, 1)
    client.connect("127.0.0.1", port)
    client.loop_start()
    return client


def measure(way: str, model: Path, clip: Path) -> Run:
    """Send in one way."""
    script, *rest = _WAYS[way]
    numbers: list[int] = []
    with tempfile.TemporaryDirectory() as folder, Camera(clip) as camera:
        broker = Broker(Path(folder))
        reader = subscribe(broker.port, numbers)
        command = [sys.executable, str(HERE / script), str(model), camera.url, str(broker.port), *rest]
        program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder)
        assert program.stdout is not None
        if program.stdout.readline() != "started\n":
            sys.exit(f"{way}: the program did not start")
        time.sleep(_BEFORE)
        broker.kill()
        time.sleep(_AWAY)
        broker.start()
        time.sleep(_AFTER)
        program.kill()
        program.wait()
        time.sleep(1)
        reader.loop_stop()
        broker.kill()
    made = max(numbers, default=-1) + 1
    return Run(way, made, len(set(numbers)), len(numbers) - len(set(numbers)))


def main() -> None:
    """Measure all ways and write outage.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("clips", type=Path, help="the folder that clips.py wrote")
    arguments = parser.parse_args()
    runs = []
    for way in _WAYS:
        run = measure(way, arguments.model.resolve(), arguments.clips / "480p-short.mp4")
        runs.append(asdict(run) | {"lost": run.lost})
        print(run, flush=True)
    write("outage.json", arguments.model, runs)


if __name__ == "__main__":
    main()
