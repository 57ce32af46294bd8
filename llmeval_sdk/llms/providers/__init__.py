"""Judge models of Anthropic and Google, each by its provider's own client.

Neither client is imported before the first call of a model.
"""

from __future__ import annotations

from llmeval_sdk.llms.providers.anthropic_model import AnthropicLLM
from llmeval_sdk.llms.providers.google_model import GoogleLLM


__all__ = ["AnthropicLLM", "GoogleLLM"]
