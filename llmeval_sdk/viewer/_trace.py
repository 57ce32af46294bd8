"""The page of one trace: its spans on a time line, one of them in detail, and labels for it.

The run of an agent is shown as a time line of its own: its messages, which tools were called, and
what went wrong.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from llmeval_sdk.errors import ExportError, LlmevalError
from llmeval_sdk.model import (
    JUDGE_TAG,
    JUDGING,
    Chunk,
    EvaluationEvent,
    Extraction,
    NotRun,
    Record,
    SpanData,
    Step,
    Target,
    is_stand_in,
    values,
)
from llmeval_sdk.model.chat import is_note_of_a_cut, to_text
from llmeval_sdk.model.records import contributions_of, request_of, with_steps
from llmeval_sdk.model.runs import Run, hands_over, is_write
from llmeval_sdk.statistics.reasons import FAILED, Reason, explain
from llmeval_sdk.store.labelling import add_feedback, human_label
from llmeval_sdk.store.latest import latest_of_span
from llmeval_sdk.store.reader import StoreReader, known_names
from llmeval_sdk.store.requests import INCOMPLETE, is_incomplete
from llmeval_sdk.store.traces import (
    CallTexts,
    JudgeRun,
    Outline,
    RunSpan,
    ToolSpan,
    judge_runs,
    longest_calls,
    outline_of,
    spans_of_run,
    texts_of,
    tools_below,
)
from llmeval_sdk.store.traffic import has_abstained
from llmeval_sdk.text.terminal import number as score_text
from llmeval_sdk.viewer._render import (
    Cell,
    Content,
    MarkedText,
    Node,
    as_text,
    cell,
    cell_of,
    colourless,
    content_of,
    folded,
    integer,
    marked,
    page,
    places,
    preview,
    root_of,
    text_content,
    url,
)
from llmeval_sdk.viewer._site import Site, state_of


if TYPE_CHECKING:
    from llmeval_sdk.offline import GoldenSet


# The golden sets beside the viewer's store, where offline evaluation is installed.


def _kept_in(request: Request, span_id: str) -> str:
    """Return the golden set that the address names, if this request is a row of it."""
    name = request.query_params.get("golden", "")
    try:
        golden = _set_of(request, name) if name else None
        ids = [row.get("request_id") for row in golden or ()]
    except (LlmevalError, HTTPException):
        return ""
    return name if span_id in ids else ""


def _set_of(request: Request, name: str) -> GoldenSet:
    """Return a golden set; raises `HTTPException` or `ConfigurationError` if it cannot be one."""
    from llmeval_sdk.offline import GoldenSet

    return GoldenSet(name, folder=request.app.state.site.readers.path.with_name("datasets"))


# Everything that the store knows about one span, arranged for its page.

MAX_CHUNKS = 200
MAX_CHUNK_TEXT = 3_000
_WORST_FIRST = ("bad", "fair", "good", "plain", "quiet")
_ARRAYS = ("ratings", "rationales", "error_messages")
_NAMED = ("model_name", "model_provider", "session_id")
"""Attributes that repeat a field of the span."""


@dataclass(frozen=True, slots=True)
class ShownVerdict:
    """The evaluation of the span by one evaluator."""

    event: EvaluationEvent
    cell: Cell
    why: str
    """Why a judge ran; empty for a heuristic."""
    details: Mapping[str, str]
    """The metadata that the page does not show elsewhere."""
    sides: tuple[str, str] | None
    """Two labels: what people choose to agree with the verdict, and what they choose to disagree.
    ``None`` for a verdict that is neither good nor bad."""
    said: str
    """The latest label that a person gave under the same name, or an empty text."""

    @property
    def judge(self) -> bool:
        """Whether the evaluator is a judge, whichever kind of model answered."""
        return self.event.evaluation.evaluator_kind in JUDGING

    @property
    def stand_in(self) -> bool:
        """Whether the rule-based stand-in gave this verdict, and no model."""
        return is_stand_in(self.event.evaluation)


@dataclass(frozen=True, slots=True)
class RetrievedChunk:
    """One retrieved chunk, with what was extracted from it and how judges rated it."""

    rank: int
    chunk: Chunk
    text: MarkedText
    """The text of the chunk, in which the evidence that extractions quote is marked."""
    cited_by: tuple[int, ...]
    ratings: tuple[tuple[str, Cell, str], ...]
    """A triple for each judge that rated the chunk: its name, the rating as shown, its reason."""


@dataclass(frozen=True, slots=True)
class Detail:
    """All that the page shows of one span."""

    span: SpanData
    request: Content
    response: Content
    unsupported: bool
    """Whether parts of the response are marked because the context does not support them."""
    verdicts: tuple[ShownVerdict, ...]
    refusals: tuple[tuple[NotRun, Reason], ...]
    people: tuple[tuple[EvaluationEvent, Cell, str], ...]
    """A triple for each label that a person gave: the event, the cell that shows it, the person."""
    said: Mapping[str, str]
    """The latest label under each name."""
    runs: tuple[JudgeRun, ...]
    passages: tuple[RetrievedChunk, ...]
    retrieved_by: Outline | None
    extractions: tuple[Extraction, ...]
    facts: Mapping[str, str]
    """Metadata, tags, metrics and whatever else the app annotated."""
    judged: Target | None
    """The span that was judged, if this span is a judge's own run."""


