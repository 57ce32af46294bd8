"""Live scores: of the run that an open span belongs to, at each of its tool calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llmeval_sdk.model import Evaluation
from llmeval_sdk.model.records import request_of, tool_call
from llmeval_sdk.model.runs import ToolCall
from llmeval_sdk.plugins.agents.heuristics._outcome import Scored, evaluation_of
from llmeval_sdk.plugins.agents.live import LiveRun


LiveScore = Callable[[LiveRun, ToolCall | None], Scored]
"""Scores a run so far; with the call of a tool that is about to run, if there is one."""


def live(score: LiveScore, name: str) -> Callable[[Any], Evaluation | None]:
    """Make what scores the run of an open span; ``None`` for a span that belongs to no run."""

    def evaluate(span: Any) -> Evaluation | None:
        run_span = span if span.is_evaluated else span.owner
        if run_span is None:
            return None
        known = getattr(run_span, "live", None)
        if known is None:
            known = run_span.live = LiveRun(request_of(run_span))
        is_open_call = span is not run_span and span.kind == "tool" and not span.end_ns

        def scored(run: LiveRun) -> Evaluation | None:
            pending = run.call(tool_call(span)) if is_open_call else None
            return evaluation_of(name, score(run, pending), is_cut=run.is_cut)

        return known.ask(run_span.gathered or [], scored)

    return evaluate
