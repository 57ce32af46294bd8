"""A judge's run as a trace of its own: one link to what it judged, its model calls below it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import time_ns

from llmeval_sdk.model import Evaluation, Failure, ModelCall, SpanData, Target
from llmeval_sdk.protocols import Judge
from llmeval_sdk.tracing._inner import new_span_id, new_trace_id


JUDGE_TAG = "llmeval.judge"
"""Every span of a judge's run has it: what made it, and that it is not the app's."""


def judge_spans(
    judge: Judge,
    target: Target,
    evaluation: Evaluation,
    begun_ns: int,
    calls: Sequence[ModelCall] = (),
    *,
    content: bool,
) -> list[SpanData]:
    """Make the root and one span for each call of a model.

    The root carries what the judgement used altogether: whoever sums over spans sums those of kind
    ``llm`` and ``embedding``.
    """
    said = {"value": evaluation.value, "explanation": evaluation.explanation}
    root = SpanData(
        trace_id=f"{new_trace_id():032x}",
        span_id=f"{new_span_id():016x}",
        parent_id=None,
        name=judge.name,
        kind="workflow",
        start_ns=begun_ns,
        end_ns=time_ns(),
        response=said if content else {"value": evaluation.value},
        error=evaluation.error,
        tags={JUDGE_TAG: judge.name, **judge.span_tags},
        usage=evaluation.usage,
        model_name=evaluation.metadata.get("model"),
        links=(target,),
    )
    return [root, *(_call_span(root, call, content=content) for call in calls)]


def _call_span(root: SpanData, call: ModelCall, *, content: bool) -> SpanData:
    return replace(
        root,
        span_id=f"{new_span_id():016x}",
        parent_id=root.span_id,
        name=call.name,
        kind="embedding" if call.name == "embeddings" else "llm",
        start_ns=call.start_ns,
        end_ns=call.end_ns,
        response=call.response if content else None,
        error=Failure(call.error) if call.error else None,
        usage=call.usage,
        model_name=call.model or None,
        links=(),
    )
