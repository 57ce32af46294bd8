"""Another way to reach a judge model by its name: what a plugin has to say of it."""

from __future__ import annotations

from typing import Any

from llmeval_sdk.config import Secret, Settings
from llmeval_sdk.model.protocols import LLM


class ModelSource:
    """One way to reach judge models. Every method here stands for a source that knows nothing."""

    def from_name(self, name: str, settings: Settings) -> LLM | None:
        """Make the model of a name; ``None`` where the name is not one of this source's.

        Raises:
            ConfigurationError: The name stands for what cannot be reached; the message says how.
            MissingExtraError: The provider's client is not installed.
        """
        return None

    def elsewhere(self, name: str, settings: Settings, why: str) -> LLM | None:
        """Make what stands for a model whose client is missing here, and not everywhere."""
        return None

    def reach_of(self, name: str, settings: Settings) -> Any:
        """Say how a model is reached, for ``llmeval doctor``; ``None`` for OpenAI's API."""
        return None

    def with_keys(self, settings: Settings, unused: Secret) -> Settings:
        """Return the settings with a key wherever one is missing, to estimate costs by."""
        return settings
