"""Trace, score and judge production LLM apps in process.

Names are loaded when first used: ``import llmeval_sdk`` starts no thread, reads no file and loads
no third-party module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llmeval_sdk import process
from llmeval_sdk.process.loading import load_module


if TYPE_CHECKING:
    from llmeval_sdk import errors, testing, tracing, viewer
    from llmeval_sdk.evaluation.budget import Budget
    from llmeval_sdk.evaluation.escalation import (
        Cascade,
        Escalation,
        above,
        below,
        between,
        flagged,
    )
    from llmeval_sdk.evaluation.sampling import SamplingRule
    from llmeval_sdk.heuristics import heuristic
    from llmeval_sdk.judges import LLMJudge, judge
    from llmeval_sdk.judges.context_recall import ContextRecall
    from llmeval_sdk.model import (
        Chunk,
        Completion,
        Evaluation,
        Extraction,
        Message,
        Prompt,
        Record,
        Step,
    )
    from llmeval_sdk.model.protocols import LLM, Exporter
    from llmeval_sdk.offline import Report, evaluate
    from llmeval_sdk.pipeline.accepting import accepts
    from llmeval_sdk.pipeline.plan import Hooks, Planning, Plugin
    from llmeval_sdk.pipeline.runtime import configure, enabled, flush, shutdown, stats
    from llmeval_sdk.pipeline.stats import Stats
    from llmeval_sdk.pipeline.submit import submit_evaluation, submit_feedback
    from llmeval_sdk.plugins.instrument.patching import instrument, wrap_openai
    from llmeval_sdk.store.opened import OpenStore, open_store
    from llmeval_sdk.tracing import (
        agent,
        annotate,
        annotation_context,
        current_span,
        disabled,
        embedding,
        export_span,
        llm,
        retrieval,
        task,
        tool,
        workflow,
    )

_HOMES = {
    "tracing": "workflow task retrieval llm tool agent embedding annotate annotation_context "
    "current_span export_span disabled",
    "pipeline.stats": "Stats",
    "pipeline.plan": "Hooks Planning Plugin",
    "pipeline.runtime": "configure enabled flush shutdown stats",
    "pipeline.submit": "submit_evaluation submit_feedback",
    "pipeline.accepting": "accepts",
    "evaluation.sampling": "SamplingRule",
    "evaluation.escalation": "Cascade Escalation above below between flagged",
    "evaluation.budget": "Budget",
    "heuristics": "heuristic",
    "plugins.instrument.patching": "instrument wrap_openai",
    "store.opened": "OpenStore open_store",
    "judges": "judge LLMJudge",
    "judges.context_recall": "ContextRecall",
    "offline": "evaluate Report",
    "model": "Record Chunk Extraction Evaluation Prompt Message Completion Step",
    "model.protocols": "LLM Exporter",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}
_MODULES = ("errors", "testing", "tracing", "viewer")

__all__ = [
    "LLM", "Budget", "Cascade", "Chunk", "Completion", "ContextRecall", "Escalation", "Evaluation",
    "Exporter", "Extraction", "Hooks", "LLMJudge", "Message", "OpenStore", "Planning", "Plugin",
    "Prompt", "Record", "Report", "SamplingRule", "Stats", "Step", "above", "accepts", "agent",
    "annotate", "annotation_context", "below", "between", "configure", "current_span", "disabled",
    "embedding", "enabled", "errors", "evaluate", "export_span", "flagged", "flush", "heuristic",
    "instrument", "judge", "llm", "open_store", "retrieval", "shutdown", "stats",
    "submit_evaluation", "submit_feedback", "task", "testing", "tool", "tracing", "viewer",
    "workflow", "wrap_openai",
]  # fmt: skip


def _load_runtime() -> None:
    """Load the runtime, which installs itself into tracing: for the first span of a process."""
    load_module(f"{__name__}.pipeline.runtime")


process.load_runtime = _load_runtime


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from llmeval_sdk.process.distribution import release

        return release()
    if name in _MODULES:
        return load_module(f"{__name__}.{name}")
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(load_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
