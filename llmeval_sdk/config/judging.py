"""The settings of the judges: the model, when it is asked, and what it may spend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from llmeval_sdk.config._row import setting
from llmeval_sdk.config._secret import Secret
from llmeval_sdk.config._texts import count, fraction, positive, prices


@dataclass(frozen=True, kw_only=True)
class JudgingSettings:
    """Which judge model is asked, when, and what it may spend."""

    judge_model: str | None = setting(
        None,
        "LLMEVAL_JUDGE_MODEL",
        doc="Model that judges, `model` or `provider/model`. Naming it allows spending.",
    )
    judge_api_key: Secret | None = setting(  # noqa: RUF009
        None,
        "LLMEVAL_JUDGE_API_KEY",
        "OPENAI_API_KEY",
        read=Secret,
        doc="Key for the judge model. Alone it never starts a judge.",
    )
    judge_base_url: str | None = setting(
        None,
        "LLMEVAL_JUDGE_BASE_URL",
        "OPENAI_BASE_URL",
        doc="Any OpenAI-compatible server.",
    )
    judge_timeout: float = setting(
        60.0, "LLMEVAL_JUDGE_TIMEOUT", read=positive, doc="Seconds one judgement may take."
    )
    judge_concurrency: int = setting(
        8, "LLMEVAL_JUDGE_CONCURRENCY", read=count, doc="Judgements at a time."
    )
    sampling_rules: str | None = setting(
        None,
        "LLMEVAL_SAMPLING_RULES",
        "DD_LLMOBS_EVALUATOR_SAMPLING_RULES",
        doc="JSON list of `{sample_rate, evaluator_label?, span_name?}` for the paid judges.",
    )
    judge_share: float | None = setting(
        None,
        "LLMEVAL_JUDGE_SHARE",
        "LLMEVAL_JUDGE_BUDGET",
        read=fraction,
        doc="Share of the records that is judged, the riskiest first, `0.2`: extractions by"
        " `extraction_correctness`, other answers by `groundedness`. 0 is off."
        " `LLMEVAL_JUDGE_BUDGET` is its former name.",
    )
    judge_control_rate: float | None = setting(
        None,
        "LLMEVAL_JUDGE_CONTROL_RATE",
        read=fraction,
        doc="With `LLMEVAL_JUDGE_SHARE`: the mean chance of the records below the riskiest, the"
        " knob between measuring (up to the share itself) and catching (`0.02`). Default: 0.45 of"
        " the share.",
    )
    recall_threshold: float = setting(
        0.7,
        "LLMEVAL_RECALL_THRESHOLD",
        read=fraction,
        doc="`context_recall_heuristic` below it asks `context_recall_llm`.",
    )
    calls_per_minute: float = setting(
        60.0,
        "LLMEVAL_BUDGET_CALLS_PER_MINUTE",
        read=positive,
        doc="Judge calls a minute, over the processes of this host.",
    )
    usd_per_day: float = setting(
        5.0,
        "LLMEVAL_BUDGET_USD_PER_DAY",
        read=positive,
        doc="Judge money a day (UTC), where the model's price is known.",
    )
    tokens_per_minute: float | None = setting(
        None,
        "LLMEVAL_BUDGET_TOKENS_PER_MINUTE",
        read=positive,
        doc="Judge tokens a minute. Where it is not set, 200,000 for models of unknown price.",
    )
    prices: Mapping[str, tuple[float, ...]] | None = setting(
        None,
        "LLMEVAL_PRICES",
        read=prices,
        doc="Prices of models in USD per million input and output tokens: `mine=0.5,1.5;other=1,2` "
        'or `{"mine": [0.5, 1.5]}`. A third and a fourth number are the prices of input that a '
        "cache had, and that it keeps. They win over the list that comes along.",
    )
