"""The app's own traffic: how slow, how dear and how faulty it is, by span name, model, tag or user.

All figures are exact. A million spans are read in about a second, from an index that holds what is
summed up in the order of the groups, so that no row is read and nothing is sorted by SQLite.

Only spans of models (``llm``, ``embedding``) have tokens and money of their own. A request is the
first span of a trace: it has what all model calls of its trace used, and so has its session, user
or tag, unless a call has another one itself.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Literal, NamedTuple, Protocol, TypeAlias

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model import HOUR_NS, JUDGE_TAG, Usage, values
from llmeval_sdk.model.fields import CACHED
from llmeval_sdk.model.records import ENDED_WITHOUT_ANSWER, OWNERS
from llmeval_sdk.store._schema import MAYBE_UNANSWERED
from llmeval_sdk.store.encode import dumps
from llmeval_sdk.store.files import LIMIT_LENGTH
from llmeval_sdk.store.losses import Completeness, completeness, missing
from llmeval_sdk.store.selection import OTHERS, TAG, read_by, value_sql
from llmeval_sdk.store.splits import BY_SLICE
from llmeval_sdk.store.weighted import Percentiles, Sample, Thinned, weight_of


State = Literal["given", "abstained", "lost"]
_LOOKED_AT = 200
"""Spans of a name among which one with a request says that content is captured."""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The requests of one span name that did not fail, and how many have no answer."""

    span_name: str
    requests: int
    lost: int
    """The number of requests without an answer, though the app did not say that it abstains."""
    abstained: int

    @property
    def no_answer(self) -> float:
        """The share of the requests, 0..1, whose answer got lost."""
        return self.lost / self.requests


def unanswered(
    connection: sqlite3.Connection,
    since: int | None = None,
    until: int | None = None,
    span_name: str | None = None,
) -> list[Unanswered]:
    """Count the workflows and agents without an answer, by span name.

    Times are nanoseconds since the epoch, of the requests' begin. Names whose content was not
    captured are left out.
    """
    scope = {"since": since or 0, "until": until or 1 << 62, "name": span_name, "most": _LOOKED_AT}
    counts: dict[str, dict[str, int]] = {}
    for name, state, count in connection.execute(_STATES, scope):
        counts.setdefault(name, {})[state] = count
    return [
        Unanswered(
            name,
            requests,
            counts.get(name, {}).get("lost", 0),
            counts.get(name, {}).get("abstained", 0),
        )
        for name, requests in connection.execute(_REQUESTS_BY_NAME, scope)
    ]


def lost_requests(
    connection: sqlite3.Connection,
    since: int | None = None,
    until: int | None = None,
    span_name: str | None = None,
) -> Iterator[str]:
    """Yield the traces whose first span is a workflow or agent whose answer got lost."""
    scope = {"since": since or 0, "until": until or 1 << 62, "name": span_name}
    return (trace_id for (trace_id,) in connection.execute(_LOST_REQUESTS, scope))


def why_unanswered(
    connection: sqlite3.Connection, span_ids: Iterable[str]
) -> dict[str, Literal["abstained", "lost"]]:
    """Return why some requests have no answer, by span id; those that have one are left out."""
    scope = {"since": 0, "until": 1 << 62, "name": None, "ids": dumps(list(span_ids))}
    found = connection.execute(_WHY, scope)
    return {span_id: state for span_id, state in found if state != "given"}


def answers_by_group(connection: sqlite3.Connection, since: int) -> Iterator[tuple[str, State]]:
    """Yield group and answer of the requests of all names that lack some.

    The groups are those of the connection's selection; a request in none of them is left out.
    """
    scope = {"since": since, "until": 1 << 62, "name": None}
    if connection.execute(f"SELECT EXISTS ({_STATES})", scope).fetchone()[0]:
        yield from connection.execute(_ANSWERS, scope)


def has_abstained(found: Mapping[str, object]) -> bool:
    """Say whether a record has no answer, by the values of its evaluations, by evaluator."""
    return found.get(values.ABSTENTION) is not None


_MAYBE = re.sub(r"\b(kind|error_type|request|value|response|expected)\b", r"s.\1", MAYBE_UNANSWERED)


def _abstained(span: str) -> str:
    return f"""instr(ifnull({span}.expected, ''), '"abstained"') > 0"""


_STATE = f"""CASE WHEN {_abstained("s")} THEN 'abstained'
  WHEN EXISTS (SELECT 1 FROM spans c WHERE c.trace_id = s.trace_id AND c.span_id != s.span_id
    AND c.value IS NOT NULL) THEN 'given'
  WHEN EXISTS (SELECT 1 FROM spans c WHERE c.trace_id = s.trace_id AND c.span_id != s.span_id
    AND {_abstained("c")}) THEN 'abstained'
  ELSE 'lost' END"""  # noqa: S608 - constants
