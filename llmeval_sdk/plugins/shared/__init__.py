"""What all hosts share through a Redis: one budget, and what is known of models that are down."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from llmeval_sdk.config import source_of
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.pipeline.plan import Plugin
from llmeval_sdk.process.shield import swallow
from llmeval_sdk.registry import why_of


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
        try:
            from llmeval_sdk.plugins.shared.settings import SharedSettings

            if settings.of(SharedSettings).shared is None and source_of("shared") == "default":
                return plan
            from llmeval_sdk.plugins.shared.sharing import share

            return share(plan, settings, planning.problems, strict=planning.strict)
        except ConfigurationError:
            raise
        except (Exception, SystemExit) as error:  # a budget for each host would be too much
            if not swallow("plugin shared", error, f"no judge runs: {why_of(error)}"):
                raise
            from llmeval_sdk.evaluation.escalation import JudgeGate
            from llmeval_sdk.evaluation.sampling import SamplingRule, SamplingRules

            gate = JudgeGate(SamplingRules((SamplingRule(0.0),)))
            return replace(plan, gate=gate, decisions=None)


plugin = SharedPlugin()
