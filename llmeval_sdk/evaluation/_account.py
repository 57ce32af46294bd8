"""What one judgement spends at one model: every request is reserved, made, settled and counted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from time import time_ns
from typing import Any, TypeVar

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.evaluation._rate_limiter import RateLimiter
from llmeval_sdk.evaluation.books import Reservation
from llmeval_sdk.model import Completion, Decision, ModelCall, Usage
from llmeval_sdk.model.protocols import further_request


FREE = ("rate_limited", "unauthorized", "not_found", "bad_request", "too_long")
"""Failures by which a server says that it did no work: they cost a request and no tokens."""
CHARACTERS_PER_TOKEN = 3
"""For the most that a request may use; most texts have more."""

_Result = TypeVar("_Result", Completion, Decision)


class Spending:
    """Adds up what a judgement used; ``model`` may be any that has a name.

    Args:
        model: What is called.
        rate_limiter: Of the calls to this model.
        judge: Whose limits count beside those of all.
    """

    def __init__(self, model: Any, rate_limiter: RateLimiter, judge: str) -> None:
        self.model = getattr(model, "model", "") or type(model).__name__
        self.usage: Usage | None = None
        self.calls: list[ModelCall] = []
        """What was called, for the judgement's trace."""
        self.rate_limiter = rate_limiter
        self.judge = judge

    async def paid(self, name: str, most: Usage, call: Callable[[], Awaitable[_Result]]) -> _Result:
        """Make a call, when its turn has come; while its caller is patient, again if it may pass.

        Args:
            name: What the call is called in the judgement's trace.
            most: What each of its requests may use at most.
            call: Makes it; asks `further_request` for each request but the first.

        Raises:
            JudgeError: It failed, or was refused with the counted reason.
        """
        while True:
            try:
                result = await self._call(name, most, call)
            except JudgeError as error:
                await self.rate_limiter.wait(error)
            else:
                self.rate_limiter.note_answer()
                return result

    async def _call(
        self, name: str, most: Usage, call: Callable[[], Awaitable[_Result]]
    ) -> _Result:
        async with self.rate_limiter.passage() as passing:
            payment = _Payment(self, passing.place, name, most)
            # The client asks before each further request, such as a retry: it costs as well.
            permission = further_request.set(payment.another)
            try:
                result = _checked(await call())
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
            payment.settle(
                result.usage,
                model=result.model,
                response=getattr(result, "text", None),
                requests=getattr(result, "requests", 1),
            )
            return result

    def add(self, call: ModelCall) -> None:
        """Add a call of this judgement, and what it used."""
        self.calls.append(call)
        if call.usage is not None:
            self.usage = call.usage if self.usage is None else self.usage + call.usage

    def priced(self, model: str, used: Usage) -> Usage:
        """Add the cost, by the price of the model that answered, else of the one that was asked."""
        usd = self.rate_limiter.cost(model or self.model, used)
        if usd is None:
            usd = self.rate_limiter.cost(self.model, used)
        return replace(used, cost_usd=usd)


def _checked(result: _Result) -> _Result:
    """Return what a model gave; one of the app's own may give anything."""
    if hasattr(result, "usage") and hasattr(result, "model"):
        return result
    raise JudgeError("malformed", f"the model returned no answer but a {type(result).__name__}")


class _Payment:
    """The reservations that pay for the requests of one call.

    Raises `JudgeError` with the counted reason where the budget refuses.
    """

    def __init__(self, account: Spending, place: int, name: str, most: Usage) -> None:
        self._account = account
        self._rate_limiter = account.rate_limiter
        self._place = place
        self._most = most
        self._requests = 1
        self._reserved = [self._reserve()]
        self._call = ModelCall(name, time_ns(), 0, account.model)

    def _reserve(self) -> Reservation:
        return self._rate_limiter.reserve(self._account.judge, self._account.model, self._most)

    def another(self, trouble: JudgeError | None) -> None:
        """Reserve for a further request, which the client makes after some trouble."""
        if trouble is not None and trouble.type == "rate_limited":
            self._rate_limiter.limit.slow_down(self._place)
        self.free(trouble)
        self._reserved.append(self._reserve())
        self._requests += 1

    def free(self, trouble: JudgeError | None) -> None:
        """Give back the tokens of the latest request where the server did no work."""
        if trouble is not None and trouble.type in FREE and self._reserved:
            self._rate_limiter.limiter.settle(self._reserved.pop(), calls=1, tokens=0, usd=0.0)

    def settle(
        self,
        used: Usage | None,
        *,
        model: str = "",
        response: str | None = None,
        error: str | None = None,
        requests: int = 1,
    ) -> None:
        """Record the call and settle its reservations.

        A call that does not say what it used may have cost all that was reserved.
        """
        call = replace(self._call, model=model or self._call.model, response=response)
        priced = None if used is None else self._account.priced(call.model, used)
        self._account.add(replace(call, end_ns=time_ns(), usage=priced, error=error))
        limiter = self._rate_limiter.limiter
        for place, reservation in enumerate(self._reserved):
            if priced is None:
                limiter.settle(reservation, later=True)
            elif place == 0:  # it carries the sum of all, and requests that nobody asked about
                calls = 1 + max(0, requests - self._requests)
                tokens, usd = priced.total_tokens, priced.cost_usd
                limiter.settle(reservation, calls=calls, tokens=tokens, usd=usd, later=True)
            else:
                limiter.settle(reservation, calls=1, tokens=0, usd=0.0, later=True)
