"""The command line of a fleet: ``sluice fleet apply | status | drain | roll-out | logs | end``."""

from __future__ import annotations

import difflib
import json as json_module
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from sluice.errors import ConfigurationError, SluiceError

app = typer.Typer(name="fleet", help="Streams shared out over the nodes of a Ray cluster.", no_args_is_help=True)

Name = Annotated[str, typer.Option("--fleet", help="The fleet's name.")]
Address = Annotated[
    str,
    typer.Option(envvar="RAY_ADDRESS", help="The Ray cluster: host:port, or auto for the one this machine belongs to."),
]
_READY_STEP = 0.5
_ENDING = 20.0  # seconds for workers to close their streams
_SUMMARY = 5.0  # seconds between two lines of a fleet on this machine
_VIEW_ANSWER = 5.0  # seconds that the fleet's host may take for the page


@app.command()
def apply(
    file: Annotated[Path, typer.Argument(metavar="FLEET.yaml", help="What shall run.")],
    check: Annotated[bool, typer.Option("--check", help="Check the file and the cluster, and change nothing.")] = False,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait until every stream plays; 0: not at all.")] = 0.0,
) -> None:
    """Make a fleet what its file says. What the cluster cannot do is refused before anything is changed."""
    from sluice.app.fleet.connection import STARTING, ask, connected, host_of, read_fleet

    with _errors():
        fleet = read_fleet(file)
        if fleet.address == "local" and not check:
            _run_locally(fleet)
            return
        with connected(fleet.address):
            _check(fleet)
            if check:
                typer.echo(f"{file}: no fault found; {len(fleet.streams)} streams")
                return
            host = host_of(fleet.name, create=True)
            ask(host.apply.remote(fleet), STARTING)
            typer.echo(f"fleet {fleet.name}: {len(fleet.streams)} streams are wanted")
            _wait_until_playing(host, wait)


@app.command()
def status(
    fleet: Name = "sluice",
    address: Address = "auto",
    json: Annotated[bool, typer.Option("--json", help="Print all that is known, as JSON.")] = False,
) -> None:
    """Say which stream runs where, and how."""
    from sluice.app.fleet.connection import ask, connected, host_of

    with _errors(), connected(address):
        found = ask(host_of(fleet).status.remote())
        typer.echo(json_module.dumps(found, indent=2) if json else _table(found))


@app.command()
def drain(
    node: Annotated[str, typer.Argument(help="Name, address or id of the node.")],
    undo: Annotated[bool, typer.Option("--undo", help="Use the node again.")] = False,
    fleet: Name = "sluice",
    address: Address = "auto",
) -> None:
    """Move the streams of a node elsewhere, and use it no more."""
    from sluice.app.fleet.connection import ask, connected, host_of

    with _errors(), connected(address):
        streams, others = ask(host_of(fleet).drain.remote(node, not undo))
        if undo or not streams:
            typer.echo(f"node {node} is {'used again' if undo else 'drained'}")
        else:
            when = "as soon as others have room" if others else "once there is another node: none can be used now"
            typer.echo(f"node {node} is drained; its {streams} stream(s) leave {when}")


@app.command("roll-out")
def roll_out(
    model: Annotated[str, typer.Argument(help="The new model.")],
    canary: Annotated[
        list[str] | None, typer.Option(help="Stream whose worker gets it first; may be given more than once.")
    ] = None,
    fleet: Name = "sluice",
    address: Address = "auto",
) -> None:
    """Try a model on some workers first; it is promoted or rolled back by itself, as the fleet's file says."""
    from sluice.app.fleet.connection import ask, connected, host_of

    with _errors(), connected(address):
        ask(host_of(fleet).roll_out.remote(model, canary or []))
        typer.echo(f"{model} is being tried; sluice fleet logs tells how it ends")


@app.command()
def logs(
    stream: Annotated[str | None, typer.Argument(help="Only of this stream.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until interrupted.")] = False,
    fleet: Name = "sluice",
    address: Address = "auto",
) -> None:
    """Print what happened."""
    from sluice.app.fleet.connection import ask, connected, host_of

    with _errors(), connected(address):
        last, generation = 0, 0
        if stream is not None:
            _check_stream(stream, ask(host_of(fleet).status.remote()), ask(host_of(fleet).events.remote()))
        while True:
            try:
                found = ask(host_of(fleet).events.remote(last, generation))
            except ConfigurationError:
                raise
            except SluiceError:  # the host is being started anew, perhaps
                if not follow:
                    raise
                time.sleep(1)
                continue
            generation = found["generation"]
            for event in found["events"]:
                last = event["number"]
                if stream in (None, event["stream"]):
                    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(event["time"]))
                    typer.echo(f"{when} {event['kind']} {event['stream'] or '-'} {event['text']}")
            if not follow:
                return
            time.sleep(1)


@app.command()
def serve(
    host: Annotated[
        str, typer.Option(help="Address to listen at; any but this machine's own needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: a free one, which is printed.")] = 8090,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", help="File with the token to ask for; default: SLUICE_TOKEN, or none."),
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Host name under which browsers may come; may be given again.")
    ] = None,
    fleet: Name = "sluice",
    address: Address = "auto",
) -> None:
    """Serve a page with the fleet's streams and nodes, /metrics and /api/fleet, until interrupted."""
    from sluice.app.fleet.connection import ask, connected, host_of

    with _errors():
        try:
            from sluice.app.fleet.view import FleetView
            from sluice.app.fleet.web import http_entry, serve_view
        except ImportError as error:
            raise SluiceError(f"{error.name} is not installed: pip install 'sluice-video[fleet]'") from error
        http = http_entry(host, port, token_file, allow_host or ())
        with connected(address), _until_interrupted():
            host_of(fleet)
            view = FleetView(lambda: ask(host_of(fleet).status.remote(), _VIEW_ANSWER))
            server = serve_view(view, http)
            typer.echo(f"sluice: {server.url}/", err=True)
            try:
                while server.alive:
                    time.sleep(_READY_STEP)
            except KeyboardInterrupt:
                server.stop()
                return
            raise SluiceError("the HTTP server has failed")


