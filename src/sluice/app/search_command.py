"""The command ``sluice search``, with what only `typer` needs; the rest is imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sluice.errors import SluiceError


def search(
    index: Annotated[Path, typer.Option(help="Folder of the archive that `sluice run --index` or sluiceindex made.")],
    text: Annotated[str | None, typer.Argument(help="What is looked for, as in 'red truck'.")] = None,
    text_model: Annotated[
        str | None,
        typer.Option(
            help="Text encoder that belongs to the model which made the embeddings: text.onnx with tokenizer.json "
            "beside it, a folder or name for transformers, or file.py:Class."
        ),
    ] = None,
    like: Annotated[int | None, typer.Option(help="Look for entries like this one, by its number in brackets.")] = None,
    count: Annotated[int, typer.Option("--count", "-n", help="Entries at most.", min=1, max=10_000)] = 10,
    stream: Annotated[str | None, typer.Option(help="Only of this stream, by name or number.")] = None,
    since: Annotated[str | None, typer.Option(help="Only from this time on, as in 2026-01-31T09:30:00 (UTC).")] = None,
    until: Annotated[str | None, typer.Option(help="Only before this time.")] = None,
    label: Annotated[str | None, typer.Option(help="Only objects of this class.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON lines.")] = False,
) -> None:
    """Search recorded embeddings of objects and frames for what looks like a text.

    The exit status is 0 if something was found, 1 if nothing was, 2 for wrong arguments.
    """
    from sluice.app import search as searching

    wanted = searching.Wanted(text, text_model, like, count, stream, since, until, label)
    try:
        hits = searching.search(index, wanted)
    except SluiceError as error:
        typer.echo(f"sluice: {error}", err=True)
        raise typer.Exit(2) from None
    if hits or not json:
        typer.echo(searching.render_json(hits) if json else searching.render(hits))
    raise typer.Exit(0 if hits else 1)