def read(reader: StoreReader, span: SpanData, source: Outline | None) -> Detail:
    """Read everything that the store knows about a span.

    ``source`` is the retrieval whose chunks the span was given, if it is another span.
    """
    events = reader.evaluations_of(span.span_id)
    counted = latest_of_span(events)
    failed = {event.evaluation.name for event in events if event.evaluation.error}
    refusals = [
        refusal
        for refusal in reader.not_run_of(span.span_id)
        if refusal.evaluator not in failed or refusal.reason not in FAILED
    ]
    holder = span if source is None or source.span_id == span.span_id else None
    if source is not None and holder is None:
        holder = reader.span(source.span_id, span.trace_id)
    chunks = holder.retrieved_context if holder is not None else None
    extractions = span.extractions or ()
    people = reader.feedback_of(span.span_id)
    labels = {label.evaluation.name: as_text(label.evaluation.value) for label in people}
    verdicts = (_verdict(event, labels.get(event.evaluation.name, "")) for event in events)
    if has_abstained({e.evaluation.name: e.evaluation.value for e in counted}):
        verdicts = (replace(verdict, cell=colourless(verdict.cell)) for verdict in verdicts)
    unsupported = _unsupported(counted) if isinstance(span.response, str) else ()
    return Detail(
        span,
        content_of(span.request),
        content_of(span.response, unsupported),
        bool(unsupported),
        tuple(sorted(verdicts, key=_first_to_look_at)),
        tuple((refusal, explain(refusal.reason)) for refusal in refusals),
        tuple((label, cell_of(label.evaluation), _who(label)) for label in people),
        labels,
        tuple(reader.read(lambda c: judge_runs(c, span.span_id))),
        _passages(chunks or (), extractions, counted),
        source,
        extractions,
        _facts(span),
        span.links[0] if span.links and JUDGE_TAG in span.tags else None,
    )


def _first_to_look_at(verdict: ShownVerdict) -> tuple[bool, int, str]:
    """Return a key that sorts judges before heuristics, and bad verdicts before good ones."""
    evaluation = verdict.event.evaluation
    is_judge = evaluation.evaluator_kind in JUDGING
    return not is_judge, _WORST_FIRST.index(verdict.cell.tone), evaluation.name


def _unsupported(events: Sequence[EvaluationEvent]) -> Sequence[Sequence[int]]:
    for event in events:
        if event.evaluation.name == "groundedness_risk":
            ranges = event.evaluation.metadata.get("unsupported_spans")
            return ranges if isinstance(ranges, list) else ()
    return ()


def _verdict(event: EvaluationEvent, label: str) -> ShownVerdict:
    evaluation = event.evaluation
    shown_elsewhere = {*_ARRAYS, "why", "unsupported_spans"}
    outcome = (evaluation.value, evaluation.label, evaluation.explanation)
    details = {
        name[:100]: _short(value)
        for name, value in evaluation.metadata.items()
        if name not in shown_elsewhere and value not in (None, [], "") and value not in outcome
    }
    why = as_text(evaluation.metadata.get("why") or "")[:500]
    return ShownVerdict(event, cell_of(evaluation), why, details, _sides(event), label)


