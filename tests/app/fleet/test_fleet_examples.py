"""The files in examples/fleet are what they claim to be."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from sluice.app.fleet.connection import read_fleet, workers_of
from sluice.app.fleet.schema import Fleet

FOLDER = Path(__file__).parents[3] / "examples" / "fleet"


def fleet() -> Fleet:
    return read_fleet(FOLDER / "yard.yaml", {"CAMERA_PASSWORD": "open-sesame"})


def test_the_fleet_is_one() -> None:
    assert [stream.name for stream in fleet().streams] == ["gate", "dock"]


def test_the_nodes_of_the_chart_have_room_for_the_fleet() -> None:
    values = yaml.safe_load((FOLDER / "kuberay-values.yaml").read_text())
    worker = values["worker"]
    # The operator puts the value into a shell's command line, so it is JSON within quotes.
    offered = json.loads(json.loads(worker["rayStartParams"]["resources"]))
    limits = worker["resources"]["limits"]
    offered |= {"CPU": float(limits["cpu"]), "GPU": float(limits["nvidia.com/gpu"])}
    assert workers_of(fleet().workers.resources, offered) == 1
