"""Queries for lists of spans, and the index that each one walks along.

A walk gives candidates in the order of the list. A filter that the index decides is part of the
walk; every other filter is a condition on the candidate's span. A ``+`` before a column keeps
SQLite from choosing that column's index where another index is meant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from llmeval_sdk import model
from llmeval_sdk.model import values
from llmeval_sdk.store.effective import COUNTS, IS_NEWEST_ROW
from llmeval_sdk.store.encode import dumps
from llmeval_sdk.store.said import ANY, LAST_SAID, SAID_OF_SPAN, SAID_SO
from llmeval_sdk.store.session_turns import is_request_of_user, is_turn


Order = Literal["newest", "oldest", "slowest", "fastest", "lowest", "highest"]
Judged = Literal["", "yes", "escalated", "control", "no"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Which spans a list shows, and in which order. A field that is not set does not filter.

    A list shows the root spans of the app's traces. A filter by a span's own name, error or score
    shows the spans that fit, roots or not.
    """

    span_name: str | None = None
    evaluator: str | None = None
    """Show the spans that this evaluator scored; the next three fields limit its values."""
    below: float | None = None
    above: float | None = None
    verdict: str | None = None
    """The category that it gave; ``pass`` and ``fail`` also stand for booleans."""
    judged: Judged = ""
    """``yes``: a judge ran; ``escalated``: because of a cheap score; ``control``: in the control
    sample; ``no``: none ran."""
    reason: str | None = None
    """Show the spans on which the judge named by ``evaluator`` did not run for this reason."""
    said: str | None = None
    """Show the spans of which somebody said something under this name; ``*`` stands for all."""
    said_good: bool | None = None
    """Whether what was said last is good (0.5 of 1 or more) or bad; ``None`` for either."""
    failed: bool = False
    """Show the spans that raised an error while their parent did not."""
    text: str | None = None
    """A text in a request, response, chunk or extraction of the trace; ASCII case is ignored."""
    session: str | None = None
    """Show the turns of this session."""
    user: tuple[str, ...] | None = None
    """Show the spans in whose trace any has this user, by any of the forms of the id; the tag is
    `user_id`."""
    tag: str | None = None
    tag_value: str | None = None
    """Show the spans with this tag, and with this value if one is set."""
    model: str | None = None
    """Show the spans in whose trace this model was called."""
    slower_ns: int | None = None
    """Show the spans that took longer than this, in nanoseconds."""
    dearer_usd: float | None = None
    """Show the spans whose trace's model calls cost more than this, in US dollars."""
    since: int | None = None
    until: int | None = None
    """Times in nanoseconds since the epoch; ``until`` is exclusive."""
    judges: bool = False
    """Whether the judges' own runs are listed too."""
    order: Order = "newest"
    """``slowest`` and ``fastest`` sort root spans by how long they took."""
    order_by: str | None = None
    """The evaluator by whose value ``lowest`` and ``highest`` sort."""
    by_words: bool = False
    """Whether they sort by its words rather than by its numbers."""


class Place(NamedTuple):
    """A position in the order of a query: the sort key, and ``seq`` to decide between equals."""

    key: float | str
    seq: int


Arguments = dict[str, Any]
JUDGE_TAG = f'"{model.JUDGE_TAG}"'
"""The tag that every span of a judge's own run has, as the stored JSON contains it."""


@dataclass(frozen=True, slots=True)
class Walk:
    """One way through the candidates for a list, along one index."""

    source: str
    """The SQL after ``FROM``; it calls the span ``s`` and its evaluation ``w``."""
    where: str
    key: str
    """The column to order by; ``seq`` of the same table decides between equals."""
    conditions: tuple[str, ...]
    """The conditions that the span of a candidate must meet to be listed."""
    arguments: Arguments
    descending: bool = True

    def candidates(self, after: Place | None) -> tuple[str, Arguments]:
        """Return the SQL for the candidates after a place, and its arguments.

        Each row holds the key, ``seq``, the span's ``seq``, and whether the span meets the
        conditions. SQLite neither sorts the rows nor reads ahead, so reading can stop at any row.
        """
        way, sign = ("DESC", "<") if self.descending else ("ASC", ">")
        seq = f"{self.key[0]}.seq"
        sql = _CANDIDATES.format(
            source=self.source, where=self.where, key=self.key, seq=seq, way=way,
            beyond=f"AND ({self.key}, {seq}) {sign} (:key, :seq)" if after else "",
            matches=" AND ".join(("s.seq IS NOT NULL", *self.conditions)),
        )  # fmt: skip
        return sql, {**self.arguments, **(after._asdict() if after else {})}


_CANDIDATES = """
SELECT {key}, {seq}, s.seq, {matches} FROM {source} WHERE {where} {beyond}
ORDER BY {key} {way}, {seq} {way}
"""
_SCORED = "evaluations w LEFT JOIN spans s ON s.span_id = w.span_id AND s.trace_id = w.trace_id"
_UNSCORED = _SCORED.replace("evaluations", "not_run")


