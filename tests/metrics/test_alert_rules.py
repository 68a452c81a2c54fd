"""The alert rules that are given out name metrics that exist, with labels and states that exist."""

import re
from pathlib import Path

import yaml
from prometheus_client.parser import text_string_to_metric_families
from test_metrics_families import SNAPSHOT

from sluice.app.streams import StreamState
from sluice.metrics import Metrics

RULES = Path(__file__).parents[2] / "examples" / "prometheus" / "sluice-alerts.yml"


def test_every_metric_in_the_rules_exists() -> None:
    families = list(text_string_to_metric_families(Metrics(lambda: SNAPSHOT).text()))
    labels = {sample.name: set(sample.labels) for family in families for sample in family.samples}
    rules = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
    assert len(rules) == len({rule["alert"] for rule in rules}) >= 6
    for rule in rules:
        named = re.findall(r"(sluice_\w+)(?:\{(\w+)[=~!])?", rule["expr"])
        assert named, rule["alert"]
        for name, label in named:
            assert name in labels, name
            assert not label or label in labels[name], f"{name} has no label {label}"


def test_the_states_in_the_rules_exist() -> None:
    (states,) = re.findall(r'state=~"(playing[^"]+)"', RULES.read_text())
    assert set(states.split("|")) <= {state.value for state in StreamState}
