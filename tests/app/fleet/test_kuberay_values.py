"""The values for KubeRay's chart: rendered as the chart does, the RayCluster is one that Kubernetes and KubeRay take.

Neither is installed here. What they demand was written down from KubeRay's types (`ray-operator/apis/ray/v1`), its
chart `ray-cluster` and Kubernetes' API reference, as far as the example uses it: `SCHEMA` refuses every member that it
does not list.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

VALUES = Path(__file__).parents[3] / "examples" / "fleet" / "kuberay-values.yaml"
NAME = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
QUANTITY = r"^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?$"
SUFFIXES = {"": 1, "m": Decimal("0.001")} | {
    name + binary: base**power
    for power, name in enumerate(("k", "M", "G", "T"), 1)
    for base, binary in ((1000, ""), (1024, "i"))
}
SUFFIXES["Ki"] = SUFFIXES.pop("ki")


def closed(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def mapping(values: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values}


TEXT = {"type": "string"}
COUNT = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
AMOUNTS = mapping({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": QUANTITY}]})
CONTAINER = closed(
    {
        "name": {"type": "string", "pattern": NAME},
        "image": {"type": "string", "pattern": "^[^ ]+:[^ :]+$"},
        "imagePullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
        "resources": closed({"limits": AMOUNTS, "requests": AMOUNTS}),
        "env": {
            "type": "array",
            "items": closed({"name": {"type": "string", "pattern": "^[^=]+$"}, "value": TEXT}, "name"),
        },
        "volumeMounts": {
            "type": "array",
            "items": closed(
                {"name": TEXT, "mountPath": {"type": "string", "pattern": "^/[^:]*$"}, "readOnly": {"type": "boolean"}},
                "name",
                "mountPath",
            ),
        },
    },
    "name",
)
VOLUME = {
    **closed(
        {
            "name": {"type": "string", "pattern": NAME},
            "persistentVolumeClaim": closed({"claimName": TEXT, "readOnly": {"type": "boolean"}}, "claimName"),
            "emptyDir": closed(
                {"medium": {"enum": ["", "Memory"]}, "sizeLimit": {"type": "string", "pattern": QUANTITY}}
            ),
        },
        "name",
    ),
    "minProperties": 2,  # a name and one kind of volume
    "maxProperties": 2,
}
TEMPLATE = closed(
    {
        "spec": closed(
            {
                "containers": {"type": "array", "minItems": 1, "items": CONTAINER},
                "volumes": {"type": "array", "items": VOLUME},
            },
            "containers",
        )
    },
    "spec",
)
PARAMETERS = mapping(TEXT)  # map[string]string: a number is refused
SCHEMA = closed(
    {
        "gcsFaultToleranceOptions": closed(
            {"redisAddress": {"type": "string", "pattern": r"^[^ ]+:\d+$"}}, "redisAddress"
        ),
        "headGroupSpec": closed({"rayStartParams": PARAMETERS, "template": TEMPLATE}, "rayStartParams", "template"),
        "workerGroupSpecs": {
            "type": "array",
            "items": closed(
                {
                    "groupName": {"type": "string", "pattern": NAME},
                    "replicas": COUNT,
                    "minReplicas": COUNT,
                    "maxReplicas": COUNT,
                    "rayStartParams": PARAMETERS,
                    "template": TEMPLATE,
                },
                "groupName",
                "minReplicas",
                "maxReplicas",
                "rayStartParams",
                "template",
            ),
        },
    },
    "headGroupSpec",
)


def quoted(parameters: dict[str, Any]) -> dict[str, str]:
    """What Helm's `quote` makes of them, as the chart writes ``{{ $key }}: {{ $val | quote }}``."""
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in parameters.items()}


