"""The live outputs and the metrics of ``sluice run``: begun before the run, ended behind it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.errors import ConfigurationError

if TYPE_CHECKING:
    from sluice.app.monitor import Monitor
    from sluice.app.outputs import LiveOutputs
    from sluice.app.pipeline import Pipeline

_LOOK = 0.1  # seconds between looks whether the run has started


@dataclass(frozen=True)
class Wanted:
    """What the command line asks for besides the run itself.

    Attributes:
        record: folder for recordings in segments.
        segment_seconds: their length.
        hls: folder for playlists.
        rtsp: port of the RTSP server on this machine's own address; 0: a free one.
        metrics: port of Prometheus' endpoint on this machine's own address; 0: a free one.
    """

    record: Path | None = None
    segment_seconds: float | None = None
    hls: Path | None = None
    rtsp: int | None = None
    metrics: int | None = None

    def outputs(self) -> LiveOutputs | None:
        """Begin the live outputs, if any are asked for.

        Raises:
            ConfigurationError: a value, package or port cannot be used.
        """
        if self.segment_seconds is not None and self.record is None:
            raise ConfigurationError("--segment-seconds needs --record: the folder for the segments")
        if self.record is None and self.hls is None and self.rtsp is None:
            return None
        from sluice.app.outputs import HlsOptions, LiveOutputs, OutputOptions, RecordOptions, RtspOptions

        record = RecordOptions(self.record, segment_seconds=self.segment_seconds or 60.0) if self.record else None
        outputs = LiveOutputs(
            OutputOptions(
                record=record,
                hls=HlsOptions(self.hls) if self.hls else None,
                rtsp=None if self.rtsp is None else RtspOptions(port=self.rtsp),
                pictures=None,
            )
        )
        if outputs.rtsp_base is not None:
            print(f"sluice: each stream is at {outputs.rtsp_base}NAME", file=sys.stderr)
        return outputs


@contextmanager
def measured(pipeline: Pipeline, outputs: LiveOutputs | None, port: int | None) -> Iterator[None]:
    """Give a run's metrics out while it lasts, and finish its live outputs at the end.

    Raises:
        ConfigurationError: prometheus-client is missing, or the port cannot be used.
    """
    server: Any = None
    try:
        if port is not None:
            server = _serve(pipeline, outputs, port)
        yield
    finally:
        if outputs is not None:
            outputs.close()
        if server is not None:
            server.shutdown()
            server.server_close()


def _serve(pipeline: Pipeline, outputs: LiveOutputs | None, port: int) -> Any:
    from sluice.app.monitor import Monitor

    monitor = Monitor(pipeline, outputs)
    from prometheus_client import start_http_server

    try:
        server, _ = start_http_server(port, "127.0.0.1", registry=monitor.metrics.registry)
    except OSError as error:
        raise ConfigurationError(f"--metrics: port {port} cannot be used: {error.strerror}") from error
    threading.Thread(target=_attach, args=(monitor,), name="sluice-monitor", daemon=True).start()
    print(f"sluice: metrics are at http://127.0.0.1:{server.server_port}/metrics", file=sys.stderr)
    return server


def _attach(monitor: Monitor) -> None:
    """Measure from the start on, which may be some time away: the model is loaded before it."""
    while not monitor.attach():
        time.sleep(_LOOK)
