"""DeepStream's latency measurement: the texts that it prints and the CSV files that it writes, by the same variables.

* NVDS_ENABLE_LATENCY_MEASUREMENT: batches carry the records; without it nothing is printed or written.
* NVDS_ENABLE_COMPONENT_LATENCY_MEASUREMENT: each element's record is printed, as ``nvds_measure_buffer_latency`` does,
  and behind them each frame's latency, as deepstream-app does.
* NVDS_LATENCY_MEASUREMENT_SILENT: nothing is printed.
* NVDS_PERF_CSV_PREFIX: all is written to ``PREFIX_id_PID_component_YYYYmmdd-HHMMSS.csv`` and ``..._frame_...``.

That they are set counts, whatever the value. The formats are those of libnvdsgst_meta 9.0.2. Unlike there, a frame's
latency counts from the muxer's record where no decoder left one, and the muxer's rows have the frames' numbers.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from sluice.contract.latency import ComponentLatency
from sluice.errors import ConfigurationError

_MUXER = "nvstreammux-"
_DECODERS = ("nvv4l2decoder", "audiodecoder")
_WAITING = 256  # batches that wait to be written; what comes when so many do is left out and counted
_GAP = 15 * " "
_COMPONENT_HEAD = (
    "file_id,comp_name,stage,source_id,pad_index,batch_num,frame_num,in_system_timestamp,out_system_timestamp,"
    "measurement_type,measurement_val"
)
_FRAME_HEAD = "file_id,batch_num,source_id,frame_num,in_system_timestamp,fps,measurement_type,measurement_val"


@dataclass(frozen=True)
class LatencyReports:
    """What the environment asks for.

    Attributes:
        printed: whether texts are printed.
        prefix: what the names of the CSV files begin with; None: none are written.
    """

    printed: bool = False
    prefix: str | None = None

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> LatencyReports:
        """Read it."""
        if "NVDS_ENABLE_LATENCY_MEASUREMENT" not in environment:
            return cls()
        components = "NVDS_ENABLE_COMPONENT_LATENCY_MEASUREMENT" in environment
        return cls(
            components and "NVDS_LATENCY_MEASUREMENT_SILENT" not in environment,
            environment.get("NVDS_PERF_CSV_PREFIX") or None,
        )

    def __bool__(self) -> bool:
        return self.printed or self.prefix is not None


@dataclass(frozen=True)
class FrameLatency:
    """How long one frame took.

    Attributes:
        source_id, frame_num: of the frame.
        entered: when its decoder took it in, or else when the muxer did, in milliseconds since 1970.
        latency: until it was measured, in milliseconds.
    """

    source_id: int
    frame_num: int
    entered: float
    latency: float


def frame_latencies(records: Sequence[ComponentLatency], now: float) -> list[FrameLatency]:
    """Return the latencies of a batch's frames at a moment, in milliseconds since 1970."""
    found, decoded = [], 0.0
    for record in records:
        if record.name.startswith(_DECODERS):
            decoded = record.entered
        elif record.name.startswith(_MUXER):
            entered = decoded or record.entered
            found.append(FrameLatency(record.source_id, record.frame_num, entered, now - entered))
            decoded = 0.0
    return found


def as_text(batch: int, records: Sequence[ComponentLatency], frames: Sequence[FrameLatency]) -> str:
    """Return what is printed of a batch."""
    lines = [f"\n************BATCH-NUM = {batch}**************"]
    for record in records:
        times = f"in_system_timestamp = {record.entered:f} out_system_timestamp = {record.left:f}"
        took = f"{record.left - record.entered:f}"
        if record.name.startswith(_MUXER):
            place = f"source_id = {record.source_id} pad_index = {record.pad_index} frame_num = {record.frame_num}"
            lines.append(f"Comp name = {record.name} {place}{_GAP}{times}{_GAP}component_latency = {took}")
        else:
            lines.append(f"Comp name = {record.name} {times}{_GAP}component latency= {took}")
    lines += [
        f"Source id = {frame.source_id} Frame_num = {frame.frame_num} Frame latency = {frame.latency:f} (ms) "
        for frame in frames
    ]
    return "\n".join(lines) + "\n"


class LatencyWriter:
    """Prints and writes what it is given, on a thread of its own: the streaming thread waits for no disk.

    Attributes:
        dropped: batches that came faster than they could be written.
    """

    def __init__(self, reports: LatencyReports, out: TextIO) -> None:
        """Open the files.

        Args:
            reports: what is wanted.
            out: where texts are printed.

        Raises:
            ConfigurationError: a file cannot be written.
        """
        self.dropped = 0
        self._out = out if reports.printed else None
        self._files = ExitStack()
        self._components: TextIO | None = None
        self._frames: TextIO | None = None
        if reports.prefix is not None:
            self._components = self._open(reports.prefix, "component", _COMPONENT_HEAD)
            self._frames = self._open(reports.prefix, "frame", _FRAME_HEAD)
        self._batches = 0
        self._entered: dict[int, float] = {}  # of each source's last frame
        self._waiting: queue.Queue[tuple[Sequence[ComponentLatency], float] | None] = queue.Queue(_WAITING)
        self._thread = threading.Thread(target=self._write_all, name="sluice-latencies", daemon=True)
        self._thread.start()

    def put(self, records: Sequence[ComponentLatency], now: float) -> None:
        """Take the records of a batch that is through, at a moment in milliseconds since 1970; returns at once."""
        try:
            self._waiting.put_nowait((records, now))
        except queue.Full:
            self.dropped += 1

    def close(self, seconds: float = 2.0) -> None:
        """Write what waits, for so long at most, and close the files."""
        try:
            self._waiting.put(None, timeout=seconds)
        except queue.Full:
            return
        self._thread.join(seconds)

    def _open(self, prefix: str, kind: str, head: str) -> TextIO:
        path = Path(f"{prefix}_id_{os.getpid()}_{kind}_{time.strftime('%Y%m%d-%H%M%S')}.csv").expanduser()
        try:
            file = self._files.enter_context(path.open("w", encoding="utf-8"))
        except OSError as error:
            raise ConfigurationError(
                f"NVDS_PERF_CSV_PREFIX: {str(path)!r} cannot be written: {error.strerror}"
            ) from error
        file.write(head)  # each row begins with the end of the line before
        return file

    def _write_all(self) -> None:
        with self._files:
            while (given := self._waiting.get()) is not None:
                self._write(*given)

    def _write(self, records: Sequence[ComponentLatency], now: float) -> None:
        frames = frame_latencies(records, now)
        if self._out is not None:
            self._out.write(as_text(self._batches, records, frames))
            self._out.flush()
        pid = os.getpid()
        for record in records if self._components is not None else ():
            assert self._components is not None
            self._components.write(
                f"\n{pid},{record.name},full,source_{record.source_id},{record.pad_index},{self._batches},"
                f"{record.frame_num},{record.entered:f},{record.left:f},latency,{record.left - record.entered:f}"
            )
        for frame in frames if self._frames is not None else ():
            assert self._frames is not None
            since = frame.entered - self._entered.get(frame.source_id, frame.entered)
            self._entered[frame.source_id] = frame.entered
            self._frames.write(
                f"\n{pid},{self._batches},source_{frame.source_id},{frame.frame_num},{frame.entered:f},"
                f"{1000 / since if since > 0 else 0:f},latency,{frame.latency:f}"
            )
        self._batches += 1
