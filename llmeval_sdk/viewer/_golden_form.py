"""The form that keeps a request as a row of a golden set, beside the store."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from llmeval_sdk.errors import LlmevalError
from llmeval_sdk.viewer._golden import set_of
from llmeval_sdk.viewer._render import root_of, url
from llmeval_sdk.viewer._trace import form_of, labelled_site


async def submit(request: Request) -> Response:
    """Add the request to the set that a visitor named, and lead the browser back to it."""
    form = await form_of(request)
    return await run_in_threadpool(_add, request, form)


def _add(request: Request, form: dict[str, str]) -> Response:
    site = labelled_site(request)
    trace_id, span_id = form.get("trace_id", ""), form.get("span_id", "")
    with site.readers.lend() as reader:
        span = reader.span(span_id, trace_id)
    if span is None:
        raise HTTPException(404, "There is no such trace in this store. It may have been pruned.")
    try:
        golden = set_of(request, form.get("dataset", ""))
        golden.add(span_id, store=site.readers.path, expected_response=form.get("expected"))
    except LlmevalError as error:
        raise HTTPException(400, str(error)) from error
    query = {"span": span_id, "golden": golden.name}
    return RedirectResponse(f"{url(root_of(request), f'/traces/{trace_id}', query)}#golden", 303)
