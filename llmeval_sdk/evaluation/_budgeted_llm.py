"""The judge model as judges see it: every call is admitted, paid for and counted."""

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
"""Failures by which a server says that it did no work: they cost a call and no tokens."""

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


class BudgetedLLM(LLM):
    """The judge model as one judgement sees it; adds up what the judgement used."""

    def __init__(self, llm: LLM, turnstile: Turnstile, judge: str) -> None:
        self.model = getattr(llm, "model", "") or type(llm).__name__
        self.inner = llm
        """The model itself, which charges nothing to the budget."""
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
        """Call the model within the budget.

        Raises `JudgeError` with the counted reason where the budget or the breaker refuses.
        """
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
        """Cut a prompt to `MAX_PROMPT_CHARACTERS`, which is marked in the text and counted."""
        lengths = [len(message.content) for message in messages]
        if sum(lengths) <= MAX_PROMPT_CHARACTERS:
            return messages
        self.cut_prompts += 1
        limit = fair_limit(lengths, MAX_PROMPT_CHARACTERS)
        return [replace(message, content=shortened(message.content, limit)) for message in messages]

    async def _call(
        self, messages: Sequence[Message], schema: Mapping[str, Any] | None, max_tokens: int
    ) -> Completion:
        """Make one call as soon as the turnstile lets it, and settle what it used."""
        async with self._turnstile.passage() as passing:
            payment = _Payment(self, passing.place, messages, max_tokens)
            # The client asks before each further request, such as a retry: it costs as well.
            permission = further_request.set(payment.another)
            try:
                completion = await self.inner.complete(
                    messages, schema=schema, max_tokens=max_tokens
                )
            except JudgeError as error:
                passing.failure = error.type
                payment.free(error)
                payment.settle(error.usage, error=error.type)
                raise
            except BaseException as error:  # a timeout of the whole judgement cancels the call
                stopped = isinstance(error, asyncio.CancelledError)
                payment.settle(None, error="timeout" if stopped else type(error).__name__)
                raise
            finally:
                further_request.reset(permission)
            passing.failure = None
            payment.settle(completion.usage, model=completion.model, response=completion.text)
            return completion

    @asynccontextmanager
    async def lease(self, *, calls: int, most: Usage) -> AsyncIterator[Lease]:
        """Reserve budget for ``calls`` calls at most that a judgement makes by another client.

        After the block the reservation is settled with what the calls used. All of it counts as
        spent where a call did not say what it used, or where the block ended in an exception that
        is no `JudgeError`. Raises `JudgeError` with the counted reason where the budget refuses.
        """
        keeper = self._turnstile.keeper
        async with self._turnstile.passage() as passing:
            reserved = self._turnstile.reserve(self._judge, self.model, most, calls=calls)
            lease = Lease(self.inner)
            try:
                yield lease
            except JudgeError as error:
                passing.is_unused = True
                (keeper.settle if error.type == "worker_lost" else keeper.release)(reserved)
                raise
            except BaseException:
                keeper.settle(reserved)
                raise
            passing.failure = lease.failure
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
        """Answer one prompt, for a judge that is a plain function and runs on its own thread."""
        refuse_in_loop()
        call = self.complete([Message("user", prompt)], schema=schema, max_tokens=max_tokens)
        return asyncio.run_coroutine_threadsafe(call, self._loop).result().text

    def add(self, call: ModelCall) -> None:
        """Add a call of this judgement, and what it used."""
        self.calls.append(call)
        if call.usage is not None:
            self.usage = call.usage if self.usage is None else self.usage + call.usage

    def priced(self, model: str, used: Usage) -> Usage:
        """Add the cost, by the price of the model that answered, else of the one that was asked."""
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
        """Record the call and settle its reservations.

        A call that does not say what it used may have cost all that was reserved.
        """
        call = replace(self._call, model=model or self._call.model, response=response)
        priced = None if used is None else self._llm.priced(call.model, used)
        self._llm.add(replace(call, end_ns=time_ns(), usage=priced, error=error))
        keeper = self._turnstile.keeper
        for place, reservation in enumerate(self._reserved):
            if priced is None:
                keeper.settle(reservation)
            else:  # the first reservation carries the sum of all
                tokens, usd = (priced.total_tokens, priced.cost_usd) if place == 0 else (0, 0.0)
                keeper.settle(reservation, calls=1, tokens=tokens, usd=usd)
