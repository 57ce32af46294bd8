"""Which spans a command is about: the latest, the worst, or those an id begins with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from math import inf

from llmeval_sdk.errors import did_you_mean
from llmeval_sdk.model import values
from llmeval_sdk.store.identities import forms
from llmeval_sdk.store.reader import StoreReader, known_names
from llmeval_sdk.store.span_lists import (
    ListedOutcome,
    ListedSpan,
    Order,
    Place,
    Query,
    list_page,
    outcomes_of,
)
from llmeval_sdk.store.traces import SpanRef, outline_of, traces_like
from llmeval_sdk.text.terminal import printable


LOOKED_AT = 2_000
"""Spans that a search among categories looks at, newest first."""
SECONDS = 5.0
"""How long one page may take."""


def listed(reader: StoreReader, query: Query, count: int) -> list[ListedSpan]:
    """Return at most so many spans of a query, in its order."""
    found = reader.read(lambda c: list_page(c, query, rows=count, seconds=SECONDS))
    return list(found.items)


def of_session(query: Query, session: str | None) -> list[Query]:
    """Limit a query to a session, in whichever form the store holds its id."""
    return [replace(query, session=form) for form in forms(session)] if session else [query]


def newest(reader: StoreReader, queries: Sequence[Query], count: int) -> list[ListedSpan]:
    """Return the newest spans of some queries."""
    items = [item for query in queries for item in listed(reader, query, count)]
    return sorted(items, key=lambda item: (item.start_ns, item.seq), reverse=True)[:count]


def worst(
    reader: StoreReader, evaluator: str, count: int, queries: Sequence[Query] = (Query(),)
) -> list[ListedSpan]:
    """Return the spans that an evaluator scored worst, the worst first; neutral ones are none."""
    known = reader.read(known_names)  # which also says which values are better
    if evaluator in known.numeric:
        highest = values.high_is_bad(evaluator)
        order: Order = "highest" if highest else "lowest"
        ordered = [replace(query, order=order, order_by=evaluator) for query in queries]
        found = [item for query in ordered for item in listed(reader, query, count)]
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


def _worst_first(said: ListedOutcome | None, highest: bool) -> float:  # noqa: FBT001
    """Return a sort key for a score; what is no number, because it was replaced, comes last."""
    number = None if said is None else values.number(said.value)
    if number is None:
        return inf
    return -number if highest else number


def unscored(reader: StoreReader, evaluator: str) -> str:
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


def of_trace(reader: StoreReader, prefix: str) -> list[SpanRef]:
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
    while looked_at < LOOKED_AT:
        page = reader.read(lambda c, after=after: list_page(c, query, after, seconds=SECONDS))  # type: ignore[misc]
        yield list(page.items)
        looked_at += page.looked_at
        after = page.next
        if after is None:
            return
