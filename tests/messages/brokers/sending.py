"""The program of `sender` under control, and what came of its messages; used by the tests and by bench/brokers.py."""

import json
import subprocess
import sys
import threading

from messages.brokers import sender
from waiting import until

RATE = 200  # messages a second


class Sender:
    """The program of `sender`, and what it has said."""

    def __init__(self, url, spool, first, count, rate=RATE):
        command = [sys.executable, sender.__file__, url, str(spool), str(first), str(count), str(rate)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines = []
        self.reader = threading.Thread(target=lambda: self.lines.extend(self.process.stdout), daemon=True)
        self.reader.start()

    def wait_given(self, count):
        until(lambda: len(self.lines) >= count, f"the sending of {count} messages", seconds=60)

    def kill(self):
        """kill -9; return the numbers of the message that is given next, and of the one that is on disk next."""
        self.process.kill()
        self.wait()
        whole = [line for line in self.lines if line.endswith("\n")]
        given, on_disk = map(int, whole[-1].split())
        return given, on_disk

    def wait(self):
        """Wait for the end; return the exit status and what stands on the standard error."""
        errors = self.process.stderr.read()
        self.reader.join(60)
        return self.process.wait(60), errors

    def finish(self):
        status, errors = self.wait()
        assert status == 0, errors
        return json.loads(self.lines[-1])


def numbers(messages):
    return [json.loads(payload)["n"] for _, payload in messages]


def firsts(values):
    """Values without those that came before: what a reader keeps that drops duplicates."""
    return list(dict.fromkeys(values))