"""The answer of a span that has none of its own: a step below may have noted the value, or that
the app abstains."""
_IS_REQUEST = f"""s.kind IN ('workflow', 'agent') AND s.error_type IS NULL
  AND s.start_ns >= :since AND s.start_ns < :until AND (:name IS NULL OR s.name = :name)
  AND (s.tags IS NULL OR instr(s.tags, '"{JUDGE_TAG}"') = 0)"""
_COMPLETE = " AND ".join(
    f"""(s.attributes IS NULL OR instr(s.attributes, '"{name}"') = 0)"""
    for name in ENDED_WITHOUT_ANSWER
)

_STATES = f"""
SELECT s.name, {_STATE} AS state, count(*) FROM spans s
WHERE {_MAYBE} AND {_IS_REQUEST} AND {_COMPLETE} GROUP BY s.name, state
"""  # noqa: S608 - constants

_LOST_REQUESTS = f"""
SELECT s.trace_id FROM spans s
WHERE {_MAYBE} AND {_IS_REQUEST} AND {_COMPLETE} AND +s.parent_id IS NULL AND {_STATE} = 'lost'
"""  # noqa: S608 - constants
"""The + keeps SQLite from reading the row of every request, where ``spans_unanswered`` has few."""

_WHY = f"""
SELECT s.span_id, {_STATE} FROM spans s
WHERE s.span_id IN (SELECT value FROM json_each(:ids))
  AND {_MAYBE} AND {_IS_REQUEST} AND {_COMPLETE}
"""  # noqa: S608 - constants

_REQUESTS_BY_NAME = f"""
SELECT s.name, count(*) FROM spans s WHERE {_IS_REQUEST} GROUP BY s.name
HAVING EXISTS (SELECT 1 FROM (
  SELECT kind, request FROM spans t WHERE t.name = s.name ORDER BY start_ns DESC LIMIT :most)
  WHERE request IS NOT NULL AND kind IN ('workflow', 'agent'))
ORDER BY s.name
"""  # noqa: S608 - constants


_ANSWERS = f"""
SELECT r.slice, CASE WHEN {_MAYBE} THEN {_STATE} ELSE 'given' END
FROM spans s JOIN selection.requests r ON r.request = s.trace_id
WHERE r.slice IS NOT NULL AND {_IS_REQUEST} AND {_COMPLETE} AND s.request IS NOT NULL
  AND s.name IN (SELECT s.name FROM spans s WHERE {_MAYBE} AND {_IS_REQUEST})
"""  # noqa: S608 - constants


__all__ = [
    "GROUPINGS",
    "Percentiles",
    "Pricing",
    "Traffic",
    "TrafficGroup",
    "TrafficScope",
    "check",
    "from_the_future",
    "overall",
    "traffic",
]


# What the spans of one group add up to: latencies, failures, tokens and money, all exact.


@dataclass(frozen=True, slots=True)
class TrafficGroup:
    """The spans, model calls or requests of one group, and what the model calls in them used."""

    key: str | None
    """The value that the spans have in common; ``None`` for spans that have no such value."""
    unit: str
    """What is counted: ``span``, ``call`` of a model, or ``request``, the first span of a trace."""
    count: int
    failed: int
    error_rate: float
    error_types: Mapping[str, int]
    latency_seconds: Percentiles | None
    time_to_first_token_seconds: Percentiles | None
    """The seconds until the first token of streamed answers."""
    tokens_per_second: Percentiles | None
    """The speed of streamed answers: output tokens by the time after the first token."""
    calls: int
    """Model calls whose tokens are known."""
    input_tokens: int
    output_tokens: int
    cache_read_input_tokens: int
    cache_write_input_tokens: int
    reasoning_output_tokens: int
    cost_usd: float | None
    """The cost of the calls whose price is known; ``None`` if no price is known."""
    unpriced_calls: int
    """Calls whose cost is unknown, as their price or their tokens are."""
    clock_jumps: int
    """Spans that end before they begin; the percentiles leave them out."""
    no_answer: float | None = None
    """The share, 0..1, of workflows and agents that did not fail whose answer got lost; ``None``
    where nobody knows, because no content was captured, or where calls of models are counted."""
    stored: int = 0
    """How many of them the store has; more are counted where some stand for others."""
    count_interval: tuple[float, float] | None = None
    """The 95 % interval of ``count`` where some stand for others."""
    cost_interval: tuple[float, float] | None = None
    """The 95 % interval of ``cost_usd`` where some stand for others."""


class CallTokens(NamedTuple):
    """The tokens of model calls. Cached tokens are part of the input, and never more than it."""

    calls: int
    input: int
    output: int
    total: int
    cache_read: int
    cache_write: int
    reasoning: int


