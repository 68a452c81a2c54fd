"""Makes of ``sluicevlm``'s properties what its work needs."""

import json
from collections.abc import Mapping
from typing import Any

from sluice.elements.vlm_properties import POLICIES, SELECTION
from sluice.errors import ConfigurationError
from sluice.models.loading import find_python
from sluice.vlm.backends import Backend, BackendOptions, make_backend
from sluice.vlm.backends.python import PythonBackend
from sluice.vlm.config import Settings, read_settings


def settings_of(values: Mapping[str, Any]) -> Settings:
    """Return what each stream is asked.

    Raises:
        ConfigurationError: a property or the configuration file cannot be used.
    """
    own = {name: values[name] for name in SELECTION if values[name] is not None}
    return read_settings(own, values["config-file"] or None)


def backend_of(values: Mapping[str, Any], settings: Settings) -> Backend:
    """Return who answers, not opened yet.

    Raises:
        ConfigurationError: the properties name nobody, or cannot be used.
        ModelError: a user's class cannot be found.
    """
    spec = values["backend"] or ""
    if not spec:
        raise ConfigurationError(
            "backend is not set; right is the URL of an OpenAI-compatible endpoint (http://host:8000/v1), "
            "transformers, vllm, package.module:Class or file.py:Class"
        )
    options = BackendOptions(
        model=values["model"] or "",
        system=values["system-prompt"] or "",
        api_key_env=values["api-key-env"] or "",
        timeout=values["timeout"] or 60.0,
        retries=values["retries"],
        retry_after_limit=values["retry-after-limit"],
        max_tokens=values["max-tokens"],
        most_characters=values["max-answer"],
        guided=values["guided"],
        most_pictures=max(one.selection.frames for one in settings.all),
        device=values["device"] or "auto",
        extra=_request_options(values["request-options"]),
    )
    if "://" not in spec and ":" in spec:
        return PythonBackend(find_python(spec), spec, options)
    return make_backend(spec, options)


def policy_of(values: Mapping[str, Any]) -> str:
    """Return the policy.

    Raises:
        ConfigurationError: there is none of this name.
    """
    policy = values["policy"] or "newest"
    if policy not in POLICIES:
        raise ConfigurationError(f"policy is {policy!r}; there are {', '.join(POLICIES)}")
    return str(policy)


def _request_options(text: str | None) -> dict[str, Any]:
    if not text:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"request-options is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise ConfigurationError(f"request-options is a {type(found).__name__}; right is a JSON object")
    return found