def _who(event: EvaluationEvent) -> str:
    submitter = event.evaluation.metadata.get("submitter")
    return as_text(submitter.get("id", ""))[:100] if isinstance(submitter, dict) else ""


def _short(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return ", ".join(value)[:500]
    return score_text(value) if isinstance(value, float) else as_text(value)[:500]


def _sides(event: EvaluationEvent) -> tuple[str, str] | None:
    """Return the labels, ``yes`` or ``no``, for a thumb up and a thumb down on an evaluation.

    ``yes`` always means a good outcome, even for a risk; `llmeval judges` reads it the same way.
    """
    good = values.goodness_of(event.evaluation)
    if good is None:
        return None
    return ("yes", "no") if good >= 0.5 else ("no", "yes")


def _passages(
    chunks: Sequence[Chunk], extractions: Sequence[Extraction], events: Sequence[EvaluationEvent]
) -> tuple[RetrievedChunk, ...]:
    passages = []
    for rank, chunk in enumerate(chunks[:MAX_CHUNKS], 1):
        citing = [n for n, e in enumerate(extractions, 1) if e.chunk_number == rank]
        content = chunk.content or ""
        quotes = [extractions[n - 1].evidence for n in citing]
        shown = marked(content, places(content, quotes), MAX_CHUNK_TEXT)
        ratings = tuple(_ratings(rank, len(chunks), events))
        passages.append(RetrievedChunk(rank, chunk, shown, tuple(citing), ratings))
    return tuple(passages)


def _ratings(
    rank: int, count: int, events: Sequence[EvaluationEvent]
) -> list[tuple[str, Cell, str]]:
    chunk_ratings = []
    for event in events:
        arrays = [event.evaluation.metadata.get(name) for name in _ARRAYS]
        ratings, reasons, errors = (
            array if isinstance(array, list) and len(array) == count else [None] * count
            for array in arrays
        )
        rating, error = ratings[rank - 1], errors[rank - 1]
        if error is not None:
            chunk_ratings.append((event.evaluation.name, Cell("failed", "bad"), as_text(error)))
        elif isinstance(rating, (str, float, bool)):
            name = event.evaluation.name
            chunk_ratings.append((name, cell(name, rating), as_text(reasons[rank - 1] or "")))
    return chunk_ratings


def _facts(span: SpanData) -> dict[str, str]:
    facts: dict[str, Any] = {
        "model": " ".join(filter(None, (span.model_provider, span.model_name))),
        "session": span.session_id,
        **span.tags,
        **span.metrics,
        **span.attributes,
        **span.expected,
    }
    if span.usage is not None:
        facts["tokens"] = f"{span.usage.input_tokens:,} in, {span.usage.output_tokens:,} out"
        facts["cost"] = None if span.usage.cost_usd is None else f"${span.usage.cost_usd:.4f}"
    if span.prompt is not None:
        named = {"prompt": span.prompt.id, "prompt version": span.prompt.version}
        facts |= {**named, "prompt template": span.prompt.template}
    shown_elsewhere = {*_NAMED, as_text(span.request), as_text(span.response)}
    return {
        name[:100]: shown
        for name, value in facts.items()
        if value not in (None, "") and name not in shown_elsewhere
        if (shown := as_text(value)[:2_000]) not in shown_elsewhere
    }


_TEXTS = ("request", "response")


def show(request: Request) -> Response:
    """Answer with a trace: all of its spans, and one of them in detail.

    A trace may have more spans than the time line shows, so the span that the address names is read
    from the store whether or not it is among them.
    """
    trace_id = request.path_params["trace_id"]
    with request.app.state.site.readers.lend() as reader:
        spans, complete = reader.read(lambda c: outline_of(c, trace_id))
        detail = read_detail(reader, trace_id, request.query_params.get("span"), spans)
        if detail is None:
            raise HTTPException(
                404, "There is no such trace in this store. It may have been pruned."
            )
        span = detail.span
        events = latest_of_span(verdict.event for verdict in detail.verdicts)
        run = read_run(reader, span, events, integer(request.query_params.get("step"), 1))
        known = reader.read(known_names)
        state = reader.read(state_of)
        incomplete = INCOMPLETE if reader.read(lambda c: is_incomplete(c, trace_id)) else ""
    return page(
        request, "trace.html",
        detail=detail, bars=bars(spans), complete=complete, known=known, state=state,
        incomplete=incomplete,
        run=run, page_steps=PAGE_STEPS, golden=_kept_in(request, span.span_id),
    )  # fmt: skip


def read_detail(
    reader: StoreReader, trace_id: str, span_id: str | None, spans: Sequence[Outline]
) -> Detail | None:
    """Read a span of a trace, by default the first one with scores; ``None`` if it is not there.

    ``spans`` is the outline of the trace.
    """
    span = reader.span(span_id or _first_to_show(spans), trace_id)
    if span is None:
        return None
    return read(reader, span, _last_retrieval(spans, span.span_id))


def text(request: Request) -> Response:
    """Answer with the whole of one text, as ``text/plain``, so that nothing in it is run."""
    trace_id, span_id, field = (
        request.path_params[name] for name in ("trace_id", "span_id", "field")
    )
    with request.app.state.site.readers.lend() as reader:
        span = reader.span(span_id, trace_id)
    whole = None if span is None else _text(span, field)
    if whole is None:
        raise HTTPException(404, "There is no such text in this store.")
    return PlainTextResponse(as_text(whole).encode("utf-8", "backslashreplace"))


def _text(span: SpanData, field: str) -> object:
    """Return a field of a span or ``None``; ``chunk-3`` is the text of its third chunk."""
    if field in _TEXTS:
        return getattr(span, field)
    rank = field.removeprefix("chunk-")
    chunks = span.retrieved_context or ()
    known = rank.isdecimal() and len(rank) < 6 and 0 < int(rank) <= len(chunks)
    return chunks[int(rank) - 1].content if known else None


WIDTH = 1_000
"""Width of the time line in units of its own; the page scales it."""
_MIN_WIDTH = 4
_MAX_DEPTH = 12
_OWNERS = ("workflow", "agent")


@dataclass(frozen=True, slots=True)
class Bar:
    """One span: where it stands in the tree and on the time line."""

    span: Outline
    depth: int
    x: float
    width: float


def bars(spans: Sequence[Outline]) -> list[Bar]:
    """Lay out the spans of a trace, parents before children.

    A span whose parent is not in the trace is shown as a root.
    """
    if not spans:
        return []
    begin = min(span.start_ns for span in spans)
    whole = max(max(span.end_ns for span in spans) - begin, 1)
    laid_out = []
    for span, depth in _depth_first(spans):
        width = max((span.end_ns - span.start_ns) / whole * WIDTH, _MIN_WIDTH)
        x = min((span.start_ns - begin) / whole * WIDTH, WIDTH - _MIN_WIDTH)
        width = min(width, WIDTH - x)
        laid_out.append(Bar(span, min(depth, _MAX_DEPTH), round(x, 1), round(width, 1)))
    return laid_out


def _depth_first(spans: Sequence[Outline]) -> Iterator[tuple[Outline, int]]:
    children = _children(spans)
    ids = {span.span_id for span in spans}
    tops = [span for span in spans if span.parent_id not in ids or span.parent_id == span.span_id]
    waiting = [(span, 0) for span in reversed(tops)]
    seen: set[str] = set()
    while waiting:
        span, depth = waiting.pop()
        if span.span_id not in seen:
            seen.add(span.span_id)
            yield span, depth
            waiting += [(child, depth + 1) for child in reversed(children[span.span_id])]
    yield from ((span, 0) for span in spans if span.span_id not in seen)  # parents in a circle


def _children(spans: Sequence[Outline]) -> defaultdict[str | None, list[Outline]]:
    children: defaultdict[str | None, list[Outline]] = defaultdict(list)
    for span in spans:
        children[span.parent_id].append(span)
    return children


def _first_to_show(spans: Sequence[Outline]) -> str:
    """Return the id of the first span that has scores, else of the first one, else no id."""
    scored = (span.span_id for span in spans if span.evaluations)
    return next(scored, spans[0].span_id if spans else "")


def _last_retrieval(spans: Sequence[Outline], span_id: str) -> Outline | None:
    """Return the span whose chunks belong to a span: itself, else the last retrieval below it.

    Retrievals below another workflow or agent belong to that one instead.
    """
    by_id = {span.span_id: span for span in spans}
    if span_id in by_id and by_id[span_id].chunks:
        return by_id[span_id]
    children = _children(spans)
    waiting, seen = list(children[span_id]), {span_id}
    retrievals: list[Outline] = []
    while waiting:
        span = waiting.pop()
        if span.span_id in seen:
            continue
        seen.add(span.span_id)
        retrievals += [span] if span.chunks else []
        waiting += [] if span.kind in _OWNERS else children[span.span_id]
    return max(retrievals, key=lambda span: span.start_ns, default=None)


MAX_BODY = 20_000
MAX_NAME = 200
MAX_VALUE = 200
MAX_NOTE = 4_000
_PLACE = re.compile(r"main|score-\d{1,6}", re.ASCII)
"""The part of the page from which a label was sent, to which the browser returns."""


async def submit_label(request: Request) -> Response:
    """Store the label that a visitor sent, and lead the browser back to what it is about."""
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


def labelled_site(request: Request) -> Site:
    """Return the site, or raise where it takes no labels."""
    site: Site = request.app.state.site
    if not site.feedback:
        raise HTTPException(403, "Labels are switched off here.")
    return site


@contextmanager
def storing() -> Iterator[None]:
    """Tell a visitor that the label that they sent could not be stored."""
    try:
        yield
    except ExportError as error:
        raise HTTPException(503, f"The label could not be stored: {error}") from error


def submitter_of(request: Request) -> str:
    """Return who labels: the user of the app that mounted the viewer behind its log-in, if any."""
    return getattr(request.scope.get("user"), "display_name", "") or "viewer"


def _store(request: Request, form: dict[str, str]) -> Response:
    site = labelled_site(request)
    name, value = form.get("name", "")[:MAX_NAME], form.get("value", "")[:MAX_VALUE]
    if not name or not value:
        raise HTTPException(400, "A label needs a name and a value.")
    with site.readers.lend() as reader:
        span = reader.span(form.get("span_id", ""), form.get("trace_id"))
    if span is None:
        raise HTTPException(404, "There is no such trace in this store. It may have been pruned.")
    event = _event(request, span, name, value, form.get("note", "")[:MAX_NOTE])
    with storing():
        add_feedback(site.readers.path, event)
    back = url(root_of(request), f"/traces/{span.trace_id}", {"span": span.span_id})
    place = form.get("at", "")
    return RedirectResponse(f"{back}#{place if _PLACE.fullmatch(place) else 'labels'}", 303)


def _event(request: Request, span: SpanData, name: str, value: str, note: str) -> EvaluationEvent:
    submitter = {"id": submitter_of(request)}
    return human_label(span, name, _value(value), explanation=note or None, submitter=submitter)


def _value(text: str) -> float | str:
    """Return a label as a number if it is one, else as its text."""
    try:
        number = float(text)
    except ValueError:
        return text
    return number if isfinite(number) else text


# The form that keeps a request as a row of a golden set, beside the store.


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
        golden = _set_of(request, form.get("dataset", ""))
        golden.add(span_id, store=site.readers.path, expected_response=form.get("expected"))
    except LlmevalError as error:
        raise HTTPException(400, str(error)) from error
    query = {"span": span_id, "golden": golden.name}
    return RedirectResponse(f"{url(root_of(request), f'/traces/{trace_id}', query)}#golden", 303)


PAGE_STEPS = 40
_MAX_STEP_TEXT = 4_000
_MAX_NAMED = 200
"""Steps that are taken from the metadata of one evaluation."""
_NO_RUN = ("tool", "retrieval", "embedding")
"""Kinds of spans that are a part of a run and have none of their own."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault or rating of a step, from one evaluation."""

    name: str
    cell: Cell
    why: str
    """Its explanation; at a step only if it is about that step."""


@dataclass(frozen=True, slots=True)
class ShownStep:
    """One step as the page shows it."""

    number: int
    step: Step
    text: Content | None
    """The content of the message; ``None`` for a tool call."""
    arguments: Node | None
    result: Node | None
    after_ns: int | None
    """How long after the beginning of the run it began."""
    took_ns: int | None
    parallel: tuple[int, ...]
    """The numbers of calls that were under way at the same time and began before it."""
    inside: int | None
    """The number of the tool call that made it."""
    writes: bool
    hands_over: bool
    is_cut: bool
    """Whether it stands for steps that were left out."""
    faults: tuple[Fault, ...]
    span_id: str
    """The span of the call; empty if it has none."""


@dataclass(frozen=True, slots=True)
class RunPage:
    """A page of the steps of a run."""

    steps: tuple[ShownStep, ...]
    first: int
    total: int
    calls: int
    faults: tuple[tuple[Fault, tuple[int, ...]], ...]
    """What evaluations say of the run's steps: a fault with the numbers of its steps."""
    is_complete: bool
    """Whether all spans of the trace were read."""
    was_cut: bool
    """Whether an evaluation says that it did not read all of the run."""

    @property
    def last_page(self) -> int:
        """Return the number of the first step of the last page."""
        return (self.total - 1) // PAGE_STEPS * PAGE_STEPS + 1


def read_run(
    reader: StoreReader, span: SpanData, events: Sequence[EvaluationEvent], wanted: int
) -> RunPage | None:
    """Read the page of a span's run that holds the step ``wanted``; ``None`` if it is no run."""
    if span.kind in _NO_RUN or (span.kind == "llm" and not events):
        return None  # the request of a model call shows its messages
    spans, is_complete = reader.read(lambda c: spans_of_run(c, span.trace_id))
    top = RunSpan(span.span_id, span.parent_id, span.name, span.kind, 0, 0, None, None)
    calls = tools_below(spans, top)
    steps = _shown_steps(reader, span, calls)
    if not any(step.role == "tool" for step in steps):
        return None
    first = (min(max(wanted, 1), len(steps)) - 1) // PAGE_STEPS * PAGE_STEPS + 1
    shown = steps[first - 1 : first - 1 + PAGE_STEPS]
    offset = next((n for n, step in enumerate(steps) if step.role == "tool"), 0) if calls else 0
    by_number = {offset + n: call for n, call in enumerate(calls, 1)}
    page = {number: by_number.get(number) for number in range(first, first + len(shown))}
    ids = [call.span.span_id for call in page.values() if call is not None]
    texts = reader.read(lambda c: texts_of(c, span.trace_id, ids)) if ids else {}
    faults = _faults(events)
    at: dict[int, list[Fault]] = {}
    for fault, numbers in faults:
        for number in numbers:
            is_about = re.search(rf"\bstep {number}\b", fault.why) is not None
            at.setdefault(number, []).append(fault if is_about else replace(fault, why=""))
    for number, rating in _step_ratings(events):
        at.setdefault(number, []).append(rating)
    parallel = _parallel(by_number)
    numbers_by_id = {call.span.span_id: number for number, call in by_number.items()}
    shown_steps = []
    for number, step in enumerate(shown, first):
        call = page[number]
        seen = _shown_step(number, step, call, texts, tuple(at.get(number, ())))
        if call is not None:
            seen = replace(
                seen,
                after_ns=max(call.span.start_ns - span.start_ns, 0),
                parallel=parallel.get(number, ()),
                inside=numbers_by_id.get(call.inside or ""),
            )
        shown_steps.append(seen)
    return RunPage(
        tuple(shown_steps),
        first,
        len(steps),
        sum(step.role == "tool" for step in steps),
        tuple(faults),
        is_complete,
        any(event.evaluation.metadata.get("cut") is True for event in events),
    )


def _shown_steps(
    reader: StoreReader, span: SpanData, calls: Sequence[ToolSpan]
) -> tuple[Step, ...]:
    """Return the steps of a run with the numbers by which evaluators name them.

    Of tools that have spans only what tells them apart is known here; their texts are read later.
    """
    response = span.response if isinstance(span.response, str) else to_text(span.response)
    record = Record(request=request_of(span), response=response)
    if calls:
        record = replace(record, steps=tuple(_light(call) for call in calls))
    elif span.kind == "llm":
        record = with_steps(record, contributions_of(span, keeps=False))
    else:
        ids = reader.read(lambda c: longest_calls(c, span.trace_id))
        models = [reader.span(span_id, span.trace_id) for span_id in ids]
        left = [item for model in models if model for item in contributions_of(model, keeps=False)]
        record = with_steps(record, left)
    return Run(record).steps if record.steps else ()


def _light(call: ToolSpan) -> Step:
    span = call.span
    effects: dict[str | None, Literal["read", "write"]] = {"read": "read", "write": "write"}
    effect = effects.get(span.effect)
    return Step(
        "tool", None, span.name, None, None, span.error, effect, span.start_ns, span.end_ns,
        call.agent,
    )  # fmt: skip


def _shown_step(
    number: int,
    step: Step,
    call: ToolSpan | None,
    texts: Mapping[str, CallTexts],
    faults: tuple[Fault, ...],
) -> ShownStep:
    """Return what is shown of one step; what depends on other calls is added later."""
    arguments = result = None
    if call is not None:
        held = texts.get(call.span.span_id, CallTexts(None, None, None, None))
        arguments = _step_value(held.request, held.request_start)
        result = _step_value(held.response, held.response_start)
    elif step.role == "tool":
        arguments = None if step.arguments is None else folded(step.arguments)
        result = None if step.result is None else folded(step.result)
    start, end = step.start_ns, step.end_ns
    is_call = step.role == "tool"
    return ShownStep(
        number,
        step,
        None if is_call else text_content(as_text(step.content or ""), limit=_MAX_STEP_TEXT),
        arguments,
        result,
        None,
        None if start is None or end is None else max(end - start, 0),
        (),
        None,
        is_call and is_write(step),
        is_call and hands_over(step),
        is_note_of_a_cut(step),
        faults,
        "" if call is None else call.span.span_id,
    )


def _step_value(whole: str | None, start: str | None) -> Node | None:
    """Return a stored value as a tree; of one that is too long to be read, its beginning."""
    if start is None:
        return None
    with suppress(ValueError, RecursionError):
        if whole is not None:
            return folded(json.loads(whole))
    node = folded("")
    return replace(node, text=MarkedText(((preview(start, _MAX_STEP_TEXT), False),), 1))


_MAX_PARALLEL = 8


def _parallel(calls: Mapping[int, ToolSpan]) -> dict[int, tuple[int, ...]]:
    """Return for each call the calls beside it that were still under way when it began."""
    overlapping: dict[int, tuple[int, ...]] = {}
    open_calls: dict[str | None, list[tuple[int, int]]] = {}
    for number, call in calls.items():
        beside = open_calls.setdefault(call.inside, [])
        beside[:] = [one for one in beside if one[0] > call.span.start_ns][-_MAX_PARALLEL:]
        if beside:
            overlapping[number] = tuple(other for _, other in beside)
        beside.append((call.span.end_ns, number))
    return overlapping


def _faults(events: Sequence[EvaluationEvent]) -> list[tuple[Fault, tuple[int, ...]]]:
    """Return what evaluations of the run say of its steps, the bad ones first."""
    faults = []
    for event in events:
        evaluation = event.evaluation
        numbers = evaluation.metadata.get("steps")
        if evaluation.metadata.get("scope") == "session" or not isinstance(numbers, list):
            continue
        named = tuple(n for n in numbers[:_MAX_NAMED] if type(n) is int and n > 0)
        shown = cell_of(evaluation)
        if shown.tone == "good":  # few of many calls failed, or a judge found nothing wrong
            if evaluation.evaluator_kind in JUDGING:
                continue
            shown = replace(shown, tone="fair")
        if named:
            faults.append(
                (Fault(evaluation.name, shown, (evaluation.explanation or "")[:500]), named)
            )
    return sorted(faults, key=lambda fault: (fault[0].cell.tone != "bad", fault[0].name))


def _step_ratings(events: Sequence[EvaluationEvent]) -> Iterator[tuple[int, Fault]]:
    """Yield how judges of steps rated them, each with the number of its step."""
    for event in events:
        metadata = event.evaluation.metadata
        arrays = [metadata.get(name) for name in ("rated_steps", "ratings", "rationales")]
        steps, ratings, reasons = (array if isinstance(array, list) else [] for array in arrays)
        for place, (number, rating) in enumerate(zip(steps, ratings, strict=False)):
            if type(number) is int and isinstance(rating, (str, bool, float)):
                why = as_text(reasons[place] or "")[:500] if place < len(reasons) else ""
                yield number, Fault(event.evaluation.name, cell(event.evaluation.name, rating), why)
