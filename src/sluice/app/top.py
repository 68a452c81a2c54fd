"""``sluice top``: what the streams of a running service do, live in a terminal; drawn by rich."""

from __future__ import annotations

import select
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sluice.app.pace import WINDOW, Pace
from sluice.app.serve.client import Client, ServiceError
from sluice.errors import ConfigurationError

_GOOD, _OVER = ("playing",), ("ended", "removed")
_WIDEST_STATE = len("format-changed")
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


class Look(NamedTuple):
    """The numbers at a time of a clock that only goes forward, in seconds."""

    numbers: Numbers
    at: float


def top(url: str | None, token_file: Path | None, *, once: bool, interval: float) -> None:
    """Show a service's numbers until q is pressed, or once.

    Raises:
        SluiceError: the service does not answer the first time, or a package is missing.
    """
    client = Client(url, token_file)
    looks: deque[Look] = deque([Look(Numbers(client.metrics()), time.monotonic())])
    console = Console()
    if once or not sys.stdout.isatty():
        time.sleep(interval)  # how busy the model is shows between two looks only
        looks.append(Look(Numbers(client.metrics()), time.monotonic()))
        console.print(picture(looks))
        return
    with Live(picture(looks), console=console, screen=True, auto_refresh=False) as live, _keys() as pressed:
        while not pressed(interval):
            try:
                looks.append(Look(Numbers(client.metrics()), time.monotonic()))
            except ServiceError as error:  # it may come back
                live.update(Text(f"{error}\nq ends", style="red"), refresh=True)
                continue
            while len(looks) > 2 and looks[-1].at - looks[1].at >= WINDOW:
                looks.popleft()
            live.update(picture(looks), refresh=True)


def picture(looks: Sequence[Look]) -> RenderableType:
    """Return what is shown: one line on the whole, what to do if the model is too slow, and a line per stream.

    Args:
        looks: at the numbers, one after another; the last is shown, the first is what it is compared with.
    """
    numbers, hint = looks[-1].numbers, _pace(looks[-1]).advice_since(_pace(looks[0]))
    parts: list[RenderableType] = [_whole(numbers), *([Text(hint, style="yellow")] if hint else []), _streams(numbers)]
    return Group(*parts, Text("q ends", style="dim"))


def _pace(look: Look) -> Pace:
    """Return what tells whether the model keeps up."""
    numbers = look.numbers
    live = [sample.labels["stream"] for sample in numbers.all("stream_live") if sample.value]
    return Pace(
        look.at,
        numbers.one("model_busy_seconds_total"),
        {
            sample.labels["stream"]: (sample.value, numbers.one("frames_overtaken_total", **sample.labels))
            for sample in numbers.all("frames_in_total")
        },
        {stream for stream in live if numbers.one("frames_waiting", stream=stream) > 1},
    )


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
    table.add_column("state", no_wrap=True, min_width=_WIDEST_STATE)
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
