"""A judge model that this process cannot reach, and others can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llmeval_sdk.config import Settings
from llmeval_sdk.errors import JudgeError
from llmeval_sdk.judges.models import ModelSource
from llmeval_sdk.model import Completion, Message
from llmeval_sdk.model.protocols import LLM


class RemoteLLM(LLM):
    """Stands for the configured model where its client is not installed.

    Judges that work in another environment (Ragas) reach it by its address.
    """

    def __init__(self, model: str, settings: Settings, why: str) -> None:
        self.model = model
        self._settings = settings
        self.why_not = why

    def address(self) -> dict[str, Any]:
        """Return what `OpenAILLM.address` would."""
        key = self._settings.judge_api_key
        return {
            "model": self.model,
            "base_url": self._settings.judge_base_url or "https://api.openai.com/v1",
            "api_key": key.reveal() if key is not None else None,
        }

    async def complete(
        self,
        messages: Sequence[Message],
        /,
        *,
        schema: Mapping[str, object] | None = None,
        max_tokens: int = 4096,
    ) -> Completion:
        """Refuse, with the reason that is counted."""
        raise JudgeError("not_installed", self.why_not)


class RemoteModels(ModelSource):
    """Reaches the configured model from another environment, where this one lacks its client."""

    def remote(self, name: str, settings: Settings, why: str) -> LLM | None:
        """Return what stands for the model here."""
        return RemoteLLM(name, settings, why)
