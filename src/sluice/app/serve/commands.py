"""The command line of the service: ``sluice serve``, ``sluice streams ...`` and ``sluice models ...``."""

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from sluice.errors import SluiceError
from sluice.yaml_text import load_yaml

UNKNOWN = 3
"""The exit status where the outcome is not known yet."""

streams_app = typer.Typer(name="streams", help="The streams of a running service.", no_args_is_help=True)
models_app = typer.Typer(name="models", help="List the models, or change that of a running service.")

Url = Annotated[
    str | None, typer.Option("--url", help="Where the service is; default: SLUICE_URL, or http://127.0.0.1:8080.")
]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", help="File with the service's token; default: SLUICE_TOKEN.")
]


def serve(
    config: Annotated[Path | None, typer.Argument(metavar="CONFIG.yaml", help="The configuration.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Say what is wrong with the configuration, and end.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the configuration's JSON Schema, and end.")] = False,
    openapi: Annotated[bool, typer.Option("--openapi", help="Print the API's OpenAPI document, and end.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Log more: requests, finished segments, answers.")
    ] = False,
    processes: Annotated[
        int, typer.Option(min=1, help="Processes that streams are shared out over, each with the model.")
    ] = 1,
) -> None:
    """Run the pipeline as a service with a REST API and a page, until it is told to end.

    The exit status is 0 after SIGTERM or Ctrl-C, 1 if the pipeline failed, 2 for a configuration that cannot be used.
    """
    with _errors(2):
        _need_extra()
        if schema or openapi:
            from sluice.app.serve import documents

            typer.echo(documents.config_schema() if schema else documents.openapi())
            return
        if config is None:
            raise typer.BadParameter("name the configuration file", param_hint="CONFIG.yaml")
        from sluice.app.serve.running import serve as run

        raise typer.Exit(run(config, check_only=check, verbose=verbose, processes=processes))


@streams_app.command("list")
def list_streams(
    json: Annotated[bool, typer.Option("--json", help="Print all that is known, as JSON.")] = False,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """List the streams with their states."""
    with _errors():
        streams = _client(url, token_file).streams()
    if json:
        typer.echo(json_module.dumps(streams, indent=2))
        return
    for stream in streams:
        reason = f"  {stream['reason']}" if stream["reason"] else ""
        typer.echo(f"{stream['name']:24} {stream['state']:14} {stream['fps']:6.1f} fps  {stream['uri']}{reason}")


@streams_app.command("add")
def add_stream(
    source: Annotated[str, typer.Argument(help="As for `sluice run`; - reads it from the standard input.")],
    name: Annotated[str, typer.Option(help="The stream's name.")],
    policy: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Of its policy, such as fps=10; may be given again.")
    ] = None,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Add a stream. A source with a password is better read from the standard input, which no other user sees."""
    with _errors():
        text = sys.stdin.readline().strip() if source == "-" else source
        _client(url, token_file).add(text, name, _policy(policy or []))


@streams_app.command("remove")
def remove_stream(name: str, url: Url = None, token_file: TokenFile = None) -> None:
    """Take a stream out."""
    with _errors():
        _client(url, token_file).remove(name)


@streams_app.command("restart")
def restart_stream(name: str, url: Url = None, token_file: TokenFile = None) -> None:
    """Open a stream anew."""
    with _errors():
        _client(url, token_file).restart(name)


@models_app.callback(invoke_without_command=True)
def models(context: typer.Context) -> None:
    """List the registered models, the runtimes and the decoders of network models."""
    if context.invoked_subcommand is None:
        from sluice.app.catalogue import catalogue

        typer.echo(catalogue())


@models_app.command("swap")
def swap_model(
    model: Annotated[str, typer.Argument(help="A registered name, or a file in the service's directories.models.")],
    policy: Annotated[
        str, typer.Option(help="beside: the old one works until the new one is ready; in-place: it is closed first.")
    ] = "beside",
    wait: Annotated[
        float, typer.Option(metavar="SECONDS", help="How long to wait for the outcome; 0: not at all.", min=0)
    ] = 120.0,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Change the model of a running service, and say whether the new one runs.

    The exit status is 0 if it runs (with --wait 0: if it is being loaded), 1 if it was refused, and 3 if neither is
    known when the time is up, or the service answers no more.
    """
    from sluice.app.serve.client import UnknownOutcomeError

    with _errors():
        client = _client(url, token_file)
        begun = client.swap(model, policy)
        if not wait:
            typer.echo(f"{model} is being loaded; GET /api/events?since={begun} tells how that went")
            return
        with _errors(UNKNOWN, UnknownOutcomeError):
            outcome = client.swapped(begun, wait)
    if outcome is None:
        typer.echo(
            f"sluice: {model} is still being loaded after {wait:g} s, or no frames come to try it on; "
            f"GET /api/events?since={begun} tells how that goes on",
            err=True,
        )
        raise typer.Exit(UNKNOWN)
    typer.echo(outcome)


def _client(url: str | None, token_file: Path | None) -> Any:
    from sluice.app.serve.client import Client

    return Client(url, token_file)


def _policy(options: list[str]) -> dict[str, Any]:
    """Values are read as in the configuration file: loop=true, region=[0, 0, 640, 360]."""
    policy = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals:
            raise typer.BadParameter(f"{option!r} is not KEY=VALUE", param_hint="--policy")
        try:
            policy[key.strip()] = load_yaml(value)
        except (ValueError, RecursionError):
            raise typer.BadParameter(f"the value of {option!r} cannot be read", param_hint="--policy") from None
    return policy


def _need_extra() -> None:
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise SluiceError(
            f"{error.name} is not installed; install it with: pip install 'sluice-video[serve]'"
        ) from error


@contextmanager
def _errors(status: int = 1, kind: type[SluiceError] = SluiceError) -> Iterator[None]:
    """End with a message and a status at an error of this kind."""
    try:
        yield
    except kind as error:
        typer.echo(f"sluice: {error}", err=True)
        raise typer.Exit(status) from error
