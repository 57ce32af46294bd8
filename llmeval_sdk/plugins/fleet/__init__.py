"""A fleet of judges: apps hand judgements to Redis, and ``llmeval fleet`` makes them elsewhere.

An app's process decides as it does without a fleet: it scores, escalates and samples. Then it
*asks*: a thread of the SDK signs up to 32 judgements and queues them. A worker *answers*: it claims
each of them, so that it is paid for once, runs the judge that it knows under the name, and sends
the verdict to its own exporters, or back to the host that asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmeval_sdk import config
from llmeval_sdk.errors import ConfigurationError
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
        """Hand judgements over, or answer those of others, where the settings say so.

        A mistake of the environment is a line of ``problems``, and then no judgement leaves.

        Raises:
            ConfigurationError: the settings cannot be used, and a person is watching.
        """
        from llmeval_sdk.plugins.fleet.settings import FleetSettings, answers_here, check

        settings, own = planning.settings, planning.settings.of(FleetSettings)
        if not answers_here() and own.judge_queue is None:
            return
        try:
            check(settings)
        except ConfigurationError as error:
            if planning.strict:
                raise
            planning.problems.append(f"{config.source_of('judge_queue')}: {error}")
            return
        if answers_here():
            from llmeval_sdk.plugins.fleet._worker import FleetWorker

            planning.judging = lambda plan, dispatcher: FleetWorker(plan, dispatcher, own)
        else:
            from llmeval_sdk.plugins.fleet._client import FleetClient

            planning.judging = lambda plan, dispatcher: FleetClient(plan, dispatcher, settings)


plugin = FleetPlugin()
