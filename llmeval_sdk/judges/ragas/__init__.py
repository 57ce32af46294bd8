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
from llmeval_sdk.judges.ragas._objects import is_metric, judge_of
from llmeval_sdk.judges.ragas._where import problem, where


__all__ = [
    "RagasJudge",
    "by_name",
    "is_metric",
    "judge_of",
    "problem",
    "ragas_answer_relevancy",
    "ragas_context_precision",
    "ragas_faithfulness",
    "where",
]
