"""The documentation's pages as programs: what of a page runs, what is only shown and why, and how a page is run.

A page is one shell session in an empty folder that looks like the repository's root, with the first frames of the demo
clip. ``bash`` and ``python`` blocks run as they stand. A block of any language with a ``title="name"`` is written to
the file of that name instead. Every other block, fenced or indented, must be listed in `SHOWN` with the reason for
which it does not run.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
EXAMPLES = ROOT / "examples"
FRAMES = 100  # of the demo clip, in every page's session
SECONDS = 300  # that a page may take, on a busy machine
PAGES = sorted([*DOCS.rglob("*.md"), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md"))])
# What the machine of an outside contributor may lack; `make test` installs them.
SERVERS = ("mosquitto", "redis-server", "nats-server")

PIECE = "a piece of a launch line, in which the pipeline around it is left out"
NVIDIA = "needs a machine with DeepStream and an NVIDIA GPU"
WEIGHTS = "names a network that is not in the repository"
CLUSTER = "needs a cluster; tests/pipelines/test_fleet.py runs the same commands on clusters of one machine"
INSTALLS = "installs packages"
DRAWING = "a drawing"
# By page: the first line of each block that does not run, and why.
SHOWN: dict[str, dict[str, str]] = {
    "README.md": {
        "make demo": "continuous integration runs it",
        "sources ─ decode": DRAWING,
        "… ! nvstreammux": NVIDIA,
    },
    "CONTRIBUTING.md": {"make test": "continuous integration runs it", "app            sources": DRAWING},
    "docs/analytics.md": {
        '{"analytics": {"regions"': "what comes out, in short; tests/elements/test_analytics.py has it in full",
        "... ! sluicedemux": PIECE,
    },
    "docs/brokers.md": {
        "sluice run lobby.mp4": "needs a Kafka server; tests/messages/brokers sends to real servers of the other kinds",
        "sqlite3 -readonly": "needs a message that a broker refused; tests/messages/test_message_spool.py makes one",
    },
    "docs/cascades.md": {"… ! sluiceinfer": WEIGHTS},
    "docs/comparison.md": {"make bench": "takes an hour"},
    "docs/deepstream.md": {"… ! nvstreammux": NVIDIA},
    "docs/fleet.md": {
        "pip install": INSTALLS,
        "ray start": CLUSTER,
        "RAY_gcs_rpc": CLUSTER,
        "sluice fleet drain": CLUSTER,
        "sluice fleet roll-out": CLUSTER,
        "SLUICE_TOKEN": CLUSTER,
    },
    "docs/gpu-results.md": {"python3 bench/gpu.py": NVIDIA, "pip install ultralytics": NVIDIA},
    "docs/gpu.md": {
        "... nvv4l2decoder": NVIDIA,
        "sluice run cameras/*.mp4 --decoder nvdec": NVIDIA,
        "GPU memory up to the model": "what comes out; tests/host/cases/cases_run.py holds the summary to it",
    },
    "docs/messages.md": {
        '{"version": "sluice/1"': "what comes out; tests/messages/test_message_json_schema.py holds it to the schema",
        "[sensor0]": "tests/messages/test_message_json_schema.py reads it",
        "… ! sluicemsgconv": PIECE,
    },
    "docs/nvinfer-files.md": {"gst-launch-1.0 ...": WEIGHTS},
    "docs/rest.md": {'{"title": "Unprocessable': "what comes out; generated from the service itself"},
    "docs/runtimes.md": {
        "... ! sluiceinfer": WEIGHTS,
        "import cv2, gi": "ends the process, as the text says; tests/runtimes/test_tensorrt.py runs it with the guard",
    },
    "docs/scale.md": {"python bench/scale.py": "a measurement"},
    "docs/tracking.md": {"… ! sluiceinfer": WEIGHTS},
    "docs/vlm.md": {
        "pip install": INSTALLS,
        "sluice run rtsp://cam-1": "needs a camera and an endpoint; the next block does the same with a class",
        "sluiceinfer model=yolov8s-worldv2.pt": WEIGHTS,
        "sluice run rtsp": WEIGHTS,
    },
}

_FENCE = re.compile(r"^```(\w*)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?<=\n\n)((?:    .*\n)+)")


@dataclass(frozen=True)
class Block:
    """One block of a page; `title` is the file that it is written to, or ""."""

    language: str
    title: str
    text: str

    @property
    def first(self) -> str:
        return self.text.strip().splitlines()[0]

    @property
    def command(self) -> str:
        """The block as lines of a shell script."""
        if self.title:
            folder, file = shlex.quote(str(Path(self.title).parent)), shlex.quote(self.title)
            return f"mkdir -p {folder}\ncat > {file} <<'END-OF-FILE'\n{self.text}END-OF-FILE\n"
        if self.language == "python":
            return f"python - <<'END-OF-FILE'\n{self.text}END-OF-FILE\n"
        return self.text


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    """All blocks of a page: fenced ones in their order, then indented ones."""
    text = page.read_text()
    fenced = [Block(*found) for found in _FENCE.findall(text)]
    return fenced + [Block("", "", found) for found in _INDENTED.findall(_FENCE.sub("", text))]


def reason(page: Path, block: Block) -> str | None:
    """Why a block does not run."""
    shown = SHOWN.get(name(page), {})
    return next((why for start, why in shown.items() if block.first.startswith(start)), None)


def steps(page: Path) -> list[Block]:
    """The blocks of a page that do something."""
    runnable = [block for block in blocks(page) if block.title or block.language in ("bash", "python")]
    return [block for block in runnable if reason(page, block) is None]


def script(page: Path) -> str:
    """The whole page as one shell script, which says before each block which it is."""
    lines = ["set -euo pipefail"]
    for number, block in enumerate(steps(page), 1):
        lines += [f"echo {shlex.quote(f'== block {number}: {block.first}')}", block.command]
    return "\n".join(lines) + "\n"


def make_examples(folder: Path) -> None:
    """A folder of the examples, with the first frames of their clip only: most of the time would go into the others."""
    (folder / "data").mkdir(parents=True)
    for entry in EXAMPLES.iterdir():
        if entry.name != "data":
            (folder / entry.name).symlink_to(entry)
    clip = "data/pedestrians.mp4"
    line = (
        f"filesrc location={EXAMPLES / clip} ! qtdemux ! h264parse ! identity eos-after={FRAMES} ! mp4mux "
        f"! filesink location={folder / clip}"
    )
    subprocess.run(["gst-launch-1.0", "-q", *line.split()], check=True, timeout=60)


def run_page(page: Path, folder: Path) -> str:
    """Run a page in a folder, from top to bottom; return what it printed, or fail with that."""
    text = script(page)
    missing = [server for server in SERVERS if f"{server} " in text and shutil.which(server) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")
    (folder / "docs").symlink_to(DOCS)
    make_examples(folder / "examples")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    printed = folder.parent / f"{folder.name}.txt"  # a file: what a page leaves running would keep a pipe open
    with printed.open("w") as output:
        shell = subprocess.Popen(
            ["bash", "-c", text], cwd=folder, env={**os.environ, "PATH": path, "XDG_STATE_HOME": f"{folder}-state"},
            stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        shell.wait(SECONDS)
    except subprocess.TimeoutExpired:
        pytest.fail(f"it did not end:\n{printed.read_text()}")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)  # the servers that a page leaves running
    assert shell.returncode == 0, printed.read_text()
    return printed.read_text()
