"""What the test servers have in common: a port, a start that waits, a stop, and what the tests ask of them."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from killable import free_port
from waiting import PATIENCE, until

TOPIC = "detections"


def answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Server:
    """A program that listens on one port; subclasses say how it is started and how its messages are read."""

    program = ""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.process: subprocess.Popen | None = None

    @classmethod
    def find(cls) -> str:
        """Return the program's path; Debian keeps daemons in folders that are not on everyone's PATH."""
        found = shutil.which(cls.program, path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
        if found is None:
            pytest.skip(f"{cls.program} is not installed; `scripts/setup VENV test` does that")
        return found

    @property
    def url(self) -> str:
        raise NotImplementedError

    def command(self) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdout=log, stderr=log, env=self.environment(), cwd=self.folder, start_new_session=True
            )
        until(self.ready, f"the start of {self.program}")

    def ready(self) -> bool:
        assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
        return answers(self.port)

    def stop(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.terminate()
            process.wait(PATIENCE)

    def pause(self) -> None:
        """Let the server hang: connections stay, nothing is answered."""
        os.killpg(self.process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.killpg(self.process.pid, signal.SIGCONT)

    def prepare(self) -> None:
        """Make what receives messages, in a server that has just been started first."""

    def read(self) -> list[tuple[str | None, bytes]]:
        """Return id and payload of every message in the order the broker has them."""
        raise NotImplementedError

    def close(self) -> None:
        self.stop()
