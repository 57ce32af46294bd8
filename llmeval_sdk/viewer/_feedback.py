"""What a visitor says of a trace or of an evaluation, kept as `submit_feedback` keeps it."""

from __future__ import annotations

import re
import secrets
import time
from math import isfinite
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from llmeval_sdk.errors import ExportError
from llmeval_sdk.model import Evaluation, EvaluationEvent, SpanData, Target
from llmeval_sdk.store.feedback import add_feedback
from llmeval_sdk.viewer._render import url


MAX_BODY = 20_000
MAX_NAME = 200
MAX_VALUE = 200
MAX_NOTE = 4_000
_PLACE = re.compile(r"main|score-\d{1,6}", re.ASCII)
"""Where on the page somebody was when they labelled."""


async def submit(request: Request) -> Response:
    """Store a label and lead back to what it is about."""
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


def _store(request: Request, form: dict[str, str]) -> Response:
    site = request.app.state.site
    if not site.feedback:
        raise HTTPException(403, "Labels are switched off here.")
    name, value = form.get("name", "")[:MAX_NAME], form.get("value", "")[:MAX_VALUE]
    if not name or not value:
        raise HTTPException(400, "A label needs a name and a value.")
    with site.readers.lend() as reader:
        span = reader.span(form.get("span_id", ""), form.get("trace_id"))
    if span is None:
        raise HTTPException(404, "There is no such trace in this store. It may have been pruned.")
    event = _event(request, span, name, value, form.get("note", "")[:MAX_NOTE])
    try:
        add_feedback(site.readers.path, event)
    except ExportError as error:
        raise HTTPException(503, f"The label could not be stored: {error}") from error
    root = str(request.scope.get("root_path", "")).rstrip("/")
    back = url(root, f"/traces/{span.trace_id}", {"span": span.span_id})
    place = form.get("at", "")
    return RedirectResponse(f"{back}#{place if _PLACE.fullmatch(place) else 'labels'}", 303)


def _event(request: Request, span: SpanData, name: str, value: str, note: str) -> EvaluationEvent:
    user = request.scope.get("user")  # where an app of its own mounted us behind its login
    submitter = getattr(user, "display_name", "") or "viewer"
    evaluation = Evaluation(
        name,
        _value(value),
        explanation=note or None,
        metadata={"submitter": {"id": submitter}},
        evaluator_kind="human",
    )
    target = Target(span.trace_id, span.span_id, span.name, span.kind)
    serial = f"{span.span_id}-{name}-{secrets.token_hex(8)}"
    return EvaluationEvent(serial, target, evaluation, time.time_ns())


def _value(text: str) -> float | str:
    """Read a label that is a number as one."""
    try:
        number = float(text)
    except ValueError:
        return text
    return number if isfinite(number) else text
