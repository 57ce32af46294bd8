"""The list of traces, and its filters: read from an address, and written into other addresses."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import isfinite, nan
from typing import TypedDict

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from llmeval_sdk import registry
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model import values
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.store.filters import Filter, read_filter
from llmeval_sdk.store.identities import UNREADABLE, forms, sessions_of, unreadable
from llmeval_sdk.store.reader import KnownNames, StoreReader, judged_by_stand_in, known_names
from llmeval_sdk.store.requests import INCOMPLETE, is_incomplete
from llmeval_sdk.store.span_lists import (
    JUDGE_TAG,
    Judged,
    ListedSpan,
    Order,
    Page,
    Place,
    Query,
    list_page,
    outcomes_of,
)
from llmeval_sdk.store.traces import traces_like
from llmeval_sdk.viewer._render import (
    Cell,
    cell_of_outcome,
    cells_of_outcomes,
    integer,
    page,
    root_of,
    url,
    where_of,
)
from llmeval_sdk.viewer._site import state_of


# Chooses the score columns of a list: what tells its spans apart, the app's own scores first.

MAX_DEFAULT_COLUMNS = 6
MAX_OWN, MAX_JUDGES = 4, 3
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


@cache
def _built_in() -> frozenset[str]:
    judges = (*registry.judges(), *registry.table("library_judges"))
    return frozenset((*registry.heuristics(), *registry.expected(), *judges))


def _chosen_columns(
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
    own = [name for name in (*varying, *constant) if name not in _built_in()]
    own = [name for name in own if values[name] and ":" not in name]
    told = [name for name in varying if name not in known.judges]
    wanted = [
        query.evaluator, query.order_by, *own[:MAX_OWN], *judges[:MAX_JUDGES], *_ranked(told),
        *own, *judges,
    ]  # fmt: skip
    columns = dict.fromkeys(name for name in wanted if name in there)
    if not columns:
        columns = dict.fromkeys(_ranked(name for name in (constant or there) if name in there))
    return tuple(name for name in columns if name)[:MAX_DEFAULT_COLUMNS]


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


RANGES = {"15m": 900, "1h": 3_600, "24h": 86_400, "7d": 604_800, "30d": 2_592_000}
JUDGED: Mapping[str, Judged] = {
    "yes": "yes", "escalated": "escalated", "control": "control", "no": "no",
}  # fmt: skip
SORTS: Mapping[str, Order] = {"@time": "oldest", "@took": "slowest", "-@took": "fastest"}
"""Ways to sort that no evaluator has a name for; newest first needs none."""
MAX_COLUMNS = 12
_TEXTS = (
    "q", "span", "evaluator", "op", "value", "judge", "reason", "said", "session", "user", "tag",
    "model", "slower", "dearer", "range", "sort",
)  # fmt: skip
MORE = ("session", "user", "tag", "model", "slower", "dearer")
"""Filters that a page folds away until one of them is set."""
_FLAGS = ("errors", "runs")
_INTEGERS_BELOW = 1 << 63
"""SQLite holds no integer from here on."""


class _Condition(TypedDict, total=False):
    """The fields of a `Query` that limit the values of an evaluator."""

    verdict: str
    above: float
    below: float


class _Bounds(TypedDict, total=False):
    """The fields of a `Query` by tag, nanoseconds and US dollars."""

    slower_ns: int
    dearer_usd: float
    tag: str
    tag_value: str | None


class _FeedbackFilter(TypedDict, total=False):
    """The fields of a `Query` by feedback."""

    feedback: str
    feedback_good: bool | None


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters in the address of a list. Parameters with unknown names are ignored."""

    params: Mapping[str, str | list[str]]
    """The parameters as addresses hold them."""
    query: Query
    after: Place | None
    columns: tuple[str, ...]
    """The evaluators whose scores are shown. An address that names evaluators decides which."""
    problems: tuple[str, ...] = field(default=())
    refused: bool = False
    """A filter makes no sense. The list is empty then, because showing everything would mislead."""

    @property
    def filtered(self) -> bool:
        """Whether the list leaves out some spans."""
        return any(name not in ("sort", "col") for name in self.params)

    @property
    def fields(self) -> dict[str, str | list[str] | None]:
        """Return the content of every field of the form, ``None`` for an empty one."""
        return {**dict.fromkeys((*_TEXTS, *_FLAGS, "col", "where")), **self.params}

    def but(self, **changes: str | list[str] | None) -> dict[str, str | list[str] | None]:
        """Return the parameters with some of them changed; ``None`` removes one."""
        return {**self.params, **changes}


