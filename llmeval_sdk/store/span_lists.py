"""Lists of spans: filtered, in order, page by page, and each page read within a bounded time.

A page scans one index, which gives candidates in the order of the list. A filter that the index
decides is part of the scan; every other filter is a condition on the candidate's span, checked row
by row until the page is full or its time is up. The page then says how many spans it looked at and
where the next page begins. So a rare match in a store of millions costs several short pages instead
of one long wait. A ``+`` before a column keeps SQLite from choosing that column's index where
another index is meant.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from math import inf
from typing import Literal, NamedTuple

from llmeval_sdk import model
from llmeval_sdk.errors import did_you_mean
from llmeval_sdk.model import values
from llmeval_sdk.model.chat import question
from llmeval_sdk.store.encode import cell, dumps, loads
from llmeval_sdk.store.filters import Filter, add_functions
from llmeval_sdk.store.identities import forms
from llmeval_sdk.store.labels import (
    ANY_NAME,
    HAS_FEEDBACK,
    add_feedback_function,
    is_latest_feedback,
    is_wanted_feedback,
)
from llmeval_sdk.store.latest import RANK, StoredValue, is_latest, is_newest_row
from llmeval_sdk.store.reader import StoreReader, known_names
from llmeval_sdk.store.sessions import is_request_of_user, is_turn
from llmeval_sdk.store.texts import whole
from llmeval_sdk.store.traces import SpanRef, outline_of, traces_like
from llmeval_sdk.text.terminal import printable


Order = Literal["newest", "oldest", "slowest", "fastest", "lowest", "highest"]
Judged = Literal["", "yes", "escalated", "control", "no"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Selects the spans of a list, and their order. A field that is not set does not filter.

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
    feedback: str | None = None
    """Show the spans that have feedback under this name; ``*`` stands for all names."""
    feedback_good: bool | None = None
    """Whether the latest feedback is good (0.5 of 1 or more) or bad; ``None`` for either."""
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
    where: Filter = field(default_factory=Filter)
    """Show the spans of the requests that this filter selects."""
    judges: bool = False
    """Whether the traces of the judges' own model calls are listed too."""
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


Arguments = dict[str, StoredValue]
JUDGE_TAG = f'"{model.JUDGE_TAG}"'
"""The tag that every span of a judge's own run has, as the stored JSON contains it."""


@dataclass(frozen=True, slots=True)
class IndexScan:
    """A scan of one index that gives the candidates for a list."""

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
        beyond = f"AND ({self.key}, {seq}) {sign} (:key, :seq)" if after else ""
        sql = f"""
SELECT {self.key}, {seq}, s.seq, {" AND ".join(("s.seq IS NOT NULL", *self.conditions))}
FROM {self.source} WHERE {self.where} {beyond}
ORDER BY {self.key} {way}, {seq} {way}
"""  # noqa: S608 - constants
        return sql, {**self.arguments, **(after._asdict() if after else {})}


_SCORED = "evaluations w LEFT JOIN spans s ON s.span_id = w.span_id AND s.trace_id = w.trace_id"
_UNSCORED = _SCORED.replace("evaluations", "not_run")


def scan_of(query: Query) -> IndexScan:
    """Return the walk that leaves the fewest candidates to check."""
    checks = dict(_checks(query))
    arguments = _arguments(query)
    newest = query.order != "oldest"
    since = "" if query.since is None else " AND w.time_ns >= :since"
    if query.order in ("slowest", "fastest"):
        down = query.order == "slowest"
        took, tests = "s.end_ns - s.start_ns", tuple(checks.values())
        return IndexScan("spans s", "s.parent_id IS NULL", took, tests, arguments, descending=down)
    if query.order in ("lowest", "highest") and query.order_by is not None:
        kind = ">=" if query.by_words else "<"
        where = f"w.name = :order_by AND w.value IS NOT NULL AND w.value {kind} ''"
        if query.order_by == query.evaluator and query.reason is None:
            checks.pop("evaluator")
            where += _value("w", query)
        if not values.is_unrated(query.order_by):
            checks["tried"] = _TRIED
        checks["counts"] = f"{_IS_LATEST} AND {is_newest_row('w')}"
        down = query.order == "highest"
        return IndexScan(
            _SCORED, where, "w.value", tuple(checks.values()), arguments, descending=down
        )
    if query.evaluator is not None and query.reason is not None:
        where = f"w.evaluator = :evaluator{since}"
        return IndexScan(_UNSCORED, where, "w.time_ns", tuple(checks.values()), arguments, newest)
    if query.evaluator is not None and query.feedback is None:
        checks.pop("evaluator")
        checks["counts"] = f"{_IS_LATEST} AND {is_newest_row('w')}"
        where = f"w.name = :evaluator{since}{_value('+w', query)}"
        return IndexScan(_SCORED, where, "w.time_ns", tuple(checks.values()), arguments, newest)
    if query.judged not in ("", "no") and query.feedback is None:
        checks["once"] = _LATEST_JUDGEMENT
        where = f"w.evaluator_kind = 'judge'{since}"
        return IndexScan(_SCORED, where, "w.time_ns", tuple(checks.values()), arguments, newest)
    walk = _of_spans if query.feedback is None else _of_feedback
    return walk(query, checks, arguments)


