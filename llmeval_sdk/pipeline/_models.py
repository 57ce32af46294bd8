"""The judge models in use: the configured one, and those that single judges bring along."""

from __future__ import annotations

import asyncio
from typing import Any

from llmeval_sdk import registry
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.pipeline._metered import MeteredLLM, Turnstile
from llmeval_sdk.pipeline._plan import Plan
from llmeval_sdk.protocols import LLM, Judge


class Models:
    """Makes each model once, on the judges' thread, where loading a client blocks nobody.

    Each has a turnstile of its own: one that is down or slow does not hold up the others.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._known: dict[Any, tuple[LLM, Turnstile] | str] = {}

    async def of(self, judge: Judge) -> MeteredLLM | str:
        """Return the model a judge asks, within the budget; a text says why there is none."""
        own = judge.model
        key = own if own is None or isinstance(own, str) else id(own)
        if key not in self._known:
            self._known[key] = await self._make(own, warm=judge.calls_here)
        found = self._known[key]
        if isinstance(found, str):
            return found
        return MeteredLLM(*found, judge.name, asyncio.get_running_loop())

    async def _make(self, own: Any, *, warm: bool) -> tuple[LLM, Turnstile] | str:
        plan = self._plan
        try:
            llm = plan.llm() if own is None else registry.judge_model(own)
        except (ConfigurationError, ImportError) as error:
            return str(error)
        if llm is None:
            return "no judge model is configured"
        if warm and hasattr(llm, "warm"):
            await llm.warm()
        return llm, Turnstile(plan.keeper, concurrency=plan.concurrency, prices=plan.prices)
