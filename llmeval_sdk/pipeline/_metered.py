"""The judge model as judges see it: every call is admitted, reserved, made, settled, counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from time import time_ns
from typing import Any

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.judges._cut import fair_limit, shortened
from llmeval_sdk.model import Completion, Message, ModelCall, Usage
from llmeval_sdk.policy.books import Reservation
from llmeval_sdk.policy.breaker import Breaker
from llmeval_sdk.policy.concurrency import AdaptiveLimit
from llmeval_sdk.policy.decisions import Refused
from llmeval_sdk.policy.keeper import BudgetKeeper
from llmeval_sdk.policy.prices import cost
from llmeval_sdk.protocols import LLM, further_request, refuse_in_loop


_TRANSIENT = ("timeout", "rate_limited", "unavailable")
_FREE = ("rate_limited", "unauthorized", "not_found", "bad_request", "too_long")
"""Failures by which a server says that it did no work: a call, but no tokens."""


MAX_PROMPT_CHARACTERS = 200_000
"""About 50,000 tokens in all messages of one call. A judge of ours stays below; the app's own may
not, and where the price is unknown nothing else would bound what a call costs."""


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


class MeteredLLM(LLM):
    """One judgement's view of the judge model; it adds up what the judgement used."""

    def __init__(
        self, llm: LLM, turnstile: Turnstile, judge: str, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.model = getattr(llm, "model", "") or type(llm).__name__
        self.usage: Usage | None = None
        self.calls: list[ModelCall] = []
        """What was called, for the judgement's trace."""
        self.cut_prompts = 0
        """Calls whose prompt was longer than any may be."""
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
        messages = self._bounded(messages)
        gates = self._turnstile
        place = await gates.enter()
        succeeded = limited = False
        try:
            completion = await self._admitted(messages, schema, max_tokens, place)
            succeeded = True
            return completion
        except JudgeError as error:
            limited = error.type == "rate_limited"
            raise
        finally:
            await gates.leave(place, succeeded=succeeded, rate_limited=limited)

    def _bounded(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Hold a prompt to `MAX_PROMPT_CHARACTERS`; what is cut is marked and counted."""
        lengths = [len(message.content) for message in messages]
        if sum(lengths) <= MAX_PROMPT_CHARACTERS:
            return messages
        self.cut_prompts += 1
        limit = fair_limit(lengths, MAX_PROMPT_CHARACTERS)
        return [replace(each, content=shortened(each.content, limit)) for each in messages]

    async def _admitted(
        self,
        messages: Sequence[Message],
        schema: Mapping[str, Any] | None,
        max_tokens: int,
        place: int,
    ) -> Completion:
        """Ask the breaker and the budget, call, and tell both how it went."""
        breaker = self._turnstile.breaker
        probe = breaker.admit()
        if isinstance(probe, Refused):
            raise JudgeError(probe.reason, probe.detail, retry_after=probe.retry_after)
        try:
            reserved = [self._reserve(messages, max_tokens)]
        except JudgeError:
            breaker.unused(probe)
            raise

        def again(trouble: JudgeError | None) -> None:
            if trouble is not None and trouble.type == "rate_limited":
                self._turnstile.limit.slow_down(place)
            self._free(reserved, trouble)
            reserved.append(self._reserve(messages, max_tokens))

        asking = further_request.set(again)  # the client's further requests are calls as well
        call = ModelCall("chat", time_ns(), 0, self.model)
        try:
            completion = await self._llm.complete(messages, schema=schema, max_tokens=max_tokens)
        except JudgeError as error:
            if error.type == "over_budget":
                breaker.unused(probe)
            else:
                (breaker.failed if error.type in _TRANSIENT else breaker.succeeded)(probe)
            self._free(reserved, error)
            self._settle(reserved, call, error.usage, error=error.type)
            raise
        except BaseException as error:  # a timeout of the whole judgement cancels the call
            breaker.failed(probe)
            stopped = isinstance(error, asyncio.CancelledError)
            self._settle(reserved, call, None, error="timeout" if stopped else type(error).__name__)
            raise
        finally:
            further_request.reset(asking)
        breaker.succeeded(probe)
        call = replace(call, model=completion.model or self.model, response=completion.text)
        self._settle(reserved, call, completion.usage)
        return completion

    @property
    def inner(self) -> LLM:
        """Return the model outside the budget, for what is known to call it not at all."""
        return self._llm

    @asynccontextmanager
    async def lease(self, *, calls: int, most: Usage) -> AsyncIterator[Lease]:
        """Let a judgement make up to so many calls elsewhere, reserved as a whole.

        Calls that say nothing of their usage, and a judgement that ends in an exception, may have
        cost all that was reserved. Raises `JudgeError` with the counted reason where refused.
        """
        gates, breaker = self._turnstile, self._turnstile.breaker
        place = await gates.enter()
        lease = Lease(self._llm)
        try:
            probe = breaker.admit()
            if isinstance(probe, Refused):
                raise JudgeError(probe.reason, probe.detail, retry_after=probe.retry_after)
            usd = cost(self.model, most, own=gates.prices)
            reserved = gates.keeper.reserve(
                self._judge, calls=calls, tokens=most.total_tokens, usd=usd
            )
            if isinstance(reserved, Refused):
                breaker.unused(probe)
                raise JudgeError(reserved.reason, reserved.detail, retry_after=reserved.retry_after)
            try:
                yield lease
            except JudgeError as error:
                breaker.unused(probe)
                lost = error.type == "worker_lost"
                (gates.keeper.settle if lost else gates.keeper.release)(reserved)
                raise
            except BaseException:
                breaker.failed(probe)
                gates.keeper.settle(reserved)
                raise
            (breaker.failed if lease.failure in _TRANSIENT else breaker.succeeded)(probe)
            self._settle_lease(reserved, lease.calls, lease.requests)
        finally:
            await gates.leave(
                place,
                succeeded=lease.failure is None,
                rate_limited=lease.failure == "rate_limited",
            )

    def _settle_lease(self, reserved: Reservation, calls: list[ModelCall], requests: int) -> None:
        made = max(len(calls), requests)
        keeper = self._turnstile.keeper
        priced = [
            call
            if call.usage is None
            else replace(call, usage=self._priced(call.model, call.usage))
            for call in calls
        ]
        self.calls += priced
        known = [call.usage for call in priced if call.usage is not None]
        if known:
            self.usage = sum(known[1:], known[0])
        if any(call.usage is None and call.error not in _FREE for call in calls):
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

    def _reserve(self, messages: Sequence[Message], max_tokens: int) -> Reservation:
        """Reserve the most a request may use: about three characters are a token.

        Raises `JudgeError` with the counted reason where the budget refuses.
        """
        asked = sum(len(message.content) for message in messages) // 3 + 16
        most = Usage(asked, max_tokens, asked + max_tokens)
        usd = cost(self.model, most, own=self._turnstile.prices)
        reserved = self._turnstile.keeper.reserve(
            self._judge, calls=1, tokens=most.total_tokens, usd=usd
        )
        if isinstance(reserved, Refused):
            raise JudgeError(reserved.reason, reserved.detail, retry_after=reserved.retry_after)
        return reserved

    def _free(self, reserved: list[Reservation], trouble: JudgeError | None) -> None:
        """Give back the tokens of the latest request where the server did no work."""
        if trouble is not None and trouble.type in _FREE and reserved:
            self._turnstile.keeper.settle(reserved.pop(), calls=1, tokens=0, usd=0.0)

    def _settle(
        self,
        reserved: list[Reservation],
        call: ModelCall,
        used: Usage | None,
        *,
        error: str | None = None,
    ) -> None:
        """Write down what the call used; one that says nothing may have cost all of it."""
        priced = None if used is None else self._priced(call.model, used)
        self.calls.append(replace(call, end_ns=time_ns(), usage=priced, error=error))
        keeper = self._turnstile.keeper
        if priced is None:
            for each in reserved:
                keeper.settle(each)
            return
        self.usage = priced if self.usage is None else self.usage + priced
        for place, each in enumerate(reserved):  # the sum stands with the first
            tokens, usd = (priced.total_tokens, priced.cost_usd) if place == 0 else (0, 0.0)
            keeper.settle(each, calls=1, tokens=tokens, usd=usd)

    def _priced(self, model: str, used: Usage) -> Usage:
        """Add the cost by the answering model's price, else by that of the model asked for."""
        usd = cost(model or self.model, used, own=self._turnstile.prices)
        if usd is None:
            usd = cost(self.model, used, own=self._turnstile.prices)
        return replace(used, cost_usd=usd)
