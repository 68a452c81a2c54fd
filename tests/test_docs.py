"""Every page of the documentation that has commands or programs, run from top to bottom as a reader would.

A page is one shell session in an empty folder that looks like the repository's root. ``bash`` and ``python`` blocks run
as they stand. A block of any language with a ``title="name"`` is written to the file of that name instead. Other blocks
are only shown.
"""

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What the machine of an outside contributor may lack; `make test` installs them.
SERVERS = ("mosquitto", "redis-server", "nats-server")


def steps(page: Path) -> list[tuple[str, str, str]]:
    """The blocks of a page that do something: (language, file name or "", text)."""
    found = BLOCK.findall(page.read_text())
    return [block for block in found if block[1] or block[0] in ("bash", "python")]


def script(page: Path) -> str:
    """The whole page as one shell script, which says before each block which it is."""
    lines = ["set -euo pipefail"]
    for number, (language, title, text) in enumerate(steps(page), 1):
        lines.append(f"echo {shlex.quote(f'== block {number}: {text.splitlines()[0]}')}")
        if title:
            lines.append(f"mkdir -p {shlex.quote(str(Path(title).parent))}\ncat > {shlex.quote(title)} <<'END-OF-FILE'")
            lines.append(text + "END-OF-FILE")
        elif language == "python":
            lines.append(f"python - <<'END-OF-FILE'\n{text}END-OF-FILE")
        else:
            lines.append(text)
    return "\n".join(lines) + "\n"


PAGES = sorted(page for page in DOCS.rglob("*.md") if steps(page))


def test_there_are_pages_to_run() -> None:
    assert len(PAGES) > 5


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_runs_from_top_to_bottom(page: Path, tmp_path: Path) -> None:
    text = script(page)
    missing = [server for server in SERVERS if f"{server} " in text and shutil.which(server) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")
    for name in ("examples", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    printed = tmp_path.parent / f"{tmp_path.name}.txt"  # a file: what a page leaves running would keep a pipe open
    with printed.open("w") as output:
        shell = subprocess.Popen(
            ["bash", "-c", text], cwd=tmp_path, env={**os.environ, "PATH": path},
            stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        shell.wait(110)
    except subprocess.TimeoutExpired:
        pytest.fail(f"it did not end:\n{printed.read_text()}")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)  # the servers that a page leaves running
    assert shell.returncode == 0, printed.read_text()


def test_every_page_is_in_the_contents_and_every_entry_is_a_page() -> None:
    def pages(entry: object) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        values = entry.values() if isinstance(entry, dict) else entry
        return [page for value in values for page in pages(value)]  # type: ignore[union-attr]

    contents = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    assert sorted(pages(contents)) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))
