"""What all hosts share through a Redis: one budget, and what is known of models that are down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmeval_sdk.config import source_of
from llmeval_sdk.pipeline.plan import Plugin


if TYPE_CHECKING:
    from llmeval_sdk.config import Settings
    from llmeval_sdk.pipeline.plan import Plan, Planning


class SharedPlugin(Plugin):
    """One budget, one memory of verdicts and one breaker for all hosts."""

    name = "shared"
    settings = {"One budget for all hosts": "settings:SharedSettings"}
    findings = {"Shared by all hosts": "findings:findings"}

    def complete(self, plan: Plan, settings: Settings, planning: Planning) -> Plan:
        """Put what all hosts share in the place of what this host would keep."""
        from llmeval_sdk.plugins.shared.settings import SharedSettings

        if settings.of(SharedSettings).shared is None and source_of("shared") == "default":
            return plan
        from llmeval_sdk.plugins.shared.sharing import share

        return share(plan, settings, planning.problems, strict=planning.strict)


plugin = SharedPlugin()
