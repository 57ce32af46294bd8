"""Judges that are functions of the app and rate a conversation: ``@judge(per="session")``."""

from __future__ import annotations

from typing import Any

from llmeval_sdk.judges.function import FunctionJudge
from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.model.conversation import as_conversation, lacking_conversation
from llmeval_sdk.model.protocols import LLM


class SessionFunction(FunctionJudge[Any]):
    """Calls a function ``(record, llm)`` with a Record that has the conversation in its steps."""

    def lacks(self, record: Record, /) -> str | None:
        """Name what is missing: there is no conversation without a user and an agent."""
        return lacking_conversation(record)

    async def judge(self, record: Record, llm: LLM) -> Evaluation:
        """Call the function, aside on a daemon thread where it blocks."""
        return await super().judge(as_conversation(record), llm)
