"""Risk that learns: a risk score is re-fitted on what judges and people said of this app's records.

`background.make` returns what a pipeline needs of it. The core finds it through the registry and
works without it: then the shipped weights apply.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmeval_sdk.pipeline.plan import Plugin


if TYPE_CHECKING:
    from llmeval_sdk.pipeline.plan import Planning


class LearningPlugin(Plugin):
    """Risk scores whose weights are re-fitted on the app's own outcomes."""

    name = "learning"
    settings = {"Risk scores that learn": "settings:LearnedSettings"}
    findings = {"Risk scores that learn": "findings:findings"}
    state = {"learned": "outcomes:TABLES"}

    def prepare(self, planning: Planning) -> None:
        """Pass the scores of the worker through what learns, where it is switched on."""
        from llmeval_sdk.plugins.learning.background import make

        learning = make(planning.settings)
        if learning is not None:
            planning.prepared.append(learning.taught)
            planning.hooks.append(learning)


plugin = LearningPlugin()
