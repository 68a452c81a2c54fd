"""``sluice top``: what the streams of a running service do, live in a terminal; drawn by rich."""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sluice.app.serve.client import Client, ServiceError
from sluice.errors import ConfigurationError

_GOOD, _OVER = ("playing",), ("ended", "removed")
_MEASURES = ("0.5", "0.95", "0.99")


class Sample(NamedTuple):
    """One number: its labels and its value."""

    labels: dict[str, str]
    value: float


class Numbers:
    """What a service's metrics say, by name without the prefix."""

    def __init__(self, text: str) -> None:
        """Read Prometheus' text format.

        Raises:
            ConfigurationError: prometheus-client is not installed.
        """
        try:
            from prometheus_client.parser import text_string_to_metric_families
        except ImportError as error:
            raise ConfigurationError(
                'sluice top needs the package prometheus-client; install it with: pip install "sluice-video[serve]"'
            ) from error
        self._samples: dict[str, list[Sample]] = {}
        for family in text_string_to_metric_families(text):
            for name, labels, value, *_ in family.samples:
                self._samples.setdefault(name.removeprefix("sluice_"), []).append(Sample(labels, value))

    def all(self, name: str, **labels: str) -> list[Sample]:
        """Return the numbers of a name whose labels have these values."""
        found = self._samples.get(name, [])
        return [sample for sample in found if all(sample.labels.get(key) == value for key, value in labels.items())]

    def one(self, name: str, **labels: str) -> float:
        """Return the first such number; 0 where there is none."""
        found = self.all(name, **labels)
        return found[0].value if found else 0.0


def top(url: str | None, token_file: Path | None, *, once: bool, interval: float) -> None:
    """Show a service's numbers until q is pressed, or once.

    Raises:
        SluiceError: the service does not answer the first time, or a package is missing.
    """
    client = Client(url, token_file)
    numbers = Numbers(client.metrics())
    console = Console()
    if once or not sys.stdout.isatty():
        console.print(picture(numbers))
        return
    with Live(picture(numbers), console=console, screen=True, auto_refresh=False) as live, _keys() as pressed:
        while not pressed(interval):
            try:
                shown = picture(Numbers(client.metrics()))
            except ServiceError as error:  # it may come back
                shown = Text(f"{error}\nq ends", style="red")
            live.update(shown, refresh=True)


def picture(numbers: Numbers) -> RenderableType:
    """Return what is shown: one line on the whole, and a table with a line per stream."""
    return Group(_whole(numbers), _streams(numbers), Text("q ends", style="dim"))


def _whole(numbers: Numbers) -> Text:
    streams = [sample.labels["stream"] for sample in numbers.all("fps")]
    states = [sample.labels["state"] for sample in numbers.all("stream_state") if sample.value]
    parts = [
        f"{sum(state in _GOOD for state in states)} of {len(streams)} streams play",
        f"{sum(sample.value for sample in numbers.all('fps')):.1f} frames/s",
        f"model {numbers.one('model_seconds_mean') * 1e3:.1f} ms",
        f"batches {numbers.one('batch_fill') * 100:.0f} % full",
        f"memory {numbers.one('process_resident_bytes') / 2**20:.0f} MiB",
        f"{numbers.one('process_open_fds'):.0f} files open",
    ]
    sent = {sample.labels["state"]: int(sample.value) for sample in numbers.all("messages_total")}
    if sent:
        lost = sent.get("dropped", 0) + sent.get("failed", 0)
        parts.append(f"{sent.get('written', 0)} of {sent.get('queued', 0)} messages delivered, {lost} lost")
    return Text("  ·  ".join(parts), style="bold")


def _streams(numbers: Numbers) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("stream")
    table.add_column("state")
    for name in ("fps", "in", "drop", "wait", "p50 ms", "p95 ms", "p99 ms", "view", "again"):
        table.add_column(name, justify="right")
    for sample in numbers.all("fps"):
        name = sample.labels["stream"]
        state = next((s.labels["state"] for s in numbers.all("stream_state", stream=name) if s.value), "?")
        style = "green" if state in _GOOD else "dim" if state in _OVER else "red"
        counts = [numbers.one(f"{key}_total", stream=name) for key in ("frames_in", "frames_dropped")]
        viewers = sum(viewer.value for viewer in numbers.all("output_viewers", stream=name))
        table.add_row(
            name,
            Text(state, style=style),
            f"{sample.value:.1f}",
            *(f"{count:.0f}" for count in counts),
            f"{numbers.one('frames_waiting', stream=name):.0f}",
            *_age(numbers, name),
            f"{viewers:.0f}",
            f"{numbers.one('reconnects_total', stream=name):.0f}",
        )
    return table


def _age(numbers: Numbers, stream: str) -> list[str]:
    """Return how old frames are behind the last element, in ms."""
    measured = numbers.all("latency_seconds_recent", stream=stream)
    last = measured[-1].labels["element"] if measured else ""
    found = {sample.labels["quantile"]: sample.value for sample in measured if sample.labels["element"] == last}
    return [f"{found[quantile] * 1e3:.0f}" if quantile in found else "-" for quantile in _MEASURES]


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


@contextmanager
def _keys() -> Iterator[Callable[[float], bool]]:
    """Give a function that waits so many seconds and returns whether q was pressed, or nobody can press it any more."""
    if not sys.stdin.isatty():
        yield _sleep
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)

    def pressed(seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if select.select([sys.stdin], [], [], left)[0] and sys.stdin.read(1) in ("q", "Q", ""):
                return True
        return False

    try:
        yield pressed
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
