"""A signal while a command is still importing ends it in words, and with the status that it would have later."""

import signal
import subprocess
import sys

import pytest

# The command stops in the import of a module, as on a slow disk.
SLOW = """
import sys, time
from sluice.app import cli

module = sys.argv.pop(1)

class Slow:
    def find_spec(self, name, *_):
        if name == module:
            print("importing", flush=True)
            time.sleep(100)

sys.meta_path.insert(0, Slow())
cli.main()
"""


@pytest.mark.parametrize(
    ("module", "arguments", "status"),
    [
        ("sluice.app.run", ["run", "test:ball", "--model", "none"], 143),
        ("sluice.app.serve.running", ["serve", "sluice.yaml"], 0),
        ("sluice.app.serve.running", ["serve", "--check", "sluice.yaml"], 143),
    ],
)
def test_a_command_that_is_importing_ends_at_once(module: str, arguments: list[str], status: int) -> None:
    command = [sys.executable, "-c", SLOW, module, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "importing\n"
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert process.returncode == status
    assert said == "sluice: ended by SIGTERM\n"