def _of_feedback(query: Query, checks: dict[str, str], arguments: Arguments) -> IndexScan:
    """Walk along what people said: by time under one name, and as it arrived under any."""
    checks["feedback"] = f"{is_latest_feedback('w')} AND {is_wanted_feedback('w')}"
    newest = query.order != "oldest"
    if query.feedback == ANY_NAME:
        checks["since"] = "ifnull(w.time_ns >= :since, 1)"
        where, key = "w.error_type IS NULL", "w.seq"
    else:
        since = "" if query.since is None else " AND w.time_ns >= :since"
        where, key = f"w.name = :feedback{since}", "w.time_ns"
    source = _SCORED.replace("evaluations", "feedback")
    return IndexScan(source, where, key, tuple(checks.values()), arguments, newest)


def _of_spans(query: Query, checks: dict[str, str], arguments: Arguments) -> IndexScan:
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
    return IndexScan("spans s", where, "s.start_ns", tuple(checks.values()), arguments, newest)


def _checks(query: Query) -> Iterator[tuple[str, str]]:
    """Yield the name of each filter with its condition on the span ``s``."""
    if not query.judges:
        yield "judges", "instr(ifnull(s.tags, ''), :judge_tag) = 0"
    for name, condition in _CONDITIONS.items():
        if getattr(query, name) is not None:
            yield name, condition
    yield from _checks_of_outcomes(query)
    if query.failed:
        yield "failed", _FAILED
    if query.where.conditions:
        yield "where", query.where.of_span_sql("s")
    if query.text is not None:
        yield "text", _TEXT


def _checks_of_outcomes(query: Query) -> Iterator[tuple[str, str]]:
    """Yield the same for what evaluators and people said."""
    if query.evaluator is not None and query.reason is not None:
        yield "reason", _REFUSED
    elif query.evaluator is not None:
        yield "evaluator", _EVALUATED + _value("e", query) + ")"
    if query.judged:
        yield "judged", _JUDGED[query.judged]
    if query.feedback is not None:
        yield "feedback", HAS_FEEDBACK


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
        "feedback", "feedback_good", "session", "user", "tag", "tag_value", "model", "slower_ns",
        "dearer_usd",
    )  # fmt: skip
    arguments: Arguments = {name: getattr(query, name) for name in names}
    arguments |= {"order_by": query.order_by, "judge_tag": JUDGE_TAG}
    arguments["verdict_flag"] = {"pass": 1, "fail": 0}.get(query.verdict or "")
    arguments["user"] = dumps(query.user)
    arguments["text"] = None if query.text is None else _pattern(query.text)
    return arguments | query.where.arguments()


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

_IS_LATEST = is_latest("w")
_EVALUATED = f"""
EXISTS (SELECT 1 FROM evaluations e WHERE e.span_id = s.span_id AND +e.name = :evaluator
  AND {is_latest("e")} AND {is_newest_row("e")}
"""  # noqa: S608 - constants

_REFUSED = """
EXISTS (SELECT 1 FROM not_run n WHERE n.span_id = s.span_id AND +n.evaluator = :evaluator
  AND n.reason = :reason)
"""

