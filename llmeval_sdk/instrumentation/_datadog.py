"""Leaves instrumentation to ddtrace where Datadog gets the app's spans."""

from __future__ import annotations

import sys
from importlib import import_module

from llmeval_sdk._process.shield import swallow, tell
from llmeval_sdk.sources.datadog import evaluate_spans


_NAMES = {"bedrock": "botocore", "google-genai": "google_genai"}
"""What ddtrace calls a client, where its name is not ours."""


def is_in_charge() -> bool:
    """Say whether ddtrace's own integrations trace the calls: LLM Observability is on."""
    loaded = sys.modules.get("ddtrace.llmobs")
    return loaded is not None and bool(loaded.LLMObs.enabled)


_taken: set[str] = set()


def take_over(names: list[str]) -> None:
    """Have ddtrace instrument clients, and score the spans that it makes of their calls."""
    for name in names:
        if name in _taken:
            continue
        _taken.add(name)
        theirs = _NAMES.get(name, name)
        try:
            import_module("ddtrace").patch(raise_errors=True, **{theirs: True})
            tell(
                f"instrument {name}",
                "Datadog's exporter is active, so ddtrace's own integration traces the client",
            )
        except Exception as error:
            if not swallow(f"instrument {name}", error, calls_out=True):
                raise
    evaluate_spans()
