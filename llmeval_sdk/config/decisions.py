"""The settings of decision models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from llmeval_sdk.config._row import setting
from llmeval_sdk.config._secret import Secret
from llmeval_sdk.config._texts import allows, fraction, positive


@allows("`openai/gpt-6-luna`, `systemone/<model>` or `logprobs/<chat model>`")
def _model(text: str) -> str:
    return text.strip()


@allows("`https://…`, or `http://localhost:<port>/v1`")
def _address(text: str) -> str:
    return text.strip()


@allows("`judge=number;…`")
def _thresholds(text: str) -> Mapping[str, float]:
    """Read probabilities by judge: ``groundedness=0.7;safety=0.9``."""
    threshold_of: dict[str, float] = {}
    for part in filter(str.strip, text.split(";")):
        judge, _, number = part.rpartition("=")
        try:
            if not judge.strip():
                raise ValueError  # noqa: TRY301
            threshold_of[judge.strip()] = fraction(number)
        except ValueError:
            raise ValueError(
                "expected judge=number;judge=number with numbers from 0 to 1,"
                f" not {part.strip()!r}"[:200]
            ) from None
    return threshold_of


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
    decision_thresholds: Mapping[str, float] | None = setting(
        None,
        "LLMEVAL_DECISION_THRESHOLDS",
        read=_thresholds,
        doc="Probability, by judge, from which on its outcome is good: `safety=0.9`. 0.5 where "
        "nothing is said.",
    )
    decision_usd_per_day: float = setting(
        1.0,
        "LLMEVAL_DECISION_USD_PER_DAY",
        read=positive,
        doc="Money for decisions a day (UTC), where the model's price is known; apart from what "
        "judge models may spend.",
    )
    decision_tokens_per_minute: float = setting(
        1_000_000.0,
        "LLMEVAL_DECISION_TOKENS_PER_MINUTE",
        read=positive,
        doc="Tokens for decisions a minute, over the processes of this host.",
    )
