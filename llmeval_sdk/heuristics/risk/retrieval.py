"""How likely the retrieved context cannot answer its question, for nothing: `retrieval_risk`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmeval_sdk.heuristics._function import FunctionHeuristic
from llmeval_sdk.heuristics.risk import context as contexts
from llmeval_sdk.heuristics.risk import query, ranking, reading, resources, text
from llmeval_sdk.heuristics.risk.query import Term
from llmeval_sdk.model import Evaluation, Record


NAME = "retrieval_risk"
_MOST_SHOWN = 20


def features(
    record: Record, *, table: Mapping[str, float] | None = None
) -> tuple[dict[str, float], list[Term], dict[str, Any]] | str:
    """Measure a record: features, the question's terms and metadata; or why that cannot be done.

    ``table`` takes the place of the shipped background table, for training.
    """
    asked = reading.question(record)
    context = contexts.of(reading.passages(record))
    spoken, written = text.language((text.tokens(asked),)), context.language
    if spoken.sure and written.sure and spoken.english != written.english:
        return "question and context are in different languages, so their words cannot be compared"
    english = written.english and (spoken.english or not spoken.sure)
    if english != context.english:
        context = contexts.of(reading.passages(record), english=english)
    weigh = resources.weigher(table, english=english)
    wanted = query.terms(asked, context, weigh, english=english)
    if not wanted:
        return "the question has no words to look for"
    found = query.measure(asked, wanted, context, english=english)
    found.update(ranking.measure(record.retrieved_context or ()))
    metadata: dict[str, Any] = {"language": "en" if english else "other"}
    if context.capped:
        metadata["context_capped"] = True
    return found, wanted, metadata


def _retrieval_risk(record: Record) -> Evaluation | None:
    """Score 0..1, near 1 where the chunks probably lack what the question asks for.

    Fitted on questions whose paragraph was or was not in the index (see
    ``benchmarks/quality/risk_train.py``): compare ranks, not values, between applications. It sees
    missing passages; a passage on the very subject that leaves the question open looks fine to it.

    Metadata: ``uncovered_query_terms`` (as written), ``language`` (``en``, or ``other`` where only
    what holds in every language was used), ``context_capped`` where not all was read.
    """
    chunks = record.retrieved_context
    if chunks is None or record.request is None:
        return None
    if not chunks:
        return Evaluation(NAME, 1.0, None, "nothing was retrieved", None, {})
    if not reading.passages(record):
        return Evaluation(NAME, None, None, "the chunks have no content to look at", None, {})
    measured = features(record)
    if isinstance(measured, str):
        return Evaluation(NAME, None, None, measured, None, {})
    found, wanted, metadata = measured
    part = "hybrid" if "overlap" in found else "text"
    value = resources.model("retrieval", part).risk(found)
    uncovered = sorted((t for t in wanted if not t.sentences), key=lambda t: -t.weight)
    metadata["uncovered_query_terms"] = [term.word for term in uncovered[:_MOST_SHOWN]]
    said = f"the best sentence covers {found['best_sentence']:.0%} of the question"
    if uncovered:
        said += f"; not in the context: {', '.join(term.word for term in uncovered[:5])}"
    return Evaluation(NAME, round(value, 4), None, said, None, metadata)


retrieval_risk = FunctionHeuristic(
    _retrieval_risk, NAME, version="2", needs=("request", "retrieved_context")
)
