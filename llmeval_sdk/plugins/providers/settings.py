"""The settings of judge models that are reached by the clients of Anthropic and Google."""

from __future__ import annotations

from llmeval_sdk.config.reading import JUDGES, Secret, Table, address, secret, setting


class ProviderSettings(Table):
    """The keys and addresses of Anthropic and Google, in the variables of their own clients."""

    anthropic_api_key: Secret | None = setting(
        None,
        "ANTHROPIC_API_KEY",
        read=secret,
        doc="Key for a judge model `anthropic/…`. Alone it never starts a judge.",
    )
    anthropic_base_url: str = setting(
        "https://api.anthropic.com",
        "ANTHROPIC_BASE_URL",
        read=address,
        closes=JUDGES,
        doc="Where a judge model `anthropic/…` is asked.",
    )
    google_api_key: Secret | None = setting(
        None,
        "GOOGLE_API_KEY",
        "GEMINI_API_KEY",
        read=secret,
        doc="Key for a judge model `google/…`. Alone it never starts a judge.",
    )
    google_base_url: str = setting(
        "https://generativelanguage.googleapis.com",
        "GOOGLE_GEMINI_BASE_URL",
        read=address,
        closes=JUDGES,
        doc="Where a judge model `google/…` is asked.",
    )
