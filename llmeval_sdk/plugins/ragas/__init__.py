"""Judges that run Ragas: the three of Datadog's guide, Ragas' own by name, and metric objects.

Importing this loads no Ragas. Where it runs is decided at each judgement: in a child process, or on
a thread of this one, see `_where`.
"""

from __future__ import annotations

from llmeval_sdk.pipeline.plan import Plugin


class RagasPlugin(Plugin):
    """Ragas' metrics as judges, by name and as objects, and the command ``llmeval ragas``."""

    name = "ragas"
    settings = {"Ragas": "settings:RagasSettings"}
    library_judges = {
        name: f"_judge:{name}"
        for name in ("ragas_faithfulness", "ragas_answer_relevancy", "ragas_context_precision")
    }
    families = {"ragas": "_judge:by_name"}
    adapters = {"ragas": "_objects:adapted"}
    models = {"elsewhere": "elsewhere:ReachedElsewhere"}
    commands = {"ragas": "command:add"}
    findings = {"Ragas": "findings:findings"}


plugin = RagasPlugin()
