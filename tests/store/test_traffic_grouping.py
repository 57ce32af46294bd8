"""The figures of traffic are those of its spans, in every grouping: a plain loop says the same."""

import json
import random
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import replace

import pytest
from raw_store import RawStore

from llmeval_sdk.judges.models.prices import Price
from llmeval_sdk.model import HOUR_NS, JUDGE_TAG, Usage
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.traffic import (
    Pricing,
    TrafficScope,
    TrafficSums,
    by_hour,
    overall,
    traffic,
)


SECOND = 1_000_000_000
MODELS = ("gpt-4o", "own-7b", "free", None)
TAGS = (
    '{"release":"1.4","user_id":"ann"}', '{"release":"1.5"}', '{"release":7,"user_id":null}',
    '{"release":[1,"x"],"user_id":"b,\\n"}', '{"release":""}', "{", "[]", '"release"', None,
    '{"say \\"when\\"":"now","release":true}', '{"a.b":{"release":"deep"},"user_id":"ßt"}',
)  # fmt: skip
GROUPINGS = ("name", "model", "request", "session", "user", "tag:release", 'tag:say "when"')


PRICE = Price(2.0, 2.0, 1.0, above=((500, Price(3.0, 4.0, 1.5)),))
"""A request of more than 500 tokens is dearer."""


def spans(rng, begun, traces):
    """Return the spans of traces with no first span, with one or several, and calls or none."""
    made = []
    for number in range(traces):
        trace, at = f"{rng.getrandbits(128):032x}", begun + number * SECOND
        for _ in range(rng.choice((0, 1, 1, 1, 1, 2, 3))):
            root = span(rng, trace, at + rng.randrange(SECOND), parent_id=None)
            made.append(root | {"name": rng.choice(("answer", "search"))})
        for _ in range(rng.choice((0, 1, 1, 2, 4))):
            call = span(rng, trace, at + rng.randrange(SECOND), parent_id="f" * 16)
            made.append(call | used(rng, call["end_ns"] - call["start_ns"]))
        if rng.random() < 0.2:
            made.append(span(rng, trace, at, parent_id="f" * 16) | {"kind": "task"})
        if rng.random() < 0.1:
            judged = span(rng, trace, at, parent_id=rng.choice((None, "f" * 16)))
            made.append(judged | used(rng, 9) | {"tags": json.dumps({JUDGE_TAG: "tone"})})
    rng.shuffle(made)
    return made


def span(rng, trace, start, parent_id):
    """Return a span of a kind that is no call of a model."""
    took = rng.choice((rng.randrange(5 * SECOND), rng.randrange(100), 0, -rng.randrange(1, SECOND)))
    return {
        "trace_id": trace, "span_id": f"{rng.getrandbits(64):016x}", "parent_id": parent_id,
        "name": rng.choice(("answer", "chat")), "kind": rng.choice(("workflow", "agent", None)),
        "start_ns": start, "end_ns": start + took, "tags": rng.choice(TAGS),
        "session_id": rng.choice((None, "chat-1", "chat-2")),
        "error_type": rng.choice((None, None, None, "TimeoutError", "ValueError")),
    }  # fmt: skip


