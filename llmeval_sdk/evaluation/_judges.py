"""Judges: running one over a Record under a deadline, so that its failure is a value."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from time import perf_counter
from typing import Any

from llmeval_sdk._process.threads import within
from llmeval_sdk.errors import JudgeError
from llmeval_sdk.evaluation._outcome import failed, outcome
from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.protocols import LLM, Judge


async def run_judge(judge: Judge, record: Record, llm: Any, *, timeout: float) -> Evaluation:
    """Judge a Record within ``timeout`` seconds; every failure is an Evaluation with an error.

    ``llm`` may be any LLM; a judge that never calls it needs none.
    """
    begun = perf_counter()
    try:
        result = await within(timeout, judge.evaluate(record, llm))
        evaluation = outcome(result, judge)
    except (TimeoutError, asyncio.TimeoutError):
        evaluation = failed(judge, "timeout", f"no verdict after {timeout:g} s")
    except JudgeError as error:
        evaluation = failed(judge, error.type, str(error))
    except (Exception, SystemExit) as error:
        evaluation = failed(judge, type(error).__name__, str(error))
    cut = getattr(llm, "cut_prompts", 0)  # calls whose prompt a metered model held to its limit
    return replace(
        evaluation,
        evaluator_kind="judge",
        duration=evaluation.duration or perf_counter() - begun,
        metadata={**evaluation.metadata, "cut_prompts": cut} if cut else evaluation.metadata,
    )


class NoModel(LLM):
    """Stands where no judge model is configured, for judges that may not need one."""

    model = ""

    def __init__(self, why: str = "set LLMEVAL_JUDGE_MODEL or configure(llm=...)") -> None:
        self.why_not = why

    async def complete(self, messages: Any, /, **options: Any) -> Any:
        """Refuse, with the reason that is counted."""
        raise JudgeError("no_judge_model", self.why_not)
