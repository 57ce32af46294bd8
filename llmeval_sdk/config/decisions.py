"""The settings of decision models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from llmeval_sdk.config._row import setting
from llmeval_sdk.config._secret import Secret
from llmeval_sdk.config._texts import allows, fraction, names, pairs, positive


@allows("`openai/gpt-6-luna`, `systemone/<model>` or `logprobs/<chat model>`")
def _model(text: str) -> str:
    return text.strip()


@allows("`https://…`, or `http://localhost:<port>/v1`")
def _address(text: str) -> str:
    return text.strip()


@allows("`judge=0.4,…`")
def _thresholds(text: str) -> Mapping[str, float]:
    return {judge: fraction(threshold) for judge, threshold in pairs(text).items()}


@dataclass(frozen=True, kw_only=True)
class DecisionSettings:
    """Which decision model is asked, and where it is."""

    decision_model: str | None = setting(
        None,
        "LLMEVAL_DECISION_MODEL",
        read=_model,
        doc="Model that answers typed questions with probabilities. What stands before the slash "
        "is the wire that its server speaks. Naming it allows spending.",
    )
    decision_base_url: str | None = setting(
        None,
        "LLMEVAL_DECISION_BASE_URL",
        read=_address,
        doc="Where it is. Default: OpenAI for `openai/…`, the judge model's server for "
        "`logprobs/…`; `systemone/…` needs one: `https://api.typesafe.ai/v1`, "
        "`https://api.upstage.ai/v1`, or that of vLLM, SGLang or llama.cpp.",
    )
    decision_path: str | None = setting(
        None,
        "LLMEVAL_DECISION_PATH",
        doc="Path of its requests below the base URL. Default: `/decisions`, `/systemone` or "
        "`/chat/completions`, by the wire. Perplexity has `systemone/…` at `/decisions`.",
    )
    decision_api_key: Secret | None = setting(  # noqa: RUF009
        None,
        "LLMEVAL_DECISION_API_KEY",
        read=Secret,
        doc="Key for it; a local server needs none. Alone it never asks a model. Where neither it "
        "nor a base URL is set, the judge model's key is used for the judge model's server.",
    )
    cascade: tuple[str, ...] = setting(
        (),
        "LLMEVAL_CASCADE",
        read=names,
        doc="Judges that the decision model answers for on all traffic, and the judge model where "
        "the probability is 0.2 to 0.8, and on a control sample of 0.05 of the rest. `Cascade` has "
        "other bounds.",
    )
    decision_thresholds: Mapping[str, float] | None = setting(
        None,
        "LLMEVAL_DECISION_THRESHOLDS",
        read=_thresholds,
        doc="By judge, the probability from which on a decision is `yes`: `groundedness=0.4`. "
        "Default: 0.5. `llmeval agreement` proposes one.",
    )
    decision_usd_per_day: float = setting(
        1.0,
        "LLMEVAL_DECISION_USD_PER_DAY",
        read=positive,
        doc="Money that decisions may cost a day (UTC), beside that of the judges.",
    )
    decision_tokens_per_minute: float = setting(
        1_000_000.0,
        "LLMEVAL_DECISION_TOKENS_PER_MINUTE",
        read=positive,
        doc="Tokens of decisions a minute, over the processes of this host.",
    )
