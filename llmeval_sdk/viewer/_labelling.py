"""Judged records handed out one by one, for people to say whether they are good."""

from __future__ import annotations

from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from llmeval_sdk import registry
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.store.labelling import (
    MOST,
    PLANNED,
    Queue,
    Shown,
    add_label,
    doubt,
    judges_of,
    pruned_sentence,
    queue,
    shown,
)
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.viewer._render import (
    MarkedText,
    as_text,
    marked,
    page,
    places,
    root_of,
    url,
    where_of,
)
from llmeval_sdk.viewer._site import state_of
from llmeval_sdk.viewer._trace import form_of, labelled_site, storing, submitter_of


MAX_SKIPPED = 50
"""How many records somebody may skip before the first of them comes again."""
VALUES = ("yes", "no")


def show(request: Request) -> Response:
    """Answer with the next record of a judge; ``span`` shows a certain one of the chosen again."""
    params = request.query_params
    site = labelled_site(request)
    with site.readers.lend(where_of(request)) as reader:
        judges = judges_of(reader)
        judge = params.get("judge") or (judges[0] if judges else "")
        chosen, problem = None, ""
        try:
            chosen = queue(reader, judge, _count(params.get("labels"))) if judge else None
        except ConfigurationError as error:
            problem = str(error)
        skipped = _skipped(params.get("skip", ""))
        record = _next(reader, chosen, skipped, params.get("span", "")) if chosen else None
        state = reader.read(state_of)
        doubted = doubt(reader, judge) if chosen else ""
    question = registry.question_of(judge)
    pruned = bool(chosen and chosen.waiting and record is None)
    answer = record and record.answer
    marks = record.unsupported if record and isinstance(answer, str) else ()
    return page(
        request, "label.html", 404 if problem else 200,
        judges=judges, judge=judge, queue=chosen, problem=problem, record=record, state=state,
        pruned=chosen and pruned and pruned_sentence(len(chosen.waiting)),
        labels=_count(params.get("labels")), skip=",".join(skipped), last=params.get("last", ""),
        request_text=record and marked(as_text(record.span.request)),
        answer=None if answer is None else marked(as_text(answer), marks),
        question=question and marked(question), doubt=doubted,
        passages=_passages(record) if record else [],
    )  # fmt: skip


def _passages(record: Shown) -> list[MarkedText]:
    """Return the retrieved texts, in which what extractions quote is marked."""
    quotes = [each.evidence for each in record.evidence]
    texts = [chunk.content or "" for chunk in record.chunks[:50]]
    return [marked(text, places(text, quotes)) for text in texts]


async def submit(request: Request) -> Response:
    """Store a label, or remember that a record was skipped, and lead on to the next one."""
    form = await form_of(request)
    return await run_in_threadpool(_store, request, form)


def _store(request: Request, form: dict[str, str]) -> Response:
    site = labelled_site(request)
    judge, span_id, value = form.get("judge", ""), form.get("span_id", ""), form.get("value", "")
    count, skipped = _count(form.get("labels")), _skipped(form.get("skip", ""))
    query: dict[str, str | int | None] = {"judge": judge, "labels": count}
    if value == "skip":
        skipped = [*(each for each in skipped if each != span_id), span_id][-MAX_SKIPPED:]
    elif value in VALUES:
        with site.readers.lend(where_of(request)) as reader:
            try:
                drawn = queue(reader, judge, count)
            except ConfigurationError as error:
                raise HTTPException(404, str(error)) from None
            span = reader.span(span_id)
        chosen = {each.id: each.chance for each in drawn.chosen}
        if span is None or span_id not in chosen:
            raise HTTPException(
                404, "This record is not among those that were chosen to be labelled."
            )
        with storing():
            add_label(
                site.readers.path, judge, span,
                value=value, chance=chosen[span_id], frame=drawn.frame, by=submitter_of(request),
            )  # fmt: skip
        query["last"] = span_id
    else:
        raise HTTPException(400, "A label is yes or no.")
    query["skip"] = ",".join(skipped)
    kept = {**query, "where": where_of(request)}
    return RedirectResponse(url(root_of(request), "/label", kept), 303)


def _next(reader: StoreReader, chosen: Queue, skipped: list[str], wanted: str) -> Shown | None:
    """Return the record to show: the wanted one, else the first that nobody labelled or skipped."""
    if wanted and any(each.id == wanted for each in chosen.chosen):
        return shown(reader, wanted)
    waiting = [each.id for each in chosen.waiting]
    order = [each for each in waiting if each not in skipped]
    order += [each for each in skipped if each in waiting]
    records = (shown(reader, each) for each in order)
    return next((record for record in records if record is not None), None)


def _count(text: str | None) -> int:
    is_count = text and text.isdecimal() and len(text) < 7
    return min(max(int(text), 1), MOST) if text and is_count else PLANNED


def _skipped(text: str) -> list[str]:
    ids = [quote(span_id, safe="") for span_id in text[:2_000].split(",") if span_id]
    return ids[-MAX_SKIPPED:]
