"""Versions of the app against each other, by what judges say of their traffic."""

from __future__ import annotations

import time

from starlette.requests import Request
from starlette.responses import Response

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.store.comparison import compare
from llmeval_sdk.store.versions import dimension, dimensions
from llmeval_sdk.viewer import _live
from llmeval_sdk.viewer._render import page


def show(request: Request) -> Response:
    """Answer with each judge's comparison; what cannot be compared is said on the page."""
    asked = request.query_params.get("by", "").strip()
    baseline = request.query_params.get("baseline", "").strip() or None
    found, problem = None, ""
    with request.app.state.site.readers.lend() as reader:
        known = reader.read(dimensions)
        by = asked or (known[0] if known else "")
        if by:
            try:
                found = compare(
                    reader, dimension(by), until_ns=time.time_ns() + 1, baseline=baseline
                )
            except ConfigurationError as error:
                problem = str(error)
        state = reader.read(_live.state)
    versions = sorted({name for each in (found.compared if found else ())
                       for name in (each.baseline, each.version)})  # fmt: skip
    return page(
        request, "versions.html", 400 if problem else 200,
        by=by, known=known, found=found, problem=problem, baseline=baseline, versions=versions,
        state=state,
    )  # fmt: skip
