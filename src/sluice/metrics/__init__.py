"""What a running pipeline is measured by: one snapshot, as Prometheus and OpenTelemetry want it."""

from sluice.metrics.families import Metrics
from sluice.metrics.snapshot import ElementNumbers, OutputNumbers, Snapshot, StreamNumbers

__all__ = ["ElementNumbers", "Metrics", "OutputNumbers", "Snapshot", "StreamNumbers"]