def _read_filters(request: Request, known: KnownNames, reader: StoreReader) -> Filters:
    """Read the filters from the query of an address."""
    address, conditions = request.query_params, where_of(request)
    params: dict[str, str] = {name: address[name].strip() for name in _TEXTS if address.get(name)}
    params |= {name: "1" for name in _FLAGS if address.get(name)}
    problems: list[str] = []
    where = _where(conditions, problems)
    condition = _condition(params, known, problems)
    session = _session(reader, params.get("session"), problems)
    order, order_by = _order(params.get("sort", ""))
    by_words = order_by is not None and order_by not in known.numeric
    seconds = RANGES.get(params.get("range", ""))
    query = Query(
        span_name=params.get("span"),
        evaluator=params.get("evaluator"),
        judged=JUDGED.get(params.get("judge", ""), ""),
        reason=params.get("reason"),
        session=session,
        user=forms(params["user"], runtime.settings()) if "user" in params else None,
        model=params.get("model"),
        **_feedback(params.get("said", "")),
        **_bounds(params, problems),
        failed="errors" in params,
        text=params.get("q"),
        since=time.time_ns() - seconds * 1_000_000_000 if seconds else None,
        where=where or Filter(),
        judges="runs" in params,
        order=order,
        order_by=order_by,
        by_words=by_words,
        **(condition or _Condition()),
    )
    chosen = [name for name in address.getlist("col") if name][:MAX_COLUMNS]
    after = _place(address.get("after"), by_words=by_words)
    refused = condition is None or where is None
    listed = {"col": chosen, "where": list(conditions)}
    return Filters(
        {**params, **{name: texts for name, texts in listed.items() if texts}},
        query,
        after,
        tuple(dict.fromkeys(chosen)),
        tuple(problems),
        refused=refused,
    )


def _where(conditions: Sequence[str], problems: list[str]) -> Filter | None:
    """Return the filter, or ``None`` and a new problem where a text is no condition."""
    try:
        return read_filter(conditions)
    except ConfigurationError as error:
        problems.append(str(error))
        return None


def _session(reader: StoreReader, identifier: str | None, problems: list[str]) -> str | None:
    """Return the form of a session's id that spans have; where both are there, say so."""
    if identifier is None:
        return None
    held = reader.read(lambda c: sessions_of(c, identifier, runtime.settings()))
    if len(held) > 1:
        problems.append(
            "Ids are hashed since some time. Of this session, the requests from before that are"
            f" listed here; those since then are listed under its hash: {held[1]}"
        )
    return held[0] if held else identifier


def _unreadable(reader: StoreReader, filters: Filters) -> bool:
    """Say whether an empty list may be empty for lack of the key that ids were hashed with."""
    ids = [*filters.query.where.identifiers]
    for name in ("session", "user"):
        typed = filters.params.get(name)
        ids += [typed] if isinstance(typed, str) else []
    settings = runtime.settings()
    return reader.read(lambda c: unreadable(c, *ids, settings=settings))


def _condition(params: dict[str, str], known: KnownNames, problems: list[str]) -> _Condition | None:
    """Return the condition made of ``evaluator``, ``op`` and ``value`` as arguments of a `Query`.

    An incomplete condition gives no arguments. ``None`` is returned for one that compares with a
    value that is no number, and ``problems`` then says so.
    """
    op, value = params.get("op", "below"), params.get("value")
    if "evaluator" not in params or value is None:
        params.pop("op", None)
        params.pop("value", None)
        return {}
    if op == "is":
        return {"verdict": value}
    name = params["evaluator"]
    if name in known.evaluators and name not in known.numeric:
        problems.append(f"{name} has given no numbers; to compare a word, choose “is”.")
    try:
        number = float(value)
    except ValueError:
        number = nan
    if not isfinite(number):
        problems.append(
            f"{op} {value!r} cannot be compared: {value!r} is no number. "
            "To compare a word, choose “is”."
        )
        return None
    return {"above": number} if op == "above" else {"below": number}


