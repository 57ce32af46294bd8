"""Judge models of Anthropic and Google, each by its provider's own client.

Neither client is imported before the first call of a model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmeval_sdk.pipeline.plan import Plugin


if TYPE_CHECKING:
    from llmeval_sdk.pipeline.plan import Planning
    from llmeval_sdk.plugins.providers.models import AnthropicLLM, GoogleLLM

__all__ = ["AnthropicLLM", "GoogleLLM"]


class ProvidersPlugin(Plugin):
    """Judge models named ``anthropic/…``, ``google/…`` and ``ollama/…``."""

    name = "providers"
    settings = {"Judge models of Anthropic and Google": "settings:ProviderSettings"}
    models = {"providers": "names:ProviderNames"}

    def prepare(self, planning: Planning) -> None:
        """Refuse the name of a judge model that nothing stands for."""
        model: object = planning.settings.judge_model  # or an object, where a test sets it
        if planning.llm is None and isinstance(model, str) and "/" in model:
            from llmeval_sdk.plugins.providers.names import check

            check(planning.settings, planning.problems, strict=planning.strict)


plugin = ProvidersPlugin()


def __getattr__(name: str) -> object:
    if name in __all__:
        return plugin.resolve(f"models:{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