_RAN = """
EXISTS (SELECT 1 FROM evaluations e WHERE e.span_id = s.span_id AND e.evaluator_kind = 'judge')
"""
_RAN_AS_CONTROL = """
EXISTS (SELECT 1 FROM evaluations e WHERE e.span_id = s.span_id AND e.evaluator_kind = 'judge'
  AND e.metadata LIKE '%"why":"%control sample%')
"""
_RAN_ESCALATED = """
EXISTS (SELECT 1 FROM evaluations e WHERE e.span_id = s.span_id AND e.evaluator_kind = 'judge'
  AND e.metadata LIKE '%"why":"%' AND NOT (e.metadata LIKE '%"why":"%control sample%'
    OR e.metadata LIKE '%"why":"every record%' OR e.metadata LIKE '%"why":"sample_rate %'))
"""
_JUDGED = {
    "yes": _RAN, "control": _RAN_AS_CONTROL, "escalated": _RAN_ESCALATED, "no": f"NOT {_RAN}",
}  # fmt: skip

_LATEST_JUDGEMENT = """
NOT EXISTS (SELECT 1 FROM evaluations later WHERE later.span_id = s.span_id
  AND later.evaluator_kind = 'judge' AND (later.time_ns, later.seq) > (w.time_ns, w.seq))
"""

_FAILED = """
s.error_type IS NOT NULL AND NOT EXISTS (SELECT 1 FROM spans p WHERE p.trace_id = s.trace_id
  AND p.span_id = s.parent_id AND p.error_type IS NOT NULL)
"""

_CONDITIONS = {
    "since": "s.start_ns >= :since",
    "until": "s.start_ns < :until",
    "span_name": "s.name = :span_name",
    "session": "s.session_id = :session",
    "slower_ns": "s.end_ns - s.start_ns > :slower_ns",
    "tag": """EXISTS (
  SELECT 1 FROM json_each(CASE WHEN json_valid(s.tags) THEN s.tags ELSE '{}' END) t
  WHERE t.key = :tag AND ifnull(t.value = :tag_value, 1))""",
    "user": is_request_of_user("s"),
    "model": """EXISTS (
  SELECT 1 FROM spans m WHERE m.trace_id = s.trace_id AND m.model_name = :model)""",
    "dearer_usd": """(
  SELECT sum(m.cost_usd) FROM spans m WHERE m.trace_id = s.trace_id AND m.kind = 'llm')
  > :dearer_usd""",
}
"""The filters that are one condition, by the field of `Query`, cheap ones first."""

_SEARCHED = ("request", "response", "retrieved_context", "extractions", "attributes")
_IS_IN_ANY = " OR ".join(rf"{whole(f't.{name}')} LIKE :text ESCAPE '\'" for name in _SEARCHED)
_TEXT = f"EXISTS (SELECT 1 FROM spans t WHERE t.trace_id = s.trace_id AND ({_IS_IN_ANY}))"  # noqa: S608 - constants


# Pages of a list, and what they show of each span.

_BEGINNING = 300
"""Characters of a request or response that a list has."""
PAGE_ROWS = 50
PAGE_SECONDS = 0.12
"""How long a page looks for matches before it returns those that it has."""


@dataclass(frozen=True, slots=True)
class ListedSpan:
    """One span of a page, with the beginnings of its texts."""

    seq: int
    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    kind: str
    start_ns: int
    end_ns: int
    error_type: str | None
    session_id: str | None
    request: str | None
    """The first 300 characters of the request as JSON; of a chat, those of the last message that a
    user wrote. `response` is cut in the same way."""
    response: str | None
    outside_parent: str | None
    """The id of a parent that is no span of ours."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some spans of a list in order, and how far the search for them went."""

    items: tuple[ListedSpan, ...]
    next: Place | None
    """The place after which the next page begins; ``None`` at the end of the list."""
    looked_at: int
    """How many spans were checked against the filters."""
    full: bool
    """Whether the page has all the rows that it may have; if not, time or spans ran out."""


def list_page(
    connection: sqlite3.Connection,
    query: Query,
    after: Place | None = None,
    *,
    rows: int = PAGE_ROWS,
    seconds: float = PAGE_SECONDS,
) -> Page:
    """Read the page of a list that begins after a place, or the first page without one."""
    deadline = time.monotonic() + seconds
    matching: dict[int, None] = {}  # ordered, and each span once, however often it was scored
    looked_at, end = 0, False
    add_feedback_function(connection)
    add_functions(connection)
    sql, arguments = scan_of(query).candidates(after)
    for key, seq, span, matches in connection.execute(sql, arguments):
        looked_at += 1
        after = Place(key, seq)
        if matches:
            matching[span] = None
        if len(matching) == rows or time.monotonic() >= deadline:
            break
    else:
        end = True
    items = _items(connection, matching)
    return Page(items, None if end else after, looked_at, full=len(matching) == rows)


