"""The documents that are made from the code: the configuration's JSON Schema, and the API's OpenAPI document."""

from __future__ import annotations

import json
import re
from typing import Any

from sluice.app.serve.context import Context
from sluice.app.serve.gate import Access
from sluice.app.serve.schema import Config
from sluice.app.serve.web import make_app

# An attribute in a docstring: its name, and its text over lines that are indented deeper.
_ATTRIBUTE = re.compile(r"^    (\w+): (.*(?:\n {5,}.*)*)", re.MULTILINE)


def config_schema() -> str:
    """Return the JSON Schema of a configuration file, for editors that check YAML against one."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Config.model_json_schema()}
    _describe(schema["$defs"])
    return json.dumps(schema, indent=2)


def openapi() -> str:
    """Return the OpenAPI document, as a running service has it at ``/openapi.json`` but for the texts of options."""
    document = make_app(Context(Access(None, ()), str)).openapi()
    _describe(document["components"]["schemas"])
    return json.dumps(document, indent=2)


def _describe(definitions: dict[str, Any]) -> None:
    """Move what docstrings of dataclasses say of their attributes to the attributes."""
    for definition in definitions.values():
        text, found, attributes = definition.get("description", "").partition("\n\nAttributes:\n")
        if not found:
            continue
        definition["description"] = text
        for name, said in _ATTRIBUTE.findall(attributes):
            if name in definition.get("properties", {}):
                definition["properties"][name]["description"] = " ".join(said.split())
