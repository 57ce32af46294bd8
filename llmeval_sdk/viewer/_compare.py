"""Two traces side by side: what was asked and answered, how long it took, and how it was scored."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from llmeval_sdk.model import Evaluation
from llmeval_sdk.store.latest import latest_of_span
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.traces import outline_of, traces_like
from llmeval_sdk.viewer._cells import Cell, cell_of
from llmeval_sdk.viewer._readers import state_of
from llmeval_sdk.viewer._render import page
from llmeval_sdk.viewer._trace import Detail, read_detail


_LONGEST = 64
_HEX = frozenset("0123456789abcdef-")


@dataclass(frozen=True, slots=True)
class ScorePair:
    """What one evaluator said of two spans."""

    name: str
    first: Cell | None
    second: Cell | None
    difference: float | None
    """The second score less the first, if both are numbers."""


def show(request: Request) -> Response:
    """Answer with two spans side by side.

    The address names each by the beginning of a trace's or a span's id, or by both ids with a
    hyphen between them.
    """
    named = [request.query_params.get(side, "").strip() for side in ("a", "b")]
    with request.app.state.site.readers.lend() as reader:
        sides = [_read(reader, text) for text in named]
        state = reader.read(state_of)
    missing = [text for text, side in zip(named, sides, strict=True) if text and side is None]
    first, second = sides
    pairs = _pairs(first, second) if first is not None and second is not None else []
    return page(
        request, "compare.html", 404 if missing else 200,
        named=named, sides=sides, pairs=pairs, missing=missing, state=state,
    )  # fmt: skip


def _read(reader: StoreReader, text: str) -> Detail | None:
    """Return what an address names; ``None`` if no span or several have such an id."""
    if not text or len(text) > _LONGEST or not _HEX.issuperset(text):
        return None
    trace_id, _, span_id = text.partition("-")
    if not span_id:
        matches = reader.read(lambda c: traces_like(c, trace_id))
        if len(matches) != 1:
            return None
        trace_id, span_id = matches[0][0], matches[0][1] or ""
    spans, _ = reader.read(lambda c: outline_of(c, trace_id))
    return read_detail(reader, trace_id, span_id or None, spans)


def _pairs(first: Detail, second: Detail) -> list[ScorePair]:
    by_name = [_evaluations(side) for side in (first, second)]
    pairs = []
    for name in sorted({*by_name[0], *by_name[1]}):
        one, other = (side.get(name) for side in by_name)
        cells = [None if each is None else cell_of(each) for each in (one, other)]
        values = [None if each is None else each.value for each in (one, other)]
        difference = None
        if isinstance(values[0], float) and isinstance(values[1], float):
            difference = values[1] - values[0]
        pairs.append(ScorePair(name, cells[0], cells[1], difference))
    return pairs


def _evaluations(side: Detail) -> dict[str, Evaluation]:
    events = latest_of_span(verdict.event for verdict in side.verdicts)
    return {event.evaluation.name: event.evaluation for event in events}
