"""How a fleet is, as JSON takes it; without credentials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sluice.app.fleet.cluster import NodeView
from sluice.app.fleet.known import Known
from sluice.app.fleet.nodes import NodeHealth
from sluice.app.fleet.plan import Placement
from sluice.app.fleet.schema import Fleet
from sluice.app.fleet.suspects import Suspects
from sluice.app.fleet.trial import Trial
from sluice.app.streams.states import StreamStatus


def fleet_status(
    fleet: Fleet,
    placed: Mapping[str, Placement],
    workers: Mapping[str, Known],
    nodes: Sequence[NodeView],
    health: NodeHealth,
    suspects: Suspects,
    failures: Mapping[str, str],
    trial: Trial | None,
) -> dict[str, Any]:
    """Put together what is known of a fleet.

    Args:
        fleet: what is wanted.
        placed: where streams are.
        workers: all that are known, by name.
        nodes: of the cluster.
        health: of the nodes.
        suspects: the streams that are thought to end their workers.
        failures: why workers could not start, by name.
        trial: the rollout on its way.
    """
    seen = {(w.name, s.name): s for w in workers.values() if w.report for s in w.report.streams}
    refused = {(w.name, name): reason for w in workers.values() for name, reason in w.refused.items()}
    held, parked = suspects.held, suspects.parked
    streams = [
        _stream(stream.name, placed.get(stream.name), seen, refused, held.get(stream.name, ""), parked)
        for stream in fleet.streams
    ]
    return {
        "name": fleet.name,
        "model": fleet.model.name,
        "rollout": None if trial is None else {"model": trial.model, "workers": sorted(trial.canaries)},
        "streams": streams,
        "workers": [_worker(known) for known in workers.values()],
        "nodes": [
            {
                "id": node.id,
                "name": node.name,
                "alive": node.alive,
                "drained": node.id in health.drained,
                "quarantined": round(health.quarantined(node.id), 1),
            }
            for node in nodes
        ],
        "failures": dict(failures),
    }


def _stream(
    name: str,
    place: Placement | None,
    seen: Mapping[tuple[str, str], StreamStatus],
    refused: Mapping[tuple[str, str], str],
    held: str,
    parked: Mapping[str, float],
) -> dict[str, Any]:
    at = ("" if place is None else place.worker, name)
    status = seen.get(at)
    if place is None:
        state = "failed" if name in parked else "waiting"
    else:
        state = str(status.state) if status else "failed" if at in refused else "placed"
    return {
        "name": name,
        "worker": place.worker if place else None,
        "epoch": place.epoch if place else None,
        "state": state,
        "fps": status.fps if status else 0.0,
        "frames_out": status.frames_out if status else 0,
        "reason": held or (status.reason if status else refused.get(at, "")),
        "parked": round(parked.get(name, 0.0), 1),
    }


def _worker(known: Known) -> dict[str, Any]:
    report = known.report
    return {
        "name": known.name,
        "node": known.node,
        "pid": report.pid if report else None,
        "state": "starting" if known.starting else "lost" if known.lost else "stopping" if known.stopping else "up",
        "model": report.counts.model if report else known.model,
        "streams": sorted(report.epochs) if report else [],
        "frames": report.counts.frames if report else 0,
        "errors": report.counts.errors if report else 0,
    }
