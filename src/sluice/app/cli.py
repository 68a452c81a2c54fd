"""The command ``sluice``. Each subcommand imports what it needs when it runs, so that ``doctor`` always works."""

from __future__ import annotations

import contextlib
import errno
import json as json_module
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from sluice import __version__
from sluice.app.early_end import ends_at_once
from sluice.app.fleet import commands as fleet
from sluice.app.leaving import leave
from sluice.app.search_command import search
from sluice.app.serve import commands
from sluice.errors import SluiceError

app = typer.Typer(
    name="sluice",
    help="Your own Python model inside a live video pipeline.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Entry point of the command."""
    try:
        # A run and a service take their place once they are imported, which takes longest.
        with ends_at_once(signal.SIGTERM, status=_status_at_a_signal(sys.argv[1:])):
            _run()
    except SystemExit as end:
        leave(end.code)
        raise


def _status_at_a_signal(arguments: list[str]) -> int | None:
    """The exit status where a signal comes before the command is at work: a service ends well by one, nothing else."""
    runs = arguments[:1] == ["serve"] and not {"--check", "--schema", "--openapi"}.intersection(arguments)
    return 0 if runs else None


def _run() -> None:
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # here, where it can be told that this is not possible
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO, errno.EPIPE):
            raise
        with contextlib.suppress(OSError):
            print(f"sluice: the output cannot be written: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left is not tried again at the exit
        sys.exit(1)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sluice {__version__}")
        raise typer.Exit


def _refuse(text: str) -> NoReturn:
    """End with a message and the exit status of wrong arguments."""
    typer.echo(f"sluice: {text}", err=True)
    raise typer.Exit(2)


def _pairs(options: list[str], name: str = "--model-option", example: str = "decoder=yolov8") -> dict[str, str]:
    """Options as they are typed, by key; of a key given twice the last counts."""
    pairs = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals or not key.strip() or ";" in option:
            _refuse(f"{name} is {option!r}; right is KEY=VALUE, without ';', such as {example}")
        pairs[key.strip()] = value.strip()
    return pairs


def _path(text: str) -> Path:
    """A path as it is typed; "" would be the present folder, and is mostly a variable that is not set."""
    if not text.strip():
        raise typer.BadParameter("it is empty; name a file or folder")
    return Path(text)


app.command()(search)
app.command()(commands.serve)
app.add_typer(commands.streams_app)
app.add_typer(commands.models_app)
app.add_typer(fleet.app)


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Your own Python model inside a live video pipeline."""


@app.command()
def run(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE...",
            help="Files, globs, folders of images, rtsp://, http://, v4l2:/dev/video0, test:ball?frames=100.",
        ),
    ],
    model: Annotated[
        str, typer.Option(help="A path, a registered name, package.module:Class, file.py:Class, or none.")
    ] = "people",
    labels: Annotated[Path | None, typer.Option(help="File with one label per line.", exists=True)] = None,
    tracker: Annotated[str, typer.Option(help="Name of a tracker, or none.")] = "bytetrack",
    keep_unconfirmed: Annotated[
        bool, typer.Option("--keep-unconfirmed", help="Keep objects that belong to no confirmed track, without an id.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="An .mp4 file, or a folder for one per stream.", parser=_path, metavar="PATH")
    ] = None,
    messages: Annotated[
        str | None,
        typer.Option(help="JSON lines file, - for the standard output, or a broker: kafka://host:port/topic, mqtt://…"),
    ] = None,
    tile: Annotated[bool, typer.Option("--tile", help="Show all streams in one picture.")] = False,
    frames: Annotated[int | None, typer.Option(help="End each stream after so many frames.", min=1)] = None,
    confidence: Annotated[float | None, typer.Option(help="Least score of a detection.", min=0, max=1)] = None,
    classes: Annotated[str | None, typer.Option(help="Labels or class ids to keep, separated by commas.")] = None,
    interval: Annotated[
        int | None,
        typer.Option(
            help="Batches without inference after each with it; default: as a configuration file says, or 0.", min=0
        ),
    ] = None,
    runtime: Annotated[str, typer.Option(help="What executes a network; `sluice models` lists them.")] = "auto",
    device: Annotated[str, typer.Option(help="Where it is executed: auto, cpu, cuda, cuda:1, ...")] = "auto",
    model_option: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="An option of the model's own; may be given more than once."),
    ] = None,
    look_for: Annotated[
        str | None,
        typer.Option(help="What an open-vocabulary detector looks for, separated by commas: 'red truck,person'."),
    ] = None,
    vlm: Annotated[
        str | None,
        typer.Option(
            metavar="URL|NAME",
            help="Also ask a slow model about segments of each stream: the URL of an OpenAI-compatible endpoint, "
            "transformers, vllm, package.module:Class or file.py:Class.",
        ),
    ] = None,
    vlm_model: Annotated[str | None, typer.Option(help="Its name, or the folder of its files.")] = None,
    prompt: Annotated[
        str | None, typer.Option(help="What it is asked; {objects}, {name}, {time} are filled in.")
    ] = None,
    every: Annotated[
        float | None, typer.Option(help="Seconds from one question to the next; 0: by trigger only.")
    ] = None,
    vlm_frames: Annotated[int | None, typer.Option(help="Pictures for each question.")] = None,
    vlm_trigger: Annotated[str | None, typer.Option(help="What begins a segment: object:LABEL, line:NAME.")] = None,
    vlm_labels: Annotated[str | None, typer.Option(help="The answer is one of these, separated by commas.")] = None,
    vlm_schema: Annotated[Path | None, typer.Option(help="File with the JSON Schema of the answer.")] = None,
    vlm_policy: Annotated[
        str | None, typer.Option(help="newest, oldest, or wait; default: wait for files, newest for live sources.")
    ] = None,
    vlm_config: Annotated[Path | None, typer.Option(help="YAML file with settings of single streams.")] = None,
    vlm_key_env: Annotated[str | None, typer.Option(help="Name of the environment variable with its key.")] = None,
    vlm_option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE", help="A property of sluicevlm, such as timeout=20; may be given more than once."
        ),
    ] = None,
    processes: Annotated[
        int, typer.Option(help="Share the streams out over so many processes, each with a model of its own.", min=1)
    ] = 1,
    index: Annotated[
        Path | None,
        typer.Option(
            help="Folder of an archive that keeps embeddings, for `sluice search`.", parser=_path, metavar="PATH"
        ),
    ] = None,
    index_model: Annotated[
        str | None, typer.Option(help="Image encoder that makes an embedding of each tracked object for it.")
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(
            help="Folder for recordings in segments that survive a kill, one folder per stream.",
            parser=_path,
            metavar="PATH",
        ),
    ] = None,
    segment_seconds: Annotated[float | None, typer.Option(help="Length of a segment; default: 60.", min=0.5)] = None,
    hls: Annotated[
        Path | None, typer.Option(help="Folder for HLS playlists, one folder per stream.", parser=_path, metavar="PATH")
    ] = None,
    rtsp: Annotated[
        int | None, typer.Option(metavar="PORT", help="Serve each stream by RTSP, on this machine only.", min=0)
    ] = None,
    metrics: Annotated[
        int | None, typer.Option(metavar="PORT", help="Serve metrics for Prometheus, on this machine only.", min=0)
    ] = None,
    rate: Annotated[
        float | None, typer.Option(metavar="FPS", help="Most frames per second of each stream; more are dropped.")
    ] = None,
    delivery: Annotated[
        str, typer.Option(help="every frame, or the freshest; auto: freshest of cameras, every one of files.")
    ] = "auto",
    decoder: Annotated[str, typer.Option(help="auto, software, vaapi or nvdec.")] = "auto",
    transport: Annotated[str, typer.Option(help="Of RTSP: auto, tcp or udp.")] = "auto",
    loop: Annotated[bool, typer.Option("--loop", help="Play files again and again, at their own rate.")] = False,
    summary: Annotated[
        Path | None, typer.Option(help="JSON file for the summary.", parser=_path, metavar="PATH")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Run a model on videos: detect, track, draw and report.

    The exit status is 0 only if every stream ended well, 1 if one failed (the others finish), 2 for wrong arguments.
    """
    from sluice.app.run import run as run_pipeline
    from sluice.app.run_outputs import Wanted
    from sluice.app.streams import StreamPolicy
    from sluice.app.vlm import VlmOptions

    asked = {
        "model": vlm_model,
        "prompt": prompt,
        "every": every,
        "frames": vlm_frames,
        "trigger": vlm_trigger,
        "labels": vlm_labels.split(",") if vlm_labels else None,
        "schema": vlm_schema,
        "policy": vlm_policy,
        "config": vlm_config,
        "key_env": vlm_key_env,
        "properties": _pairs(vlm_option or [], "--vlm-option", "timeout=20"),
    }
    if vlm is None and any(value is not None and value != {} for value in asked.values()):
        _refuse("an option of the slow model is given and none is named; --vlm names one")
    chosen: dict[str, Any] = {"fps": rate, "delivery": delivery, "decoder": decoder, "transport": transport}
    try:
        policy = StreamPolicy(**chosen, loop=loop)
    except SluiceError as error:
        _refuse(str(error))
    status = run_pipeline(
        sources,
        policy=policy,
        summary_file=summary,
        quiet=quiet,
        processes=processes,
        wanted=Wanted(record, segment_seconds, hls, rtsp, metrics),
        model=model,
        labels=labels,
        tracker=tracker,
        keep_unconfirmed=keep_unconfirmed,
        out=out,
        messages=messages,
        tile=tile,
        frames=frames,
        confidence=confidence,
        classes=classes.split(",") if classes else None,
        interval=interval,
        runtime=runtime,
        device=device,
        model_options=_pairs(model_option or []),
        look_for=[text.strip() for text in look_for.split(",") if text.strip()] if look_for else [],
        vlm=None if vlm is None else VlmOptions(vlm, **asked),  # type: ignore[arg-type] # checked by the element
        index=index,
        index_model=index_model,
    )
    raise typer.Exit(status)


@app.command()
def top(
    url: Annotated[
        str | None, typer.Argument(help="Where the service is; default: SLUICE_URL, or http://127.0.0.1:8080.")
    ] = None,
    token_file: commands.TokenFile = None,
    once: Annotated[bool, typer.Option("--once", help="Show the numbers once.")] = False,
    interval: Annotated[float, typer.Option(help="Seconds between looks.", min=0.1)] = 1.0,
) -> None:
    """Show what the streams of a running service, or of a `sluice run --metrics PORT`, do: live, until q is pressed."""
    from sluice.app.top import top as show

    try:
        show(url, token_file, once=once, interval=interval)
    except KeyboardInterrupt:
        raise typer.Exit from None
    except SluiceError as error:
        typer.echo(f"sluice: {error}", err=True)
        raise typer.Exit(1) from None


@app.command()
def doctor(
    json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check this machine and say for each fault the one command that mends it. The exit status is 1 if there is one."""
    from sluice.app.doctor import examine, render

    findings = examine()
    if json:
        typer.echo(json_module.dumps([finding.as_dict() for finding in findings], indent=2))
    else:
        typer.echo(render(findings))
    raise typer.Exit(int(any(finding.status == "fault" for finding in findings)))


@app.command()
def env(
    examples: Annotated[bool, typer.Option("--examples", help="Also find the example elements.")] = False,
) -> None:
    """Print shell lines after which GStreamer finds Sluice's elements: eval "$(sluice env)"."""
    from sluice.app.env import environment

    folder = Path(__file__).parents[3] / "examples"
    if examples and not (folder / "python").is_dir():
        _refuse(f"the examples are in Sluice's repository, and this installation is not made from one: no {folder}")
    try:
        variables = environment(folder if examples else None)
    except SluiceError as error:
        _refuse(str(error))
    for name, value in variables.items():
        typer.echo(f"export {name}={shlex.quote(value)}")


@app.command()
def inspect(
    model: Annotated[Path, typer.Argument(help="A network file.")],
    runtime: Annotated[str, typer.Option(help="What opens it.")] = "auto",
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say why each other decoder was rejected.")] = False,
) -> None:
    """Say what is in a network file: inputs, outputs, the head that was recognised and why."""
    from sluice.models.inspection import inspect_model

    try:
        typer.echo(str(inspect_model(model, runtime, verbose=verbose)))
    except SluiceError as error:
        _refuse(str(error))


if __name__ == "__main__":
    main()
