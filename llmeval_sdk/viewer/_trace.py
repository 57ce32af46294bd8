"""The page of one trace: its spans on a time line, one of them in detail, and labels for it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from typing import Any
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from llmeval_sdk.errors import ExportError
from llmeval_sdk.model import EvaluationEvent, SpanData
from llmeval_sdk.store import views
from llmeval_sdk.store.effective import counting
from llmeval_sdk.store.feedback import add_feedback, human_label
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.views import Outline
from llmeval_sdk.viewer import _detail, _run
from llmeval_sdk.viewer._detail import Detail
from llmeval_sdk.viewer._golden import kept_in
from llmeval_sdk.viewer._readers import state_of
from llmeval_sdk.viewer._render import as_text, integer, page, root_of, url


_TEXTS = ("request", "response")


def show(request: Request) -> Response:
    """Answer with a trace: all of its spans, and one of them in detail.

    A trace may have more spans than the time line shows, so the span that the address names is read
    from the store whether or not it is among them.
    """
    trace_id = request.path_params["trace_id"]
    with request.app.state.site.readers.lend() as reader:
        spans, complete = reader.read(lambda c: views.outline(c, trace_id))
        detail = read_detail(reader, trace_id, request.query_params.get("span"), spans)
        if detail is None:
            raise HTTPException(
                404, "There is no such trace in this store. It may have been pruned."
            )
        span = detail.span
        events = counting(verdict.event for verdict in detail.verdicts)
        run = _run.read_run(reader, span, events, integer(request.query_params.get("step"), 1))
        known = reader.read(views.known_names)
        state = reader.read(state_of)
    return page(
        request, "trace.html",
        detail=detail, bars=bars(spans), complete=complete, known=known, state=state,
        run=run, page_steps=_run.PAGE_STEPS, golden=kept_in(request, span.span_id),
    )  # fmt: skip


def read_detail(
    reader: StoreReader, trace_id: str, span_id: str | None, spans: Sequence[Outline]
) -> Detail | None:
    """Read a span of a trace, by default the first one with scores; ``None`` if it is not there.

    ``spans`` is the outline of the trace.
    """
    span = reader.span(span_id or _first_to_show(spans), trace_id)
    if span is None:
        return None
    return _detail.read(reader, span, _last_retrieval(spans, span.span_id))


def text(request: Request) -> Response:
    """Answer with the whole of one text, as ``text/plain``, so that nothing in it is run."""
    trace_id, span_id, field = (
        request.path_params[name] for name in ("trace_id", "span_id", "field")
    )
    with request.app.state.site.readers.lend() as reader:
        span = reader.span(span_id, trace_id)
    whole = None if span is None else _text(span, field)
    if whole is None:
        raise HTTPException(404, "There is no such text in this store.")
    return PlainTextResponse(as_text(whole).encode("utf-8", "backslashreplace"))


def _text(span: SpanData, field: str) -> object:
    """Return a field of a span or ``None``; ``chunk-3`` is the text of its third chunk."""
    if field in _TEXTS:
        return getattr(span, field)
    rank = field.removeprefix("chunk-")
    chunks = span.retrieved_context or ()
    known = rank.isdecimal() and len(rank) < 6 and 0 < int(rank) <= len(chunks)
    return chunks[int(rank) - 1].content if known else None


WIDTH = 1_000
"""Width of the time line in units of its own; the page scales it."""
_LEAST_WIDTH = 4
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
    """Lay out the spans of a trace, parents before children.

    A span whose parent is not in the trace is shown as a root.
    """
    if not spans:
        return []
    begin = min(span.start_ns for span in spans)
    whole = max(max(span.end_ns for span in spans) - begin, 1)
    laid_out = []
    for span, depth in _depth_first(spans):
        width = max((span.end_ns - span.start_ns) / whole * WIDTH, _LEAST_WIDTH)
        x = min((span.start_ns - begin) / whole * WIDTH, WIDTH - _LEAST_WIDTH)
        width = min(width, WIDTH - x)
        laid_out.append(Bar(span, min(depth, _DEEPEST), round(x, 1), round(width, 1)))
    return laid_out


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
    children: defaultdict[str | None, list[Outline]] = defaultdict(list)
    for span in spans:
        children[span.parent_id].append(span)
    return children


def _first_to_show(spans: Sequence[Outline]) -> str:
    """Return the id of the first span that has scores, else of the first one, else no id."""
    scored = (span.span_id for span in spans if span.evaluations)
    return next(scored, spans[0].span_id if spans else "")


def _last_retrieval(spans: Sequence[Outline], span_id: str) -> Outline | None:
    """Return the span whose chunks belong to a span: itself, else the last retrieval below it.

    Retrievals below another workflow or agent belong to that one instead.
    """
    by_id = {span.span_id: span for span in spans}
    if span_id in by_id and by_id[span_id].chunks:
        return by_id[span_id]
    children = _children(spans)
    waiting, seen = list(children[span_id]), {span_id}
    retrievals: list[Outline] = []
    while waiting:
        span = waiting.pop()
        if span.span_id in seen:
            continue
        seen.add(span.span_id)
        retrievals += [span] if span.chunks else []
        waiting += [] if span.kind in _OWNERS else children[span.span_id]
    return max(retrievals, key=lambda span: span.start_ns, default=None)


MAX_BODY = 20_000
MAX_NAME = 200
MAX_VALUE = 200
MAX_NOTE = 4_000
_PLACE = re.compile(r"main|score-\d{1,6}", re.ASCII)
"""The part of the page from which a label was sent, to which the browser returns."""


async def submit_label(request: Request) -> Response:
    """Store the label that a visitor sent, and lead the browser back to what it is about."""
    form = await form_of(request)
    return await run_in_threadpool(_store, request, form)


async def form_of(request: Request) -> dict[str, str]:
    """Read a posted form of bounded size."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY:
            raise HTTPException(413, "That is too long for a label.")
    return {key: value.strip() for key, value in parse_qsl(body.decode("utf-8", "replace"))}


