"""Everything that is to be measured on a GPU, in a limited time: each form in a process of its own, with a limit.

    python3 bench/gpu_list.py CLIP.h264 --h265 CLIP.h265 --out out/gpu --minutes 25

After every form ``OUT/list.json`` is written anew: what ended how, in what time, with its numbers or its last words. A
form that hangs is ended with all its processes at its limit, one that fails does not stop the next. Called again with
the same folder, it goes on where it stopped: what is done is not done again (``--again NAME`` does it, what failed is
tried again). The most wanted forms come first, ``--only NAME`` picks. ``--check`` runs nothing on a GPU: it parses the
command lines and makes every network on the processor, which needs the package ultralytics.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
LEAST = 20.0
"""Seconds that must be left for a form to be begun."""
COLUMNS = {"Yolo26n": 6, "Yolo26nSeg": 38, "RtDetr": 84}
"""Of the networks' rows: the decoders of gpu.py read them so, and releases of ultralytics differ."""
LONG = "long.h264"
"""The clip so often one behind the other that it lasts for a profile; `sluice run` plays what loops at its own rate."""
TIMES = 40
DONE, FAILED, LATE, UNTRIED = "done", "failed", "not over in its time", "no time was left"


@dataclass(frozen=True)
class Form:
    """One process of the list.

    Attributes:
        name: what it is called in the file.
        seconds: after which it is ended.
        command: the program in this folder (or ``-m``) and its arguments.
        out: the JSON file that it writes; None where it tells its numbers on the standard output.
    """

    name: str
    seconds: float
    command: tuple[str, ...]
    out: Path | None = None


def forms(clip: str, h265: str | None, folder: Path) -> list[Form]:
    """The list, the most wanted first."""
    nvmm = f"multifilesrc location={clip} loop=true caps=video/x-h264,stream-format=byte-stream,framerate=30/1 ! "
    nvmm += "h264parse ! nvv4l2decoder num-extra-surfaces=16 ! queue max-size-buffers=4"
    network = "yolo26.py:Yolo26n"
    swapped = ("--source", nvmm, "--in-flight", "4", "--swaps")
    options = ("decoder=yolo-end2end", "max_detections=20", "prepare=8")

    def gpu(name: str, seconds: float, *more: str, streams: int, shown: str = clip, frames: int = 3000) -> Form:
        out = folder / f"{name}.json"
        given = ("gpu.py", shown, "--streams", str(streams), "--frames", str(frames), "--out", str(out), *more)
        return Form(name, seconds, given, out)

    every, detr = ("--forms", "decode", "model", "all", "--compile"), "yolo26.py:RtDetr"
    shared_out = ("--forms", "all", "--compile", "--processes", "2")
    sluice_run = ("-m", "sluice.app.cli", "run", *[str(folder / LONG)] * 8, "--decoder", "nvdec", "--quiet")
    given = (part for option in options for part in ("--model-option", option))
    with_network = ("--model", str(HERE / network), *given)
    messages = ("--messages", str(folder / "run.jsonl"))
    listed = [
        # All sizes at once: the pipelines below find them in the cache.
        Form("network-compiled", 300, ("network_alone.py", network, "4", "8", "16", "32", "--compile")),
        gpu("8", 150, *every, streams=8),
        gpu("8-in-2", 100, *shared_out, streams=8),
        gpu("32", 200, *every, streams=32),
        gpu("32-in-2", 120, *shared_out, streams=32),
        gpu("segmentation-8", 90, "--forms", "network", "model", "--network", "yolo26.py:Yolo26nSeg", streams=8),
        gpu("article-8", 90, "--forms", "article", "article-compiled", streams=8),
        gpu("article-32", 120, "--forms", "article", "article-compiled", streams=32),
        Form("gil", 90, ("gil.py", "--", *sluice_run[3:-1], *with_network, *messages)),
        gpu("1", 90, "--forms", "decode", "model", "all", streams=1),
        Form("run-in-2", 90, (*sluice_run, *with_network, *messages, "--processes", "2", "--frames", "3000")),
        gpu("paced-32", 90, "--forms", "all", "--compile", "--paced", streams=32, frames=450),
        Form(
            "swap-network",
            120,
            (
                *("swap.py", *swapped, "10", "--model", str(HERE / network)),
                *("--options", ";".join((*options[:2], "prepare=4"))),
            ),
        ),
        gpu("graph-8", 60, "--forms", "model", "all", streams=8),
        gpu("graph-32", 90, "--forms", "model", "all", streams=32, frames=1500),
        gpu("rtdetr-8", 90, "--forms", "network", "model", "--network", detr, streams=8, frames=1000),
        Form("swap", 90, ("swap.py", *swapped, "50", "--model", f"{HERE / 'swap.py'}:OnCard")),
    ]
    if h265 is not None:
        place = next(i for i, form in enumerate(listed) if form.name == "segmentation-8")
        listed.insert(place, gpu("h265-32", 200, *every, streams=32, frames=1500, shown=h265))
        listed.append(gpu("h265-32-in-2", 120, *shared_out, streams=32, frames=1500, shown=h265))
        listed.append(gpu("h265-8", 150, *every, streams=8, shown=h265))
        listed.append(gpu("h265-8-in-2", 100, *shared_out, streams=8, shown=h265))
        listed.append(gpu("h265-1", 90, "--forms", "decode", "model", "all", streams=1, shown=h265))
    return listed


