#!/usr/bin/env python3
"""Prints the reference of `sluice serve` as Markdown, from the JSON Schema of its files and from its OpenAPI document.

.venv/bin/python scripts/serve_reference.py config > docs/serve-config.md
.venv/bin/python scripts/serve_reference.py rest > docs/rest.md
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from sluice.app.serve.documents import config_schema, openapi

_CONFIG_HEAD = """# Every key of a service's configuration

`sluice serve --schema` prints this as JSON Schema, for editors that check YAML against one. How it is used:
[A service](serve.md).
"""
_REST_HEAD = """# The REST API

`sluice serve --openapi` prints the OpenAPI document, and a running service has it at `/openapi.json`. How it is used:
[A service](serve.md). Errors are problem details (RFC 9457) with the type `application/problem+json`:

```json
{"title": "Unprocessable Entity", "status": 422,
 "detail": "polcy: is no key; the nearest that is right is 'policy' (of name, policy, source)",
 "mistakes": [{"where": "polcy", "text": "is no key; the nearest that is right is 'policy' (of name, policy, source)"}]}
```

Every operation but those under *health* and *session* needs the token, if there is one (401), and may be refused to
pages of other hosts (403), under a host name that is not the service's (421), while the service starts or stops (503),
or when the engine takes long (504).
"""
_EVERYWHERE = {"401", "403", "421", "503", "504"}


def config_page() -> str:
    """The keys of a configuration file."""
    schema = json.loads(config_schema())
    parts, seen = [_CONFIG_HEAD, _table(schema, schema)], set()
    waiting = _groups(schema, schema, "")
    while waiting:
        key, definition = waiting.pop(0)
        name = str(definition.get("title"))
        if name in seen:
            continue
        seen.add(name)
        parts.append(
            f"\n## {key}\n\n{definition.get('description', '')}\n\n{_table(definition, schema)}".rstrip("\n") + "\n"
        )
        waiting = _groups(definition, schema, key) + waiting
    return "\n".join(parts)


def _table(definition: dict[str, Any], schema: dict[str, Any]) -> str:
    lines = ["| key | what it takes | default | meaning |", "|---|---|---|---|"]
    for name, about in definition["properties"].items():
        default = "**needed**" if name in definition.get("required", []) else _default(about)
        text = re.sub(r"\bNone\b", "null", about.get("description", "").replace("|", "\\|").replace("``", "`"))
        lines.append(f"| `{name}` | {_kind(about, schema)} | {default} | {text} |")
    return "\n".join(lines) + "\n"


def _groups(definition: dict[str, Any], schema: dict[str, Any], at: str) -> list[tuple[str, dict[str, Any]]]:
    """The groups of keys below a group, each with its place."""
    found = []
    for name, about in definition["properties"].items():
        for kind in _kinds(about):
            suffix = "[]" if kind.get("type") == "array" else ""
            target = _target(kind.get("items", kind), schema)
            if "properties" in target:
                found.append((f"{at}.{name}{suffix}".lstrip("."), target))
    return found


def _kinds(about: dict[str, Any]) -> list[dict[str, Any]]:
    return list(about.get("anyOf", [about]))


def _target(kind: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    name = kind.get("$ref", "").rpartition("/")[2]
    return dict(schema["$defs"][name]) if name else kind


def _kind(about: dict[str, Any], schema: dict[str, Any]) -> str:
    return " or ".join(dict.fromkeys(_word(kind, schema) for kind in _kinds(about)))


def _word(kind: dict[str, Any], schema: dict[str, Any]) -> str:
    if "enum" in kind or "const" in kind:
        return ", ".join(f"`{value}`" for value in kind.get("enum", [kind.get("const")]))
    if "$ref" in kind:
        return "keys" if "properties" in _target(kind, schema) else _word(_target(kind, schema), schema)
    if kind.get("type") == "array":
        return f"list of {_kind(kind.get('items', {}), schema)}" if "items" in kind else "list"
    limits = [str(kind[name]) for name in ("minimum", "maximum") if name in kind]
    word = {"string": "text", "integer": "whole number", "number": "number", "boolean": "`true`, `false`"}
    word |= {"null": "null", "object": "keys of your own"}
    return word.get(kind.get("type", ""), "text") + (f" {'–'.join(limits)}" if len(limits) == 2 else "")


def _default(about: dict[str, Any]) -> str:
    value = about.get("default")
    return "" if value in (None, [], {}) or isinstance(value, dict) else f"`{json.dumps(value)}`"


def rest_page() -> str:
    """The operations of the API."""
    document = json.loads(openapi())
    by_tag: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            by_tag.setdefault(operation["tags"][0], []).append(_operation(method, path, operation))
    parts = [_REST_HEAD]
    for tag, rows in by_tag.items():
        parts.append(
            f"\n## {tag}\n\n| operation | what it does | takes | answers |\n|---|---|---|---|\n" + "\n".join(rows)
        )
    parts.append("\n\n## Members\n")
    for name, definition in sorted(document["components"]["schemas"].items()):
        if "properties" in definition and not name.startswith("HTTP") and name != "ValidationError":
            parts.append(_members(name, definition))
    return "\n".join(parts)


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    takes = [f"`?{one['name']}`" for one in operation.get("parameters", []) if one["in"] == "query"]
    body = operation.get("requestBody", {}).get("content", {})
    takes += [_body(kind, content) for kind, content in body.items()]
    answers = [
        _answer(status, answer) for status, answer in operation["responses"].items() if status not in _EVERYWHERE
    ]
    text = " ".join(operation.get("description", "").split())
    return f"| `{method.upper()} {path}` | {text} | {', '.join(takes)} | {', '.join(answers)} |"


def _body(kind: str, content: dict[str, Any]) -> str:
    name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
    return f"[{name}](#{name.lower()})" if name else f"`{kind}`"


def _answer(status: str, answer: dict[str, Any]) -> str:
    names = [_body(kind, content) for kind, content in answer.get("content", {}).items()]
    return status if int(status) >= 400 or not names else f"{status} {names[0]}"


def _members(name: str, definition: dict[str, Any]) -> str:
    rows = [
        f"| `{member}` | {_rest_kind(about)} | {about.get('description', '')} |"
        for member, about in definition["properties"].items()
    ]
    head = f"### {name}\n\n{definition.get('description', '')}\n"
    return "\n".join([head, "| member | what it holds | meaning |", "|---|---|---|", *rows]) + "\n"


def _rest_kind(about: dict[str, Any]) -> str:
    words = []
    for kind in _kinds(about):
        item = kind.get("items", kind)
        name = item.get("$ref", "").rpartition("/")[2]
        word = f"[{name}](#{name.lower()})" if name else _word(item, {"$defs": {}})
        words.append(f"list of {word}" if "items" in kind else word)
    return " or ".join(dict.fromkeys(words))


if __name__ == "__main__":
    print({"config": config_page, "rest": rest_page}[sys.argv[1]](), end="")
