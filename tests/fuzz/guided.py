"""Fuzzes the targets with atheris, which goes on from inputs that reach lines none before has reached.

    python tests/fuzz/guided.py [--time SECONDS] [--out FOLDER] [TARGET ...]

An input that ends a target is kept in FOLDER/findings; those that reached new lines in FOLDER/corpus, where the next
run goes on. The status is 1 if anything was found.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import os
import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(TESTS)]  # whose helpers the targets use

import atheris
import targets

WATCHED = ["sluice", "yaml", "configparser"]  # packages whose lines count
LONGEST = 60  # seconds that one input may take
MEGABYTES = 2048


def load() -> dict[str, targets.Target]:
    """Return the targets, with all lines of what they import watched: some ten seconds of processor time."""
    with (
        contextlib.redirect_stderr(io.StringIO()),  # a line for each module
        atheris.instrument_imports(include=WATCHED, enable_loader_override=False),
    ):
        return targets.load()


def fuzz(name: str, target: targets.Target, out: Path, *options: str) -> int:
    """Fuzz a target in a process of its own, which writes to a log; return its status: 0 if nothing was found.

    Args:
        name: its name.
        target: the target.
        out: folder of corpora, findings and logs.
        options: more options of libFuzzer.
    """
    corpus, findings = out / "corpus" / name, out / "findings"
    for folder in (corpus, findings):
        folder.mkdir(parents=True, exist_ok=True)
    for content in targets.inputs(name, target):
        (corpus / hashlib.sha1(content).hexdigest()).write_bytes(content)  # as libFuzzer names them
    limits = [f"-rss_limit_mb={MEGABYTES}", f"-artifact_prefix={findings}/{name}-"]
    if target.words:
        words = out / f"{name}.words"
        words.write_text("".join(f'"{_escaped(word)}"\n' for word in target.words))
        limits.append(f"-dict={words}")
    # A fork, since libFuzzer ends its process, and what was loaded serves all targets.
    child = os.fork()
    if child == 0:
        with (out / f"{name}.log").open("ab") as log:
            os.dup2(log.fileno(), sys.stdout.fileno())
            os.dup2(log.fileno(), sys.stderr.fileno())
        atheris.Setup([name, *limits, *options, str(corpus)], target.run)
        atheris.Fuzz()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _escaped(word: bytes) -> str:
    """A word as libFuzzer's dictionaries have it."""
    return "".join(f"\\x{byte:02x}" for byte in word)


def main(known: dict[str, targets.Target]) -> int:
    """Fuzz those of some targets that the command line names."""
    parser = argparse.ArgumentParser(description="Fuzz what users' input reaches, with coverage.")
    parser.add_argument("targets", nargs="*", help=f"targets; all if none is named: {', '.join(sorted(known))}")
    parser.add_argument("--time", type=int, default=60, help="seconds for each target")
    parser.add_argument("--runs", type=int, help="inputs for each target, always the same, in place of a time")
    parser.add_argument("--out", type=Path, default=Path("out/fuzz"), help="folder for findings and corpora")
    given = parser.parse_args()
    unknown = sorted(set(given.targets) - set(known))
    if unknown:
        parser.error(f"there is no target {unknown[0]!r}; there are {', '.join(sorted(known))}")
    if given.runs is None:
        options = [f"-max_total_time={given.time}", f"-timeout={LONGEST}"]
    else:
        options = [f"-runs={given.runs}", "-seed=1"]  # and libFuzzer's own twenty minutes for an input
    found = 0
    for name in given.targets or sorted(known):
        status = fuzz(name, known[name], given.out, *options)
        print(
            f"{name}: {'nothing found' if status == 0 else f'FOUND something, see {given.out}/{name}.log'}", flush=True
        )
        found += status != 0
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(load()))