class ModelPrice(Protocol):
    """Prices calls of one model."""

    @property
    def steps(self) -> Sequence[int]:
        """The numbers of input tokens of a call above which the price is another."""

    def at(self, input_tokens: float, /) -> ModelPrice:
        """Return the price of calls with so many input tokens."""

    def cost(self, usage: Usage, metrics: Mapping[str, float], *, requests: int) -> float:
        """Return the cost of so many calls in US dollars; ``metrics`` has the cached tokens."""


class Pricing:
    """Prices of calls at the time of the report.

    Args:
        price_of: returns a model's price, or ``None`` if it is unknown. By default none is known.
        is_anew: whether a model's price stands in place of the costs that were stored. By default
            a call keeps the cost that was stored with it.
    """

    def __init__(
        self,
        price_of: Callable[[str], ModelPrice | None] = lambda _: None,
        is_anew: Callable[[str], bool] | None = None,
    ) -> None:
        self._price_of = price_of
        self._is_anew = is_anew
        self.has_new = is_anew is not None
        self._prices: dict[str | None, tuple[ModelPrice | None, bool]] = {}
        self.unpriced: Counter[str] = Counter()
        """How many calls have no known price, by model."""
        self.silent: Counter[str] = Counter()
        """How many calls succeeded without reporting the tokens they used, by model."""

    def of(self, model: str | None) -> tuple[ModelPrice | None, bool]:
        """Return a model's price, and whether it stands in place of costs that were stored."""
        if model not in self._prices:
            price = self._price_of(model) if model else None
            is_anew = bool(model and price and self._is_anew and self._is_anew(model))
            self._prices[model] = price, is_anew
        return self._prices[model]


def cost_of(price: ModelPrice, used: CallTokens) -> float:
    """Return what calls cost in US dollars, which no step of the price tells apart."""
    usage = Usage(used.input, used.output, used.total)
    cached = dict(zip(CACHED, (used.cache_read, used.cache_write), strict=True))
    return price.at(used.input / used.calls).cost(usage, cached, requests=used.calls)


@dataclass(slots=True)
class TrafficSums:
    """The running sums of one group."""

    count: int = 0
    further: float = 0
    """For how many others these stand, whose traces were left out."""
    jumps: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    durations: Sample = field(default_factory=Sample)
    """Nanoseconds."""
    first_tokens: Sample = field(default_factory=Sample)
    """Nanoseconds."""
    speeds: Sample = field(default_factory=Sample)
    """Thousandths of a token per second."""
    used: list[float] = field(default_factory=lambda: [0] * len(CallTokens._fields))
    """The fields of `CallTokens`, in their order."""
    cost_usd: float | None = None
    unpriced: float = 0
    asked: int = 0
    """Requests that did not fail and of which it is known whether they have an answer."""
    lost: int = 0
    """The number of these requests whose answer got lost."""
    thinned: Thinned = field(default_factory=Thinned)

    def add_spans(self, count: int, error: str | None, jumps: int) -> None:
        """Count spans that ended alike."""
        self.count += count
        self.jumps += jumps
        if error is not None:
            self.errors[error] += count

    def stand_for(self, trace: str, chance: float, took_ns: int, error: str | None) -> None:
        """Count for which others a span stands whose trace stayed with a chance."""
        further = weight_of(chance) - 1
        if further:
            self.further += further
            self.thinned.add(trace, chance, 1, 0.0)
            if took_ns >= 0:
                self.durations.further.append((took_ns, further))
            if error is not None:
                self.errors[error] += further  # type: ignore[assignment]

    def add_used(self, used: Sequence[float], cost_usd: float | None, unpriced: float) -> None:
        """Add what calls used."""
        self.used = [one + more for one, more in zip(self.used, used, strict=True)]
        self.unpriced += unpriced
        if cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + cost_usd

    def merge(self, other: TrafficSums) -> None:
        """Add another group."""
        self.durations.merge(other.durations)
        self.first_tokens.merge(other.first_tokens)
        self.speeds.merge(other.speeds)
        self.count += other.count
        self.further += other.further
        self.errors += other.errors
        self.jumps += other.jumps
        self.asked += other.asked
        self.lost += other.lost
        self.thinned.merge(other.thinned)
        self.add_used(other.used, other.cost_usd, other.unpriced)

    def group(self, key: str | None, unit: str) -> TrafficGroup:
        """Return what it all adds up to."""
        count, failed = self.count + self.further, self.errors.total()
        used = CallTokens(*map(round, self.used))
        cost_usd = self.cost_usd if isfinite(self.cost_usd or 0.0) else None
        return TrafficGroup(
            key,
            unit,
            round(count),
            round(failed),
            failed / count if count else 0.0,
            {name: round(times) for name, times in self.errors.most_common(MAX_TYPES)},
            self.durations.percentiles(1e9),
            self.first_tokens.percentiles(1e9),
            self.speeds.percentiles(1e3),
            used.calls,
            used.input,
            used.output,
            used.cache_read,
            used.cache_write,
            used.reasoning,
            cost_usd,
            round(self.unpriced),
            self.jumps,
            self.lost / self.asked if self.asked else None,
            self.count,
            *self.thinned.intervals(count, cost_usd),
        )


