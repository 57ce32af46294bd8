"""Chooses the evaluation that counts where a span has several of one name.

In a cascade a decision model and a judge model may both have rated a record under the same name.
The judge model's answer counts if it gave one, otherwise the decision does; of several answers of
one kind, the latest counts. A session that resumes is judged again as a whole, on a later span: the
newest verdict of each evaluator counts, and those before it are history. Every reader of a store
takes these rules from here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable

from llmeval_sdk.model import Evaluation, EvaluationEvent
from llmeval_sdk.store._schema import OF_SESSION, SESSION


_STANDING = """
CASE WHEN {of}evaluator_kind = 'decision' AND {of}error_type IS NULL THEN 1
  WHEN {of}evaluator_kind = 'judge' AND {of}error_type IS NULL THEN 2 ELSE 0 END
"""
STANDING = _STANDING.format(of="")
"""SQL expression to order evaluations by, before their time: the last one of each name counts."""

COUNTS = f"""
({{table}}.span_id = '' OR NOT EXISTS (SELECT 1 FROM evaluations o
  WHERE o.span_id = {{table}}.span_id AND +o.name = {{table}}.name
    AND ({_STANDING.format(of="o.")}, o.time_ns, o.seq)
      > ({_STANDING.format(of="{table}.")}, {{table}}.time_ns, {{table}}.seq)))
"""  # noqa: S608 - constants
"""SQL: leaves out evaluations in whose place another one of the same name counts."""

LEAST_CHANCE = 1e-9
"""A smaller inclusion probability is none: one record would outweigh all others."""
HAS_CHANCE = f"""
({{table}}.inclusion_probability > {LEAST_CHANCE} AND {{table}}.inclusion_probability <= 1)
"""
"""SQL: whether an evaluation has an inclusion probability. A text, which only a file made by hand
holds there, is larger than any number."""
CHANCE = f"CASE WHEN {HAS_CHANCE} THEN {{table}}.inclusion_probability END"
"""SQL: an evaluation's inclusion probability, or NULL."""

UNJUDGED = """
(evaluator_kind IS NOT 'decision' OR NOT (
  EXISTS (SELECT 1 FROM evaluations j WHERE j.span_id = {table}.span_id
    AND +j.name = {table}.name AND j.evaluator_kind = 'judge')
  OR EXISTS (SELECT 1 FROM not_run n WHERE n.span_id = {table}.span_id
    AND +n.evaluator = {table}.name)))
"""
"""SQL: leaves out decisions on records that a judge model was considered for: it judged them, or is
said not to have. They predict what it says; they are no verdicts beside its own."""

_FORMER = f"""
(SELECT seq FROM evaluations v
  WHERE {OF_SESSION} AND {SESSION} IS NOT NULL AND name = {{name}} AND span_id != (
    SELECT span_id FROM evaluations
    WHERE {OF_SESSION} AND name = v.name AND {SESSION} = {SESSION.replace("metadata", "v.metadata")}
    ORDER BY time_ns DESC, span_id DESC LIMIT 1))
"""  # noqa: S608 - constants
_HAS_SESSIONS = f"EXISTS (SELECT 1 FROM evaluations WHERE {OF_SESSION} AND name = {{name}})"  # noqa: S608
IS_FORMER = f"{{table}}.seq IN {_FORMER}"
"""SQL: a verdict on a session that was judged again later."""
IS_NEWEST = f"(NOT {_HAS_SESSIONS} OR {{table}}.seq NOT IN {_FORMER})"
"""SQL: leaves out the former verdicts on sessions that were judged again.

Whether there are any is asked once: to look for each row among none costs a tenth of a report.

``{{name}}`` is the evaluator's name in SQL, and a placeholder stands in it twice: an index then has
nothing to read of an evaluator that never judged a session. ``name`` itself stands for all of them.
"""
IS_NEWEST_ROW = f"""
NOT ({{table}}.metadata IS NOT NULL AND {OF_SESSION.replace("metadata", "{table}.metadata")}
  AND EXISTS (SELECT 1 FROM evaluations later WHERE {OF_SESSION} AND later.name = {{table}}.name
    AND {SESSION} = {SESSION.replace("metadata", "{table}.metadata")}
    AND (later.time_ns, later.span_id) > ({{table}}.time_ns, {{table}}.span_id)
    AND later.span_id != {{table}}.span_id))
"""  # noqa: S608
"""SQL: the same for one row, for readers that look at a few rows of many."""

MODEL = """
CASE WHEN {table}.evaluator_kind IN ('judge', 'decision') AND json_valid({table}.metadata)
  THEN json_extract({table}.metadata, '$.model') END
"""
"""SQL: the model that gave a verdict or a decision."""

DECIDER = """
CASE WHEN {table}.evaluator_kind = 'judge' AND {table}.span_id != '' THEN (
  SELECT json_extract(d.metadata, '$.model') FROM evaluations d
  WHERE d.span_id = {table}.span_id AND +d.name = {table}.name AND d.evaluator_kind = 'decision'
    AND d.error_type IS NULL AND json_valid(d.metadata) ORDER BY d.seq DESC LIMIT 1) END
"""
"""SQL: the decision model that answered before a judge model did."""

_AFTER = " after "
_LONGEST = 100
_END_NS = 2**63 - 1


def judge_version(version: str | None, model: object, decider: object) -> str:
    """Return what tells one version of a judge, its model and its decision model from another."""
    by = f", {str(model)[:_LONGEST]}" if model else ""
    return f"{version or ''}{by}{f'{_AFTER}{str(decider)[:_LONGEST]}' if decider else ''}"


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
    """Return the one that counts, of evaluations of one name on one span, oldest first."""
    chosen: Evaluation | None = None
    for evaluation in evaluations:
        if chosen is None or _standing(evaluation) >= _standing(chosen):
            chosen = evaluation
    return chosen


def latest_of_span(events: Iterable[EvaluationEvent]) -> list[EvaluationEvent]:
    """Return the one that counts of each name, of the evaluations of one span, oldest first."""
    chosen: dict[str, EvaluationEvent] = {}
    for event in events:
        known = chosen.get(event.evaluation.name)
        if known is None or _standing(event.evaluation) >= _standing(known.evaluation):
            chosen[event.evaluation.name] = event
    return list(chosen.values())


def latest_of_session(events: Iterable[EvaluationEvent]) -> list[EvaluationEvent]:
    """Return the one that counts of each name, of the evaluations of one session, newest first."""
    of_newest: dict[str, list[EvaluationEvent]] = {}
    for event in events:
        latest = of_newest.setdefault(event.evaluation.name, [event])
        if latest[0] is not event and latest[0].target.span_id == event.target.span_id:
            latest.append(event)
    return [latest_of_span(reversed(latest))[0] for latest in of_newest.values()]


def _standing(evaluation: Evaluation) -> int:
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
    SELECT 1 FROM evaluations INDEXED BY evaluations_summed
    WHERE name = :judge AND evaluator_kind = 'decision')
"""
"""The index alone tells that a judge has no decisions, as most have none."""
