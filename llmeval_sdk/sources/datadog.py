"""Evaluates the LLM Observability spans of an app that uses ddtrace itself.

    from llmeval_sdk.sources.datadog import evaluate_spans
    evaluate_spans()

The topmost span of a trace is scored, with what the spans below it tell: documents, tokens; so is
each ``llm`` span with a prompt, by the judges that look at those. Scores go where the exporters
send them, joined on Datadog's ids. The spans themselves are ddtrace's to send; the local store,
which would otherwise hold scores of spans nobody can look at, keeps them too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import wraps
from importlib import import_module
from typing import Any

from llmeval_sdk._process.shield import swallow
from llmeval_sdk.errors import ConfigurationError, missing_extra
from llmeval_sdk.sources.events import evaluated
from llmeval_sdk.tracing import Span
from llmeval_sdk.tracing._inner import Link, current, recorder


OWN = "llmeval.own"
"""Item on ddtrace's spans that are spans of ours."""
MAX_DEPTH = 200
_SPELLINGS = {
    "rag_context_variable_keys": "rag_context_variables",
    "rag_query_variable_keys": "rag_query_variables",
}


def evaluate_spans(*, evaluators: Sequence[Any] = ()) -> None:
    """Score the spans that ddtrace finishes from here on. A second call changes nothing.

    Args:
        evaluators: evaluators to run on each scored span beside the built-in heuristics, by name or
            as objects; as in ``workflow(evaluators=…)``.

    Raises:
        ConfigurationError: ddtrace is not installed, or too old to say what its spans hold.
    """
    if isinstance(evaluators, str):
        raise TypeError(f"evaluators must be a list: [{evaluators!r}]")
    try:
        tracer = import_module("ddtrace").tracer
        event = import_module("ddtrace.llmobs._constants").CACHED_LLMOBS_EVENT_CTX_KEY
    except ImportError:
        raise missing_extra("evaluate_spans()", "datadog", "ddtrace") from None
    except AttributeError:
        raise ConfigurationError(
            "evaluate_spans() needs a newer ddtrace: pip install -U ddtrace"
        ) from None
    others = list(tracer._span_aggregator.user_processors)
    if not any(isinstance(each, EvaluationTraceFilter) for each in others):
        added = EvaluationTraceFilter(event, tuple(evaluators))
        tracer.configure(trace_processors=[*others, added])
        _teach_the_guides_keys(import_module("ddtrace.llmobs._llmobs"))


def connect(_: Any) -> None:
    """Connect where the app's environment has LLM Observability on; for ``llmeval run``."""
    loaded = sys.modules.get("ddtrace.llmobs")
    if loaded is not None and loaded.LLMObs.enabled:
        evaluate_spans()


def _teach_the_guides_keys(library: Any) -> None:
    """Have ddtrace read the keys of a prompt as its guide spells them, which it drops unread."""
    inner = getattr(library, "_validate_prompt", None)
    if inner is None:
        return

    @wraps(inner)
    def validated(prompt: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(prompt, dict) and not _SPELLINGS.keys().isdisjoint(prompt):
            meant = {its: prompt[guides] for guides, its in _SPELLINGS.items() if guides in prompt}
            prompt = {**meant, **prompt}
        return inner(prompt, *args, **kwargs)

    library._validate_prompt = validated


class EvaluationTraceFilter:
    """A trace filter of ddtrace that lets everything pass. Never raises, never blocks."""

    def __init__(self, event: str, evaluators: tuple[Any, ...]) -> None:
        self._event = event
        self._evaluators = evaluators

    def process_trace(self, trace: list[Any]) -> list[Any]:
        """Hand the finished spans of a trace over; runs where the last of them finished."""
        try:
            self._take(trace)
        except Exception as error:
            if not swallow("sources.process_trace", error, calls_out=True):
                raise
        return trace

    def _take(self, trace: list[Any]) -> None:
        here = current.get()
        if type(here) is Link and not here.recording and here.trace_id == 0:
            if any(span._get_ctx_item(OWN) for span in trace):
                pass  # our delivery finishes spans of ours, and with them a trace of both
            else:
                return  # a judge's own call, or inside disabled()
        events = []
        for span in trace:
            event = span._get_ctx_item(self._event) if span.span_type == "llm" else None
            if event is not None and not span._get_ctx_item(OWN):
                # ``annotation_context(name=…)`` and sampling rules speak of the span's own name
                events.append(({**event, "name": span.name}, _below_ours(span)))
        target = recorder() if events else None
        if target is None:
            return
        evaluators = self._evaluators

        def read() -> Iterable[Span]:
            return evaluated(events, evaluators)

        target.take(read, 2_000 * len(events))


def _below_ours(span: Any) -> bool:
    """Say whether a span of ours is above: it is scored then, with what its own spans tell."""
    above = span._parent
    for _ in range(MAX_DEPTH):
        if above is None:
            return False
        if above._get_ctx_item(OWN):
            return True
        above = above._parent
    return False
