"""Judges of a conversation as a whole, one small file each, and what they derive from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from llmeval_sdk.judges.base import Forms, Typed
from llmeval_sdk.judges.function import FunctionJudge
from llmeval_sdk.model import Evaluation, Record, Unit
from llmeval_sdk.model.conversation import as_conversation, lacking_conversation
from llmeval_sdk.model.protocols import LLM
from llmeval_sdk.plugins.agents.judges import RunJudge


@dataclass(frozen=True, kw_only=True)
class SessionJudge(RunJudge):
    """A rubric about a conversation. Live, it is asked when a session has been idle."""

    needs: tuple[str, ...] = ("steps|request",)
    missing: Callable[[Record], str | None] = lacking_conversation
    predictor: str | None = None
    bad_label: str | None = None
    """A word for a no, where the name of the judge would let people expect the opposite."""
    per: Unit = "session"

    def lacks(self, record: Record) -> str | None:
        """Name what is missing: there is no conversation without a user and an agent."""
        return self.missing(record)

    async def judge(self, record: Record, llm: LLM) -> Evaluation:
        """Ask once about the conversation that a Record holds."""
        rated = await super().judge(as_conversation(record), llm)
        return replace(rated, label=self.bad_label) if rated.value == "no" else rated

    def typed(self, forms: Forms) -> Typed:
        """Ask the rubric, and which step is at fault most of all."""
        of_run: Any = super().typed(forms)
        return lambda record: of_run(as_conversation(record))


class SessionFunction(FunctionJudge[Any]):
    """A function of the app, called with a Record that has the conversation in its steps."""

    def lacks(self, record: Record, /) -> str | None:
        """Name what is missing: there is no conversation without a user and an agent."""
        return lacking_conversation(record)

    async def judge(self, record: Record, llm: LLM) -> Evaluation:
        """Call the function, aside on a daemon thread where it blocks."""
        return await super().judge(as_conversation(record), llm)
