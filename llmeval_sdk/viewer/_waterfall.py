"""The spans of a trace as a tree on a time line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from llmeval_sdk.store.traces import Outline


WIDTH = 1_000
"""Units of the time line, however wide it is drawn."""
_LEAST = 4
_DEEPEST = 12
_OWNERS = ("workflow", "agent")


@dataclass(frozen=True, slots=True)
class Bar:
    """One span: where it stands in the tree and on the time line."""

    span: Outline
    depth: int
    x: float
    width: float


def bars(spans: Sequence[Outline]) -> list[Bar]:
    """Lay out a trace, parents before children; a span whose parent is missing stands by itself."""
    if not spans:
        return []
    begin = min(span.start_ns for span in spans)
    whole = max(max(span.end_ns for span in spans) - begin, 1)
    found = []
    for span, depth in _depth_first(spans):
        width = max((span.end_ns - span.start_ns) / whole * WIDTH, _LEAST)
        x = min((span.start_ns - begin) / whole * WIDTH, WIDTH - _LEAST)
        found.append(Bar(span, min(depth, _DEEPEST), round(x, 1), round(min(width, WIDTH - x), 1)))
    return found


def _depth_first(spans: Sequence[Outline]) -> Iterator[tuple[Outline, int]]:
    children = _children(spans)
    ids = {span.span_id for span in spans}
    tops = [span for span in spans if span.parent_id not in ids or span.parent_id == span.span_id]
    waiting = [(span, 0) for span in reversed(tops)]
    seen: set[str] = set()
    while waiting:
        span, depth = waiting.pop()
        if span.span_id not in seen:
            seen.add(span.span_id)
            yield span, depth
            waiting += [(child, depth + 1) for child in reversed(children[span.span_id])]
    yield from ((span, 0) for span in spans if span.span_id not in seen)  # parents in a circle


def _children(spans: Sequence[Outline]) -> defaultdict[str | None, list[Outline]]:
    found: defaultdict[str | None, list[Outline]] = defaultdict(list)
    for span in spans:
        found[span.parent_id].append(span)
    return found


def chosen(spans: Sequence[Outline], span_id: str | None) -> Outline | None:
    """Return the span that was asked for, else the first one with scores, else the first."""
    asked = (span for span in spans if span.span_id == span_id)
    scored = (span for span in spans if span.evaluations)
    return next(asked, None) or next(scored, None) or next(iter(spans), None)


def last_retrieval(spans: Sequence[Outline], span_id: str) -> Outline | None:
    """Return the retrieval whose chunks belong to a span: its own, else the last one below it.

    What is below another workflow or agent belongs to that one.
    """
    by_id = {span.span_id: span for span in spans}
    if span_id in by_id and by_id[span_id].chunks:
        return by_id[span_id]
    children = _children(spans)
    waiting, seen = list(children[span_id]), {span_id}
    found: list[Outline] = []
    while waiting:
        span = waiting.pop()
        if span.span_id in seen:
            continue
        seen.add(span.span_id)
        found += [span] if span.chunks else []
        waiting += [] if span.kind in _OWNERS else children[span.span_id]
    return max(found, key=lambda span: span.start_ns, default=None)
