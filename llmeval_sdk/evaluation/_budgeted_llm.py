"""The judge model as judges see it: every call is admitted, reserved, made, settled and counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from time import time_ns
from typing import Any

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.evaluation._turnstile import Turnstile
from llmeval_sdk.judges._cut import fair_limit, shortened
from llmeval_sdk.model import Completion, Message, ModelCall, Usage
from llmeval_sdk.policy.books import Reservation
from llmeval_sdk.protocols import LLM, further_request, refuse_in_loop


_FREE = ("rate_limited", "unauthorized", "not_found", "bad_request", "too_long")
"""Failures by which a server says that it did no work: a call, but no tokens."""


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


class BudgetedLLM(LLM):
    """One judgement's view of the judge model; it adds up what the judgement used."""

    def __init__(self, llm: LLM, turnstile: Turnstile, judge: str) -> None:
        self.model = getattr(llm, "model", "") or type(llm).__name__
        self.inner = llm
        """The model outside the budget, for what is known to make no call."""
        self.usage: Usage | None = None
        self.calls: list[ModelCall] = []
        """What was called, for the judgement's trace."""
        self.cut_prompts = 0
        """Calls whose prompt was longer than any may be."""
        self._turnstile = turnstile
        self._judge = judge
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
        turnstile = self._turnstile
        while True:
            try:
                completion = await self._call(messages, schema, max_tokens)
            except JudgeError as error:
                await turnstile.wait(error)
            else:
                turnstile.note_answer()
                return completion

    def _bounded(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Hold a prompt to `MAX_PROMPT_CHARACTERS`; what is cut is marked and counted."""
        lengths = [len(message.content) for message in messages]
        if sum(lengths) <= MAX_PROMPT_CHARACTERS:
            return messages
        self.cut_prompts += 1
        limit = fair_limit(lengths, MAX_PROMPT_CHARACTERS)
        return [replace(message, content=shortened(message.content, limit)) for message in messages]

    async def _call(
        self, messages: Sequence[Message], schema: Mapping[str, Any] | None, max_tokens: int
    ) -> Completion:
        """Make one call, when its turn has come, and settle what it used."""
        async with self._turnstile.passage() as passage:
            payment = _Payment(self, passage.place, messages, max_tokens)
            permission = further_request.set(
                payment.another
            )  # the client's further requests cost as well
            try:
                completion = await self.inner.complete(
                    messages, schema=schema, max_tokens=max_tokens
                )
            except JudgeError as error:
                passage.failure = error.type
                payment.free(error)
                payment.settle(error.usage, error=error.type)
                raise
            except BaseException as error:  # a timeout of the whole judgement cancels the call
                stopped = isinstance(error, asyncio.CancelledError)
                payment.settle(None, error="timeout" if stopped else type(error).__name__)
                raise
            finally:
                further_request.reset(permission)
            passage.failure = None
            payment.settle(completion.usage, model=completion.model, response=completion.text)
            return completion

    @asynccontextmanager
    async def lease(self, *, calls: int, most: Usage) -> AsyncIterator[Lease]:
        """Let a judgement make up to so many calls elsewhere, reserved as a whole.

        Calls that say nothing of their usage, and a judgement that ends in an exception, may have
        cost all that was reserved. Raises `JudgeError` with the counted reason where refused.
        """
        keeper = self._turnstile.keeper
        async with self._turnstile.passage() as passage:
            reserved = self._turnstile.reserve(self._judge, self.model, most, calls=calls)
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
        keeper = self._turnstile.keeper
        used: list[Usage] = []
        for call in lease.calls:
            if call.usage is None:
                self.add(call)
            else:
                used.append(self.priced(call.model, call.usage))
                self.add(replace(call, usage=used[-1]))
        if any(call.usage is None and call.error not in _FREE for call in lease.calls):
            keeper.settle(reserved, calls=made)
            return
        total = sum(used[1:], used[0]) if used else Usage(cost_usd=0.0)
        keeper.settle(reserved, calls=made, tokens=total.total_tokens, usd=total.cost_usd)

    def ask(
        self, prompt: str, /, *, schema: Mapping[str, Any] | None = None, max_tokens: int = 4096
    ) -> str:
        """Answer one prompt for a judge that is a plain function on a thread of its own."""
        refuse_in_loop()
        call = self.complete([Message("user", prompt)], schema=schema, max_tokens=max_tokens)
        return asyncio.run_coroutine_threadsafe(call, self._loop).result().text

    def add(self, call: ModelCall) -> None:
        """Note a call of this judgement and what it used."""
        self.calls.append(call)
        if call.usage is not None:
            self.usage = call.usage if self.usage is None else self.usage + call.usage

    def priced(self, model: str, used: Usage) -> Usage:
        """Add the cost by the answering model's price, else by that of the model asked for."""
        usd = self._turnstile.cost(model or self.model, used)
        if usd is None:
            usd = self._turnstile.cost(self.model, used)
        return replace(used, cost_usd=usd)


class _Payment:
    """The reservations that pay for the requests of one call.

    Raises `JudgeError` with the counted reason where the budget refuses.
    """

    def __init__(
        self, llm: BudgetedLLM, place: int, messages: Sequence[Message], max_tokens: int
    ) -> None:
        self._llm = llm
        self._turnstile = llm._turnstile
        self._place = place
        prompt = sum(len(message.content) for message in messages) // 3 + 16  # 3 characters a token
        self._most = Usage(prompt, max_tokens, prompt + max_tokens)
        self._reserved = [self._reserve()]
        self._call = ModelCall("chat", time_ns(), 0, llm.model)

    def _reserve(self) -> Reservation:
        return self._turnstile.reserve(self._llm._judge, self._llm.model, self._most)

    def another(self, trouble: JudgeError | None) -> None:
        """Reserve for a further request, which the client makes after some trouble."""
        if trouble is not None and trouble.type == "rate_limited":
            self._turnstile.limit.slow_down(self._place)
        self.free(trouble)
        self._reserved.append(self._reserve())

    def free(self, trouble: JudgeError | None) -> None:
        """Give back the tokens of the latest request where the server did no work."""
        if trouble is not None and trouble.type in _FREE and self._reserved:
            self._turnstile.keeper.settle(self._reserved.pop(), calls=1, tokens=0, usd=0.0)

    def settle(
        self,
        used: Usage | None,
        *,
        model: str = "",
        response: str | None = None,
        error: str | None = None,
    ) -> None:
        """Write down what the call used; one that says nothing may have cost all of it."""
        call = replace(self._call, model=model or self._call.model, response=response)
        priced = None if used is None else self._llm.priced(call.model, used)
        self._llm.add(replace(call, end_ns=time_ns(), usage=priced, error=error))
        keeper = self._turnstile.keeper
        for place, reservation in enumerate(self._reserved):
            if priced is None:
                keeper.settle(reservation)
            else:  # the sum stands with the first
                tokens, usd = (priced.total_tokens, priced.cost_usd) if place == 0 else (0, 0.0)
                keeper.settle(reservation, calls=1, tokens=tokens, usd=usd)
