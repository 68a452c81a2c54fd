"""The documents that are made from the code: the configuration's JSON Schema, and the API's OpenAPI document."""

from __future__ import annotations

import json

from sluice.app.serve.context import Context
from sluice.app.serve.gate import Access
from sluice.app.serve.schema import Config
from sluice.app.serve.web import make_app


def config_schema() -> str:
    """Return the JSON Schema of a configuration file, for editors that check YAML against one."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Config.model_json_schema()}
    return json.dumps(schema, indent=2)


def openapi() -> str:
    """Return the OpenAPI document, as a running service has it at ``/openapi.json``."""
    return json.dumps(make_app(Context(Access(None, ()), str)).openapi(), indent=2)
