"""The latest evaluation: which one counts where a span has several evaluations of one name.

In a cascade a decision model and a judge model may both have rated a record under the same name.
The judge model's answer counts if it gave one, otherwise the decision does; of several answers of
one kind, the latest counts. A session that resumes is judged again as a whole, on a later span: the
newest verdict of each evaluator counts, and the verdicts before it are history. Every reader of a
store takes these rules from here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable
from typing import TypeAlias

from llmeval_sdk.model import Evaluation, EvaluationEvent
from llmeval_sdk.store._schema import OF_SESSION, SESSION


StoredValue: TypeAlias = "float | str | None"
"""The value of an evaluation as the store holds it: a score, 0 or 1 for a bool, a word or nothing.
"""
MIN_CHANCE = 1e-9
"""A smaller inclusion probability is none: one record would outweigh all others."""


def _rank(of: str) -> str:
    """Return SQL for how much an evaluation outranks others of its name; ``of`` is ``e.`` or empty.

    A judge model outranks a decision model, and an answer outranks an error.
    """
    return f"""
CASE WHEN {of}evaluator_kind = 'decision' AND {of}error_type IS NULL THEN 1
  WHEN {of}evaluator_kind = 'judge' AND {of}error_type IS NULL THEN 2 ELSE 0 END
"""


RANK = _rank("")
"""SQL to order evaluations by, before their time: the last evaluation of each name is the latest.
"""

# Conditions and columns in SQL. Each function takes the name by which a statement calls its row of
# the table ``evaluations``.


def is_latest(e: str) -> str:
    """Leave out evaluations that another evaluation of the same name and span outranks."""
    return f"""
({e}.span_id = '' OR NOT EXISTS (SELECT 1 FROM evaluations o
  WHERE o.span_id = {e}.span_id AND +o.name = {e}.name
    AND ({_rank("o.")}, o.time_ns, o.seq) > ({_rank(f"{e}.")}, {e}.time_ns, {e}.seq)))
"""  # noqa: S608 - the name of a table


def has_chance(e: str) -> str:
    """Leave out evaluations without an inclusion probability.

    A text, which only a file made by hand holds there, is larger than any number.
    """
    return f"({e}.inclusion_probability > {MIN_CHANCE} AND {e}.inclusion_probability <= 1)"


def chance_of(e: str) -> str:
    """Return an evaluation's inclusion probability, or NULL."""
    return f"CASE WHEN {has_chance(e)} THEN {e}.inclusion_probability END"


def is_verdict(e: str) -> str:
    """Leave out decisions on records for which a judge model was considered.

    The judge model judged them, or the store says why it did not. Such decisions predict what the
    judge model says; they are no verdicts beside its own.
    """
    return f"""
({e}.evaluator_kind IS NOT 'decision' OR NOT (
  EXISTS (SELECT 1 FROM evaluations j WHERE j.span_id = {e}.span_id
    AND +j.name = {e}.name AND j.evaluator_kind = 'judge')
  OR EXISTS (SELECT 1 FROM not_run n WHERE n.span_id = {e}.span_id AND +n.evaluator = {e}.name)))
"""  # noqa: S608 - the name of a table


def is_former(e: str, name: str) -> str:
    """Select verdicts on sessions that were judged again later.

    ``name`` is the evaluator's name in SQL; ``name`` itself stands for all evaluators.
    """
    return f"""
{e}.seq IN (SELECT seq FROM evaluations v
  WHERE {OF_SESSION} AND {SESSION} IS NOT NULL AND name = {name} AND span_id != (
    SELECT span_id FROM evaluations
    WHERE {OF_SESSION} AND name = v.name AND {SESSION} = {SESSION.replace("metadata", "v.metadata")}
    ORDER BY time_ns DESC, span_id DESC LIMIT 1))
"""  # noqa: S608 - the name of a table


def is_newest(e: str, name: str) -> str:
    """Leave out the former verdicts on sessions that were judged again.

    Whether there are any is asked once: to look for each row among none costs a tenth of a report.
    With a placeholder for the ``name`` an index has nothing to read of an evaluator that never
    judged a session.
    """
    return f"""
(NOT EXISTS (SELECT 1 FROM evaluations WHERE {OF_SESSION} AND name = {name})
  OR NOT {is_former(e, name).lstrip()})
"""  # noqa: S608 - the name of a table