def used(rng, took):
    """Return what a call of a model says of itself: often not all, and not always what can be."""
    about = {"kind": rng.choice(("llm", "embedding")), "model_name": rng.choice(MODELS)}
    if rng.random() < 0.2:
        return about
    tokens, answer = rng.randrange(900), rng.randrange(90)
    about |= {"input_tokens": tokens, "output_tokens": answer, "total_tokens": tokens + answer}
    about["cost_usd"] = rng.choice((None, rng.random()))
    about["cache_read_input_tokens"] = rng.choice((None, 0, tokens // 2, 2 * tokens))
    about["cache_write_input_tokens"] = rng.choice((None, 0, tokens // 3, tokens))
    about["reasoning_output_tokens"] = rng.choice((None, answer // 2))
    first = rng.choice((None, abs(took) / 2e9, abs(took) / 5e8))
    return about | {"time_to_first_token": first}


def value_of(row, by):
    """Return what a span itself is grouped by, apart from its name or model."""
    if by == "session":
        return row["session_id"]
    try:
        tags = json.loads(row["tags"] or "null")
    except ValueError:
        return None
    key = "user_id" if by == "user" else by.removeprefix("tag:")
    value = tags.get(key) if isinstance(tags, dict) else None
    if isinstance(value, (list, dict)):
        return json.dumps(value, separators=(",", ":"))
    return None if value is None else str(int(value) if value is True else value)


def in_order(row):
    """Sort as the store does; of several first spans of a trace, calls belong to the last one."""
    names = ("name", "kind", "model_name", "error_type", "start_ns", "end_ns")
    return [(row.get(name) is not None, row.get(name) or "") for name in names]


class Group:
    """What a plain loop adds up."""

    def __init__(self):
        self.count = self.jumps = self.calls = self.unpriced = 0
        self.errors, self.tokens, self.usd = Counter(), Counter(), None
        self.durations, self.first, self.speeds = [], [], []

    def add(self, row):
        """Count a span."""
        took = row["end_ns"] - row["start_ns"]
        self.count += 1
        self.jumps += took < 0
        self.durations += [took] * (took >= 0)
        self.errors += Counter([row["error_type"]] * (row["error_type"] is not None))

    def add_stream(self, row):
        """Add how soon and how fast a call answered."""
        if row.get("time_to_first_token") is None:
            return
        first = int(row["time_to_first_token"] * 1e9)
        after = row["end_ns"] - row["start_ns"] - first
        self.first.append(first)
        if row.get("output_tokens") and after > 0:
            self.speeds.append(row["output_tokens"] * 10**12 // after)

    def add_used(self, row, unpriced, silent, *, anew):
        """Add what a call used and cost; count it where that is not known."""
        model, tokens = row["model_name"], row.get("input_tokens")
        if tokens is None:
            if row["error_type"] is None:
                self.unpriced += 1
                silent[model or "-"] += 1
            return
        self.calls += 1
        read = min(row["cache_read_input_tokens"] or 0, tokens)
        written = min(row["cache_write_input_tokens"] or 0, tokens - read)
        self.tokens += Counter(
            input_tokens=tokens, output_tokens=row["output_tokens"], cache_read_input_tokens=read,
            cache_write_input_tokens=written,
            reasoning_output_tokens=row["reasoning_output_tokens"] or 0,
        )  # fmt: skip
        usd = row["cost_usd"]
        if model == "own-7b" and (usd is None or anew):
            usage = Usage(tokens, row["output_tokens"], tokens + row["output_tokens"])
            usd = PRICE.cost(usage, {"cache_read_input_tokens": read})
        if usd is None:
            self.unpriced += 1
            unpriced[model or "-"] += 1
        else:
            self.usd = (self.usd or 0.0) + usd


def by_loop(rows, scope, by, *, anew):
    """Return the groups, and by model the calls without a price and those without usage."""
    rows = [row for row in rows if JUDGE_TAG not in (row["tags"] or "")]
    rows = [row for row in rows if scope.since is None or row["start_ns"] >= scope.since]
    rows = [row for row in rows if scope.until is None or row["start_ns"] < scope.until]
    named = [row for row in rows if scope.span_name in (None, row["name"])]
    is_call = {"llm", "embedding"}.__contains__
    groups, unpriced, silent = {}, Counter(), Counter()
    if by in ("name", "model"):
        for row in named:
            if by == "name" or is_call(row["kind"]):
                key = row["name"] if by == "name" else row.get("model_name")
                group = groups.setdefault(key, Group())
                group.add(row)
                group.add_stream(row)
                if is_call(row["kind"]):
                    group.add_used(row, unpriced, silent, anew=anew)
        return groups, unpriced, silent
    request_of = {}
    for row in sorted(named, key=in_order):
        if row["parent_id"] is None:
            value = row["name"] if by == "request" else value_of(row, by)
            request_of[row["trace_id"]] = value
            groups.setdefault(value, Group()).add(row)
    requested = set(groups)
    for row in rows:
        if not is_call(row["kind"]) or (scope.span_name and row["trace_id"] not in request_of):
            continue
        value = None if by == "request" else value_of(row, by)
        value = request_of.get(row["trace_id"]) if value is None else value
        group = groups.setdefault(value, Group())
        if value not in requested:
            group.add(row)
        group.add_stream(row)
        group.add_used(row, unpriced, silent, anew=anew)
    return groups, unpriced, silent


def quantiles(values, per_unit):
    """Return p50, p95 and p99, interpolated."""
    if not values:
        return None
    values, found = sorted(values), []
    for share in (0.5, 0.95, 0.99):
        place = share * (len(values) - 1)
        low, high = values[int(place)], values[min(int(place) + 1, len(values) - 1)]
        found.append(pytest.approx((low + (high - low) * (place % 1)) / per_unit, rel=1e-9))
    return found


def percentiles(found):
    """Return three percentiles of a group as a list."""
    return None if found is None else [found.p50, found.p95, found.p99]


@pytest.fixture(scope="module", params=range(3))
def store(request, tmp_path_factory):
    """A random store, and its rows."""
    raw = RawStore(tmp_path_factory.mktemp("grouping") / "own" / "random.db", seed=request.param)
    rows = spans(raw.rng, raw.now, 250)
    raw.connection.execute("BEGIN")
    for row in rows:
        raw.insert("spans", **row)
    raw.connection.execute("COMMIT")
    raw.close()
    return raw.path, rows, raw.now


@pytest.mark.parametrize("by", GROUPINGS)
@pytest.mark.parametrize("span_name", [None, "answer"])
@pytest.mark.parametrize("anew", [False, True])
def test_each_group_is_what_a_plain_loop_adds_up(store, by, span_name, anew):
    """Latencies, failures, tokens, money and what has no price, of all spans and of a part."""
    path, rows, now = store
    prices = {"own-7b": PRICE}
    for since, until in ((None, None), (now + 60 * SECOND, now + 180 * SECOND)):
        scope = TrafficScope(since, until, span_name)
        pricing = Pricing(prices.get, (lambda _: True) if anew else None)
        with closing(StoreReader(path)) as reader:
            found = reader.read(lambda c, *given: traffic(c, scope, by, pricing))  # noqa: B023
        expected, unpriced, silent = by_loop(rows, scope, by, anew=anew)
        assert {group.key for group in found.groups} == expected.keys()
        assert (found.unpriced_models, found.silent_models) == (unpriced, silent)
        for group in found.groups:
            mine = expected[group.key]
            assert (group.count, group.clock_jumps) == (mine.count, mine.jumps)
            assert (group.error_types, group.failed) == (mine.errors, mine.errors.total())
            assert percentiles(group.latency_seconds) == quantiles(mine.durations, 1e9)
            assert percentiles(group.time_to_first_token_seconds) == quantiles(mine.first, 1e9)
            assert percentiles(group.tokens_per_second) == quantiles(mine.speeds, 1e3)
            assert (group.calls, group.unpriced_calls) == (mine.calls, mine.unpriced)
            assert {name: getattr(group, name) for name in mine.tokens} == mine.tokens
            assert group.cost_usd == (None if mine.usd is None else pytest.approx(mine.usd))
        assert found.total.calls == sum(mine.calls for mine in expected.values())
        assert found.total.unpriced_calls == unpriced.total() + silent.total()


def test_the_hours_of_a_period_add_up_to_its_traffic(store):
    """What the viewer's overview shows by the hour is what `llmeval report` sums up."""
    path, _, now = store
    with closing(StoreReader(path)) as reader:
        requests, calls = reader.read(lambda c: by_hour(c, 0, now + 10**6 * SECOND))
        exact = reader.read(lambda c: traffic(c, by="model", pricing=Pricing()))
        whole = reader.read(lambda c: overall(c, TrafficScope(), Pricing()))
    assert all(hour % HOUR_NS == 0 for hour in (*requests, *calls))
    asked, paid = TrafficSums(), {}
    for names in requests.values():
        for part in names.values():
            asked.merge(part)
    for names in calls.values():
        for name, part in names.items():
            paid.setdefault(name, TrafficSums()).merge(part)
    asked = asked.group(None, "request")
    assert (asked.count, asked.failed) == (whole.count, whole.failed)
    assert asked.latency_seconds == whole.latency_seconds
    assert paid.keys() == {group.key or "-" for group in exact.groups}
    for group in exact.groups:
        mine = paid[group.key or "-"].group(group.key, "call")
        assert (mine.count, mine.failed, mine.calls) == (group.count, group.failed, group.calls)
        assert mine.latency_seconds == group.latency_seconds
        assert mine.input_tokens + mine.output_tokens == group.input_tokens + group.output_tokens
        assert mine.cost_usd == (None if group.cost_usd is None else pytest.approx(group.cost_usd))


def filled(path, rows):
    raw = RawStore(path, seed=1)
    raw.connection.execute("BEGIN")
    for row in rows:
        raw.insert("spans", **row)
    raw.connection.execute("COMMIT")
    raw.close()
    return path


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Return a store of traces that stayed with a chance of 1/k, and one that has each k times."""
    rng, folder = random.Random(8), tmp_path_factory.mktemp("weighted")
    drawn, whole, times = [], [], {}
    for row in spans(rng, 1_767_225_600_000_000_000, 120):
        k = times.setdefault(row["trace_id"], rng.choice((1, 1, 2, 5)))
        chance = 1 / k if k > 1 else rng.choice((None, 1.0))
        drawn.append({**row, "inclusion_probability": chance})
        for copy in range(k):
            ids = {name: f"{copy:x}{row[name][1:]}" for name in ("trace_id", "span_id")}
            whole.append(row | ids)
    return filled(folder / "a" / "drawn.db", drawn), filled(folder / "b" / "whole.db", whole)


def groups(path, by, pricing):
    with closing(StoreReader(path)) as reader:
        found = reader.read(lambda store: traffic(store, by=by, pricing=pricing))
    return found, {group.key: group for group in (*found.groups, replace(found.total, key="all"))}


@pytest.mark.parametrize("by", GROUPINGS)
@pytest.mark.parametrize("anew", [False, True])
def test_a_trace_that_stayed_by_one_in_k_counts_as_k_do(stores, by, anew):
    """Counts, failures, tokens, money, and what has no price, by each grouping."""
    prices = {"own-7b": PRICE}
    (few, drawn), (many, whole) = (
        groups(path, by, Pricing(prices.get, (lambda _: True) if anew else None)) for path in stores
    )
    assert drawn.keys() == whole.keys()
    assert (few.unpriced_models, few.silent_models) == (many.unpriced_models, many.silent_models)
    for key, mine in drawn.items():
        other = whole[key]
        for name in (
            "count", "failed", "error_types", "calls", "input_tokens", "output_tokens",
            "cache_read_input_tokens", "cache_write_input_tokens", "reasoning_output_tokens",
            "unpriced_calls",
        ):  # fmt: skip
            assert getattr(mine, name) == getattr(other, name), (key, name)
        assert mine.cost_usd == (None if other.cost_usd is None else pytest.approx(other.cost_usd))
        assert mine.stored <= mine.count
        assert other.count_interval is other.cost_interval is None
        for times in ("latency_seconds", "time_to_first_token_seconds", "tokens_per_second"):
            one, two = getattr(mine, times), getattr(other, times)
            assert (one is None) == (two is None)


@pytest.mark.skipif(not hasattr(sqlite3.Connection, "setlimit"), reason="came with Python 3.11")
def test_more_spans_than_the_longest_text_has_room_for_are_summed_up(tmp_path):
    """Their durations are joined in one list, which may be longer than any text of the file."""
    raw = RawStore(tmp_path / "own" / "one.db", seed=1)
    for number in range(200):
        raw.insert("spans", span_id=f"{number}", start_ns=raw.now, end_ns=raw.now + SECOND)
    raw.close()

    def count(connection):
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1_000)
        (group,) = traffic(connection).groups
        assert connection.getlimit(sqlite3.SQLITE_LIMIT_LENGTH) == 1_000
        return group.count

    with closing(StoreReader(raw.path)) as reader:
        assert reader.read(count) == 200
