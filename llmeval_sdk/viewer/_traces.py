"""The list of traces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from llmeval_sdk.store import names, pages, traces
from llmeval_sdk.store.names import Known
from llmeval_sdk.store.pages import Item, Page
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.viewer import _filters, _live
from llmeval_sdk.viewer._cells import Cell, cell_of_said, cells_of_said
from llmeval_sdk.viewer._filters import Filters
from llmeval_sdk.viewer._render import page, url


NOTHING = Page((), None, 0, full=False)
_HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class Row:
    """One span of the list with what was said of it."""

    item: Item
    cells: Mapping[str, Cell]
    people: tuple[tuple[str, Cell], ...]


def show(request: Request) -> Response:
    """Answer with one page of the list."""
    site = request.app.state.site
    with site.readers.lend() as reader:
        known: Known = reader.read(names.known)
        filters = _filters.read(request.query_params, known)
        if filters.query.text and (found := _by_id(reader, filters.query.text)):
            trace_id, span_id = found
            root = str(request.scope.get("root_path", "")).rstrip("/")
            return RedirectResponse(url(root, f"/traces/{trace_id}", {"span": span_id}), 303)
        result = NOTHING if filters.refused else _page(reader, filters)
        spans = {item.span_id for item in result.items}
        scores, people = reader.read(lambda c: pages.said_of(c, spans))
        state = reader.read(_live.state)
        stood_in = reader.stood_in(name for name in filters.columns if name in known.judges)
    rows = [
        Row(
            item,
            cells_of_said(scores.get(item.span_id, {})),
            tuple(
                (name, cell_of_said(each)) for name, each in people.get(item.span_id, {}).items()
            ),
        )
        for item in result.items
    ]
    return page(
        request, "traces.html",
        rows=rows, result=result, filters=filters, known=known, state=state, ranges=_filters.RANGES,
        stood_in=stood_in,
    )  # fmt: skip


def _page(reader: StoreReader, filters: Filters) -> Page:
    return reader.read(lambda c: pages.page(c, filters.query, filters.after))


def _by_id(reader: StoreReader, text: str) -> tuple[str, str | None] | None:
    """Return the one trace, and span, whose id begins with what was searched for."""
    wanted = text.strip().lower()
    if not 8 <= len(wanted) <= 32 or not _HEX.issuperset(wanted):
        return None
    found = reader.read(lambda c: traces.traces_like(c, wanted))
    return found[0] if len(found) == 1 else None
