"""`retrieval_risk`: how likely the retrieved context cannot answer its question, without an LLM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmeval_sdk.heuristics.function import FunctionHeuristic
from llmeval_sdk.heuristics.risk import _context as contexts
from llmeval_sdk.heuristics.risk import _passage, _query, _ranking, _resources, _text
from llmeval_sdk.heuristics.risk._query import Term
from llmeval_sdk.model import Evaluation, Record


NAME = "retrieval_risk"
_MOST_SHOWN = 20


def features(
    record: Record, *, table: Mapping[str, float] | None = None
) -> tuple[dict[str, float], list[Term], dict[str, Any]] | str:
    """Return a record's features, the terms of its question, and metadata.

    A text is returned instead if the record cannot be measured; it says why. ``table`` replaces the
    shipped background table; training uses it.
    """
    question = _passage.question(record)
    context = contexts.of(_passage.passages(record.retrieved_context))
    spoken, written = _text.language((_text.tokens(question),)), context.language
    if spoken.sure and written.sure and spoken.english != written.english:
        return "question and context are in different languages, so their words cannot be compared"
    english = written.english and (spoken.english or not spoken.sure)
    if english != context.english:
        context = contexts.of(_passage.passages(record.retrieved_context), english=english)
    weigh = _resources.weigher(table, english=english)
    terms = _query.terms(question, context, weigh, english=english)
    if not terms:
        return "the question has no words to look for"
    measured = _query.measure(question, terms, context, english=english)
    measured.update(_ranking.measure(record.retrieved_context or ()))
    metadata: dict[str, Any] = {"language": "en" if english else "other"}
    if context.capped:
        metadata["context_capped"] = True
    return measured, terms, metadata


def _retrieval_risk(record: Record) -> Evaluation | None:
    """Return how likely the retrieved chunks lack what the question asks for.

    The value lies between 0 and 1, and is 1 if nothing was retrieved. It is ``None`` if the chunks
    have no text, if question and context are in different languages, or if the question has no
    words to look for. It notices that passages are missing, but not that a passage on the right
    subject leaves the question open.

    Formula: the features say what share of the question's words the context, its best passage and
    its best sentence have, and for a hybrid retrieval how far the rankings of both sides agree. A
    model made of one step function per feature turns them into a probability. It was fitted on
    questions whose paragraph was or was not in the index (``benchmarks/quality/risk_train.py``), so
    compare ranks between applications and not values.

    Metadata: ``uncovered_query_terms`` (as written), ``language`` (``en``; ``other``: only features
    that hold in every language were used), and ``context_capped`` if the context was too
    long to be read to its end.
    """
    chunks = record.retrieved_context
    if chunks is None or record.request is None:
        return None
    if not chunks:
        return Evaluation(NAME, 1.0, None, "nothing was retrieved", None, {})
    if not _passage.passages(record.retrieved_context):
        return Evaluation(NAME, None, None, "the chunks have no content to look at", None, {})
    measured = features(record)
    if isinstance(measured, str):
        return Evaluation(NAME, None, None, measured, None, {})
    values, terms, metadata = measured
    part = "hybrid" if "overlap" in values else "text"
    value = _resources.model("retrieval", part).risk(values)
    uncovered = sorted((t for t in terms if not t.sentences), key=lambda t: -t.weight)
    metadata["uncovered_query_terms"] = [term.word for term in uncovered[:_MOST_SHOWN]]
    explanation = f"the best sentence covers {values['best_sentence']:.0%} of the question"
    if uncovered:
        explanation += f"; not in the context: {', '.join(term.word for term in uncovered[:5])}"
    return Evaluation(NAME, round(value, 4), None, explanation, None, metadata)


retrieval_risk = FunctionHeuristic(
    _retrieval_risk, NAME, version="2", needs=("request", "retrieved_context")
)
