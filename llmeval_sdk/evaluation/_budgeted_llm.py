"""The judge model as judges see it: every call is admitted, reserved, made, settled and counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.evaluation._account import CHARACTERS_PER_TOKEN, FREE, Account
from llmeval_sdk.evaluation._turnstile import Turnstile
from llmeval_sdk.judges._cut import fair_limit, shortened
from llmeval_sdk.model import Completion, Message, ModelCall, Usage
from llmeval_sdk.policy.books import Reservation
from llmeval_sdk.protocols import LLM, refuse_in_loop


MAX_PROMPT_CHARACTERS = 200_000
"""About 50,000 tokens in all messages of one call. A judge of ours stays below; the app's own may
not, and where the price is unknown nothing else would bound what a call costs."""


@dataclass(slots=True)
class Lease:
    """Calls that a judgement makes by itself, elsewhere; set what it made and how it went."""

    llm: LLM
    """The judge model outside the budget: what it costs is said by `calls`."""
    calls: list[ModelCall] = field(default_factory=list)
    requests: int = 0
    """How many requests these calls took, where that is known to be more."""
    failure: str | None = None
    """The type of the error, where there was one."""


class BudgetedLLM(Account, LLM):
    """One judgement's view of the judge model; it adds up what the judgement used."""

    def __init__(self, llm: LLM, turnstile: Turnstile, judge: str) -> None:
        super().__init__(llm, turnstile, judge)
        self.inner = llm
        """The model outside the budget, for what is known to make no call."""
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
        """Call the model within budget; refusals are JudgeErrors with the counted reason."""
        messages = self._bounded(messages)
        prompt = sum(len(message.content) for message in messages) // CHARACTERS_PER_TOKEN + 16
        most = Usage(prompt, max_tokens, prompt + max_tokens)
        return await self.paid(
            "chat",
            most,
            lambda: self.inner.complete(messages, schema=schema, max_tokens=max_tokens),
        )

    def _bounded(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Hold a prompt to `MAX_PROMPT_CHARACTERS`; what is cut is marked and counted."""
        lengths = [len(message.content) for message in messages]
        if sum(lengths) <= MAX_PROMPT_CHARACTERS:
            return messages
        self.cut_prompts += 1
        limit = fair_limit(lengths, MAX_PROMPT_CHARACTERS)
        return [replace(message, content=shortened(message.content, limit)) for message in messages]

    @asynccontextmanager
    async def lease(self, *, calls: int, most: Usage) -> AsyncIterator[Lease]:
        """Let a judgement make up to so many calls elsewhere, reserved as a whole.

        Calls that say nothing of their usage, and a judgement that ends in an exception, may have
        cost all that was reserved. Raises `JudgeError` with the counted reason where refused.
        """
        keeper = self.turnstile.keeper
        async with self.turnstile.passage() as passage:
            reserved = self.turnstile.reserve(self.judge, self.model, most, calls=calls)
            lease = Lease(self.inner)
            try:
                yield lease
            except JudgeError as error:
                passage.is_unused = True
                (keeper.settle if error.type == "worker_lost" else keeper.release)(reserved)
                raise
            except BaseException:
                keeper.settle(reserved)
                raise
            passage.failure = lease.failure
            self._settle_lease(reserved, lease)

    def _settle_lease(self, reserved: Reservation, lease: Lease) -> None:
        made = max(len(lease.calls), lease.requests)
        keeper = self.turnstile.keeper
        priced = [
            call if call.usage is None else replace(call, usage=self.priced(call.model, call.usage))
            for call in lease.calls
        ]
        self.calls += priced
        usages = [call.usage for call in priced if call.usage is not None]
        if usages:
            self.usage = sum(usages[1:], usages[0])
        if any(call.usage is None and call.error not in FREE for call in lease.calls):
            keeper.settle(reserved, calls=made)
            return
        used = self.usage or Usage(cost_usd=0.0)
        keeper.settle(reserved, calls=made, tokens=used.total_tokens, usd=used.cost_usd)

    def ask(
        self, prompt: str, /, *, schema: Mapping[str, Any] | None = None, max_tokens: int = 4096
    ) -> str:
        """Answer one prompt for a judge that is a plain function on a thread of its own."""
        refuse_in_loop()
        call = self.complete([Message("user", prompt)], schema=schema, max_tokens=max_tokens)
        return asyncio.run_coroutine_threadsafe(call, self._loop).result().text
