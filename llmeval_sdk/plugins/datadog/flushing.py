"""``LLMObs.flush()`` of the app: our records are a part of what it waits for."""

from __future__ import annotations

import sys
from typing import Any

from llmeval_sdk.pipeline.runtime import in_force
from llmeval_sdk.process.shield import shield
from llmeval_sdk.tracing.internals import deliver, state


MAX_SECONDS = 10.0
"""For how long it waits for judgements. `llmeval_sdk.flush` waits longer where it is told to."""
_ORIGINAL = "llmeval_original"


def deliver_before_flush() -> None:
    """Have ``LLMObs.flush()`` deliver our records first, if the app has loaded ddtrace."""
    llmobs = getattr(sys.modules.get("ddtrace.llmobs"), "LLMObs", None)
    if llmobs is None or hasattr(llmobs.flush, _ORIGINAL):
        return
    original = llmobs.flush

    def flush() -> None:
        _deliver()
        original()

    setattr(flush, _ORIGINAL, original)
    llmobs.flush = staticmethod(flush)


def flush_of(llmobs: Any) -> Any:
    """Return ddtrace's own flush, even after `deliver_before_flush` has replaced it."""
    return getattr(llmobs.flush, _ORIGINAL, llmobs.flush)


def _deliver() -> None:
    """Send our records, and wait for their judgements where judges were asked for by name.

    Apps call it for each request. An event loop is therefore not held up: there the records are
    only sent sooner.
    """
    with shield("flush"):
        asyncio = sys.modules.get("asyncio.events")
        on_a_loop = asyncio is not None and asyncio._get_running_loop() is not None
        deliver(0.0 if on_a_loop or not _has_named_judges() else MAX_SECONDS)


def _has_named_judges() -> bool:
    """Say whether a judge was asked for by name, and not by an escalation alone."""
    if in_force.pipeline is None:
        return False
    plan, named = in_force.pipeline.plan, in_force.settings_or_default().evaluators
    if any(judge.name in named or not plan.gate.names(judge.name) for judge in plan.judges):
        return True
    by_spans = map(plan.find, list(state.named.values()))
    return any(evaluator is not None and evaluator.kind == "judge" for evaluator in by_spans)
