"""The models that judges ask: when a call may be made, what it is charged, and who makes it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from llmeval_sdk import registry
from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError, JudgeError, MissingExtraError
from llmeval_sdk.evaluation.admission import Refused
from llmeval_sdk.evaluation.backoff import AdaptiveLimit
from llmeval_sdk.evaluation.books import Reservation
from llmeval_sdk.evaluation.groups import NO_TAGS
from llmeval_sdk.evaluation.limiter import BudgetLimiter
from llmeval_sdk.judges.models.prices import cost, price_of
from llmeval_sdk.judges.prompt import fair_limit, shortened
from llmeval_sdk.model import Completion, Decision, Message, ModelCall, Usage, total_usage
from llmeval_sdk.model.protocols import LLM, Judge, further_request, refuse_in_loop
from llmeval_sdk.process.shield import shield
from llmeval_sdk.process.stopwatch import Stopwatch
from llmeval_sdk.statistics.reasons import NotRunReason


# Decides when a call to a judge model may be made: concurrency, breaker, budget, patience.


_INTERRUPTED = "interrupted"
"""The failure of a call that an exception ended, such as the timeout of the whole judgement."""
_TRANSIENT = (_INTERRUPTED, "timeout", "rate_limited", "unavailable")
MAX_WAIT_SECONDS = 61.0
"""A patient caller waits for the next minute's budget, and not for the next day's."""
MAX_BUSY_SECONDS = 10.0
"""For this long each caller waits for a ledger that other processes use."""


@dataclass(slots=True)
class Permit:
    """One call that the rate limiter let through; whoever makes it notes here how it went."""

    place: int
    """Which of the places of `AdaptiveLimit` it takes."""
    failure: str | None = _INTERRUPTED
    """The type of the error; ``None`` where there was none."""
    is_unused: bool = False
    """True where no call was made after all, so that nothing is learnt about the model."""
    unread: int = 0
    """How many replies before the last one could not be read, so that it was asked another way."""


class RateLimiter:
    """Limits the calls to one model: as many at a time as it can take, and none while it is down.

    Args:
        limiter: Keeps the budget that pays for the calls.
        concurrency: how many calls are made at a time at most.
        prices: the user's own prices by model, in USD per million input and output tokens.
        patience: for how many seconds a call waits for a model that is down. Above 0 a call also
            waits for the next minute's budget; with 0 it is refused at once.
        model: what is called, for its breaker and its prices.
    """

    def __init__(
        self,
        limiter: BudgetLimiter,
        *,
        concurrency: int,
        prices: Mapping[str, tuple[float, ...]] | None = None,
        patience: float = 0.0,
        model: object = None,
    ) -> None:
        self.limiter = limiter
        self.breaker = limiter.breaker(model)
        self.limit = AdaptiveLimit(concurrency)
        self._prices = prices
        self._price_host: str = getattr(model, "price_host", "")
        self._patience = patience
        self._freed = asyncio.Condition()
        self._down_since: float | None = None
        self._busy_since: float | None = None
        """Since when the ledger has been busy whenever something was to be reserved."""

    @asynccontextmanager
    async def passage(self) -> AsyncIterator[Permit]:
        """Wait for a place, and report to limit and breaker how the call in the block went.

        Raises `JudgeError` with the counted reason while the model is down.
        """
        passing = Permit(await self._enter())
        try:
            probe: int = _granted(self.breaker.admit())
            try:
                yield passing
            except JudgeError as error:
                passing.failure = error.type
                raise
            finally:
                self._report(probe, passing)
        finally:
            await self._leave(passing)

    @asynccontextmanager
    async def further_place(self) -> AsyncIterator[bool]:
        """Take another place for a call that makes several requests, if one is free now."""
        place = self.limit.enter()
        try:
            yield place is not None
        finally:
            if place is not None:
                self.limit.leave(place)
                await self._wake()

    async def _enter(self) -> int:
        async with self._freed:
            while True:
                place = self.limit.enter()
                if place is not None:
                    return place
                try:
                    await self._freed.wait()
                except BaseException:
                    self._freed.notify()  # the place that it was woken for is for another call
                    raise

    async def _leave(self, passing: Permit) -> None:
        self.limit.leave(
            passing.place,
            succeeded=passing.failure is None,
            rate_limited=passing.failure == "rate_limited",
        )
        if not self.limit.in_flight:  # nobody comes next, who would write it with a reservation
            with shield("budget", on_own_thread=True):
                self.limiter.write()
        await self._wake()

    async def _wake(self) -> None:
        """Wake as many of the calls that wait as there are places."""
        async with self._freed:
            self._freed.notify(max(self.limit.limit - self.limit.in_flight, 0))

    def _report(self, probe: int, passing: Permit) -> None:
        if passing.is_unused or passing.failure in ("over_budget", "no_ledger", "no_price"):
            self.breaker.unused(probe)
        elif passing.failure == "malformed" and not self._patience:
            # Each of these replies was paid for, so each counts. Offline none does: a run would
            # wait for the breaker at every row, and its report lists the failures anyway.
            for _ in range(passing.unread + 1):
                self.breaker.failed(probe)
        elif passing.failure in _TRANSIENT:
            self.breaker.failed(probe)
        else:  # also a refusal, or what cannot be read, shows that the model is there
            self.breaker.succeeded(probe)

    async def reserve(
        self,
        judge: str,
        model: str,
        most: Usage,
        *,
        calls: int = 1,
        tags: Mapping[str, str] = NO_TAGS,
    ) -> Reservation:
        """Reserve the most that calls may use, for a record with these ``tags``.

        Raises `JudgeError` with the counted reason where the budget refuses.
        """
        price = price_of(f"{self._price_host}{model}", own=self._prices)
        if price is None and self.limiter.limits_dollars(judge, tags):
            raise JudgeError(
                "no_price", f"a limit in dollars is set, and no price of {model} is known"
            )
        usd = None if price is None else price.most(most, requests=calls)
        reserved: Reservation = _granted(
            self.limiter.reserve(judge, calls=calls, tokens=most.total_tokens, usd=usd, tags=tags)
        )
        _granted(await self.limiter.confirm(reserved))
        self._busy_since = None
        return reserved

    def cost(self, model: str, used: Usage) -> float | None:
        """Return what a use costs in USD; ``None`` where the price is unknown."""
        return cost(f"{self._price_host}{model}", used, own=self._prices)

    async def wait(self, refusal: JudgeError) -> None:
        """Sleep until a refused call may be tried again.

        Raises the refusal where waiting does not help, or has taken longer than the patience.
        """
        seconds = refusal.retry_after
        if refusal.type == "no_ledger" and seconds is not None:
            self._busy_since = self._busy_since or time.monotonic()
            if time.monotonic() - self._busy_since > MAX_BUSY_SECONDS:
                raise refusal
            await asyncio.sleep(seconds)
            return
        may_pass = refusal.type in ("over_budget", "circuit_open")
        if not self._patience or not may_pass or seconds is None or seconds > MAX_WAIT_SECONDS:
            raise refusal
        if refusal.type == "circuit_open":
            self._down_since = self._down_since or time.monotonic()
            if time.monotonic() - self._down_since > self._patience:
                raise refusal
        await asyncio.sleep(min(seconds, 1.0) + 0.01)

    def note_answer(self) -> None:
        """Note that the model is not down."""
        self._down_since = None


def _granted(answer: Any) -> Any:
    if isinstance(answer, Refused):
        raise JudgeError(answer.reason, answer.detail, retry_after=answer.retry_after)
    return answer


# What one judgement spends at one model: every request is reserved, made, settled and counted.


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
        tags: The tags of what is judged, by which the limits of groups count as well.
    """

    def __init__(
        self,
        model: object,
        rate_limiter: RateLimiter,
        judge: str,
        tags: Mapping[str, str] = NO_TAGS,
    ) -> None:
        self.model = getattr(model, "model", "") or type(model).__name__
        self.usage: Usage | None = None
        self.calls: list[ModelCall] = []
        """What was called, for the judgement's trace."""
        self.rate_limiter = rate_limiter
        self.judge = judge
        self.tags = tags
        self.clock = Stopwatch()
        """Of its calls, which begin and end after one another whatever the wall clock does."""

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
            passing.is_unused = True  # as long as nothing is reserved
            payment = _Payment(self, passing, name, most, await self.reserve(most))
            passing.is_unused = False
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

    async def reserve(self, most: Usage, *, calls: int = 1) -> Reservation:
        """Reserve the most that calls of this judgement may use; see `RateLimiter.reserve`."""
        return await self.rate_limiter.reserve(
            self.judge, self.model, most, calls=calls, tags=self.tags
        )

    def add(self, call: ModelCall) -> None:
        """Add a call of this judgement, and what it used."""
        self.calls.append(call)
        self.usage = total_usage(self.usage, call.usage)

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
    """The reservations that pay for the requests of one call, of which the first is made."""

    def __init__(
        self, account: Spending, passing: Permit, name: str, most: Usage, first: Reservation
    ) -> None:
        self._account = account
        self._rate_limiter = account.rate_limiter
        self._passing = passing
        self._most = most
        self._requests = 1
        self._reserved = [first]
        self._call = ModelCall(name, account.clock.now_ns(), 0, account.model)

    async def another(self, trouble: JudgeError | None) -> None:
        """Reserve for a further request, which the client makes after some trouble.

        Raises `JudgeError` with the counted reason where the budget refuses.
        """
        if trouble is None:
            self._passing.unread += 1
        elif trouble.type == "rate_limited":
            self._rate_limiter.limit.slow_down(self._passing.place)
        self.free(trouble)
        self._reserved.append(await self._account.reserve(self._most))
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
        end_ns = self._account.clock.now_ns()
        self._account.add(replace(call, end_ns=end_ns, usage=priced, error=error))
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


