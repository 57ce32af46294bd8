"""``llmeval.accepts``: whether a value needs no look, by the thresholds that were saved."""

from __future__ import annotations

from operator import is_

from llmeval_sdk.evaluation.acceptances import AUDIT_PROBABILITY, Acceptances
from llmeval_sdk.model import Evaluation, values
from llmeval_sdk.pipeline.runtime import in_force
from llmeval_sdk.pipeline.submit import submit_evaluation
from llmeval_sdk.process.shield import swallow, tell
from llmeval_sdk.store.state import state_path
from llmeval_sdk.tracing import Span


_watched: dict[str, Acceptances] = {}
"""The thresholds beside the store in use; one entry, replaced when another store is configured."""


def accepts(span: Span, *, field: str | None = None) -> bool:
    """Say whether the values of an answer, or that of one field, need no look.

    They do not where ``extraction_risk`` gives each of them a chance of an error up to the
    threshold that ``llmeval accept --save`` found for its field. Where there is no threshold, no
    score, or anything goes wrong, the answer is no. Of the values that would be accepted, one in a
    hundred is refused at random as an audit; labels of these, by `submit_feedback` with ``field``,
    show whether accepted values have become worse. The decision is stored as the evaluation
    ``acceptance``: ``accepted``, ``refused`` or ``audit``.

    A score that is there is read in microseconds; otherwise it is computed on the spot, in a few
    milliseconds. It never raises.

    Args:
        span: The span of the answer, which holds its value or response and its passages.
        field: The path of one field of a structured answer, such as ``total``; all by default.

    Examples:
        >>> with llmeval.workflow("read_invoice") as span:
        ...     span.annotate(value={"total": "47.31"}, retrieved_context=["Total due 47.31"])
        ...     needs_no_look = llmeval.accepts(span, field="total")
    """
    try:
        scored = _score_of(span)
        decision = _acceptances().decide(scored, span.name, span.span_id, field)
        submit_evaluation(
            label=values.ACCEPTANCE, value=decision, span=span, metadata=_details(scored, field)
        )
    except Exception as error:
        if not swallow("accepts", error, calls_out=True):
            raise
        return False
    return decision == "accepted"


def _score_of(span: Span) -> Evaluation | None:
    """Return the score of what a span holds now; of what it held before, it would say nothing."""
    held = (
        span.value, span.response, span.retrieved_context, span.extractions, span.field_config,
        span.gathered and span.gathered[-1],
    )  # fmt: skip
    before = span.scored_for
    if before is not None and all(map(is_, held, before)):
        for evaluation in reversed(span.scored or ()):
            if evaluation.name == values.EXTRACTION_RISK:
                return evaluation
    if before is not None and span.scored and not span.end_ns:
        span.scored = [e for e in span.scored if e.name != values.EXTRACTION_RISK]
    scored = span.evaluate(values.EXTRACTION_RISK)
    span.scored_for = held
    return scored


def _acceptances() -> Acceptances:
    store = in_force.settings_or_default().store
    known = _watched.get(store)
    if known is None:
        known = Acceptances(state_path(store), lambda problem: tell("accepts", problem))
        _watched.clear()
        _watched[store] = known
    return known


def _details(scored: Evaluation | None, field: str | None) -> dict[str, object]:
    """Return what is kept of a decision: the field, the chance and that of an audit."""
    chance = scored.value if scored is not None else None
    return {values.FIELD: field, "greatest_chance": chance, "audit_probability": AUDIT_PROBABILITY}