MAX_TYPES = 20
"""How many types of errors a group names."""


def listed(text: str | None) -> list[int]:
    """Read whole numbers that SQLite joined with commas.

    A million of them take a tenth of the time in which as many rows are fetched.
    """
    return list(map(int, text.split(","))) if text else []


# How the spans of a scope are read and added up, in the order of an index or by their traces.

BY_SELECTION = "selection"
"""A grouping by the groups of the reader's `selection.Selection`."""
_NAMED = "name = :span_name"
OF_THE_APP = f"""(tags IS NULL OR instr(tags, '"{JUDGE_TAG}"') = 0)"""
"""The report on judges has the calls and costs of judges."""


class TrafficScope(NamedTuple):
    """Selects the spans of a report; times are nanoseconds since the epoch."""

    since: int | None = None
    until: int | None = None
    span_name: str | None = None
    """Only spans with this name, or requests whose first span has it."""

    def where(self) -> tuple[str, dict[str, object]]:
        """Return the condition in SQL, and its arguments."""
        conditions = {
            _NAMED: self.span_name,
            "start_ns >= :since": self.since,
            "start_ns < :until": self.until,
        }
        texts = [text for text, value in conditions.items() if value is not None]
        return " AND ".join([OF_THE_APP, *texts]), self._asdict()


def key_of(by: str) -> str:
    """Return the value of a span that requests are grouped by, in SQL."""
    if by == BY_SELECTION:
        return BY_SLICE.part
    return value_sql(by)


