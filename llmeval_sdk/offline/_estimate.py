"""``estimate_cost()``: what ``evaluate()`` would ask of models, and what that would cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from llmeval_sdk.config import Secret, Settings
from llmeval_sdk.config.settings import DecisionSettings
from llmeval_sdk.judges.models import sources
from llmeval_sdk.offline.data.record import mapped
from llmeval_sdk.offline.data.source import open_data
from llmeval_sdk.offline.run.cost import CostEstimate, estimate
from llmeval_sdk.offline.run.rows import Bad, good_rows
from llmeval_sdk.offline.run.work import Work


def estimate_cost(
    data: Any,
    *,
    evaluators: Sequence[Any] | None = None,
    llm: Any = None,
    decisions: Any = None,
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
    bad = Bad(skip=skip_bad)
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
        keyed = replace(own, decision_api_key=unused)
        settings = replace(settings, extensions={**settings.extensions, DecisionSettings: keyed})
    if (work.llm or settings.judge_model) and settings.judge_api_key is None:
        settings = replace(settings, judge_api_key=unused)
    for source in sources():
        settings = source.with_keys(settings, unused)
    return settings