def _items(connection: sqlite3.Connection, wanted: Iterable[int]) -> tuple[ListedSpan, ...]:
    seqs = list(wanted)
    listed = (ListedSpan(*row) for row in connection.execute(_ITEMS, (dumps(seqs),)))
    by_seq = {item.seq: replace(item, request=_asked(item.request)) for item in listed}
    return tuple(by_seq[seq] for seq in seqs)


def _asked(stored: str | None) -> str | None:
    """Return the beginning of a request, or of the last question where it is a chat.

    All chats of an app begin with the same instructions.
    """
    if stored is None or not stored.startswith(("{", "[")):
        return stored
    try:
        asked = question(loads(stored))
    except (ValueError, RecursionError):
        asked = None
    return (cell(dumps(asked)) if asked else stored)[:_BEGINNING]


@dataclass(frozen=True, slots=True)
class ListedOutcome:
    """An entry of a list under one name for a span: a score, a refusal or a person's label."""

    name: str
    value: StoredValue = None
    """The value as the store holds it: a float, 0 or 1 for a bool, a text, or ``None``."""
    label: str | None = None
    error: str | None = None
    reason: str | None = None
    """Why a judge did not run; the other fields are then empty."""
    near_constant: bool = False
    """Whether the metadata says that the score is nearly the same whatever happened."""


def outcomes_of(
    connection: sqlite3.Connection, span_ids: Iterable[str]
) -> tuple[dict[str, dict[str, ListedOutcome]], dict[str, dict[str, ListedOutcome]]]:
    """Return the latest scores and the latest labels of some spans, by span id and name."""
    ids = (dumps(list(span_ids)),)
    scores: dict[str, dict[str, ListedOutcome]] = {}
    for span_id, name, reason in connection.execute(_REFUSALS, ids):
        scores.setdefault(span_id, {})[name] = ListedOutcome(name, reason=reason)
    people: dict[str, dict[str, ListedOutcome]] = {}
    for sql, into in ((_EVALUATIONS, scores), (_FEEDBACK, people)):
        for span_id, name, value, label, error, same in connection.execute(sql, ids):
            into.setdefault(span_id, {})[name] = ListedOutcome(
                name, value, label, error, near_constant=bool(same)
            )
    return scores, people


_MAX_CHAT = 200_000
"""Characters of the longest chat, as JSON, that is searched for its last question."""
_REQUEST = whole("request")
_ITEMS = f"""
SELECT seq, trace_id, span_id, parent_id, name, kind, start_ns, end_ns, error_type, session_id,
  CASE WHEN substr(request, 1, 1) IN ('{{', '[') AND length({_REQUEST}) <= {_MAX_CHAT}
    THEN {_REQUEST} ELSE substr({_REQUEST}, 1, {_BEGINNING}) END,
  substr({whole("response")}, 1, {_BEGINNING}), outside_parent
FROM spans WHERE seq IN (SELECT value FROM json_each(?))
"""  # noqa: S608 - constants

_IS_NEAR_CONSTANT = f"""instr(ifnull(metadata, ''), '"{values.NEAR_CONSTANT}":true')"""
_EVALUATIONS = f"""
SELECT span_id, name, value, label, error_type, {_IS_NEAR_CONSTANT} FROM evaluations
WHERE span_id IN (SELECT value FROM json_each(?)) ORDER BY {RANK}, time_ns, seq
"""  # noqa: S608 - constants
_FEEDBACK = f"""
SELECT span_id, name, value, label, error_type, {_IS_NEAR_CONSTANT} FROM feedback
WHERE span_id IN (SELECT value FROM json_each(?)) ORDER BY {RANK}, time_ns, seq
"""  # noqa: S608 - constants
_REFUSALS = """
SELECT span_id, evaluator, reason FROM not_run
WHERE span_id IN (SELECT value FROM json_each(?)) ORDER BY seq
"""


# Whole searches: the newest spans, the worst spans, the spans of one trace.

SEARCHED_SPANS = 2_000
"""Spans that a search among categories looks at, newest first."""
SEARCH_SECONDS = 5.0
"""How long one page may take."""


def listed_spans(reader: StoreReader, query: Query, count: int) -> list[ListedSpan]:
    """Return at most so many spans of a query, in its order."""
    found = reader.read(lambda c: list_page(c, query, rows=count, seconds=SEARCH_SECONDS))
    return list(found.items)


