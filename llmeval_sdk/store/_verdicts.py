"""Reads the verdicts of a store one by one, for readers that need to know the records."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from llmeval_sdk.model import values
from llmeval_sdk.statistics.funnels import NOT_SELECTED
from llmeval_sdk.statistics.mean import Seen, Tally
from llmeval_sdk.store._samples import Key
from llmeval_sdk.store._schema import WORD
from llmeval_sdk.store.effective import CHANCE
from llmeval_sdk.store.groups import CHANCED, GROUP, EvaluationScope, period_sql


IDS = 500
"""How many spans one statement asks for; older builds of SQLite take 999 parameters at most."""


class Verdict(NamedTuple):
    """One verdict that is a number."""

    judge: str
    span_name: str | None
    time_ns: int
    span_id: str
    value: float
    """The score, with 1 for pass and yes and 0 for fail and no."""
    chance: float
    """Its inclusion probability; 0 stands for an unknown one."""


def verdicts(
    connection: sqlite3.Connection,
    scope: EvaluationScope,
    *,
    every_kind: bool = False,
    spans: Collection[str] | None = None,
) -> Iterator[Verdict]:
    """Yield the verdicts that are numbers.

    Args:
        connection: a store that is open.
        scope: which evaluations.
        every_kind: whether heuristics count as judges.
        spans: the ids of the spans that they are about; all spans by default.
    """
    kind = "" if every_kind else "+evaluator_kind = 'judge'"
    for part in [None] if spans is None else _parts(spans):
        among = "" if part is None else f"span_id IN ({','.join('?' * len(part))})"
        where, arguments = scope.where("name", among, "error_type IS NULL", kind)
        rows = connection.execute(_VERDICTS.format(where), (*(part or ()), *arguments))
        for name, span_name, time_ns, span_id, value, chance in rows:
            number = value if type(value) is float else values.number(value)
            if number is not None:
                yield Verdict(name, span_name, time_ns, span_id, number, chance or 0.0)


def usable(connection: sqlite3.Connection) -> dict[str, int]:
    """Count the verdicts of each judge that are numbers and have an inclusion probability."""
    counts: dict[str, int] = {}
    for name, word, times in connection.execute(_USABLE):
        if word is None or values.number(word) is not None:
            counts[name] = counts.get(name, 0) + times
    return counts


def predicted(
    connection: sqlite3.Connection,
    scope: EvaluationScope,
    scores: Mapping[str, float],
    *,
    period_ns: int = 0,
    every_kind: bool = False,
    origin: float = 0.0,
) -> dict[Key, Tally]:
    """Sum up the records that have a free score, judged and passed over.

    Args:
        connection: a store that is open.
        scope: which evaluations, and which judgements that did not run.
        scores: the free scores, by span id.
        period_ns: the length of a period, as in `_samples.judged`.
        every_kind: whether heuristics count as judges.
        origin: what is subtracted from each verdict, as in `_samples.Judged`.
    """
    tallies: dict[Key, Tally] = defaultdict(Tally)
    for verdict in verdicts(connection, scope, every_kind=every_kind):
        score = scores.get(verdict.span_id)
        if verdict.chance and score is not None:
            begin = verdict.time_ns - verdict.time_ns % period_ns if period_ns else None
            seen = Seen(verdict.value - origin, verdict.chance, score)
            tallies[verdict.judge, verdict.span_name, begin].add(seen)
    reasons = ",".join(f"'{reason}'" for reason in sorted(NOT_SELECTED))
    where, arguments = scope.where("evaluator", f"reason IN ({reasons})")
    period = period_sql(period_ns)
    passed_over = connection.execute(_PASSED_OVER.format(where, period=period), arguments)
    of_key: dict[Key, list[float]] = defaultdict(list)
    for name, span_name, begin, span_id in passed_over:
        if (score := scores.get(span_id)) is not None:
            of_key[name, span_name, begin].append(score)
    for key, xs in of_key.items():
        squares = sum(x * x for x in xs)
        tallies[key].join(Tally(count=len(xs), scored=len(xs), all_x=sum(xs), all_xx=squares))
    return tallies


def scores_by_span(connection: sqlite3.Connection, name: str) -> dict[str, float]:
    """Return an evaluator's scores by span id."""
    rows: Iterator[tuple[str, float]] = connection.execute(_BY_SPAN, (name,))
    return dict(rows)


def _parts(spans: Collection[str]) -> Iterator[list[str]]:
    rest = iter(spans)
    while part := list(islice(rest, IDS)):
        yield part


_VERDICTS = f"""
SELECT name, span_name, time_ns, span_id, value, {CHANCE.format(table="evaluations")}
FROM evaluations {{}}
"""  # noqa: S608 - constants

_USABLE = f"""
SELECT name, {WORD}, count(*) FROM evaluations
WHERE evaluator_kind = 'judge' AND error_type IS NULL AND value IS NOT NULL AND {CHANCED}
GROUP BY {GROUP}, {WORD}
"""  # noqa: S608 - constants

_PASSED_OVER = """
SELECT evaluator, span_name, {period}, span_id FROM not_run {}
"""

_BY_SPAN = """
SELECT span_id, value FROM evaluations
WHERE name = ? AND typeof(value) IN ('real', 'integer') AND span_id != ''
"""
