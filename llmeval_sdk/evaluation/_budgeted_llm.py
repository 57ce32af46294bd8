"""The judge model as judges see it: every call is admitted, paid for and counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.evaluation._account import CHARACTERS_PER_TOKEN, FREE, Spending
from llmeval_sdk.evaluation._rate_limiter import RateLimiter
from llmeval_sdk.evaluation.books import Reservation
from llmeval_sdk.judges.prompt import fair_limit, shortened
from llmeval_sdk.model import Completion, Message, ModelCall, Usage
from llmeval_sdk.model.protocols import LLM, refuse_in_loop


MAX_PROMPT_CHARACTERS = 200_000
"""About 50,000 tokens in all messages of one call. Our own judges stay below it. Those of the app
may not, and where the price is unknown nothing else bounds what a call costs."""


@dataclass(slots=True)
class Lease:
    """Calls that a judgement makes without `BudgetedLLM`, such as those of Ragas' own client.

    The judgement fills in what it called and how that went.
    """

    llm: LLM
    """The judge model itself. It charges nothing to the budget: `calls` say what was used."""
    calls: list[ModelCall] = field(default_factory=list)
    requests: int = 0
    """How many requests the calls took, where retries made that more than the calls."""
    failure: str | None = None
    """The type of the error, where there was one."""


class BudgetedLLM(Spending, LLM):
    """The judge model as one judgement sees it; adds up what the judgement used."""

    def __init__(self, llm: LLM, rate_limiter: RateLimiter, judge: str) -> None:
        super().__init__(llm, rate_limiter, judge)
        self.inner = llm
        """The model itself, which charges nothing to the budget."""
        self.cut_prompts = 0
        """Calls whose prompt was longer than any may be."""
        self._loop = asyncio.get_running_loop()

    async def complete(
        self,
        messages: Sequence[Message],
        /,
        *,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int = 4096,
    ) -> Completion:
        """Call the model within the budget.

        Raises `JudgeError` with the counted reason where the budget or the breaker refuses.
        """
        messages = self._bounded(messages)
        prompt = sum(len(message.content) for message in messages) // CHARACTERS_PER_TOKEN + 16
        written = max_tokens + getattr(self.inner, "thinking_tokens", 0)
        most = Usage(prompt, written, prompt + written)
        return await self.paid(
            "chat",
            most,
            lambda: self.inner.complete(messages, schema=schema, max_tokens=max_tokens),
        )

    def _bounded(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Cut a prompt to `MAX_PROMPT_CHARACTERS`, which is marked in the text and counted."""
        lengths = [len(message.content) for message in messages]
        if sum(lengths) <= MAX_PROMPT_CHARACTERS:
            return messages
        self.cut_prompts += 1
        limit = fair_limit(lengths, MAX_PROMPT_CHARACTERS)
        return [replace(message, content=shortened(message.content, limit)) for message in messages]

    @asynccontextmanager
    async def lease(self, *, calls: int, most: Usage) -> AsyncIterator[Lease]:
        """Reserve budget for ``calls`` calls at most that a judgement makes by another client.

        After the block the reservation is settled with what the calls used. All of it counts as
        spent where a call did not say what it used, or where the block ended in an exception that
        is no `JudgeError`. Raises `JudgeError` with the counted reason where the budget refuses.
        """
        limiter = self.rate_limiter.limiter
        async with self.rate_limiter.passage() as passing:
            reserved = self.rate_limiter.reserve(self.judge, self.model, most, calls=calls)
            lease = Lease(self.inner)
            try:
                yield lease
            except JudgeError as error:
                passing.is_unused = True
                (limiter.settle if error.type == "worker_lost" else limiter.release)(reserved)
                raise
            except BaseException:
                limiter.settle(reserved)
                raise
            passing.failure = lease.failure
            self._settle_lease(reserved, lease)

    def _settle_lease(self, reserved: Reservation, lease: Lease) -> None:
        made = max(len(lease.calls), lease.requests)
        limiter = self.rate_limiter.limiter
        used: list[Usage] = []
        for call in lease.calls:
            if call.usage is None:
                self.add(call)
            else:
                used.append(self.priced(call.model, call.usage))
                self.add(replace(call, usage=used[-1]))
        if any(call.usage is None and call.error not in FREE for call in lease.calls):
            limiter.settle(reserved, calls=made)
            return
        total = sum(used[1:], used[0]) if used else Usage(cost_usd=0.0)
        limiter.settle(reserved, calls=made, tokens=total.total_tokens, usd=total.cost_usd)

    def ask(
        self, prompt: str, /, *, schema: Mapping[str, Any] | None = None, max_tokens: int = 4096
    ) -> str:
        """Answer one prompt, for a judge that is a plain function and runs on its own thread."""
        refuse_in_loop()
        call = self.complete([Message("user", prompt)], schema=schema, max_tokens=max_tokens)
        return asyncio.run_coroutine_threadsafe(call, self._loop).result().text