def labelled_site(request: Request) -> Any:
    """Return the site, or raise where it takes no labels."""
    site = request.app.state.site
    if not site.feedback:
        raise HTTPException(403, "Labels are switched off here.")
    return site


@contextmanager
def storing() -> Iterator[None]:
    """Tell a visitor that the label that they sent could not be stored."""
    try:
        yield
    except ExportError as error:
        raise HTTPException(503, f"The label could not be stored: {error}") from error


def submitter_of(request: Request) -> str:
    """Return who labels: the user of the app that mounted the viewer behind its log-in, if any."""
    return getattr(request.scope.get("user"), "display_name", "") or "viewer"


def _store(request: Request, form: dict[str, str]) -> Response:
    site = labelled_site(request)
    name, value = form.get("name", "")[:MAX_NAME], form.get("value", "")[:MAX_VALUE]
    if not name or not value:
        raise HTTPException(400, "A label needs a name and a value.")
    with site.readers.lend() as reader:
        span = reader.span(form.get("span_id", ""), form.get("trace_id"))
    if span is None:
        raise HTTPException(404, "There is no such trace in this store. It may have been pruned.")
    event = _event(request, span, name, value, form.get("note", "")[:MAX_NOTE])
    with storing():
        add_feedback(site.readers.path, event)
    back = url(root_of(request), f"/traces/{span.trace_id}", {"span": span.span_id})
    place = form.get("at", "")
    return RedirectResponse(f"{back}#{place if _PLACE.fullmatch(place) else 'labels'}", 303)


def _event(request: Request, span: SpanData, name: str, value: str, note: str) -> EvaluationEvent:
    submitter = {"id": submitter_of(request)}
    return human_label(span, name, _value(value), explanation=note or None, submitter=submitter)


def _value(text: str) -> float | str:
    """Return a label as a number if it is one, else as its text."""
    try:
        number = float(text)
    except ValueError:
        return text
    return number if isfinite(number) else text
