"""The judge models in use: the configured one, and those that single judges bring along."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from llmeval_sdk import registry
from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError, JudgeError, MissingExtraError
from llmeval_sdk.evaluation._budgeted_llm import BudgetedLLM
from llmeval_sdk.evaluation._rate_limiter import RateLimiter
from llmeval_sdk.evaluation.admission import NotRunReason
from llmeval_sdk.evaluation.limiter import BudgetLimiter
from llmeval_sdk.model import ModelCall, Usage
from llmeval_sdk.model.protocols import LLM, Judge


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
        self._made: dict[Any, tuple[LLM, RateLimiter] | NoModel] = {}

    async def of(self, judge: Judge) -> BudgetedLLM | NoModel:
        """Return the model that a judge asks, for one judgement; made and warmed once.

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
        return made if isinstance(made, NoModel) else BudgetedLLM(*made, judge.name)

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


def _key(judge: Judge) -> Any:
    own = judge.model
    return own if own is None or isinstance(own, str) else id(own)


def configured_model(llm: Any, settings: Settings) -> LLM:
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
            model = source.elsewhere(name, settings, str(error))
            if model is not None:
                return model
        raise
