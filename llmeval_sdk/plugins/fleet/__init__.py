"""A fleet of judges: apps hand judgements to Redis, and ``llmeval fleet`` makes them elsewhere.

An app's process decides as it does without a fleet: it scores, escalates and samples. Then it
*asks*: a thread of the SDK signs up to 32 judgements and queues them. A worker *answers*: it claims
each of them, so that it is paid for once, runs the judge that it knows under the name, and sends
the verdict to its own exporters, or back to the host that asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmeval_sdk.pipeline.plan import Plugin


if TYPE_CHECKING:
    from llmeval_sdk.pipeline.plan import Planning


class FleetPlugin(Plugin):
    """Judgements that other hosts make."""

    name = "fleet"
    requires = ("shared",)
    settings = {"Judge fleet": "settings:FleetSettings"}
    commands = {"fleet": "command:add"}
    findings = {"Judge fleet": "findings:findings"}

    def prepare(self, planning: Planning) -> None:
        """Hand judgements over, or answer those of others, where the settings say so."""
        from llmeval_sdk.plugins.fleet.roles import make

        planning.judging = make(planning.settings, planning.problems, strict=planning.strict)


plugin = FleetPlugin()