# The judge model as judges see it: every call is admitted, paid for and counted.


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

    def __init__(
        self, llm: LLM, rate_limiter: RateLimiter, judge: str, tags: Mapping[str, str] = NO_TAGS
    ) -> None:
        super().__init__(llm, rate_limiter, judge, tags)
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
        schema: Mapping[str, object] | None = None,
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
            passing.is_unused = True  # as long as nothing is reserved
            while True:
                try:
                    reserved = await self.reserve(most, calls=calls)
                    break
                except JudgeError as refusal:
                    if refusal.type != "no_ledger":
                        raise
                    await self.rate_limiter.wait(refusal)
            passing.is_unused = False
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
        total = total_usage(*used) or Usage(cost_usd=0.0)
        limiter.settle(reserved, calls=made, tokens=total.total_tokens, usd=total.cost_usd)

    def ask(
        self, prompt: str, /, *, schema: Mapping[str, Any] | None = None, max_tokens: int = 4096
    ) -> str:
        """Answer one prompt, for a judge that is a plain function and runs on its own thread."""
        refuse_in_loop()
        call = self.complete([Message("user", prompt)], schema=schema, max_tokens=max_tokens)
        return asyncio.run_coroutine_threadsafe(call, self._loop).result().text


# The judge models in use: the configured one, and those that single judges bring along.


