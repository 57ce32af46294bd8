"""``estimate_cost()``: the requests, tokens and dollars of a run, without asking any model."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace

from llmeval_sdk.config import Secret, Settings
from llmeval_sdk.config.settings import DecisionSettings
from llmeval_sdk.errors import JudgeError
from llmeval_sdk.evaluation.verdicts import Verdicts, key_of
from llmeval_sdk.judges import BaseJudge, FunctionJudge
from llmeval_sdk.judges.models import sources
from llmeval_sdk.judges.models.prices import Price, price_of
from llmeval_sdk.model import Completion, Message, Record, Usage
from llmeval_sdk.model.protocols import LLM, Judge
from llmeval_sdk.offline.data.record import mapped
from llmeval_sdk.offline.data.source import open_data
from llmeval_sdk.offline.run.rows import BadRows, good_rows
from llmeval_sdk.offline.run.work import InputRow, Work


def estimate_cost(
    data: object,
    *,
    evaluators: Sequence[object] | None = None,
    llm: object = None,
    decisions: object = None,
    skip_bad: bool = False,
    cache: bool = True,
    prices: Mapping[str, tuple[float, ...]] | None = None,
    map_columns: Mapping[str, str] | None = None,
) -> CostEstimate:
    """Estimate the requests, tokens and dollars of a run. No model is asked, and no other server.

    The arguments are those of `evaluate`. Rows have to be answered already, because nobody knows
    what an app will answer.

    Raises:
        DataError: A row cannot be read.
        ConfigurationError: An evaluator is unknown, or a judge has no model.
    """
    work = Work(
        evaluators=None if evaluators is None else tuple(evaluators),
        llm=llm,
        decisions=decisions,
        cache=cache,
        prices=prices,
    )
    work.__dict__["settings"] = _with_keys(work)
    bad = BadRows(skip=skip_bad)
    rows = good_rows(
        mapped(open_data(data), map_columns),
        work.chosen,
        bad,
        answered=True,
        digests=False,
        settings=work.settings,
    )
    return estimate(work, rows)


def _with_keys(work: Work) -> Settings:
    """Return the settings with a key for each model that is named: none is needed to estimate."""
    settings, unused = work.settings, Secret("no request is made")
    own = settings.of(DecisionSettings)
    name = work.decisions or own.decision_model
    is_open_ai = isinstance(name, str) and name.startswith("openai/")
    if is_open_ai and own.decision_api_key is None and own.decision_base_url is None:
        keyed = own.changed(decision_api_key=unused)
        settings = settings.changed(extensions={**settings.extensions, DecisionSettings: keyed})
    if (work.llm or settings.judge_model) and settings.judge_api_key is None:
        settings = settings.changed(judge_api_key=unused)
    for source in sources():
        settings = source.with_keys(settings, unused)
    return settings


TOKENS_PER_VERDICT = 200
"""What a judge model is assumed to write: a rationale of some sentences and a rating."""
CHARACTERS_PER_TOKEN = 3


@dataclass(slots=True)
class ModelCost:
    """What one model will be asked.

    Args:
        model: Its name.
        is_decisions: Whether it is the decision model.
        requests: How many requests, without retries.
        cached: How many judgements are known from earlier runs, so that they cost nothing.
        usage: The most input tokens that these requests have, at three characters a token, the
            output tokens that are assumed, and the cost in USD: ``None`` where the price is not
            known.
    """

    model: str
    is_decisions: bool
    requests: int = 0
    cached: int = 0
    usage: Usage = field(default_factory=Usage)

    def add(self, used: Usage, price: Price | None, *, requests: int = 1) -> None:
        """Add equal requests that use so much together."""
        self.requests += requests
        if price is not None:
            of_one = price.at(used.input_tokens / requests)
            used = replace(used, cost_usd=of_one.cost(used, requests=requests))
        self.usage += used


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """What a run will cost.

    Args:
        rows: How many rows are evaluated.
        models: What each model will be asked.
        unknown: By the name of a judge that is code of the app or of another library: how many
            rows it judges. What it asks shows only when it runs.
    """

    rows: int
    models: tuple[ModelCost, ...]
    unknown: Mapping[str, int]

    @property
    def cost_usd(self) -> float | None:
        """The cost in USD; ``None`` where a price, or what a judge asks, is not known."""
        costs = [each.usage.cost_usd for each in self.models if each.requests]
        known = [usd for usd in costs if usd is not None]
        return None if self.unknown or len(known) < len(costs) else sum(known)


def estimate(work: Work, items: Iterable[InputRow]) -> CostEstimate:
    """Estimate what it costs to evaluate these rows; verdicts that are kept cost nothing."""
    with ExitStack() as stack:
        verdicts = None
        if work.cache and work.chosen.judges:
            verdicts = stack.enter_context(closing(work.earlier_verdicts()))
        return asyncio.run(_CostSum(work, verdicts).of(items))


class _CostSum:
    """Adds up what each row asks."""

    def __init__(self, work: Work, verdicts: Verdicts | None) -> None:
        self._work = work
        self._verdicts = verdicts
        self._costs: dict[tuple[str, bool], ModelCost] = {}
        self._unknown: Counter[str] = Counter()
        if work.decider is not None:
            work.decider.verdicts = verdicts

    async def of(self, items: Iterable[InputRow]) -> CostEstimate:
        """Return the sum over all rows."""
        rows = 0
        chosen = self._work.chosen
        for rows, item in enumerate(items, 1):  # noqa: B007 - how many there were
            judges = chosen.judges_for(item.record, {})
            decided = [judge for judge in judges if judge.name in chosen.decided]
            if decided:
                self._add_decision(item.record, decided)
            for judge in judges:
                if judge.name not in chosen.decided:
                    await self._add_judgement(item.record, judge)
        return CostEstimate(rows, tuple(self._costs.values()), dict(self._unknown))

    def _add_decision(self, record: Record, judges: Sequence[Judge]) -> None:
        decider = self._work.decider
        assert decider is not None
        total = self._total(decider.model.model, is_decisions=True)
        price = self._price(f"{getattr(decider.model, 'price_host', '')}{total.model}")
        inquiry = decider.prepared(record, judges).inquiry
        total.cached += inquiry.cached
        count = len(inquiry.questions)
        if count:
            limits = getattr(decider.model, "limits", None)
            requests = -(-count // getattr(limits, "questions", count))
            tokens = inquiry.most(requests).total_tokens
            total.add(Usage(tokens, 0, tokens), price, requests=requests)

    async def _add_judgement(self, record: Record, judge: Judge) -> None:
        if _runs_own_code(judge):
            self._unknown[judge.name] += 1
            return
        model = self._work.models.check(judge)
        total = self._total(model.model, is_decisions=False)
        key = key_of(judge, model, record)
        if self._verdicts is not None and self._verdicts.get(key) is not None:
            total.cached += 1
            return
        prompts = _Prompts(model.model)
        await judge.evaluate(record, prompts)
        for tokens in prompts.tokens:
            used = Usage(tokens, TOKENS_PER_VERDICT, tokens + TOKENS_PER_VERDICT)
            total.add(used, self._price(total.model))

    def _price(self, model: str) -> Price | None:
        return price_of(model, own=self._work.settings.prices)

    def _total(self, model: str, *, is_decisions: bool) -> ModelCost:
        key = model, is_decisions
        if key not in self._costs:
            nothing = None if self._price(model) is None else 0.0
            self._costs[key] = ModelCost(*key, usage=Usage(cost_usd=nothing))
        return self._costs[key]


def _runs_own_code(judge: Judge) -> bool:
    """Say whether a judge is more than a prompt of ours, so that running it may ask somebody."""
    is_ours = type(judge).__module__.startswith("llmeval_sdk.")
    return not (is_ours and isinstance(judge, BaseJudge)) or isinstance(judge, FunctionJudge)


class _Prompts(LLM):
    """Measures the prompts that a judge makes, and answers none of them."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.tokens: list[int] = []

    async def complete(self, messages: Sequence[Message], /, **_: object) -> Completion:
        """Measure a prompt."""
        characters = sum(len(message.content) for message in messages)
        self.tokens.append(characters // CHARACTERS_PER_TOKEN + 16)
        raise JudgeError("estimated")