def rendered(values: dict[str, Any]) -> dict[str, Any]:
    """The spec that the chart makes; members that it does not know are an error, as they would be lost silently."""
    values = copy.deepcopy(values)
    image, fault_tolerance = values.pop("image"), values.pop("gcsFaultTolerance")
    head, worker = values.pop("head"), values.pop("worker")
    assert not values
    assert head.pop("enableInTreeAutoscaling") is False, "the chart leaves it out"
    assert fault_tolerance.pop("enabled") is True

    def template(group: dict[str, Any], name: str) -> dict[str, Any]:
        container = {
            "name": name,
            "image": f"{image['repository']}:{image['tag']}",
            "imagePullPolicy": image["pullPolicy"],
            "resources": group.pop("resources"),
            "env": group.pop("containerEnv", []),
            "volumeMounts": group.pop("volumeMounts"),
        }
        return {"spec": {"containers": [container], "volumes": group.pop("volumes")}}

    made = {
        "gcsFaultToleranceOptions": fault_tolerance,
        "headGroupSpec": {
            "rayStartParams": quoted(head.pop("rayStartParams")),
            "template": template(head, "ray-head"),
        },
        "workerGroupSpecs": [
            {
                "rayStartParams": quoted(worker.pop("rayStartParams")),
                "template": template(worker, "ray-worker"),
                **worker,
            }
        ],
    }
    assert not head
    return made


def amount(quantity: str | int) -> Decimal:
    number, suffix = re.fullmatch(r"([0-9.]+)(\D*)", str(quantity)).groups()  # type: ignore[union-attr]
    return Decimal(number) * SUFFIXES[suffix]


def check(spec: dict[str, Any]) -> None:
    """What the API server and KubeRay's operator refuse beyond the schema."""
    jsonschema.validate(spec, SCHEMA)
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        (container,) = pod["containers"]
        limits, requests = container["resources"]["limits"], container["resources"]["requests"]
        for name, asked in requests.items():
            assert amount(asked) <= amount(limits[name]), f"{name}: more is asked for than allowed"
        for name in limits.keys() | requests.keys():
            if "/" in name:  # an extended resource cannot be overcommitted
                assert amount(limits[name]) == amount(requests.get(name, limits[name])), name
                assert amount(limits[name]) % 1 == 0, f"{name} is not divisible"
        assert {mount["name"] for mount in container["volumeMounts"]} <= {volume["name"] for volume in pod["volumes"]}
        paths = [mount["mountPath"] for mount in container["volumeMounts"]]
        assert len(paths) == len(set(paths))
        shared = sum(
            amount(volume["emptyDir"]["sizeLimit"])
            for volume in pod["volumes"]
            if volume.get("emptyDir", {}).get("medium") == "Memory"
        )
        assert shared < amount(limits["memory"]), "what is in memory counts against the limit"
    for group in spec["workerGroupSpecs"]:
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
    # With gcsFaultToleranceOptions KubeRay refuses a password or address given beside it.
    assert not {"redis-password", "redis-username"} & spec["headGroupSpec"]["rayStartParams"].keys()
    environment = spec["headGroupSpec"]["template"]["spec"]["containers"][0]["env"]
    assert "RAY_REDIS_ADDRESS" not in {variable["name"] for variable in environment}


def values() -> dict[str, Any]:
    return yaml.safe_load(VALUES.read_text())  # type: ignore[no-any-return]


def test_the_cluster_that_the_chart_makes_of_the_values_is_one_that_kubernetes_takes() -> None:
    check(rendered(values()))


def test_no_worker_is_placed_beside_the_head() -> None:
    assert rendered(values())["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"


@pytest.mark.parametrize(
    "harm",
    [
        lambda v: v["worker"].update(replica=4),
        lambda v: v["worker"].update(replicas="3"),
        lambda v: v["worker"].update(minReplicas=9),
        lambda v: v["worker"]["resources"]["limits"].update(memory="64 GB"),
        lambda v: v["worker"]["resources"]["requests"].update({"nvidia.com/gpu": "0"}),
        lambda v: v["worker"]["volumes"][0].update(emptyDir={}),
        lambda v: v["worker"]["volumeMounts"][0].update(name="modles"),
        lambda v: v["head"]["rayStartParams"].update({"redis-password": "x"}),
        lambda v: v["gcsFaultTolerance"].pop("redisAddress"),
        lambda v: v["image"].update(pullPolicy="always"),
    ],
)
def test_the_check_finds_what_is_wrong(harm: Callable[[dict[str, Any]], Any]) -> None:
    harmed = values()
    harm(harmed)
    with pytest.raises((AssertionError, jsonschema.ValidationError)):
        check(rendered(harmed))
