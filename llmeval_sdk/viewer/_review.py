"""The values that are probably wrong, one after the other, for people to say whether they are."""

from __future__ import annotations

from typing import NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from llmeval_sdk.evaluation.calibrations import of_chances
from llmeval_sdk.model import values
from llmeval_sdk.store.fields import ScoredField, doubtful_fields, moved, scored_field
from llmeval_sdk.store.labelling import Shown, add_feedback, human_label, shown
from llmeval_sdk.store.labels import EXTRACTION_JUDGE
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.state import state_path
from llmeval_sdk.viewer._render import (
    Cell,
    as_text,
    cell,
    day,
    marked,
    page,
    root_of,
    url,
    where_of,
)
from llmeval_sdk.viewer._site import state_of
from llmeval_sdk.viewer._trace import form_of, labelled_site, storing, submitter_of


MAX_LISTED = 50
"""The most doubtful values that the page lists."""
MAX_SKIPPED = 50
"""How many values somebody may skip before the first of them comes again."""
VALUES = ("yes", "no")
MAX_CHARACTERS = 20_000
"""Characters of a passage that are shown, more where the marked value stands behind them."""
_AROUND = 2_000
"""Characters that are shown before a value that stands behind the first `MAX_CHARACTERS`."""


class Passage(NamedTuple):
    """One passage, cut into parts by what is marked in it."""

    number: int
    parts: tuple[tuple[str, str], ...]
    """Texts with what they are: ``value``, ``rival``, or nothing for what is not marked."""


class Waiting(NamedTuple):
    """One doubtful value in the list of those that wait."""

    field: ScoredField
    chance: Cell


def show(request: Request) -> Response:
    """Answer with the most doubtful value; ``field`` shows a certain one, labelled or not."""
    params = request.query_params
    site = labelled_site(request)
    skipped = _skipped(params.get("skip", ""))
    fitted = of_chances(state_path(site.readers.path))
    calibration = None if fitted is None else fitted.calibration
    with site.readers.lend(where_of(request)) as reader:
        doubtful = reader.read(
            lambda store: doubtful_fields(store, most=MAX_LISTED, calibration=calibration)
        )
        state = reader.read(state_of)
        order = sorted(doubtful, key=lambda each: each.seq in skipped)
        wanted = _wanted(reader, params.get("field", ""))
        chosen = moved(wanted, calibration) if wanted else next(iter(order), None)
        record = shown(reader, chosen.span_id) if chosen else None
    rival = chosen.details.get("rival") if chosen else None
    return page(
        request, "review.html",
        chosen=chosen, chance=chosen and _chance(chosen), record=record, state=state,
        rival=rival if isinstance(rival, dict) else None, verdict=chosen and chosen.verdict,
        passages=_passages(chosen, record) if chosen and record else [],
        request_text=record and marked(as_text(record.span.request), limit=MAX_CHARACTERS),
        waiting=[Waiting(each, _chance(each)) for each in order if each != chosen],
        skip=",".join(map(str, skipped)), last=params.get("last", ""), above=values.DOUBTFUL_ABOVE,
        fitted=fitted, fitted_at=fitted and day(fitted.fitted_ns),
    )  # fmt: skip


def _chance(field: ScoredField) -> Cell:
    return cell(values.EXTRACTION_RISK, field.chance)


async def submit(request: Request) -> Response:
    """Store a label of a field, or remember that it was skipped, and lead on to the next one."""
    form = await form_of(request)
    return await run_in_threadpool(_store, request, form)


def _store(request: Request, form: dict[str, str]) -> Response:
    site = labelled_site(request)
    value, skipped = form.get("value", ""), _skipped(form.get("skip", ""))
    query: dict[str, str | int | None] = {}
    with site.readers.lend() as reader:
        field = _wanted(reader, form.get("field", ""))
        span = reader.span(field.span_id, field.trace_id) if field else None
    if field is None or span is None:
        raise HTTPException(404, "There is no such value in this store. It may have been pruned.")
    if value == "skip":
        skipped = [*(each for each in skipped if each != field.seq), field.seq][-MAX_SKIPPED:]
    elif value in VALUES:
        submitter = {"id": submitter_of(request)}
        label = human_label(span, EXTRACTION_JUDGE, value, field=field.path, submitter=submitter)
        with storing():
            add_feedback(site.readers.path, label)
        query["last"] = field.seq
    else:
        raise HTTPException(400, "A label is yes or no.")
    query["skip"] = ",".join(map(str, skipped))
    kept = {**query, "where": where_of(request)}
    return RedirectResponse(url(root_of(request), "/review", kept), 303)


def _wanted(reader: StoreReader, seq: str) -> ScoredField | None:
    """Return the field whose row number an address or a form holds, if there is one."""
    row = _row(seq)
    return None if row is None else reader.read(lambda store: scored_field(store, row))


def _skipped(text: str) -> list[int]:
    rows = map(_row, text[:2_000].split(","))
    return [row for row in rows if row is not None][-MAX_SKIPPED:]


def _row(text: str) -> int | None:
    """Read the number of a row, which SQLite keeps in 63 bits."""
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 19 else None


def _passages(field: ScoredField, record: Shown) -> list[Passage]:
    """Return the passages that hold the value or its rival; if none does, the first passages."""
    ranges: dict[int, list[tuple[int, int, str]]] = {}
    for role, place in (("value", field.details), ("rival", field.details.get("rival"))):
        if not isinstance(place, dict):
            continue
        number, start, end = (place.get(key) for key in ("chunk_number", "start", "end"))
        if (
            isinstance(number, int)
            and isinstance(start, int)
            and isinstance(end, int)
            and 1 <= number <= len(record.sources)
            and 0 <= start < end
        ):
            ranges.setdefault(number, []).append((start, end, role))
    numbers = sorted(ranges) or range(1, min(len(record.sources), 3) + 1)
    return [
        Passage(number, _parts(record.sources[number - 1].content or "", ranges.get(number, [])))
        for number in numbers
    ]


def _parts(text: str, ranges: list[tuple[int, int, str]]) -> tuple[tuple[str, str], ...]:
    """Cut a text at what is marked; of a long one, show what stands around the first mark."""
    first = min((start for start, _, _ in ranges), default=0)
    at = max(0, first - _AROUND) if first > MAX_CHARACTERS else 0
    stop = at + MAX_CHARACTERS
    parts = [("…", "")] if at else []
    for start, end, role in sorted(ranges):
        if start >= at and end <= stop:
            parts += [(text[at:start], ""), (text[start:end], role)]
            at = end
    parts += [(text[at:stop], ""), ("…" if len(text) > stop else "", "")]
    return tuple(part for part in parts if part[0])
