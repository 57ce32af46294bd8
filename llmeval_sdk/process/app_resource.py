"""What the app's own OpenTelemetry says of the app: the attributes of its provider's resource.

Scores then stand beside the app's spans under one ``service.name``, without a setting of ours.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from llmeval_sdk.process.shield import shield


Attribute = str | bool | int | float
NAME = "service.name"
_noted: object = None


def note(span: object) -> None:
    """Take note of the resource of a span that is evaluated: its provider need not be global."""
    global _noted  # noqa: PLW0603
    resource = getattr(span, "resource", None)
    if getattr(resource, "attributes", None):  # not those of our own provider
        _noted = resource


def app_resource() -> Mapping[str, Attribute]:
    """Return the attributes that describe the app; none where it has no provider of its own.

    A resource that names the service is preferred: a provider that nobody described has none.
    """
    with shield("otel resource", calls_out=True):
        found = [_attributes(resource) for resource in (_noted, _of_global_provider())]
        return next((each for each in found if NAME in each), found[0] or found[1])
    return {}


def _attributes(resource: object) -> dict[str, Attribute]:
    attributes = {
        key: value
        for key, value in (getattr(resource, "attributes", None) or {}).items()
        if isinstance(value, (str, bool, int, float))
    }
    if str(attributes.get(NAME, "unknown_service")).startswith("unknown_service"):
        attributes.pop(NAME, None)  # what the SDK of OpenTelemetry says for no name
    return attributes


def _of_global_provider() -> Any:
    trace = sys.modules.get("opentelemetry.trace")
    return None if trace is None else getattr(trace.get_tracer_provider(), "resource", None)
