"""The page that compares versions of the app by what judges say about their traffic."""

from __future__ import annotations

import time

from starlette.requests import Request
from starlette.responses import Response

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.store.reader import dimensions
from llmeval_sdk.store.versions import compare, dimension
from llmeval_sdk.viewer._readers import state_of
from llmeval_sdk.viewer._render import page


def show(request: Request) -> Response:
    """Answer with the comparison of each judge; the page says what cannot be compared, and why."""
    wanted = request.query_params.get("by", "").strip()
    baseline = request.query_params.get("baseline", "").strip() or None
    comparison, problem = None, ""
    with request.app.state.site.readers.lend() as reader:
        known = reader.read(dimensions)
        by = wanted or (known[0] if known else "")
        if by:
            try:
                comparison = compare(
                    reader, dimension(by), until_ns=time.time_ns() + 1, baseline=baseline
                )
            except ConfigurationError as error:
                problem = str(error)
        state = reader.read(state_of)
    versions = sorted({name for pair in (comparison.compared if comparison else ())
                       for name in (pair.baseline, pair.version)})  # fmt: skip
    return page(
        request, "versions.html", 400 if problem else 200,
        by=by, known=known, comparison=comparison, problem=problem, baseline=baseline,
        versions=versions, state=state,
    )  # fmt: skip
