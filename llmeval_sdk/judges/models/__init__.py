"""Ways to reach a judge model: one file each.

They are loaded when first used: whoever asks for the price of a model needs none of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from llmeval_sdk import registry
from llmeval_sdk.config import JUDGES, Secret, Settings, from_environment
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model.protocols import LLM


if TYPE_CHECKING:
    from llmeval_sdk.judges.models.callable_llm import CallableLLM
    from llmeval_sdk.judges.models.openai_client import OpenAILLM


__all__ = ["CallableLLM", "ModelSource", "OpenAILLM", "resolve", "sources"]

DEFAULT_MODEL = "gpt-4o"
"""The model that judges use if they were requested by name and no model was named."""


class ModelSource:
    """One way to reach judge models. Every method here stands for a source that knows nothing."""

    def from_name(self, name: str, settings: Settings) -> LLM | None:
        """Make the model of a name; ``None`` where the name is not one of this source's.

        Raises:
            ConfigurationError: The name stands for what cannot be reached; the message says how.
            MissingExtraError: The provider's client is not installed.
        """
        return None

    def remote(self, name: str, settings: Settings, why: str) -> LLM | None:
        """Make what stands for a model whose client is missing here, and not everywhere."""
        return None

    def reach_of(self, name: str, settings: Settings) -> object:
        """Say how a model is reached, for ``llmeval doctor``; ``None`` for OpenAI's API."""
        return None

    def with_keys(self, settings: Settings, unused: Secret) -> Settings:
        """Return the settings with a key wherever one is missing, to estimate costs by."""
        return settings


def sources() -> Iterator[ModelSource]:
    """Yield the ways that plugins know to reach a judge model by its name."""
    for address in registry.table("models").values():
        source: ModelSource = registry.load(address)()
        yield source


def resolve(model: object = None, *, settings: Settings | None = None) -> LLM:
    """Return an LLM for the name of a model, an LLM or a callable.

    ``None`` stands for the settings' model, or `DEFAULT_MODEL`. Whether judges may run at all is
    the caller's decision.

    Raises:
        ConfigurationError: The argument is something else, or the name cannot be used.
        MissingExtraError: The package that reaches the model is not installed.
    """
    from llmeval_sdk.judges.models.callable_llm import CallableLLM
    from llmeval_sdk.judges.models.openai_client import OpenAILLM

    if settings is None:
        settings = from_environment(problems=[])
    if model is None:
        model = settings.judge_model or DEFAULT_MODEL
    if isinstance(model, str):
        settings.check_open(JUDGES)
        for source in sources():
            llm = source.from_name(model, settings)
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


def __getattr__(name: str) -> object:
    home = {"CallableLLM": "callable_llm", "OpenAILLM": "openai_client"}.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"{__name__}.{home}"), name)
    return found
