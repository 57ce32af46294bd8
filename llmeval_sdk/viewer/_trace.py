"""The page of one trace."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from llmeval_sdk.model import SpanData
from llmeval_sdk.store import names, traces
from llmeval_sdk.viewer import _detail, _format, _live
from llmeval_sdk.viewer._render import page
from llmeval_sdk.viewer._waterfall import bars, chosen


_TEXTS = ("request", "response")


def show(request: Request) -> Response:
    """Answer with a trace: its spans, and one of them in detail."""
    trace_id = request.path_params["trace_id"]
    with request.app.state.site.readers.lend() as reader:
        spans, complete = reader.read(lambda c: traces.outline(c, trace_id))
        asked = request.query_params.get("span")
        outline = chosen(spans, asked)
        if asked and (outline is None or outline.span_id != asked):
            outline = None  # beyond the first of a huge trace, or not here at all
        span = reader.span(asked or (outline.span_id if outline else ""), trace_id)
        if span is None:
            raise HTTPException(
                404, "There is no such trace in this store. It may have been pruned."
            )
        detail = _detail.read(reader, span, spans)
        known = reader.read(names.known)
        state = reader.read(_live.state)
    return page(
        request, "trace.html",
        detail=detail, bars=bars(spans), complete=complete, known=known, state=state,
    )  # fmt: skip


def text(request: Request) -> Response:
    """Answer with the whole of a text, as nothing but text."""
    trace_id, span_id, field = (
        request.path_params[name] for name in ("trace_id", "span_id", "field")
    )
    with request.app.state.site.readers.lend() as reader:
        span = reader.span(span_id, trace_id)
    whole = None if span is None else _text(span, field)
    if whole is None:
        raise HTTPException(404, "There is no such text in this store.")
    return PlainTextResponse(_format.text(whole).encode("utf-8", "backslashreplace"))


def _text(span: SpanData, field: str) -> object:
    """Return a field of a span; ``chunk-3`` is the text of the third chunk that it retrieved."""
    if field in _TEXTS:
        return getattr(span, field)
    rank = field.removeprefix("chunk-")
    chunks = span.retrieved_context or ()
    known = rank.isdecimal() and len(rank) < 6 and 0 < int(rank) <= len(chunks)
    return chunks[int(rank) - 1].content if known else None