def _bounds(params: dict[str, str], problems: list[str]) -> _Bounds:
    """Return the filters by tag, seconds and dollars as arguments of a `Query`.

    A bound that is no number is taken out of ``params``, and ``problems`` then says so.
    """
    bounds = _Bounds()
    for name in ("slower", "dearer"):
        if name in params:
            try:
                number = float(params[name].removesuffix("s").removeprefix("$"))
            except ValueError:
                number = nan
            if not 0 <= number < _INTEGERS_BELOW / 1e9:
                problems.append(f"“{name} than” needs a number, not {params.pop(name)!r}.")
            elif name == "slower":
                bounds["slower_ns"] = int(number * 1e9)
            else:
                bounds["dearer_usd"] = number
    tag, has_value, value = params.get("tag", "").partition("=")
    if tag:
        bounds["tag"] = tag.strip()
        bounds["tag_value"] = value.strip() if has_value else None
    return bounds


def _feedback(said: str) -> _FeedbackFilter:
    """Return the filter by what people said: a name or ``*``, after ``-`` if bad, ``+`` if good."""
    name = said.lstrip("+-")
    good = {"+": True, "-": False}.get(said[:1])
    return {"feedback": name, "feedback_good": good} if name else {}


def _order(sort: str) -> tuple[Order, str | None]:
    """Read how a list is sorted: by time, by how long it took, or by the values of an evaluator."""
    if sort in SORTS:
        return SORTS[sort], None
    name = sort.removeprefix("-")
    if not name:
        return "newest", None
    highest = values.high_is_bad(name) != sort.startswith("-")
    return "highest" if highest else "lowest", name


def _place(text: str | None, *, by_words: bool = False) -> Place | None:
    key, _, seq = (text or "").rpartition("~")
    if by_words:
        return Place(key, integer(seq, 0)) if integer(seq, 0) else None
    try:
        number = float(key) if "." in key or "e" in key else int(key)
        place = Place(number, int(seq))
    except ValueError:
        return None
    return place if max(abs(number), abs(place.seq)) < _INTEGERS_BELOW else None


NOTHING = Page((), None, 0, full=False)
_HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class ListRow:
    """One span of the list with its scores and what people said about it."""

    item: ListedSpan
    cells: Mapping[str, Cell]
    people: tuple[tuple[str, Cell], ...]


def show(request: Request) -> Response:
    """Answer with one page of the list."""
    site = request.app.state.site
    with site.readers.lend() as reader:
        known: KnownNames = reader.read(known_names)
        filters = _read_filters(request, known, reader)
        if filters.query.text and (ids := _by_id(reader, filters.query.text)):
            trace_id, span_id = ids
            return RedirectResponse(
                url(root_of(request), f"/traces/{trace_id}", {"span": span_id}), 303
            )
        if not filters.columns:
            query = filters.query
            columns = reader.read(lambda c: _chosen_columns(c, known, query))
            filters = replace(filters, columns=columns)
        result = NOTHING if filters.refused else _page(reader, filters)
        if not result.items and _unreadable(reader, filters):
            filters = replace(filters, problems=(*filters.problems, f"Perhaps {UNREADABLE}."))
        spans = {item.span_id for item in result.items}
        scores, people = reader.read(lambda c: outcomes_of(c, spans))
        state = reader.read(state_of)
        incomplete = INCOMPLETE if not result.items and reader.read(is_incomplete) else ""
        judges = [name for name in filters.columns if name in known.judges]
        stood_in = reader.read(lambda c: judged_by_stand_in(c, judges))
    rows = [
        ListRow(
            item,
            cells_of_outcomes(scores.get(item.span_id, {})),
            tuple(
                (name, cell_of_outcome(label))
                for name, label in people.get(item.span_id, {}).items()
            ),
        )
        for item in result.items
    ]
    return page(
        request, "traces.html",
        rows=rows, result=result, filters=filters, known=known, state=state, ranges=RANGES,
        stood_in=stood_in, more=[name for name in MORE if name in filters.params],
        incomplete=incomplete,
    )  # fmt: skip


def _page(reader: StoreReader, filters: Filters) -> Page:
    return reader.read(lambda c: list_page(c, filters.query, filters.after))


def _by_id(reader: StoreReader, text: str) -> tuple[str, str | None] | None:
    """Return the ids of the trace and span if exactly one id begins with the searched text."""
    wanted = text.strip().lower()
    if not 8 <= len(wanted) <= 32 or not _HEX.issuperset(wanted):
        return None
    matches = reader.read(lambda c: traces_like(c, wanted))
    return matches[0] if len(matches) == 1 else None
