"""`context_precision`: whether the chunks that the answer was taken from were ranked at the top."""

from __future__ import annotations

from llmeval_sdk.heuristics._reading import chunk_numbers
from llmeval_sdk.heuristics.function import FunctionHeuristic
from llmeval_sdk.model import Evaluation, Record


TOP = 10


def _context_precision(record: Record) -> Evaluation | None:
    """Return how many of the chunks that extractions cite were ranked in the top 10.

    The score lies between 0 and 1, rounded to 3 decimals: the number of cited chunks in the top 10,
    divided by the number of cited chunks or by 10, whichever is smaller. It is 0 if no chunk is
    cited, and ``None`` if the record has no ``extractions``. A chunk's number is its rank.

    Metadata: ``avg_rank``, the mean rank over all extractions that cite a chunk (to 1 decimal, 0 if
    none does), and ``contributing_chunks``, the number of different chunks that are cited.
    """
    extractions = record.extractions
    if extractions is None:
        return None
    cited = chunk_numbers(extractions)
    metadata: dict[str, float]
    if not cited:
        metadata = {"avg_rank": 0.0, "contributing_chunks": 0}
        return Evaluation("context_precision", 0.0, None, None, None, metadata)
    contributing = set(cited)
    count = len(contributing)
    top = count if max(contributing) <= TOP else sum([1 for rank in contributing if rank <= TOP])
    metadata = {"avg_rank": round(sum(cited) / len(cited), 1), "contributing_chunks": count}
    value = round(top / min(TOP, count), 3)
    return Evaluation("context_precision", value, None, None, None, metadata)


context_precision = FunctionHeuristic(
    _context_precision, "context_precision", needs=("extractions",), inline=True
)