class TrafficReading:
    """One reading of a store."""

    def __init__(
        self, connection: sqlite3.Connection, scope: TrafficScope, pricing: Pricing
    ) -> None:
        self._connection = connection
        self._where, self._arguments = scope.where()
        self._spans = read_by(connection, "spans", "spans_summed")
        self._period = scope._asdict()
        self.pricing = pricing
        self.sums: dict[str | None, TrafficSums] = {}
        self.all_calls = TrafficSums()

    def in_order(self, by: str) -> dict[str | None, str]:
        """Sum up by span name or model, in the order of the index; return what is counted."""
        units: dict[str | None, str] = {}
        has_drawn = False
        where = f"{self._where} AND {_CALL}" if by == "model" else self._where
        sql = _in_order_sql(self._spans, where)
        with _long_lists(self._connection):
            rows = self._connection.execute(sql, self._arguments).fetchall()
        for (
            name,
            kind,
            model,
            error,
            count,
            durations,
            streams,
            speeds,
            cost,
            priced,
            drawn,
            *rest,
        ) in rows:
            is_call = kind in _MODELS
            key = name if by == "name" else model
            units[key] = "call" if by == "model" else "span"
            group = self.sums.setdefault(key, TrafficSums())
            times = listed(durations)
            group.durations.numbers += times
            group.first_tokens.numbers += listed(streams)
            group.speeds.numbers += listed(speeds)
            group.add_spans(count, error, count - len(times))
            has_drawn |= bool(drawn)
            if is_call:
                used = CallTokens(*map(int, rest))
                usd, unpriced = self._spent((name, kind, model, error), used, cost, priced)
                if error is None:
                    unpriced += self._silent(model, count - used.calls)
                group.add_used(used, usd, unpriced)
                self.all_calls.add_spans(count, error, count - len(times))
        if has_drawn:
            self._add_others(by, where)
        self._sum_calls()
        return units

    def _sum_calls(self) -> None:
        """Add up what the calls of all groups used."""
        for group in self.sums.values():
            self.all_calls.add_used(group.used, group.cost_usd, group.unpriced)

    def _add_others(self, by: str, where: str) -> None:
        """Add to the sums in order what spans stand for beside themselves."""
        sql = _drawn_sql(self._spans, where)
        for name, kind, *row in self._connection.execute(sql, self._arguments):
            call = _DrawnCall.of(*row)
            group = self.sums[name if by == "name" else call.model]
            group.stand_for(call.trace, call.chance, call.took, call.error)
            if kind in _MODELS:
                self._add_others_of_call(group, call)

    def _add_others_of_call(self, group: TrafficSums, call: _DrawnCall) -> None:
        """Add to a group what a call stands for beside itself."""
        further = weight_of(call.chance) - 1
        if not further:
            return
        before = group.cost_usd or 0.0
        for sample, number in zip((group.first_tokens, group.speeds), call.stream, strict=True):
            if number is not None:
                sample.further.append((number, further))
        if call.used[0] is not None:
            self._add_call(group, call.model, call.cost, call.used, call.cached, weight=further)
        elif call.error is None and call.cost is None:
            group.unpriced += self._silent(call.model, further)
        usd = ((group.cost_usd or 0.0) - before) / further
        group.thinned.add(call.trace, call.chance, 0, usd)
        self.all_calls.stand_for(call.trace, call.chance, -1, call.error)
        self.all_calls.thinned.add(call.trace, call.chance, 0, usd)

    def _spent(
        self, group: tuple[str, str, str | None, str | None], used: CallTokens, cost: float | None,
        priced: int,
    ) -> tuple[float | None, float]:  # fmt: skip
        """Return what the calls of a group of rows cost, and how many have no known price."""
        price, is_anew = self.pricing.of(group[2])
        lacking = used.calls - priced
        if not used.calls or not (lacking or is_anew):
            return cost, 0
        if price is None:
            self.pricing.unpriced[group[2] or "-"] += lacking
            return cost, lacking
        about = dict(zip(("name", "kind", "model", "error"), group, strict=True))
        which = "1" if is_anew else "cost_usd IS NULL"
        sql = _of_group_sql(self._spans, self._where, which, price.steps)
        rows = self._connection.execute(sql, {**self._arguments, **about})
        usd = sum(cost_of(price, CallTokens(*map(int, row))) for row in rows)
        return (usd if is_anew else usd + (cost or 0.0)), 0

    def _silent(self, model: str | None, calls: float) -> float:
        """Count calls that succeeded without reporting their tokens: their cost is unknown."""
        if calls:
            self.pricing.silent[model or "-"] += calls  # type: ignore[assignment]
        return calls

    def add_answers(self) -> None:
        """Add to groups by span name how many of their requests lost their answer."""
        for each in unanswered(self._connection, **self._period):
            group = self.sums.get(each.span_name)
            if group is not None:
                group.asked, group.lost = each.requests, each.lost

    def by_trace(self, key: str, by: str, *, with_answers: bool = False) -> dict[str | None, str]:
        """Sum up requests by a value of theirs, with the calls in them; return what is counted.

        A call has its own value, or that of its request. A group of calls alone counts these.
        ``with_answers`` also counts the requests whose answer got lost.
        """
        sums, request_of = self.sums, {}
        asked: set[str] = set()
        if with_answers:
            asked = {each.span_name for each in unanswered(self._connection, **self._period)}
        sql = _requests_sql(self._spans, self._where, key)
        for trace, value, duration, error, name, kind, chance in self._connection.execute(
            sql, self._arguments
        ):
            group = sums.get(value)
            if group is None:
                group = sums[value] = TrafficSums()
            request_of[trace] = value
            group.count += 1
            if chance is not None:
                group.stand_for(trace, chance, duration, error)
            if duration >= 0:
                group.durations.numbers.append(duration)
            else:
                group.jumps += 1
            if error is not None:
                group.errors[error] += 1
            elif name in asked and kind in OWNERS:
                group.asked += 1
        for trace in lost_requests(self._connection, **self._period) if asked else ():
            if trace in request_of:
                sums[request_of[trace]].lost += 1
        units = dict.fromkeys(sums, "request")
        self._add_calls("NULL" if by == "request" else key, request_of, units)
        return units

    def _add_calls(  # noqa: C901 - one loop over a million rows, in which each call would cost
        self, key: str, request_of: Mapping[str, str | None], units: dict[str | None, str]
    ) -> None:
        sums, calls, is_part = self.sums, self.all_calls, self._arguments["span_name"] is not None
        where = self._where.replace(_NAMED, "1")
        rows = self._connection.execute(_calls_sql(self._spans, where, key), self._arguments)
        for trace, value, model, error, took, first, chance, cost, read, written, *used in rows:
            if is_part and trace not in request_of:
                continue
            if value is None:
                value = request_of.get(trace)  # noqa: PLW2901 - the request's value stands in
            group = sums.get(value)
            if group is None:
                group = sums[value] = TrafficSums()
                units[value] = "call"
            if units[value] == "call":
                group.add_spans(1, error, took < 0)
                if took >= 0:
                    group.durations.numbers.append(took)
            calls.count += 1
            if error is not None:
                calls.errors[error] += 1
            if first is not None:
                _add_stream(group, first, took, used[1])
            if used[0] is not None:
                self._add_call(group, model, cost, used, (read, written))
            elif error is None and cost is None:
                group.unpriced += self._silent(model, 1)
            if chance is not None:
                call = _DrawnCall.of(
                    model, error, trace, chance, took, first, cost, read, written, *used
                )
                if units[value] == "call":
                    group.stand_for(trace, chance, took, error)
                self._add_others_of_call(group, call)
        self._sum_calls()

    def _add_call(
        self,
        group: TrafficSums,
        model: str | None,
        cost: float | None,
        used: list[int],
        cached: tuple[int | None, int | None],
        *,
        weight: float = 1,
    ) -> None:
        into = group.used
        into[0] += weight
        into[1] += used[0] * weight
        into[2] += used[1] * weight
        into[3] += used[2] * weight
        into[6] += (used[3] or 0) * weight
        if cached != (None, None):
            read = min(cached[0] or 0, used[0])
            cached = read, min(cached[1] or 0, used[0] - read)
            into[4] += read * weight
            into[5] += (cached[1] or 0) * weight
        if cost is None or self.pricing.has_new:
            price, is_anew = self.pricing.of(model)
            if cost is None and price is None:
                self.pricing.unpriced[model or "-"] += weight  # type: ignore[assignment]
                group.unpriced += weight
                return
            if price is not None and (cost is None or is_anew):
                tokens = CallTokens(1, used[0], used[1], used[2], cached[0] or 0, cached[1] or 0, 0)
                cost = cost_of(price, tokens)
        group.cost_usd = (group.cost_usd or 0.0) + (cost or 0.0) * weight