def is_newest_row(e: str) -> str:
    """Leave out the same for one row, in statements that look at a few rows of many."""
    of_session = OF_SESSION.replace("metadata", f"{e}.metadata")
    session = SESSION.replace("metadata", f"{e}.metadata")
    return f"""
NOT ({e}.metadata IS NOT NULL AND {of_session}
  AND EXISTS (SELECT 1 FROM evaluations later WHERE {OF_SESSION} AND later.name = {e}.name
    AND {SESSION} = {session} AND (later.time_ns, later.span_id) > ({e}.time_ns, {e}.span_id)
    AND later.span_id != {e}.span_id))
"""  # noqa: S608 - the name of a table


def model_of(e: str) -> str:
    """Return the model that gave a verdict or a decision."""
    return f"""
CASE WHEN {e}.evaluator_kind IN ('judge', 'decision') AND json_valid({e}.metadata)
  THEN json_extract({e}.metadata, '$.model') END
"""


def decider_of(e: str) -> str:
    """Return the decision model that answered before a judge model did."""
    return f"""
CASE WHEN {e}.evaluator_kind = 'judge' AND {e}.span_id != '' THEN (
  SELECT json_extract(d.metadata, '$.model') FROM evaluations d
  WHERE d.span_id = {e}.span_id AND +d.name = {e}.name AND d.evaluator_kind = 'decision'
    AND d.error_type IS NULL AND json_valid(d.metadata) ORDER BY d.seq DESC LIMIT 1) END
"""  # noqa: S608 - the name of a table


_AFTER = " after "
_MAX_LENGTH = 100
_END_NS = 2**63 - 1


def judge_version(version: str | None, model: object, decider: object) -> str:
    """Return what tells one version of a judge, its model and its decision model from another."""
    by = f", {str(model)[:_MAX_LENGTH]}" if model else ""
    return f"{version or ''}{by}{f'{_AFTER}{str(decider)[:_MAX_LENGTH]}' if decider else ''}"


def distinct_versions(versions: Collection[str]) -> set[str]:
    """Leave out versions that differ from another one only by naming no decision model.

    A judge model whose decision model is out of order is still the same judge; one that comes
    after another decision model is a different cascade.
    """
    return {
        version
        for version in versions
        if not any(other.startswith(version + _AFTER) for other in versions)
    }


def latest_of(evaluations: Iterable[Evaluation]) -> Evaluation | None:
    """Return the latest of some evaluations of one name on one span, which come oldest first."""
    chosen: Evaluation | None = None
    for evaluation in evaluations:
        if chosen is None or _rank_of(evaluation) >= _rank_of(chosen):
            chosen = evaluation
    return chosen


def latest_of_span(events: Iterable[EvaluationEvent]) -> list[EvaluationEvent]:
    """Return the latest evaluation of each name from those of one span, which come oldest first."""
    chosen: dict[str, EvaluationEvent] = {}
    for event in events:
        known = chosen.get(event.evaluation.name)
        if known is None or _rank_of(event.evaluation) >= _rank_of(known.evaluation):
            chosen[event.evaluation.name] = event
    return list(chosen.values())


def latest_of_session(events: Iterable[EvaluationEvent]) -> list[EvaluationEvent]:
    """Return the latest evaluation of each name from those of a session, newest first."""
    of_newest: dict[str, list[EvaluationEvent]] = {}
    for event in events:
        latest = of_newest.setdefault(event.evaluation.name, [event])
        if latest[0] is not event and latest[0].target.span_id == event.target.span_id:
            latest.append(event)
    return [latest_of_span(reversed(latest))[0] for latest in of_newest.values()]


def _rank_of(evaluation: Evaluation) -> int:
    if evaluation.error is not None:
        return 0
    return {"decision": 1, "judge": 2}.get(evaluation.evaluator_kind, 0)


def decision_probabilities(
    connection: sqlite3.Connection, judge: str, since_ns: int = 0, until_ns: int = _END_NS
) -> dict[str, float]:
    """Return the probabilities that decisions gave in the place of a judge, by span id."""
    about = {"judge": judge, "since": since_ns, "until": until_ns}
    return dict(connection.execute(_DECIDED, about).fetchall())


_DECIDED = """
SELECT span_id, probability FROM evaluations
WHERE name = :judge AND time_ns >= :since AND time_ns < :until AND evaluator_kind = 'decision'
  AND probability IS NOT NULL AND span_id != '' AND EXISTS (
    SELECT 1 FROM main.evaluations INDEXED BY evaluations_summed
    WHERE name = :judge AND evaluator_kind = 'decision')
"""
"""The index alone tells that a judge has no decisions, as most have none."""
