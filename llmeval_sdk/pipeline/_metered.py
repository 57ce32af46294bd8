"""The judge model as judges see it: every call is admitted, reserved, made, settled, counted."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.model import Completion, Message, Usage
from llmeval_sdk.policy.books import Reservation
from llmeval_sdk.policy.breaker import Breaker
from llmeval_sdk.policy.concurrency import AdaptiveLimit
from llmeval_sdk.policy.decisions import Refused
from llmeval_sdk.policy.keeper import BudgetKeeper
from llmeval_sdk.policy.prices import cost
from llmeval_sdk.protocols import LLM, refuse_in_loop


_TRANSIENT = ("timeout", "rate_limited", "unavailable")


class Turnstile:
    """Lets calls to one model through: as many at a time as it bears, none while it is down."""

    def __init__(self, keeper: BudgetKeeper, *, concurrency: int, prices: Any = None) -> None:
        self.keeper = keeper
        self.prices = prices
        self.breaker = Breaker()
        self.limit = AdaptiveLimit(concurrency)
        self.freed = asyncio.Condition()

    async def enter(self) -> int:
        """Wait for a place and return its ticket."""
        async with self.freed:
            while True:
                ticket = self.limit.enter()
                if ticket is not None:
                    return ticket
                await self.freed.wait()

    async def leave(self, ticket: int, *, succeeded: bool, rate_limited: bool) -> None:
        """Give the place back and say how it went."""
        self.limit.leave(ticket, succeeded=succeeded, rate_limited=rate_limited)
        async with self.freed:
            self.freed.notify_all()


class MeteredLLM(LLM):
    """One judgement's view of the judge model; it adds up what the judgement used."""

    def __init__(
        self, llm: LLM, turnstile: Turnstile, judge: str, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.model = getattr(llm, "model", "") or type(llm).__name__
        self.usage: Usage | None = None
        self._llm = llm
        self._turnstile = turnstile
        self._judge = judge
        self._loop = loop

    async def complete(
        self,
        messages: Sequence[Message],
        /,
        *,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int = 4096,
    ) -> Completion:
        """Call the model within budget; refusals are JudgeErrors with the counted reason."""
        gates = self._turnstile
        place = await gates.enter()
        succeeded = limited = False
        try:
            completion = await self._admitted(messages, schema, max_tokens)
            succeeded = True
            return completion
        except JudgeError as error:
            limited = error.type == "rate_limited"
            raise
        finally:
            await gates.leave(place, succeeded=succeeded, rate_limited=limited)

    async def _admitted(
        self, messages: Sequence[Message], schema: Mapping[str, Any] | None, max_tokens: int
    ) -> Completion:
        """Ask the breaker and the budget, call, and tell both how it went."""
        breaker = self._turnstile.breaker
        probe = breaker.admit()
        if isinstance(probe, Refused):
            raise JudgeError(probe.reason, probe.detail, retry_after=probe.retry_after)
        reserved = self._reserve(messages, max_tokens)
        if isinstance(reserved, Refused):
            breaker.unused(probe)
            raise JudgeError(reserved.reason, reserved.detail, retry_after=reserved.retry_after)
        try:
            completion = await self._llm.complete(messages, schema=schema, max_tokens=max_tokens)
        except JudgeError as error:
            (breaker.failed if error.type in _TRANSIENT else breaker.succeeded)(probe)
            self._settle(reserved, error.usage)
            raise
        except BaseException:  # a timeout of the whole judgement cancels the call
            breaker.failed(probe)
            self._settle(reserved, None)
            raise
        breaker.succeeded(probe)
        self._settle(reserved, completion.usage, completion.model)
        return completion

    def ask(
        self, prompt: str, /, *, schema: Mapping[str, Any] | None = None, max_tokens: int = 4096
    ) -> str:
        """Answer one prompt for a judge that is a plain function on a thread of its own."""
        refuse_in_loop()
        call = self.complete([Message("user", prompt)], schema=schema, max_tokens=max_tokens)
        return asyncio.run_coroutine_threadsafe(call, self._loop).result().text

    def _reserve(self, messages: Sequence[Message], max_tokens: int) -> Reservation | Refused:
        """Reserve the most the call may use: about four characters are a token."""
        asked = sum(len(message.content) for message in messages) // 3 + 16
        most = Usage(asked, max_tokens, asked + max_tokens)
        usd = cost(self.model, most, own=self._turnstile.prices)
        return self._turnstile.keeper.reserve(
            self._judge, calls=1, tokens=most.total_tokens, usd=usd
        )

    def _settle(self, reserved: Reservation, used: Usage | None, model: str = "") -> None:
        """Write down what the call used; one that says nothing may have cost all of it."""
        keeper, prices = self._turnstile.keeper, self._turnstile.prices
        if used is None:
            keeper.settle(reserved)
            return
        usd = cost(model, used, own=prices) if model else None
        if usd is None:
            usd = cost(self.model, used, own=prices)
        priced = Usage(used.input_tokens, used.output_tokens, used.total_tokens, usd)
        self.usage = priced if self.usage is None else self.usage + priced
        keeper.settle(reserved, calls=1, tokens=used.total_tokens, usd=usd)
