"""Judges that run Ragas: the three of Datadog's guide, Ragas' own by name, and metric objects.

Importing this loads no Ragas. Where it runs is decided at each judgement: in a child process, or on
a thread of this one, see `_where`.
"""

from llmeval_sdk.judges.ragas._judge import (
    RagasJudge,
    by_name,
    ragas_answer_relevancy,
    ragas_context_precision,
    ragas_faithfulness,
)
from llmeval_sdk.judges.ragas._objects import adapted
from llmeval_sdk.judges.ragas._where import default_home, problem, python_in, where


__all__ = [
    "RagasJudge",
    "adapted",
    "by_name",
    "default_home",
    "problem",
    "python_in",
    "ragas_answer_relevancy",
    "ragas_context_precision",
    "ragas_faithfulness",
    "where",
]
