"""Leaves instrumentation to ddtrace where Datadog gets the app's spans."""

from __future__ import annotations

import sys
from importlib import import_module

from llmeval_sdk.plugins.datadog.source import evaluate_spans
from llmeval_sdk.process.shield import swallow, tell


_NAMES = {"bedrock": "botocore", "google-genai": "google_genai"}
"""What ddtrace calls a client, where its name is not ours."""
_MODULES = {"bedrock": "botocore.client", "google-genai": "google.genai"}
"""The module that ddtrace patches, where it has another name than the client."""


def is_in_charge() -> bool:
    """Say whether ddtrace's own integrations trace the calls: LLM Observability is on."""
    loaded = sys.modules.get("ddtrace.llmobs")
    return loaded is not None and bool(loaded.LLMObs.enabled)


_taken: set[str] = set()
"""Clients that were left to ddtrace."""


_FLAGS = ("_datadog_patch", "__datadog_patch")
"""The attributes by which ddtrace marks a module that it has patched."""


def sees(name: str) -> bool:
    """Say whether ddtrace traces a client, and score its spans then; runs before each call."""
    if not is_in_charge() or not _is_patched(name):
        return False
    evaluate_spans()
    return True


def leave(name: str) -> bool:
    """Leave a client to ddtrace; False where it does not see the call that is about to be made.

    That is the first call after the app turned LLM Observability on without its integrations.
    """
    if name in _taken:
        return True
    was_patched = _is_patched(name)
    take_over([name])
    return was_patched


def _is_patched(name: str) -> bool:
    module = sys.modules.get(_MODULES.get(name, name))
    return any(getattr(module, flag, False) for flag in _FLAGS)


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
                "LLM Observability is on, so ddtrace's own integration traces the client",
            )
        except Exception as error:
            if not swallow(f"instrument {name}", error, calls_out=True):
                raise
    evaluate_spans()
