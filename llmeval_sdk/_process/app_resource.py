"""What the app's own OpenTelemetry says of the app: the attributes of its provider's resource.

Scores then stand beside the app's spans under one ``service.name``, without a setting of ours.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from llmeval_sdk._process.shield import shield


NAME = "service.name"
_noted: Any = None


def note(span: Any) -> None:
    """Take note of the resource of a span that is evaluated: its provider need not be global."""
    global _noted  # noqa: PLW0603
    _noted = getattr(span, "resource", None)


def app_resource() -> Mapping[str, str | bool | int | float]:
    """Return the attributes that describe the app; none where it has no provider of its own."""
    with shield("otel resource", calls_out=True):
        for resource in (_noted, _of_global_provider()):
            attributes = {
                key: value
                for key, value in (getattr(resource, "attributes", None) or {}).items()
                if isinstance(value, (str, bool, int, float))
            }
            if str(attributes.get(NAME, "unknown_service")).startswith("unknown_service"):
                attributes.pop(NAME, None)  # what the SDK of OpenTelemetry says for no name
            if attributes:
                return attributes
    return {}


def _of_global_provider() -> Any:
    trace = sys.modules.get("opentelemetry.trace")
    return None if trace is None else getattr(trace.get_tracer_provider(), "resource", None)
