"""How the spans of a scope are read and added up, in the order of an index or by their traces."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from llmeval_sdk.model import JUDGE_TAG
from llmeval_sdk.records import OWNERS
from llmeval_sdk.store._traffic_sums import CallTokens, Pricing, TrafficSums, cost_of, listed
from llmeval_sdk.store.files import LIMIT_LENGTH
from llmeval_sdk.store.unanswered import lost_requests, unanswered


TAG = "tag:"
_NAMED = "name = :span_name"
_OF_THE_APP = f"""(tags IS NULL OR instr(tags, '"{JUDGE_TAG}"') = 0)"""
"""What judges do and cost is told by the report on judges."""


class TrafficScope(NamedTuple):
    """Which spans to look at; ``None`` is all. Times are nanoseconds since the epoch."""

    since: int | None = None
    until: int | None = None
    span_name: str | None = None
    """Only spans with this name, or requests whose first span has it."""

    def where(self) -> tuple[str, dict[str, Any]]:
        """Return the condition in SQL, and its arguments."""
        conditions = {
            _NAMED: self.span_name,
            "start_ns >= :since": self.since,
            "start_ns < :until": self.until,
        }
        texts = [text for text, value in conditions.items() if value is not None]
        return " AND ".join([_OF_THE_APP, *texts]), self._asdict()


def key_of(by: str) -> str:
    """Return the value of a span that requests are grouped by, in SQL."""
    if by in ("request", "session"):
        return {"request": "name", "session": "session_id"}[by]
    tag = ({"user": "user_id"}.get(by) or by.removeprefix(TAG)).replace("'", "''")
    return (_ODD_TAG_OF if set(tag) & {'"', "\\"} else _TAG_OF).format(tag=tag)


class TrafficReading:
    """One reading of a store."""

    def __init__(
        self, connection: sqlite3.Connection, scope: TrafficScope, pricing: Pricing
    ) -> None:
        self._connection = connection
        self._where, self._arguments = scope.where()
        self._period = scope._asdict()
        self.pricing = pricing
        self.sums: dict[str | None, TrafficSums] = {}
        self.all_calls = TrafficSums()

    def in_order(self, by: str) -> dict[str | None, str]:
        """Sum up by span name or model, in the order of the index; return what is counted."""
        units: dict[str | None, str] = {}
        where = f"{self._where} AND {_CALL}" if by == "model" else self._where
        sql = _IN_ORDER.format(where=where)
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
            *rest,
        ) in rows:
            is_call = kind in _MODELS
            key = name if by == "name" else model
            units[key] = "call" if by == "model" else "span"
            group = self.sums.setdefault(key, TrafficSums())
            times = listed(durations)
            group.durations += times
            group.first_tokens += listed(streams)
            group.speeds += listed(speeds)
            group.add_spans(count, error, count - len(times))
            if is_call:
                used = CallTokens(*map(int, rest))
                usd, unpriced = self._spent((name, kind, model, error), used, cost, priced)
                if error is None:
                    unpriced += self._silent(model, count - used.calls)
                group.add_used(used, usd, unpriced)
                self.all_calls.add_used(used, usd, unpriced)
                self.all_calls.add_spans(count, error, count - len(times))
        return units

    def _spent(
        self, group: tuple[str, str, str | None, str | None], used: CallTokens, cost: float | None,
        priced: int,
    ) -> tuple[float | None, int]:  # fmt: skip
        """Return what the calls of a group of rows cost, and how many have no known price."""
        price, is_anew = self.pricing.of(group[2])
        lacking = used.calls - priced
        if not used.calls or not (lacking or is_anew):
            return cost, 0
        if price is None:
            self.pricing.unpriced[group[2] or "-"] += lacking
            return cost, lacking
        about = dict(zip(("name", "kind", "model", "error"), group, strict=True))
        sql = _OF_GROUP.format(where=self._where, which="1" if is_anew else "cost_usd IS NULL")
        row = self._connection.execute(sql, {**self._arguments, **about}).fetchone()
        usd = cost_of(price, CallTokens(*map(int, row)))
        return (usd if is_anew else usd + (cost or 0.0)), 0

    def _silent(self, model: str | None, calls: int) -> int:
        """Count calls that succeeded without reporting their tokens: their cost is unknown."""
        if calls:
            self.pricing.silent[model or "-"] += calls
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
        sql = _REQUESTS.format(where=self._where, key=key)
        for trace, value, duration, error, name, kind in self._connection.execute(
            sql, self._arguments
        ):
            group = sums.get(value)
            if group is None:
                group = sums[value] = TrafficSums()
            request_of[trace] = value
            group.count += 1
            if duration >= 0:
                group.durations.append(duration)
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
        rows = self._connection.execute(_CALLS.format(where=where, key=key), self._arguments)
        for trace, value, model, error, took, first, cost, read, written, *used in rows:
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
                    group.durations.append(took)
            calls.count += 1
            if error is not None:
                calls.errors[error] += 1
            if first is not None:
                _add_stream(group, first, took, used[1])
            if used[0] is not None:
                self._add_call(group, model, cost, used, (read, written))
            elif error is None and cost is None:
                group.unpriced += self._silent(model, 1)
        for group in sums.values():
            calls.add_used(group.used, group.cost_usd, group.unpriced)

    def _add_call(
        self,
        group: TrafficSums,
        model: str | None,
        cost: float | None,
        used: list[int],
        cached: tuple[int | None, int | None],
    ) -> None:
        into = group.used
        into[0] += 1
        into[1] += used[0]
        into[2] += used[1]
        into[3] += used[2]
        into[6] += used[3] or 0
        if cached != (None, None):
            read = min(cached[0] or 0, used[0])
            cached = read, min(cached[1] or 0, used[0] - read)
            into[4] += read
            into[5] += cached[1] or 0
        if cost is None or self.pricing.has_new:
            price, is_anew = self.pricing.of(model)
            if cost is None and price is None:
                self.pricing.unpriced[model or "-"] += 1
                group.unpriced += 1
                return
            if price is not None and (cost is None or is_anew):
                tokens = CallTokens(1, used[0], used[1], used[2], cached[0] or 0, cached[1] or 0, 0)
                cost = cost_of(price, tokens)
        group.cost_usd = (group.cost_usd or 0.0) + (cost or 0.0)


@contextmanager
def _long_lists(connection: sqlite3.Connection) -> Iterator[None]:
    """Let SQLite join long lists of numbers; the limit for stored texts holds again afterwards."""
    if not hasattr(connection, "setlimit"):  # before Python 3.11 nothing is limited
        yield
        return
    longest = connection.setlimit(LIMIT_LENGTH, _LONGEST_LIST)
    try:
        yield
    finally:
        connection.setlimit(LIMIT_LENGTH, longest)


def _add_stream(group: TrafficSums, first_ns: int, took_ns: int, output_tokens: int | None) -> None:
    group.first_tokens.append(first_ns)
    if output_tokens and took_ns > first_ns:
        group.speeds.append(int(output_tokens * 1_000_000_000_000 // (took_ns - first_ns)))


_LONGEST_LIST = 1_000_000_000
"""Bytes, the most that SQLite takes: 90 million durations."""
_MODELS = frozenset(("llm", "embedding"))
_CALL = "kind IN ('llm', 'embedding')"
_TAG_OF = """CASE WHEN json_valid(tags) THEN CAST(json_extract(tags, '$."{tag}"') AS TEXT) END"""
_ODD_TAG_OF = """CASE WHEN json_valid(tags)
  THEN (SELECT CAST(value AS TEXT) FROM json_each(tags) WHERE key = '{tag}') END"""
"""Of a tag with a quote or a backslash in its name, which a path of SQLite's cannot hold."""
_FROM = "FROM spans INDEXED BY spans_summed WHERE {where}"
_TOOK = "CAST(end_ns - start_ns AS INTEGER)"
_FIRST = "CAST(time_to_first_token * 1000000000 AS INTEGER)"
_SPEED = f"""CASE WHEN output_tokens > 0 AND end_ns - start_ns > {_FIRST}
  THEN CAST(output_tokens * 1000000000000 / (end_ns - start_ns - {_FIRST}) AS INTEGER) END"""