def queries_of_session(query: Query, session: str | None) -> list[Query]:
    """Limit a query to a session, in whichever form the store holds its id."""
    return [replace(query, session=form) for form in forms(session)] if session else [query]


def newest_spans(reader: StoreReader, queries: Sequence[Query], count: int) -> list[ListedSpan]:
    """Return the newest spans of some queries."""
    items = [item for query in queries for item in listed_spans(reader, query, count)]
    return sorted(items, key=lambda item: (item.start_ns, item.seq), reverse=True)[:count]


def worst_spans(
    reader: StoreReader, evaluator: str, count: int, queries: Sequence[Query] = (Query(),)
) -> list[ListedSpan]:
    """Return the spans that an evaluator scored worst, the worst first; neutral ones are none."""
    known = reader.read(known_names)  # which also says which values are better
    if evaluator in known.numeric:
        highest = values.high_is_bad(evaluator)
        order: Order = "highest" if highest else "lowest"
        ordered = [replace(query, order=order, order_by=evaluator) for query in queries]
        found = [item for query in ordered for item in listed_spans(reader, query, count)]
        if len(ordered) > 1:
            scores = outcomes_by_span(reader, found)
            found.sort(key=lambda item: _worst_first(scores[item.span_id].get(evaluator), highest))
        return found[:count]
    rated: list[tuple[float, ListedSpan]] = []
    scored = (replace(query, evaluator=evaluator) for query in queries)
    for items in chain.from_iterable(_pages(reader, query) for query in scored):
        scores = outcomes_by_span(reader, items)
        for item in items:
            score = scores[item.span_id].get(evaluator)
            good = None if score is None else values.goodness(evaluator, score.value, score.label)
            if good is not None:
                rated.append((good, item))
    return [item for _, item in sorted(rated, key=lambda each: each[0])[:count]]


def _worst_first(outcome: ListedOutcome | None, highest: bool) -> float:  # noqa: FBT001
    """Return a sort key for a score; what is no number, because it was replaced, comes last."""
    number = None if outcome is None else values.number(outcome.value)
    if number is None:
        return inf
    return -number if highest else number


def unscored_sentence(reader: StoreReader, evaluator: str) -> str:
    """Say that an evaluator scored no request of a store, and which one was probably meant."""
    known = reader.read(known_names).evaluators
    hint = "" if evaluator in known else did_you_mean(evaluator, known)
    return f"{printable(evaluator, 80)} has scored no request of this store{hint and f': {hint}'}"


def outcomes_by_span(
    reader: StoreReader, items: list[ListedSpan]
) -> dict[str, dict[str, ListedOutcome]]:
    """Return what evaluators said of each span, by its id."""
    reader.read(known_names)  # so that what they declare is known
    ids = {item.span_id for item in items}
    scores, _ = reader.read(lambda c: outcomes_of(c, ids))
    return {span_id: scores.get(span_id, {}) for span_id in ids}


def tags_of(connection: sqlite3.Connection, span_ids: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the tags of those spans that have any, by the id of the span."""
    tags: dict[str, dict[str, str]] = {}
    for span_id, text in connection.execute(_TAGS_OF, (dumps(list(span_ids)),)):
        stored = loads(text, {})
        if isinstance(stored, dict) and stored:
            tags[span_id] = {str(key): str(value) for key, value in stored.items()}
    return tags


_TAGS_OF = """
SELECT span_id, tags FROM spans
WHERE span_id IN (SELECT value FROM json_each(?)) AND tags IS NOT NULL AND json_valid(tags)
"""


def refs_of_trace(reader: StoreReader, prefix: str) -> list[SpanRef]:
    """Return the spans of the one trace whose id begins so, those with scores first."""
    found = {trace for trace, span in reader.read(lambda c: traces_like(c, prefix)) if not span}
    if len(found) != 1:
        return []
    trace_id = found.pop()
    spans, _ = reader.read(lambda c: outline_of(c, trace_id))
    return [
        SpanRef(trace_id, span.span_id, span.name, span.start_ns)
        for span in sorted(spans, key=lambda span: not span.evaluations)
    ]


def _pages(reader: StoreReader, query: Query) -> Iterator[list[ListedSpan]]:
    after: Place | None = None
    looked_at = 0
    while looked_at < SEARCHED_SPANS:
        page = reader.read(partial(list_page, query=query, after=after, seconds=SEARCH_SECONDS))
        yield list(page.items)
        looked_at += page.looked_at
        after = page.next
        if after is None:
            return