@contextmanager
def _long_lists(connection: sqlite3.Connection) -> Iterator[None]:
    """Let SQLite join long lists of numbers; the limit for stored texts holds again afterwards."""
    if not hasattr(connection, "setlimit"):  # before Python 3.11 nothing is limited
        yield
        return
    longest = connection.setlimit(LIMIT_LENGTH, _MAX_LIST)
    try:
        yield
    finally:
        connection.setlimit(LIMIT_LENGTH, longest)


def _add_stream(group: TrafficSums, first_ns: int, took_ns: int, output_tokens: int | None) -> None:
    group.first_tokens.numbers.append(first_ns)
    if output_tokens and took_ns > first_ns:
        group.speeds.numbers.append(_speed(first_ns, took_ns, output_tokens))


def _speed(first_ns: int, took_ns: int, output_tokens: int) -> int:
    return int(output_tokens * 1_000_000_000_000 // (took_ns - first_ns))


class _DrawnCall(NamedTuple):
    """A span whose trace stayed by a draw, mostly a call of a model."""

    model: str | None
    error: str | None
    trace: str
    chance: float
    took: int
    stream: tuple[int | None, int | None]
    """The nanoseconds until its first token, and its speed in thousandths of a token per second."""
    cost: float | None
    cached: tuple[int | None, int | None]
    used: list[int]

    @classmethod
    def of(  # noqa: PLR0917 - the columns of a row
        cls, model: str | None, error: str | None, trace: str, chance: float, took: int,
        first: int | None, cost: float | None, read: int | None, written: int | None, *used: int,
    ) -> _DrawnCall:  # fmt: skip
        """Read a row of `_drawn_sql`, without the name and kind."""
        speed = None
        if first is not None and used[1] and took > first:
            speed = _speed(first, took, used[1])
        stream = first, speed
        return cls(model, error, trace, chance, took, stream, cost, (read, written), list(used))


_MAX_LIST = 1_000_000_000
"""Bytes, the most that SQLite takes: 90 million durations."""
_MODELS = frozenset(("llm", "embedding"))
_CALL = "kind IN ('llm', 'embedding')"
_TOOK = "CAST(end_ns - start_ns AS INTEGER)"
_FIRST = "CAST(time_to_first_token * 1000000000 AS INTEGER)"
_SPEED = f"""CASE WHEN output_tokens > 0 AND end_ns - start_ns > {_FIRST}
  THEN CAST(output_tokens * 1000000000000 / (end_ns - start_ns - {_FIRST}) AS INTEGER) END"""
_READ = "min(ifnull(cache_read_input_tokens, 0), input_tokens)"
_WRITTEN = f"min(ifnull(cache_write_input_tokens, 0), input_tokens - {_READ})"
_SUMS = f"""count(input_tokens), total(input_tokens), total(output_tokens), total(total_tokens),
  total({_READ}), total({_WRITTEN}), total(reasoning_output_tokens)"""


_USE = """cost_usd + 0.0, cache_read_input_tokens + 0, cache_write_input_tokens + 0,
  input_tokens + 0, output_tokens + 0, total_tokens + 0, reasoning_output_tokens + 0"""


def _in_order_sql(spans: str, where: str) -> str:
    return f"""
SELECT name, kind, model_name, error_type, count(*),
  group_concat(CASE WHEN end_ns >= start_ns THEN {_TOOK} END),
  group_concat({_FIRST}), group_concat({_SPEED}), sum(cost_usd), count(cost_usd),
  count(inclusion_probability), {_SUMS}
FROM {spans} WHERE {where}
GROUP BY name, kind, model_name, error_type
"""  # noqa: S608 - constants


def _of_group_sql(spans: str, where: str, which: str, steps: Sequence[int]) -> str:
    """Sum up calls, apart by how many of these numbers of input tokens they are above."""
    passed = " + ".join(f"(input_tokens > {int(step)})" for step in steps) or "NULL"
    return f"""
SELECT {_SUMS} FROM {spans}
WHERE {where} AND name = :name AND kind = :kind AND model_name IS :model
  AND error_type IS :error AND {which} AND input_tokens IS NOT NULL
GROUP BY {passed}
"""  # noqa: S608 - constants


def _drawn_sql(spans: str, where: str) -> str:
    """Read the spans of traces that stayed by a draw, each by itself."""
    return f"""
SELECT name, kind, model_name, error_type, trace_id, inclusion_probability + 0.0, {_TOOK}, {_FIRST},
  {_USE}
FROM {spans} WHERE {where} AND inclusion_probability IS NOT NULL
"""  # noqa: S608 - constants


def _requests_sql(spans: str, where: str, key: str) -> str:
    return f"""
SELECT trace_id, {key}, {_TOOK}, error_type, name, kind, inclusion_probability + 0.0 FROM {spans}
WHERE {where} AND parent_id IS NULL
"""  # noqa: S608 - constants


def _calls_sql(spans: str, where: str, key: str) -> str:
    return f"""
SELECT trace_id, {key}, model_name, error_type, {_TOOK}, {_FIRST}, inclusion_probability + 0.0,
  {_USE}
FROM {spans} WHERE {where} AND {_CALL}
"""  # noqa: S608 - constants


GROUPINGS = ("name", "request", "model", "user", "session", "tag:KEY")
MAX_GROUPS = 1_000
"""How many groups a report has; those with the least money and spans are added up as one."""
MAX_MODELS = 20
"""How many models a report names whose price is unknown, and how many without usage."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """The traffic of a scope: all of it, and by group."""

    by: str
    total: TrafficGroup
    """All requests, with what all model calls used."""
    groups: tuple[TrafficGroup, ...]
    """The groups with most money, or most spans, come first."""
    left_out: int
    """How many further groups are added up in the last one."""
    unpriced_models: Mapping[str, int]
    """How many calls have no known price, by model."""
    silent_models: Mapping[str, int]
    """How many calls succeeded without reporting the tokens they used, by model."""
    completeness: Completeness | None = None
    """How much of the period is stored, of all requests; ``None`` where nothing is lost."""


def check(by: str) -> str:
    """Return a grouping that can be used; raises `ConfigurationError` for another word."""
    if by in GROUPINGS[:-1] or (by.startswith(TAG) and by != TAG):
        return by
    raise ConfigurationError(
        f"{by!r} is no grouping: expected {', '.join(GROUPINGS)}, such as tag:release"
    )


def traffic(
    connection: sqlite3.Connection,
    scope: TrafficScope = TrafficScope(),  # noqa: B008 - it never changes
    by: str = "name",
    pricing: Pricing | None = None,
) -> Traffic:
    """Sum up the traffic of a scope.

    Raises `ConfigurationError` for a grouping that is none of `GROUPINGS`.
    """
    if by != BY_SELECTION:
        check(by)
    reading = TrafficReading(connection, scope, pricing or Pricing())
    if by in ("name", "model"):
        units = reading.in_order(by)
    else:
        units = reading.by_trace(key_of(by), by, with_answers=True)
    if by == "name":
        reading.add_answers()
    sums = reading.sums
    ranked = sorted(sums, key=lambda key: (-(sums[key].cost_usd or 0.0), -sums[key].count))
    rest = TrafficSums()
    for key in ranked[MAX_GROUPS:]:
        rest.merge(sums[key])
    groups = [sums[key].group(key, units[key]) for key in ranked[:MAX_GROUPS]]
    left_out = len(ranked) - len(groups)
    if left_out:
        groups.append(rest.group(OTHERS, units[ranked[-1]]))
    unpriced, silent = (
        {name: round(calls) for name, calls in models.most_common(MAX_MODELS)}
        for models in (reading.pricing.unpriced, reading.pricing.silent)
    )
    stored = completeness_of(connection, scope)
    if stored is not None and not stored.is_weighted:
        groups = [_without_interval(group) for group in groups]
    total = reading.all_calls.group(None, "call")
    return Traffic(by, total, tuple(groups), left_out, unpriced, silent, stored)


def completeness_of(
    connection: sqlite3.Connection,
    scope: TrafficScope = TrafficScope(),  # noqa: B008
) -> Completeness | None:
    """Say how much of a scope's period is stored, of all requests; ``None``: all of it."""
    lacking = missing(connection, scope.since, scope.until)
    if lacking is None:
        return None
    where, arguments = scope._replace(span_name=None).where()
    row = connection.execute(f"{_STORED_SQL} WHERE parent_id IS NULL AND {where}", arguments)
    return completeness(lacking, *row.fetchone())


_CHANCE = "CASE WHEN inclusion_probability > 0 THEN min(inclusion_probability, 1) ELSE 1 END"
_STORED_SQL = f"""
SELECT count(*), total(1 / {_CHANCE}), total((1 - {_CHANCE}) / ({_CHANCE} * {_CHANCE}))
FROM main.spans INDEXED BY spans_summed
"""  # noqa: S608 - constants


def _without_interval(group: TrafficGroup) -> TrafficGroup:
    """Leave the interval out that what is lost gives no ground for."""
    latency = group.latency_seconds
    if latency is None:
        return group
    return replace(group, latency_seconds=replace(latency, p95_interval=None))


def overall(connection: sqlite3.Connection, scope: TrafficScope, pricing: Pricing) -> TrafficGroup:
    """Sum up all requests of a scope as one group."""
    reading = TrafficReading(connection, scope, pricing)
    reading.by_trace("NULL", "request")
    return reading.sums.get(None, TrafficSums()).group(None, "request")


def groups_of_selection(
    connection: sqlite3.Connection, scope: TrafficScope, pricing: Pricing
) -> list[TrafficGroup]:
    """Sum up the requests of each group of the connection's selection."""
    reading = TrafficReading(connection, scope, pricing)
    units = reading.by_trace(key_of(BY_SELECTION), BY_SELECTION, with_answers=True)
    return [sums.group(key, units[key]) for key, sums in reading.sums.items()]


Hours: TypeAlias = "dict[int, dict[str, TrafficSums]]"
"""Sums by the beginning of an hour, in nanoseconds since the epoch, and by name."""


def by_hour(connection: sqlite3.Connection, since: int, until: int) -> tuple[Hours, Hours]:
    """Sum up requests by name and calls of models by model, hour by hour.

    Calls have the costs that were stored. What stands for traces that were left out counts with its
    weight. Times are nanoseconds since the epoch.
    """
    requests: Hours = {}
    calls: Hours = {}
    sql = _by_hour_sql(read_by(connection, "spans", "spans_summed"))
    with _long_lists(connection):
        rows = connection.execute(sql, {"since": since, "until": until}).fetchall()
    for hour, is_request, name, kind, model, error, chance, count, durations, *used in rows:
        further, times = weight_of(chance) - 1, listed(durations)
        known, input_tokens, output_tokens, cost, unpriced = used
        for hours, key in ((requests, name), (calls, model or "-")):
            if not (is_request if hours is requests else kind in _MODELS):
                continue
            sums = hours.setdefault(hour, {}).setdefault(key, TrafficSums())
            sums.add_spans(count, error, count - len(times))
            sums.durations.numbers += times
            if further:
                sums.further += count * further
                sums.durations.further += [(took, further) for took in times]
                if error is not None:
                    sums.errors[error] += count * further
            weighed = [each * (1 + further) for each in (known, input_tokens, output_tokens)]
            usd = None if cost is None else cost * (1 + further)
            sums.add_used((*weighed, 0, 0, 0, 0), usd, unpriced * (1 + further))
    return requests, calls


def _by_hour_sql(spans: str) -> str:
    return f"""
SELECT start_ns - start_ns % {HOUR_NS}, parent_id IS NULL, name, kind, model_name, error_type,
  inclusion_probability, count(*), group_concat(CASE WHEN end_ns >= start_ns THEN {_TOOK} END),
  count(input_tokens), total(input_tokens), total(output_tokens), sum(cost_usd),
  count(*) FILTER (WHERE cost_usd IS NULL AND error_type IS NULL)
FROM {spans}
WHERE start_ns >= :since AND start_ns < :until AND (parent_id IS NULL OR {_CALL}) AND {OF_THE_APP}
GROUP BY 1, 2, 3, 4, 5, 6, 7
"""  # noqa: S608 - constants


def from_the_future(connection: sqlite3.Connection, now_ns: int) -> int:
    """Count the requests that began more than a minute after now: by a clock that was wrong."""
    sql = "SELECT count(*) FROM spans WHERE parent_id IS NULL AND start_ns > ?"
    return int(connection.execute(sql, (now_ns + 60_000_000_000,)).fetchone()[0])
