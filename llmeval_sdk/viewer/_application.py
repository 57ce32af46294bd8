"""The viewer as one app: its routes, what they share, and how errors are shown."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from llmeval_sdk.store.damage import why_unreadable
from llmeval_sdk.viewer import (
    _comparisons,
    _labelling,
    _overview,
    _review,
    _scores,
    _sessions,
    _trace,
    _traces,
)
from llmeval_sdk.viewer._guard import Guard
from llmeval_sdk.viewer._render import page, root_of
from llmeval_sdk.viewer._site import (
    Background,
    BusyError,
    Menu,
    NoStoreError,
    Readers,
    SavedReportsBeside,
    Site,
    StoppedError,
    Watch,
    busy_page,
    stream,
)


class Viewer(Guard):
    """The ASGI app that `llmeval_sdk.viewer.app` returns."""

    def __init__(
        self, inner: Starlette, *, token: str | None, hosts: Collection[str] | None
    ) -> None:
        super().__init__(inner, token=token, hosts=hosts)
        self._site: Site = inner.state.site

    @property
    def first_page(self) -> str:
        """The path of the page to begin with: what needs review, or all traces if nothing does."""
        return "/review" if "/review" in self._site.menu.pages() else "/"

    def close(self) -> None:
        """Close the store, and end the streams of open pages within a second."""
        self._site.watch.stop()
        self._site.background.close()
        self._site.readers.close()


def build(
    store: str | os.PathLike[str] | None,
    *,
    token: str | None,
    hosts: Collection[str] | None,
    feedback: bool,
    metrics: bool,
    reports: str | os.PathLike[str] | None = None,
) -> Viewer:
    """Build the app from the arguments of `llmeval_sdk.viewer.app`."""
    readers = Readers(store)
    routes: list[BaseRoute] = [
        Route("/", _traces.show),
        Route("/traces/{trace_id}", _trace.show),
        Route("/traces/{trace_id}/{span_id}/{field}", _trace.text),
        Route("/sessions", _sessions.show_list),
        Route("/session", _sessions.show),
        Route("/compare", _comparisons.show_traces),
        Route("/scores", _scores.overview),
        Route("/scores/{evaluator:path}", _scores.detail),
        Route("/review", _review.show),
        Route("/review", _review.submit, methods=["POST"]),
        Route("/label", _labelling.show),
        Route("/label", _labelling.submit, methods=["POST"]),
        Route("/versions", _comparisons.show_versions),
        Route("/overview", _overview.show),
        Route("/experiments", _comparisons.show_reports),
        Route("/experiments/report", _comparisons.show_report),
        Route("/experiments/compare", _comparisons.show_report_pair),
        Route("/feedback", _trace.submit_label, methods=["POST"]),
        Route("/golden", _trace.submit, methods=["POST"]),
        Route("/events", stream),
        Mount("/static", StaticFiles(directory=Path(__file__).parent / "static")),
    ]
    if metrics:
        from llmeval_sdk.viewer._prometheus import metrics_page

        routes.append(Route("/metrics", metrics_page()))
    handlers: dict[Any, Any] = {
        NoStoreError: _no_store,
        HTTPException: _failed,
        BusyError: busy_page,
        StoppedError: busy_page,
        **dict.fromkeys(_OF_DAMAGE, _damaged),
    }
    inner = Starlette(routes=routes, exception_handlers=handlers)
    saved = SavedReportsBeside(readers, reports)
    inner.state.site = Site(
        readers, Watch(readers), feedback, Background(),
        Menu(readers, saved, labels=feedback), saved,
    )  # fmt: skip
    return Viewer(inner, token=token, hosts=hosts)


_OF_DAMAGE = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, sqlite3.Error)
"""What reading a store raises that holds what no release of ours has written."""


def _damaged(request: Request, error: Exception) -> Response:
    """Say why a store cannot be read; raise what happened without one."""
    path = request.app.state.site.readers.path
    if not path.exists():
        raise error
    return _no_store(request, NoStoreError(why_unreadable(path, error)))


def _no_store(request: Request, error: NoStoreError) -> Response:
    if request.method != "GET":
        return RedirectResponse(f"{root_of(request)}/", 303)
    return page(request, "empty.html", 503 if str(error) else 200, reason=str(error), state="")


def _failed(request: Request, error: HTTPException) -> Response:
    return page(
        request, "error.html", error.status_code,
        missing=error.status_code == 404, detail=error.detail, state="",
    )  # fmt: skip
