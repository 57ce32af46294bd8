"""The golden sets beside the viewer's store, where offline evaluation is installed."""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request

from llmeval_sdk import registry
from llmeval_sdk.errors import LlmevalError


_GOLDEN_SET = "llmeval_sdk.offline:GoldenSet"
"""Offline evaluation is a part of its own, which an installation may lack."""


def kept_in(request: Request, span_id: str) -> str:
    """Return the golden set that the address names, if this request is a row of it."""
    name = request.query_params.get("golden", "")
    try:
        golden = set_of(request, name) if name else None
        ids = [row.get("request_id") for row in golden or ()]
    except (LlmevalError, HTTPException):
        return ""
    return name if span_id in ids else ""


def set_of(request: Request, name: str) -> Any:
    """Return a golden set; raises `HTTPException` or `ConfigurationError` if it cannot be one."""
    make = registry.part(_GOLDEN_SET)
    if make is None:
        raise HTTPException(404, "Offline evaluation is not part of this installation.")
    return make(name, folder=request.app.state.site.readers.path.with_name("datasets"))