def run(form: Form, seconds: float) -> dict[str, Any]:
    """Run one form for so many seconds at most and return what became of it."""
    if form.out is not None:
        form.out.unlink(missing_ok=True)
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as said:
        # A session of its own: what it has started ends with it.
        process = subprocess.Popen(
            [sys.executable, *form.command], cwd=HERE, stdout=said, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            status = DONE if process.wait(seconds) == 0 else FAILED
        except subprocess.TimeoutExpired:
            status = LATE
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        said.seek(0)
        lines = said.read().splitlines()
    result: dict[str, Any] = {"status": status, "seconds": round(time.monotonic() - began, 1), "command": form.command}
    if form.out is not None and form.out.is_file():  # what was measured before a limit counts, too
        result["result"] = json.loads(form.out.read_text())
        if any(one.get("failed") for one in result["result"]["runs"]):
            result["status"] = FAILED
    return result | {"code": process.returncode, "said": lines[-40:]}


def measure(listed: list[Form], file: Path, seconds: float, again: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Run what is not done yet, write the file after every form, and return its content."""
    found: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {}
    end = time.monotonic() + seconds
    for form in listed:
        if found.get(form.name, {}).get("status") == DONE and form.name not in again:
            continue
        left = end - time.monotonic()
        if left < min(LEAST, form.seconds):
            found.setdefault(form.name, {"status": UNTRIED})
        else:
            print(f"{form.name}: at most {min(left, form.seconds):.0f} s", flush=True)
            found[form.name] = run(form, min(left, form.seconds))
            print(f"{form.name}: {found[form.name]['status']}, {found[form.name]['seconds']} s", flush=True)
        written = file.with_suffix(".new")
        written.write_text(json.dumps(found, indent=1))
        written.replace(file)
    return found


def check(listed: list[Form]) -> list[str]:
    """What would fail for another reason than the GPU's: command lines, programs, clips, networks."""
    wrong: list[str] = []
    networks = set()
    for form in listed:
        program, arguments = form.command[0], list(form.command[1:])
        if program == "gpu.py":
            gpu = importlib.import_module("gpu")
            try:
                given = gpu.parser().parse_args(arguments)
            except SystemExit:
                wrong.append(f"{form.name}: gpu.py does not take {arguments}")
                continue
            networks.add(given.network)
            wrong += [f"{form.name}: there is no {given.clip}"] if not given.clip.is_file() else []
        elif program != "-m" and not (HERE / program).is_file():
            wrong.append(f"{form.name}: there is no {program}")
    if shutil.which("py-spy") is None and not (Path(sys.executable).parent / "py-spy").is_file():
        wrong.append("gil: py-spy is not installed")
    if find_spec("ultralytics") is None:
        return [*wrong, "the package ultralytics is not installed, which the networks are made of"]
    for network in sorted(networks):
        wrong += made(network)
    return wrong


def made(network: str) -> list[str]:
    """What is wrong with a network's outputs on the processor; nothing if it can be made and run."""
    import torch

    file, _, name = network.partition(":")
    try:
        module = getattr(importlib.import_module(Path(file).stem), name)().eval()
        with torch.inference_mode():
            outputs = module(torch.zeros(1, 3, 640, 640, dtype=torch.float16))
    except Exception as error:  # whatever a network raises
        return [f"{network} cannot be made: {type(error).__name__}: {error}"]
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    if outputs[0].shape[-1] != COLUMNS[name]:
        return [f"{network} gives rows of {outputs[0].shape[-1]} columns, its decoder reads {COLUMNS[name]}"]
    print(f"{network}: {', '.join(f'{list(one.shape)} {one.dtype}' for one in outputs)}", flush=True)
    return []


def main() -> None:
    """Check or measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clip", type=Path, help="an H.264 elementary stream")
    parser.add_argument("--h265", type=Path, help="an H.265 elementary stream; without it that form is left out")
    parser.add_argument("--out", type=Path, default=Path("out/gpu"), help="folder of the results")
    parser.add_argument("--minutes", type=float, default=25.0, help="for all of it")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--again", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    folder = arguments.out.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    h265 = None if arguments.h265 is None else str(arguments.h265.resolve())
    listed = forms(str(arguments.clip.resolve()), h265, folder)
    if unknown := {*arguments.only, *arguments.again} - {form.name for form in listed}:
        sys.exit(f"there is no form {', '.join(sorted(unknown))}; there are {', '.join(form.name for form in listed)}")
    if arguments.only:
        listed = [form for form in listed if form.name in arguments.only]
    if arguments.check:
        wrong = check(listed)
        print(*wrong, sep="\n")
        sys.exit(bool(wrong))
    (folder / LONG).write_bytes(arguments.clip.read_bytes() * TIMES)
    found = measure(listed, folder / "list.json", arguments.minutes * 60, frozenset(arguments.again))
    print(json.dumps({form.name: found[form.name]["status"] for form in listed}, indent=1))


if __name__ == "__main__":
    main()
