"""What `llmeval doctor` says of a judge model that is reached by its provider's own client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llmeval_sdk import registry
from llmeval_sdk.cli._checks import Finding
from llmeval_sdk.cli._endpoint import Variables, endpoint
from llmeval_sdk.config import Settings


def judge_provider(model: str, settings: Settings) -> Any:
    """Return how a model is reached; ``None`` where OpenAI's API is spoken.

    Raises:
        ConfigurationError: nothing stands for the name; the message says what works.
    """
    reach_of = registry.part("llmeval_sdk.llms.providers.names:reach_of")
    return reach_of(model, settings) if reach_of is not None and "/" in model else None


def provider_findings(reach: Any) -> Iterator[Finding]:
    """Say whether the client and a key are there."""
    if reach.installs is not None:
        words = f"not installed: pip install '{reach.installs}'"
        yield Finding(False, reach.package, words)
    if reach.key is None:
        yield Finding(False, "key", f"there is none: set {reach.variables[1]}")


def provider_endpoint(reach: Any) -> Finding:
    """Ask the provider for its models."""
    return endpoint(
        reach.models_url,
        reach.key,
        Variables(*reach.variables),
        key_header=reach.key_header,
        headers=reach.headers,
        key_refusals=reach.key_refusals,
    )