def choose(query: Query) -> Walk:
    """Return the walk that leaves the fewest candidates to check."""
    checks = dict(_checks(query))
    arguments = _arguments(query)
    newest = query.order != "oldest"
    since = "" if query.since is None else " AND w.time_ns >= :since"
    if query.order in ("slowest", "fastest"):
        down = query.order == "slowest"
        took, tests = "s.end_ns - s.start_ns", tuple(checks.values())
        return Walk("spans s", "s.parent_id IS NULL", took, tests, arguments, descending=down)
    if query.order in ("lowest", "highest") and query.order_by is not None:
        kind = ">=" if query.by_words else "<"
        where = f"w.name = :order_by AND w.value IS NOT NULL AND w.value {kind} ''"
        if query.order_by == query.evaluator and query.reason is None:
            checks.pop("evaluator")
            where += _value("w", query)
        if not values.is_unrated(query.order_by):
            checks["tried"] = _TRIED
        checks["counts"] = f"{_COUNTS} AND {IS_NEWEST_ROW.format(table='w')}"
        down = query.order == "highest"
        return Walk(_SCORED, where, "w.value", tuple(checks.values()), arguments, descending=down)
    if query.evaluator is not None and query.reason is not None:
        where = f"w.evaluator = :evaluator{since}"
        return Walk(_UNSCORED, where, "w.time_ns", tuple(checks.values()), arguments, newest)
    if query.evaluator is not None and query.said is None:
        checks.pop("evaluator")
        checks["counts"] = f"{_COUNTS} AND {IS_NEWEST_ROW.format(table='w')}"
        where = f"w.name = :evaluator{since}{_value('+w', query)}"
        return Walk(_SCORED, where, "w.time_ns", tuple(checks.values()), arguments, newest)
    if query.judged not in ("", "no") and query.said is None:
        checks["once"] = _LATEST_JUDGEMENT
        where = f"w.evaluator_kind = 'judge'{since}"
        return Walk(_SCORED, where, "w.time_ns", tuple(checks.values()), arguments, newest)
    walk = _of_spans if query.said is None else _of_feedback
    return walk(query, checks, arguments)


def _of_feedback(query: Query, checks: dict[str, str], arguments: Arguments) -> Walk:
    """Walk along what people said: by time under one name, and as it arrived under any."""
    checks["said"] = f"{LAST_SAID.format(table='w')} AND {SAID_SO.format(table='w')}"
    newest = query.order != "oldest"
    if query.said == ANY:
        checks["since"] = "ifnull(w.time_ns >= :since, 1)"
        where, key = "w.error_type IS NULL", "w.seq"
    else:
        since = "" if query.since is None else " AND w.time_ns >= :since"
        where, key = f"w.name = :said{since}", "w.time_ns"
    source = _SCORED.replace("evaluations", "feedback")
    return Walk(source, where, key, tuple(checks.values()), arguments, newest)


def _of_spans(query: Query, checks: dict[str, str], arguments: Arguments) -> Walk:
    if query.failed:
        where = "s.error_type IS NOT NULL"
    elif query.session is not None:
        checks.pop("session")
        where = is_turn("s")
    elif query.span_name is not None:
        where = checks.pop("span_name")
    else:
        where = "s.parent_id IS NULL"
    bounds = [checks.pop(name) for name in ("since", "until") if name in checks]
    where = " AND ".join((where, *bounds))
    newest = query.order != "oldest"
    return Walk("spans s", where, "s.start_ns", tuple(checks.values()), arguments, newest)


def _checks(query: Query) -> Iterator[tuple[str, str]]:
    """Yield the name of each filter with its condition on the span ``s``."""
    if not query.judges:
        yield "judges", "instr(ifnull(s.tags, ''), :judge_tag) = 0"
    for name, condition in _CONDITIONS.items():
        if getattr(query, name) is not None:
            yield name, condition
    if query.evaluator is not None and query.reason is not None:
        yield "reason", _REFUSED
    elif query.evaluator is not None:
        yield "evaluator", _EVALUATED + _value("e", query) + ")"
    if query.judged:
        yield "judged", _JUDGED[query.judged]
    if query.said is not None:
        yield "said", SAID_OF_SPAN
    if query.failed:
        yield "failed", _FAILED
    if query.text is not None:
        yield "text", _TEXT


def _value(table: str, query: Query) -> str:
    """Return the conditions on an evaluation's value, in which numbers sort before texts."""
    parts = {
        "below": f"{table}.value < :below",
        "above": f"{table}.value > :above AND {table}.value < ''",
        "verdict": f"{table}.value IN (:verdict, :verdict_flag)",
    }
    return "".join(
        f" AND {part}" for name, part in parts.items() if getattr(query, name) is not None
    )


