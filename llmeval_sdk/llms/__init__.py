"""Ways to reach a judge model: one file each."""

from __future__ import annotations

from collections.abc import Mapping

from llmeval_sdk import registry
from llmeval_sdk.config import Settings, from_environment
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.llms.callable_llm import CallableLLM
from llmeval_sdk.llms.openai_client import OpenAILLM
from llmeval_sdk.protocols import LLM


__all__ = ["CallableLLM", "OpenAILLM", "resolve"]

DEFAULT_MODEL = "gpt-4o"
"""The model that judges use if they were requested by name and no model was named."""
_FROM_NAME = "llmeval_sdk.llms.providers.names:from_name"
"""What makes the LLM of a name such as ``anthropic/…``, or returns ``None``."""


def resolve(model: object = None, *, settings: Settings | None = None) -> LLM:
    """Return an LLM for the name of a model, an LLM or a callable.

    ``None`` stands for the settings' model, or `DEFAULT_MODEL`. Whether judges may run at all is
    the caller's decision.

    Raises:
        ConfigurationError: The argument is something else, or the name cannot be used.
        MissingExtraError: The package that reaches the model is not installed.
    """
    if settings is None:
        settings = from_environment(problems=[])
    if model is None:
        model = settings.judge_model or DEFAULT_MODEL
    if isinstance(model, str):
        if "/" in model and (from_name := registry.part(_FROM_NAME)) is not None:
            llm: LLM | None = from_name(model, settings)
            if llm is not None:
                return llm
        return OpenAILLM(
            model,
            base_url=settings.judge_base_url,
            api_key=settings.judge_api_key,
            timeout=settings.judge_timeout,
            prices=settings.prices or {},
        )
    if isinstance(model, Mapping):  # as `OpenAILLM.address` returns it, from another process
        return OpenAILLM(**model)
    if hasattr(model, "complete"):
        return model  # type: ignore[return-value]
    if callable(model):
        return CallableLLM(model)
    raise ConfigurationError(
        f"{type(model).__name__} is not a judge model: expected a model's name, an LLM "
        "(an object with `async def complete(messages, *, schema, max_tokens)`) or a callable"
    )
