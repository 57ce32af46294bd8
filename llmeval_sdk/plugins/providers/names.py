"""What the name of a judge model means, ``provider/model``, where no base URL was set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from llmeval_sdk.config import Secret, Settings, from_environment, source_of
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.judges.models import ModelSource
from llmeval_sdk.judges.models.clients import OPENAI_URL, endpoint
from llmeval_sdk.judges.models.openai_client import OpenAILLM
from llmeval_sdk.model.protocols import LLM
from llmeval_sdk.plugins.providers.models import AnthropicLLM, GoogleLLM
from llmeval_sdk.plugins.providers.settings import ProviderSettings


PROVIDERS: dict[str, type[AnthropicLLM | GoogleLLM]] = {
    "anthropic": AnthropicLLM,
    "google": GoogleLLM,
    "gemini": GoogleLLM,
}
OLLAMA_URL = "http://127.0.0.1:11434/v1"
_OLLAMA = ("ollama", "ollama_chat")
_BASE_URLS = {
    "azure_ai": "https://<resource>.services.ai.azure.com/openai/v1",
    "bedrock": "https://bedrock-runtime.<region>.amazonaws.com/openai/v1",
    "cerebras": "https://api.cerebras.ai/v1",
    "cohere": "https://api.cohere.ai/compatibility/v1",
    "openrouter": "https://openrouter.ai/api/v1",
    "groq": "https://api.groq.com/openai/v1",
    "mistral": "https://api.mistral.ai/v1",
    "deepseek": "https://api.deepseek.com/v1",
    "xai": "https://api.x.ai/v1",
    "huggingface": "https://router.huggingface.co/v1",
    "nvidia_nim": "https://integrate.api.nvidia.com/v1",
    "perplexity": "https://api.perplexity.ai",
    "together_ai": "https://api.together.xyz/v1",
    "fireworks_ai": "https://api.fireworks.ai/inference/v1",
    "databricks": "https://<workspace>/serving-endpoints",
    "vllm": "http://<host>:8000/v1",
    "hosted_vllm": "http://<host>:8000/v1",
    "llama_cpp": "http://<host>:8080/v1",
    "lm_studio": "http://<host>:1234/v1",
}
"""The addresses of the OpenAI-compatible servers behind the prefixes of other gateways."""
_OTHER_SPELLINGS = {
    "bedrock_converse": "bedrock",
    "fireworks": "fireworks_ai",
    "grok": "xai",
    "llamacpp": "llama_cpp",
    "lmstudio": "lm_studio",
    "mistralai": "mistral",
    "together": "together_ai",
}
"""Prefixes that mean the same as another one."""
_WITH_PREFIX = ("litellm", "litellm_proxy")
_VERTEX = ("vertex_ai", "vertex_ai_beta", "vertexai", "vertex")
_CLAUDE_AT = {"bedrock": "AsyncAnthropicBedrock", **dict.fromkeys(_VERTEX, "AsyncAnthropicVertex")}


def from_name(name: str, settings: Settings) -> LLM | None:
    """Make the LLM of a name; ``None`` where it is one for an OpenAI-compatible server.

    A base URL always wins: the name then goes to that server as it is.

    Raises:
        ConfigurationError: The name stands for what cannot be reached so; the message says how.
        MissingExtraError: The provider's client is not installed.
    """
    provider, model = read(name, settings)
    if provider in _OLLAMA:
        own = settings.prices or {}
        return OpenAILLM(model, base_url=OLLAMA_URL, timeout=settings.judge_timeout, prices=own)
    kind = PROVIDERS.get(provider)
    if kind is None:
        return None
    key, base_url = _access(kind, settings)
    return kind(
        model,
        base_url=base_url,
        api_key=key,
        timeout=settings.judge_timeout,
        prices=settings.prices or {},
    )


class Reach(NamedTuple):
    """How a judge model is reached, for whoever checks it."""

    installs: str | None
    """What pip has to install, where the client is missing."""
    package: str
    variables: tuple[str, str]
    """The variables of its address and of its key."""
    key: Secret | None
    models_url: str
    """Below it, ``/models`` lists the models."""
    key_header: tuple[str, str]
    headers: Mapping[str, str]
    key_refusals: tuple[int, ...]
    """The statuses by which a wrong key is refused."""


def reach_of(name: str, settings: Settings) -> Reach | None:
    """Say how the model of a name is reached; ``None`` where OpenAI's API is spoken.

    Raises:
        ConfigurationError: Nothing stands for the name.
    """
    kind = PROVIDERS.get(read(name, settings)[0])
    if kind is None:
        return None
    key, base_url = _access(kind, settings)
    return Reach(
        None if kind.is_installed() else f"llmeval-inprocess[{kind.extra}]",
        kind.package,
        (kind.role.base_url, kind.role.api_key),
        key,
        base_url.rstrip("/") + kind.models_path,
        kind.key_header,
        kind.further_headers,
        kind.key_refusals,
    )


def with_keys(settings: Settings, unused: Secret) -> Settings:
    """Return the settings with a key for each provider that has none, to estimate costs by."""
    own = settings.of(ProviderSettings)
    own = own.changed(
        anthropic_api_key=own.anthropic_api_key or unused,
        google_api_key=own.google_api_key or unused,
    )
    return settings.changed(extensions={**settings.extensions, ProviderSettings: own})


def _access(kind: type[AnthropicLLM | GoogleLLM], settings: Settings) -> tuple[Secret | None, str]:
    """Return the key and the address of a provider; a key that was given for judges wins."""
    own_key, base_url = kind.access(settings.of(ProviderSettings))
    return _key_of_judges(settings) or own_key, base_url


def _key_of_judges(settings: Settings) -> Secret | None:
    """Return the key that was given for judges; never the one that the app has for OpenAI."""
    key = settings.judge_api_key
    is_openais = source_of("judge_api_key") == "OPENAI_API_KEY" and (
        key == from_environment(problems=[]).judge_api_key
    )
    return None if is_openais else key


def read(name: str, settings: Settings) -> tuple[str, str]:
    """Return the provider, where it is one of ours, and the model.

    Raises:
        ConfigurationError: No server is known for the name; the message says what works.
    """
    provider, _, model = name.strip().partition("/")
    provider = provider.lower()
    base_url = settings.judge_base_url
    if base_url is not None and base_url.rstrip("/") != OPENAI_URL:
        return "", name
    if (provider in PROVIDERS or provider in _OLLAMA) and model:
        return provider, model
    if (way := _way(provider, model)) is not None:
        raise ConfigurationError(f"the judge model {name!r} is not reached by this name: {way}")
    endpoint(name, base_url)
    return "", name


def _way(provider: str, model: str) -> str | None:
    """Say how the model of another gateway's name is reached."""
    provider = _OTHER_SPELLINGS.get(provider, provider)
    if "claude" in model and (client := _CLAUDE_AT.get(provider)) is not None:
        return (
            f"pass configure(llm=AnthropicLLM(…, client=lambda: anthropic.{client}(…))) of "
            "llmeval_sdk.plugins.providers, with the model's id there, or use anthropic/… with "
            "ANTHROPIC_API_KEY"
        )
    if provider in _VERTEX:
        return (
            "pass configure(llm=GoogleLLM(…, client=lambda: genai.Client(vertexai=True, …))) of "
            f"llmeval_sdk.plugins.providers, or use google/{model} with GOOGLE_API_KEY"
        )
    if provider in _WITH_PREFIX:
        return f"set LLMEVAL_JUDGE_BASE_URL to your LiteLLM proxy, and the model to {model!r}"
    address = _BASE_URLS.get(provider)
    if address is None:
        return None
    if provider == "openrouter" and "/" not in model:
        model = f"openrouter/{model}"  # a model of its own, such as openrouter/auto
    return (
        f"set LLMEVAL_JUDGE_BASE_URL={address}, LLMEVAL_JUDGE_API_KEY to a key of that server "
        f"where it wants one, and the model to {model!r}"
    )


def check(settings: Settings, problems: list[str], *, strict: bool) -> None:
    """Refuse the name of a judge model that nothing stands for, where a person is watching.

    Raises:
        ConfigurationError: With ``strict``, where the name was given to ``configure()``. That of
            the environment is added to ``problems``.
    """
    try:
        read(settings.judge_model or "", settings)
    except ConfigurationError as error:
        source = source_of("judge_model")
        is_own = from_environment(problems=[]).judge_model == settings.judge_model
        if strict and not (source != "default" and is_own):
            raise
        problems.append(f"{source}: {error}")


class ProviderNames(ModelSource):
    """Reaches the models of names such as ``anthropic/…`` by their providers' own clients."""

    def from_name(self, name: str, settings: Settings) -> LLM | None:
        """Make the LLM of a name; see `from_name`."""
        return from_name(name, settings) if "/" in name else None

    def reach_of(self, name: str, settings: Settings) -> Reach | None:
        """Say how the model of a name is reached; see `reach_of`."""
        return reach_of(name, settings) if "/" in name else None

    def with_keys(self, settings: Settings, unused: Secret) -> Settings:
        """Return the settings with a key for each provider that has none."""
        return with_keys(settings, unused)