class NoModel(LLM):
    """Stands where no judge model can be asked, for judges that may not need one."""

    model = ""
    usage: Usage | None = None
    calls: Sequence[ModelCall] = ()
    cut_prompts = 0

    def __init__(
        self,
        why: str = "set LLMEVAL_JUDGE_MODEL or configure(llm=...)",
        reason: NotRunReason = "no_judge_model",
    ) -> None:
        self.why_not = why
        self.reason = reason
        self.inner = self

    async def complete(self, messages: Any, /, **options: Any) -> Any:
        """Refuse, with the reason that is counted."""
        raise JudgeError(self.reason, self.why_not)


class Models:
    """Makes each model once, and a budgeted view of it for each judgement.

    Each model has a rate limiter of its own: one that is down or slow does not hold up the others.

    Args:
        configured: makes the model of judges that bring none along; ``None`` where there is none.
        limiter: Of the budget of all calls.
        concurrency: calls to one model at a time, at most.
        prices: own prices by model, in USD per million input and output tokens.
        patience: seconds that a call waits for a model that is down; see `RateLimiter`.
    """

    def __init__(
        self,
        configured: Callable[[], LLM | None],
        limiter: BudgetLimiter,
        *,
        concurrency: int,
        prices: Mapping[str, tuple[float, ...]] | None = None,
        patience: float = 0.0,
    ) -> None:
        self._configured = configured
        self._new_rate_limiter = partial(
            RateLimiter, limiter, concurrency=concurrency, prices=prices, patience=patience
        )
        self._made: dict[object, tuple[LLM, RateLimiter] | NoModel] = {}

    async def of(self, judge: Judge, tags: Mapping[str, str] = NO_TAGS) -> BudgetedLLM | NoModel:
        """Return the model that a judge asks, for one judgement; made and warmed once.

        ``tags`` are those of what is judged, by which the limits of groups count.
        Call it where judges run: loading a client takes its time.
        """
        key = _key(judge)
        if key not in self._made:
            model = self._make_or_say_why(judge)
            if isinstance(model, NoModel):
                self._made[key] = model
            else:
                self._made[key] = (model, self._new_rate_limiter(model=model))
            warm: Any = getattr(model, "warm", None)
            if warm is not None and judge.calls_here:
                await warm()
        made = self._made[key]
        return made if isinstance(made, NoModel) else BudgetedLLM(*made, judge.name, tags)

    def check(self, judge: Judge) -> LLM:
        """Return the model that a judge asks, to look at; `NoModel` where none is configured.

        Raises:
            ConfigurationError: it cannot be used.
        """
        model = self._made.get(_key(judge))
        if model is None or isinstance(model, NoModel):
            return self._make(judge)
        return model[0]

    def _make_or_say_why(self, judge: Judge) -> LLM:
        try:
            return self._make(judge)
        except ImportError as error:
            return NoModel(str(error), "not_installed")
        except ConfigurationError as error:
            return NoModel(str(error))

    def _make(self, judge: Judge) -> LLM:
        own = judge.model
        if own is not None:
            return registry.judge_model(own)
        return self._configured() or NoModel("no judge model is configured")


def _key(judge: Judge) -> object:
    own = judge.model
    return own if own is None or isinstance(own, str) else id(own)


def configured_model(llm: object, settings: Settings) -> LLM:
    """Make the judge model of ``llm=``, else that of the settings, else the default one.

    Where the client for OpenAI's API is not installed, judges that run in another environment can
    still reach it.

    Raises:
        ConfigurationError: it cannot be used.
    """
    from llmeval_sdk.judges.models import DEFAULT_MODEL, resolve, sources

    try:
        return resolve(llm if llm is not None else settings.judge_model, settings=settings)
    except MissingExtraError as error:
        if error.extra != "openai":
            raise
        name = settings.judge_model or DEFAULT_MODEL
        for source in sources():
            model = source.remote(name, settings, str(error))
            if model is not None:
                return model
        raise