_READ = "min(ifnull(cache_read_input_tokens, 0), input_tokens)"
_WRITTEN = f"min(ifnull(cache_write_input_tokens, 0), input_tokens - {_READ})"
_SUMS = f"""count(input_tokens), total(input_tokens), total(output_tokens), total(total_tokens),
  total({_READ}), total({_WRITTEN}), total(reasoning_output_tokens)"""

_IN_ORDER = f"""
SELECT name, kind, model_name, error_type, count(*),
  group_concat(CASE WHEN end_ns >= start_ns THEN {_TOOK} END),
  group_concat({_FIRST}), group_concat({_SPEED}), sum(cost_usd), count(cost_usd), {_SUMS}
{_FROM} GROUP BY name, kind, model_name, error_type
"""

_OF_GROUP = f"""
SELECT {_SUMS} {_FROM} AND name = :name AND kind = :kind AND model_name IS :model
  AND error_type IS :error AND {{which}} AND input_tokens IS NOT NULL
"""

_REQUESTS = f"""
SELECT trace_id, {{key}}, {_TOOK}, error_type, name, kind {_FROM} AND parent_id IS NULL
"""

_CALLS = f"""
SELECT trace_id, {{key}}, model_name, error_type, {_TOOK}, {_FIRST}, cost_usd + 0.0,
  cache_read_input_tokens + 0, cache_write_input_tokens + 0, input_tokens + 0, output_tokens + 0,
  total_tokens + 0, reasoning_output_tokens + 0
{_FROM} AND {_CALL}
"""
