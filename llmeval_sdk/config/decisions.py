"""The settings of decision models."""

from __future__ import annotations

from dataclasses import dataclass

from llmeval_sdk.config._row import setting
from llmeval_sdk.config._secret import Secret
from llmeval_sdk.config._texts import allows


@allows("`openai/gpt-6-luna`, `systemone/<model>` or `logprobs/<chat model>`")
def _model(text: str) -> str:
    return text.strip()


@allows("`https://…`, or `http://localhost:<port>/v1`")
def _address(text: str) -> str:
    return text.strip()


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
