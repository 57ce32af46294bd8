"""The judge models of a run: metered as online, and patient where online nobody may wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from llmeval_sdk import registry
from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError, JudgeError
from llmeval_sdk.evaluation import NoModel
from llmeval_sdk.model import Completion, Message
from llmeval_sdk.pipeline import MeteredLLM, Turnstile
from llmeval_sdk.policy.books import Reservation
from llmeval_sdk.policy.budget import Budget
from llmeval_sdk.policy.keeper import BudgetKeeper
from llmeval_sdk.policy.prices import price_of
from llmeval_sdk.protocols import LLM, Judge


PATIENCE_SECONDS = 60.0
"""How long a run waits for a model that is down before its judgements fail."""


class Unlimited(BudgetKeeper):
    """Grants everything and keeps no books: a run that was given no budget."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(Budget(calls_per_minute=None, usd_per_day=None))

    def reserve(
        self, judge: str, *, calls: int = 1, tokens: int = 0, usd: float | None = None
    ) -> Reservation:
        """Grant it."""
        return Reservation(0, (), 0.0, 0.0, calls, tokens, usd or 0.0)

    def settle(self, reservation: Reservation, **used: Any) -> None:
        """Write nothing down."""


class Models:
    """Makes each model once, and one metered view of it for each judgement."""

    def __init__(
        self, llm: Any, settings: Settings, *, budget: Budget | None, concurrency: int
    ) -> None:
        self._keeper = Unlimited() if budget is None else BudgetKeeper(budget)
        if budget is None:
            budget = Budget(calls_per_minute=None, usd_per_day=None, concurrency=concurrency)
        self.concurrency = min(concurrency, budget.concurrency)
        self._has_ceiling = any(
            each.usd_per_day is not None for each in (budget, *budget.judges.values())
        )
        self.throttled = budget.calls_per_minute is not None or budget.tokens_per_minute is not None
        self._llm = llm
        self._settings = settings
        self._known: dict[Any, _Model] = {}

    def check(self, judges: Sequence[Judge]) -> None:
        """Say before anything is done which judges nobody can answer.

        Raises:
            ConfigurationError: no model was named, or there is a limit in USD and the price of one
                is not known; the message says how to.
        """
        settings = self._settings
        named = self._llm is not None or settings.judge_model or settings.judge_api_key
        needing = [judge.name for judge in judges if judge.needs_model and judge.model is None]
        if needing and not named:
            raise ConfigurationError(
                f"{', '.join(needing)} needs a judge model: pass llm= (on the command line "
                "--model-judge), or set LLMEVAL_JUDGE_MODEL, with OPENAI_API_KEY or OPENAI_BASE_URL"
            )
        for judge in judges:
            if judge.needs_model:
                model = self._model_of(judge).llm
                if self._has_ceiling and not isinstance(model, NoModel):
                    self._check_price(getattr(model, "model", ""))

    def _check_price(self, model: str) -> None:
        if price_of(model, own=self._settings.prices) is None:
            raise ConfigurationError(
                f"the price of the judge model {model!r} is not known, so that no limit in USD can "
                f"hold: give it with prices={{{model!r}: (INPUT, OUTPUT)}} (on the command line "
                f"--price '{model}=INPUT,OUTPUT'), in USD per million tokens, or set no such limit "
                "(Budget(usd_per_day=None))"
            )

    def name_of(self, judge: Judge) -> str | None:
        """Return which model answers a judge, and where; ``None`` for one that only this run has.

        Verdicts of such a one cannot be told from those of another.
        """
        if not judge.needs_model:
            return None
        llm = self._model_of(judge).llm
        url = getattr(llm, "base_url", None)
        return None if url is None else f"{llm.model}@{url}"

    def of(self, judge: Judge) -> MeteredLLM:
        """Return the model that a judge asks, for one judgement; call it in the event loop."""
        return Patient(self._model_of(judge), judge.name)

    def _model_of(self, judge: Judge) -> _Model:
        own = judge.model
        key = own if own is None or isinstance(own, str) else id(own)
        if key not in self._known:
            self._known[key] = _Model(
                self._make(own), self._keeper, self.concurrency, self._settings.prices
            )
        return self._known[key]

    def _make(self, own: Any) -> LLM:
        if own is not None:
            return registry.judge_model(own)
        settings = self._settings
        if self._llm is None and settings.judge_model is None and settings.judge_api_key is None:
            return NoModel()
        from llmeval_sdk.llms import resolve

        return resolve(self._llm, settings=settings)


class _Model:
    """One model and who may call it now."""

    def __init__(self, llm: LLM, keeper: BudgetKeeper, concurrency: int, prices: Any) -> None:
        self.llm = llm
        self.down_since: float | None = None
        self.turnstile: Turnstile | None = None
        self._keeper = keeper
        self._concurrency = concurrency
        self._prices = prices

    def gates(self) -> Turnstile:
        """Return the turnstile, made in the event loop where it is used."""
        if self.turnstile is None:
            self.turnstile = Turnstile(
                self._keeper, concurrency=self._concurrency, prices=self._prices
            )
        return self.turnstile


class Patient(MeteredLLM):
    """Waits for the next minute's budget, and for a while for a model that is down."""

    def __init__(self, model: _Model, judge: str) -> None:
        super().__init__(model.llm, model.gates(), judge, asyncio.get_running_loop())
        self._of = model

    async def complete(
        self,
        messages: Sequence[Message],
        /,
        *,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int = 4096,
    ) -> Completion:
        """Call the model as soon as it may be called."""
        while True:
            try:
                found = await super().complete(messages, schema=schema, max_tokens=max_tokens)
            except JudgeError as error:
                await self._wait(error)
            else:
                self._of.down_since = None
                return found

    async def _wait(self, error: JudgeError) -> None:
        """Sleep until the next try, or raise the error where waiting is no use."""
        seconds = error.retry_after
        if seconds is None or error.type not in ("over_budget", "circuit_open") or seconds > 61:
            raise error
        if error.type == "circuit_open":
            self._of.down_since = self._of.down_since or time.monotonic()
            if time.monotonic() - self._of.down_since > PATIENCE_SECONDS:
                raise error
        await asyncio.sleep(min(seconds, 1.0) + 0.01)
