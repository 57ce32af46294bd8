"""Chooses the score columns of a list: what tells its spans apart, the app's own scores first."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping

from llmeval_sdk import registry
from llmeval_sdk.store.views import KnownNames
from llmeval_sdk.store.walks import JUDGE_TAG, Query


MOST_COLUMNS = 6
MOST_OWN, MOST_JUDGES = 4, 3
"""How many of the app's own scores, and of judges, come before heuristics."""
SAMPLE = 100
"""How many of the newest spans are looked at."""
FEW = 5
"""Scores of fewer spans do not show whether they vary."""
_TELLING = (
    "extraction_risk", "groundedness_risk", "context_relevance", "context_recall_heuristic",
    "semantic_validation", "aggregated_confidence", "agreement_pattern", "context_precision",
    "retrieval_risk",
)  # fmt: skip
"""The heuristics that tell most, if they vary."""
_EXTRACTED = "context_precision"
"""An evaluator that gives a number only for records that have extractions."""
_BUILT_IN = frozenset((
    *registry.HEURISTICS, *registry.EXPECTED, *registry.JUDGES, *registry.LIBRARY_JUDGES,
))  # fmt: skip


def chosen_columns(
    connection: sqlite3.Connection, known: KnownNames, query: Query
) -> tuple[str, ...]:
    """Return the evaluators whose scores a list shows where the address names none.

    Those that the list is filtered and sorted by come first, then the app's own, then judges, then
    the heuristics whose values differ between the newest spans of the list's name. A heuristic
    that says the same of all of them has no column unless there is nothing else to show.
    """
    values, there = _values_of(connection, query.span_name), set(known.evaluators)
    if _EXTRACTED not in known.numeric and query.evaluator != "semantic_validation":
        values.pop("semantic_validation", None)  # without extractions it says little
        there.discard("semantic_validation")
    varying = [name for name in values if _varies(values[name])]
    constant = [name for name in values if name not in varying]
    judges = [name for name in known.judges if name in values]
    judges.sort(key=lambda name: -len(values[name]))
    own = [name for name in (*varying, *constant) if name not in _BUILT_IN]
    own = [name for name in own if values[name] and ":" not in name]
    told = [name for name in varying if name not in known.judges]
    wanted = [
        query.evaluator, query.order_by, *own[:MOST_OWN], *judges[:MOST_JUDGES], *_ranked(told),
        *own, *judges,
    ]  # fmt: skip
    columns = dict.fromkeys(name for name in wanted if name in there)
    if not columns:
        columns = dict.fromkeys(_ranked(name for name in (constant or there) if name in there))
    return tuple(name for name in columns if name)[:MOST_COLUMNS]


def _values_of(connection: sqlite3.Connection, span_name: str | None) -> dict[str, list[object]]:
    """Return the values that each evaluator gave to the newest spans; none for a refusal.

    A judge that only lacked a model is left out: its column would say so in every row.
    """
    newest = _NEWEST.format("name = :name" if span_name is not None else "parent_id IS NULL")
    about = {"name": span_name, "tag": JUDGE_TAG, "most": SAMPLE}
    spans = [span_id for (span_id,) in connection.execute(newest, about)]
    marks = ",".join("?" * len(spans))
    values: dict[str, list[object]] = {}
    for name, value in connection.execute(_VALUES.format(marks), spans):
        values.setdefault(name, [])
        if value is not None:
            values[name].append(value)
    for (name,) in connection.execute(_REFUSED.format(marks), spans):
        values.setdefault(name, [])
    return values


def _varies(values: list[object]) -> bool:
    return bool(values) and (len(values) < FEW or len(set(values)) > 1)


def _ranked(names: Iterable[str]) -> list[str]:
    places: Mapping[str, int] = {name: place for place, name in enumerate(_TELLING)}
    return sorted(names, key=lambda name: (places.get(name, len(places)), name))


_NEWEST = """
SELECT span_id FROM spans WHERE {} AND instr(ifnull(tags, ''), :tag) = 0
ORDER BY start_ns DESC LIMIT :most
"""

_VALUES = "SELECT name, value FROM evaluations WHERE span_id IN ({}) ORDER BY name"

_REFUSED = """
SELECT DISTINCT evaluator FROM not_run
WHERE span_id IN ({}) AND ifnull(reason, '') <> 'no_judge_model'
"""
