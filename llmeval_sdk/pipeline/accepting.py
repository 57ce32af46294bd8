"""``llmeval.accepts``: whether a value needs no look, by the thresholds that were saved."""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_

from llmeval_sdk.evaluation.acceptances import AUDIT_PROBABILITY, Acceptances
from llmeval_sdk.evaluation.groups import NO_TAGS
from llmeval_sdk.model import Evaluation, values
from llmeval_sdk.pipeline.runtime import in_force
from llmeval_sdk.pipeline.submit import submit_evaluation
from llmeval_sdk.process.shield import swallow, tell
from llmeval_sdk.store.state import state_path
from llmeval_sdk.tracing import Span


_watched: dict[str, Acceptances] = {}
"""The thresholds of the store in use: one entry, replaced once another store is configured."""


def accepts(span: Span, *, field: str | None = None) -> bool:
    """Return whether an answer, or one field of it, can be accepted without a person's look.

    A value can be accepted if the chance of an error that ``extraction_risk`` gives it lies at or
    below the threshold that ``llmeval accept --save`` found for its field. The result is ``False``
    if there is no threshold or no score, and if anything goes wrong.

    Of several thresholds the most specific one counts: for the name of the span and a group that
    its tags say it is in (two tags before one), then for a group, then for the name, then for all.
    Of two that fit equally it is the lower one. The tags are those of the span, which include
    those of ``annotation_context``. A value whose group has no threshold goes by a broader one.

    One in a hundred of the values that could be accepted is refused at random, as an audit. Label
    audited values by `submit_feedback` with ``field`` and ``source="review"``: these labels show
    whether accepted values have become worse. Each decision is stored as the evaluation
    ``acceptance``, which is ``accepted``, ``refused`` or ``audit``.

    The score is computed on the spot, in a few milliseconds, and read in microseconds as long as
    the span holds the same. This function never raises.

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
        decision, saved_ns = _acceptances().decide(
            scored, span.name, span.span_id, field, span.tags or NO_TAGS
        )
        details = _details(scored, field, saved_ns)
        submit_evaluation(label=values.ACCEPTANCE, value=decision, span=span, metadata=details)
    except Exception as error:
        if not swallow("accepts", error):
            raise
        return False
    return decision == "accepted"


def _score_of(span: Span) -> Evaluation | None:
    """Return the score of what a span holds now, which is computed again once that has changed."""
    held = (
        span.value, span.response, span.retrieved_context, span.extractions, span.field_config,
        span.gathered and span.gathered[-1],
    )  # fmt: skip
    known = span.scored_for
    if known is not None and all(map(is_, held, known[0])):
        return known[1]
    scored = span.evaluate(values.EXTRACTION_RISK)
    span.scored_for = held, scored
    return scored


def _acceptances() -> Acceptances:
    store = in_force.settings_or_default().store
    known = _watched.get(store)
    if known is None:
        known = Acceptances(state_path(store), lambda problem: tell("accepts", problem))
        _watched.clear()
        _watched[store] = known
    return known


def _details(
    scored: Evaluation | None, field: str | None, saved_ns: Sequence[int]
) -> dict[str, object]:
    """Return what is stored with a decision."""
    chance = scored.value if scored is not None else None
    return {
        values.FIELD: field, "greatest_chance": chance, "audit_probability": AUDIT_PROBABILITY,
        values.THRESHOLDS: list(saved_ns),
    }  # fmt: skip