@app.command()
def end(fleet: Name = "sluice", address: Address = "auto") -> None:
    """Stop every worker of a fleet, and forget it."""
    from sluice.app.fleet.connection import ask, connected, end_process, host_of

    with _errors(), connected(address):
        host = host_of(fleet)
        ask(host.end.remote())
        end_process(host)
        typer.echo(f"fleet {fleet} has ended")


@app.command()
def schema() -> None:
    """Print the JSON Schema of a fleet's file."""
    from sluice.app.fleet.schema import Fleet

    typer.echo(json_module.dumps(Fleet.model_json_schema(), indent=2))


def _check_stream(name: str, found: dict[str, Any], events: dict[str, Any]) -> None:
    """Refuse a stream that never was; say so where nothing has happened to one."""
    names = [stream["name"] for stream in found["streams"]]
    if name in {event["stream"] for event in events["events"]}:
        return
    if name not in names:
        near = difflib.get_close_matches(name, names, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {len(names)}; sluice fleet status lists them"
        raise ConfigurationError(f"the fleet {found['name']} has no stream {name!r}; {hint}")
    print(f"sluice: nothing has happened to stream {name} yet", file=sys.stderr)


def _run_locally(fleet: Any) -> None:
    """Keep a fleet on a cluster of this machine, until interrupted."""
    from sluice.app.fleet.connection import STARTING, ask, connected, host_of

    with connected("local") as where, _until_interrupted():
        _check(fleet)
        host = host_of(fleet.name, create=True)
        ask(host.apply.remote(fleet), STARTING)
        reached = {"RAY_ADDRESS": where, "RAY_AUTH_MODE": os.environ.get("RAY_AUTH_MODE")}  # the second is Ray's doing
        settings = " ".join(f"{name}={value}" for name, value in reached.items() if value)
        typer.echo(f"fleet {fleet.name}: {len(fleet.streams)} streams on this machine, until Ctrl-C; export {settings}")
        try:
            while True:
                time.sleep(_SUMMARY)
                typer.echo(_summary(ask(host.status.remote())))
        except KeyboardInterrupt:
            with suppress(SluiceError):  # where Ray was told to end as well, its processes end without being asked
                ask(host.end.remote(), _ENDING)


@contextmanager
def _until_interrupted() -> Iterator[None]:
    """Have SIGTERM do what Ctrl-C does, also where a shell has had Ctrl-C ignored."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, signal.default_int_handler) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _check(fleet: Any) -> None:
    from sluice.app.fleet.connection import check_cluster

    for text in check_cluster(fleet):
        print(f"sluice: {text}, and was not checked", file=sys.stderr)


def _wait_until_playing(host: Any, seconds: float) -> None:
    from sluice.app.fleet.connection import ask

    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = ask(host.status.remote())
        if all(stream["state"] == "playing" for stream in found["streams"]):
            typer.echo(_summary(found))
            return
        time.sleep(_READY_STEP)
    if seconds:
        raise SluiceError(f"not every stream plays after {seconds:g} s: {_summary(ask(host.status.remote()))}")


def _summary(found: dict[str, Any]) -> str:
    states = [stream["state"] for stream in found["streams"]]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    up = sum(worker["state"] == "up" for worker in found["workers"])
    return f"{counts or 'no streams'}; {up} of {len(found['workers'])} workers up"


def _table(found: dict[str, Any]) -> str:
    lines = [f"fleet {found['name']}, model {found['model']}: {_summary(found)}", ""]
    nodes = {node["id"]: node["name"] for node in found["nodes"]}
    places = {worker["name"]: nodes.get(worker["node"], worker["node"]) for worker in found["workers"]}
    rows = [("stream", "state", "fps", "worker", "node")]
    rows += [
        (s["name"], s["state"], f"{s['fps']:.1f}", s["worker"] or "-", places.get(s["worker"], "-"))
        for s in found["streams"]
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines += [f"stream {s['name']}: {s['reason']}" for s in found["streams"] if s["reason"] and s["state"] != "playing"]
    for node in found["nodes"]:
        marks = [name for name in ("drained",) if node[name]]
        marks += ["gone"] if not node["alive"] else []
        marks += [f"quarantined for {node['quarantined']:.0f} s"] if node["quarantined"] else []
        lines += [f"node {node['name']}: {', '.join(marks)}"] if marks else []
    return "\n".join([*lines, *(f"{worker}: {reason}" for worker, reason in found["failures"].items())])


@contextmanager
def _errors() -> Iterator[None]:
    """End with 2 for what the user can mend in words or files, with 1 for what failed."""
    try:
        yield
    except ConfigurationError as error:
        print(f"sluice: {error}", file=sys.stderr)
        raise typer.Exit(2) from error
    except SluiceError as error:
        print(f"sluice: {error}", file=sys.stderr)
        raise typer.Exit(1) from error
