"""Whether what the answer was taken from stood at the top of the ranking."""

from __future__ import annotations

from llmeval_sdk.heuristics._function import FunctionHeuristic
from llmeval_sdk.heuristics._reading import chunk_numbers
from llmeval_sdk.model import Evaluation, Record


TOP = 10


def _context_precision(record: Record) -> Evaluation | None:
    """Share of the contributing chunks that stand in the top 10, to 3 decimals; 0 without any.

    ``avg_rank`` is the mean over all extractions that cite a chunk, to 1 decimal; 0
    where none does.
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
    top = sum([1 for rank in contributing if rank <= TOP])
    metadata = {"avg_rank": round(sum(cited) / len(cited), 1), "contributing_chunks": count}
    value = round(top / min(TOP, count), 3)
    return Evaluation("context_precision", value, None, None, None, metadata)


context_precision = FunctionHeuristic(
    _context_precision, "context_precision", needs=("extractions",), inline=True
)
