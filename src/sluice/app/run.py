"""``sluice run``: one pipeline from the command line, with progress and a summary."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TextIO

from sluice.app.options import Options
from sluice.app.outputs import check_distinct
from sluice.app.pipeline import Pipeline
from sluice.app.progress import show_progress
from sluice.app.run_outputs import Wanted, measured
from sluice.app.sources import parse_sources
from sluice.app.summary import Summary
from sluice.errors import ConfigurationError, ModelError, SluiceError, with_own_lines

if TYPE_CHECKING:
    from sluice.app.outputs import LiveOutputs
    from sluice.app.processes import Processes

_PLACE = re.compile(r"(?P<who>[^:\n]*)(?:: (?P<place>stream \d+(?:, frame \d+)?))?")
OK, FAILED, WRONG_ARGUMENTS, INTERRUPTED = 0, 1, 2, 130


def run(
    sources: list[str],
    *,
    summary_file: Path | None = None,
    quiet: bool = False,
    processes: int = 1,
    wanted: Wanted | None = None,
    **options: Any,
) -> int:
    """Run a pipeline to its end and return the exit status.

    Args:
        sources: see `sluice.Pipeline`.
        summary_file: JSON file for the summary.
        quiet: show no progress.
        wanted: live outputs and metrics.
        processes: how many processes the streams are shared out over.
        options: the other arguments of `sluice.Pipeline`.

    Returns:
        0 if every stream ended well, 1 if one failed or the whole run did, 2 for arguments that cannot be used, and
        128 plus the signal's number after an interruption.
    """
    try:
        if summary_file is not None:
            check_distinct(parse_sources(sources), Options(**options), summary_file)
            _check_summary_file(summary_file)
        outputs = _outputs(wanted, processes, options)
        pipeline = _pipeline(sources, processes, options if outputs is None else {**options, "branches": outputs})
        port = wanted.metrics if wanted is not None else None
        with _terminate_as_interrupt(), measured(pipeline, outputs, port):  # type: ignore[arg-type] # no processes then
            status, told = _run(pipeline, quiet)
    except (ConfigurationError, ModelError) as error:
        print(f"sluice: {with_own_lines(error)}", file=sys.stderr)
        return WRONG_ARGUMENTS
    if not pipeline.started:
        if status > 128:  # whoever ended it is told that it was heard
            print("sluice: ended before it had started", file=sys.stderr)
        return status
    summary = pipeline.summary
    status = status if status != OK or summary.ok else FAILED
    if summary_file is not None and not _write(summary, summary_file):
        status = status or FAILED
    messages = options.get("messages")
    files = [path for path in (messages, summary_file) if path is not None and Path(path).expanduser().is_file()]
    new = replace(summary, errors=[_short(error) if error == told else error for error in summary.errors])
    _report(new, files, sys.stderr if str(messages) == "-" else sys.stdout)
    return status


def _short(told: str) -> str:
    """Return who ended a run and where, of an error that was printed with all that is known."""
    found = _PLACE.match(told)
    assert found is not None  # every text has a beginning
    return (
        f"{found['who']} ended the run{' at ' + found['place'] if found['place'] else ''}; the standard error says why"
    )


def _outputs(wanted: Wanted | None, processes: int, options: dict[str, Any]) -> LiveOutputs | None:
    """Begin what is wanted, where it goes with the other options."""
    if wanted is None or wanted == Wanted():
        return None
    if processes > 1:
        raise ConfigurationError("--record, --hls, --rtsp and --metrics are of one process; leave out --processes")
    outputs = wanted.outputs()
    if outputs is not None and (options.get("out") is not None or options.get("tile")):
        outputs.close()
        raise ConfigurationError("--record, --hls and --rtsp take the place of --out and --tile; give one or the other")
    return outputs


def _pipeline(sources: list[str], processes: int, options: dict[str, Any]) -> Pipeline | Processes:
    if processes == 1:
        return Pipeline(sources, **options)
    from sluice.app.processes import Processes

    return Processes(sources, processes, **options)


def _run(pipeline: Pipeline | Processes, quiet: bool) -> tuple[int, str]:
    """Run to the end; return the exit status and the error that was printed, if one was."""
    try:
        job = pipeline.start()
        with show_progress(job.progress, quiet=quiet):
            job.wait()
    except KeyboardInterrupt as interrupt:
        return int(str(interrupt) or INTERRUPTED), ""
    except SluiceError as error:
        if isinstance(error, ConfigurationError | ModelError) and not pipeline.started:
            raise  # later, a model that fails at work is no wrong argument
        print(f"sluice: {with_own_lines(error)}", file=sys.stderr)
        return FAILED, str(error)
    finally:
        pipeline.stop()
    return OK, ""


@contextmanager
def _terminate_as_interrupt() -> Iterator[None]:
    """Let SIGTERM end a run as Ctrl-C does: files finished, exit status 143."""

    def interrupt(number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt(128 + number)

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _check_summary_file(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("a").close()
    except OSError as error:
        raise ConfigurationError(f"summary: {str(path)!r} cannot be written: {error.strerror}") from error


def _write(summary: Summary, path: Path) -> bool:
    """Write the summary; return whether that could be done, and say why not."""
    try:
        summary.write(path)
    except OSError as error:
        print(f"sluice: summary: {str(path)!r} cannot be written: {error.strerror}", file=sys.stderr)
        return False
    return True


def _report(summary: Summary, files: list[Any], stream: TextIO) -> None:
    """Print the summary and every file that the run wrote: the videos, then the others."""
    print(summary, file=stream)
    videos = [s.output for s in summary.streams if s.output and not s.failed] + summary.outputs
    for path in videos + files:
        print(f"wrote {path}", file=stream)