def _arguments(query: Query) -> Arguments:
    names = (
        "since", "until", "span_name", "evaluator", "below", "above", "verdict", "reason",
        "said", "said_good", "session", "user", "tag", "tag_value", "model", "slower_ns",
        "dearer_usd",
    )  # fmt: skip
    arguments: Arguments = {name: getattr(query, name) for name in names}
    arguments |= {"order_by": query.order_by, "judge_tag": JUDGE_TAG}
    arguments["verdict_flag"] = {"pass": 1, "fail": 0}.get(query.verdict or "")
    arguments["user"] = dumps(query.user)
    arguments["text"] = None if query.text is None else _pattern(query.text)
    return arguments


def _pattern(text: str) -> str:
    """Return the LIKE pattern that finds a text inside stored JSON."""
    inside = (dumps(text) or "")[1:-1]
    for character in "\\%_":
        inside = inside.replace(character, f"\\{character}")
    return f"%{inside}%"


_TRIED = (
    f"ifnull(w.label, '') NOT IN ({', '.join(map(repr, sorted(values.NEUTRAL - {''})))})"  # noqa: S608 - constants
    " AND NOT EXISTS (SELECT 1 FROM evaluations a WHERE a.span_id = w.span_id"
    f" AND a.id = w.span_id || '-{values.ABSTENTION}' AND a.value IS NOT NULL)"
)
"""Leaves out of a list sorted by score what is neither good nor bad: a score whose label says so,
such as ``skipped``, and every score of a record that has no answer."""

_COUNTS = COUNTS.format(table="w")
_EVALUATED = f"""
EXISTS (SELECT 1 FROM evaluations e WHERE e.span_id = s.span_id AND +e.name = :evaluator
  AND {COUNTS.format(table="e")} AND {IS_NEWEST_ROW.format(table="e")}
"""  # noqa: S608 - constants

_REFUSED = """
EXISTS (SELECT 1 FROM not_run n WHERE n.span_id = s.span_id AND +n.evaluator = :evaluator
  AND n.reason = :reason)
"""

_RAN = """
EXISTS (SELECT 1 FROM evaluations e WHERE e.span_id = s.span_id AND e.evaluator_kind = 'judge'{})
"""
_WHY = """e.metadata LIKE '%"why":"%'"""
_CONTROL = """e.metadata LIKE '%"why":"%control sample%'"""
_UNASKED = """e.metadata LIKE '%"why":"every record%' OR e.metadata LIKE '%"why":"sample_rate %'"""

_JUDGED = {
    "yes": _RAN.format(""),
    "control": _RAN.format(f" AND {_CONTROL}"),
    "escalated": _RAN.format(f" AND {_WHY} AND NOT ({_CONTROL} OR {_UNASKED})"),
    "no": f"NOT {_RAN.format('')}",
}

_LATEST_JUDGEMENT = """
NOT EXISTS (SELECT 1 FROM evaluations later WHERE later.span_id = s.span_id
  AND later.evaluator_kind = 'judge' AND (later.time_ns, later.seq) > (w.time_ns, w.seq))
"""

_FAILED = """
s.error_type IS NOT NULL AND NOT EXISTS (SELECT 1 FROM spans p WHERE p.trace_id = s.trace_id
  AND p.span_id = s.parent_id AND p.error_type IS NOT NULL)
"""

_TAGGED = """EXISTS (
  SELECT 1 FROM json_each(CASE WHEN json_valid(s.tags) THEN s.tags ELSE '{{}}' END) t WHERE {})"""
_CONDITIONS = {
    "since": "s.start_ns >= :since",
    "until": "s.start_ns < :until",
    "span_name": "s.name = :span_name",
    "session": "s.session_id = :session",
    "slower_ns": "s.end_ns - s.start_ns > :slower_ns",
    "tag": _TAGGED.format("t.key = :tag AND ifnull(t.value = :tag_value, 1)"),
    "user": is_request_of_user("s"),
    "model": """EXISTS (
  SELECT 1 FROM spans m WHERE m.trace_id = s.trace_id AND m.model_name = :model)""",
    "dearer_usd": """(
  SELECT sum(m.cost_usd) FROM spans m WHERE m.trace_id = s.trace_id AND m.kind = 'llm')
  > :dearer_usd""",
}
"""The filters that are one condition, by the field of `Query`, cheap ones first."""

_TEXT = r"""
EXISTS (SELECT 1 FROM spans t WHERE t.trace_id = s.trace_id AND (
  t.request LIKE :text ESCAPE '\' OR t.response LIKE :text ESCAPE '\'
  OR t.retrieved_context LIKE :text ESCAPE '\' OR t.extractions LIKE :text ESCAPE '\'
  OR t.attributes LIKE :text ESCAPE '\'))
"""
