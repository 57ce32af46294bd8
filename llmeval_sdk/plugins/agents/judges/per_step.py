"""Judges that are functions of the app and rate each tool call: ``@judge(per="step")``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from llmeval_sdk.judges.base import combine, rate_chunks
from llmeval_sdk.judges.function import FunctionJudge, outcome
from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.model.chat import both_ends
from llmeval_sdk.model.protocols import LLM
from llmeval_sdk.model.runs import ToolCall, run_of
from llmeval_sdk.plugins.agents.judges.run_judge import MOST_STEPS, tool_calls_missing


MOST_CALLS = 100
"""The most tool calls of a run that are rated; of a longer run, its first and last calls are."""
_UNITS = "tool calls"


class StepJudge(FunctionJudge[Any]):
    """Asks a function ``(record, step, llm)`` about each tool call of a run.

    The value is the share of calls that are rated yes, or the mean of scores. The metadata has one
    entry per call in ``ratings``, ``rationales`` and ``error_messages``, the number of each call's
    step in ``rated_steps``, and in ``steps`` those that are rated no. Where the calls have spans,
    ``rated_spans`` has the ids of these.
    """

    def __init__(self, function: Any, *, name: str, **options: Any) -> None:
        super().__init__(function, name=name, **options)
        self.report_path = f"agent/llm_judged/{name}"
        self.metric_path = f"{self.report_path}/precision/average"

    def lacks(self, record: Record, /) -> str | None:
        """Name the tool calls where the run has none."""
        return tool_calls_missing(record)

    async def judge(self, record: Record, llm: LLM) -> Evaluation:
        """Ask about each call, several at a time; a plain function is called aside, in order."""
        calls = _rated(record)
        if self.blocking:
            rated = await self._aside.call_async(self._one_by_one, record, calls, llm)
            combined = combine(self.name, rated, _UNITS)
        else:

            async def rate(call: ToolCall) -> Evaluation:
                return outcome(self.name, await self.function(record, call.step, llm))

            combined = await rate_chunks(self.name, calls, rate, units=_UNITS)
        return _by_step(combined, calls, len(run_of(record).calls))

    def located(self, verdict: Evaluation, record: Record, /) -> Evaluation:
        """Add the ids of the spans of the rated calls, ``rated_spans``, where they have spans."""
        spans = [call.step.span_id for call in _rated(record)] if record.steps else []
        if "rated_steps" not in verdict.metadata or not any(spans):
            return verdict
        return replace(verdict, metadata={**verdict.metadata, "rated_spans": spans})

    def _one_by_one(self, record: Record, calls: Sequence[ToolCall], llm: LLM) -> list[Evaluation]:
        return [self._rate(record, call.step, llm) for call in calls]


def _rated(record: Record) -> Sequence[ToolCall]:
    return both_ends(run_of(record).calls, MOST_CALLS)


def _by_step(combined: Evaluation, calls: Sequence[ToolCall], count: int) -> Evaluation:
    """Add which step each rating is for, and which steps are at fault."""
    numbers = [call.number for call in calls]
    ratings: Sequence[Any] = combined.metadata["ratings"]
    at_fault = [number for number, rating in zip(numbers, ratings, strict=True) if rating == "no"]
    about: Mapping[str, Any] = {
        **combined.metadata,
        "rated_steps": numbers,
        **({"steps": at_fault[:MOST_STEPS]} if at_fault else {}),
        **({"steps_left_out": count - len(numbers)} if count > len(numbers) else {}),
    }
    return replace(combined, metadata=about)
