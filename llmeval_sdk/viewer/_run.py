"""The run of an agent as a time line: what was said, which tools were called, what went wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from llmeval_sdk.model import JUDGING, EvaluationEvent, Record, SpanData, Step
from llmeval_sdk.model.chat import is_note_of_a_cut, to_text
from llmeval_sdk.model.records import contributions_of, request_of, with_steps
from llmeval_sdk.model.runs import Run, hands_over, is_write
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.traces import (
    CallTexts,
    RunSpan,
    ToolSpan,
    longest_calls,
    spans_of_run,
    texts_of,
    tools_below,
)
from llmeval_sdk.viewer._cells import (
    Cell,
    Content,
    MarkedText,
    Node,
    cell,
    cell_of,
    folded,
    text_content,
)
from llmeval_sdk.viewer._render import as_text, preview


PAGE_STEPS = 40
_MOST_TEXT = 4_000
_MOST_NAMED = 200
"""Steps that are taken from the metadata of one evaluation."""
_NO_RUN = ("tool", "retrieval", "embedding")
"""Kinds of spans that are a part of a run and have none of their own."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What one evaluation says of a step."""

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
    """What was said; ``None`` for a tool call."""
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
    steps = _steps(reader, span, calls)
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
    for number, rating in _ratings(events):
        at.setdefault(number, []).append(rating)
    parallel = _parallel(by_number)
    numbers_by_id = {call.span.span_id: number for number, call in by_number.items()}
    shown_steps = []
    for number, step in enumerate(shown, first):
        call = page[number]
        seen = _shown(number, step, call, texts, tuple(at.get(number, ())))
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


def _steps(reader: StoreReader, span: SpanData, calls: Sequence[ToolSpan]) -> tuple[Step, ...]:
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
    effect: Any = span.effect if span.effect in ("read", "write") else None
    return Step(
        "tool", None, span.name, None, None, span.error, effect, span.start_ns, span.end_ns,
        call.agent,
    )  # fmt: skip


def _shown(
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
        arguments = _value(held.request, held.request_start)
        result = _value(held.response, held.response_start)
    elif step.role == "tool":
        arguments = None if step.arguments is None else folded(step.arguments)
        result = None if step.result is None else folded(step.result)
    start, end = step.start_ns, step.end_ns
    is_call = step.role == "tool"
    return ShownStep(
        number,
        step,
        None if is_call else text_content(as_text(step.content or ""), limit=_MOST_TEXT),
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


def _value(whole: str | None, start: str | None) -> Node | None:
    """Return a stored value as a tree; of one that is too long to be read, its beginning."""
    if start is None:
        return None
    with suppress(ValueError, RecursionError):
        if whole is not None:
            return folded(json.loads(whole))
    node = folded("")
    return replace(node, text=MarkedText(((preview(start, _MOST_TEXT), False),), 1))


_MOST_PARALLEL = 8


def _parallel(calls: Mapping[int, ToolSpan]) -> dict[int, tuple[int, ...]]:
    """Return for each call the calls beside it that were still under way when it began."""
    overlapping: dict[int, tuple[int, ...]] = {}
    open_calls: dict[str | None, list[tuple[int, int]]] = {}
    for number, call in calls.items():
        beside = open_calls.setdefault(call.inside, [])
        beside[:] = [one for one in beside if one[0] > call.span.start_ns][-_MOST_PARALLEL:]
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
        named = tuple(n for n in numbers[:_MOST_NAMED] if type(n) is int and n > 0)
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


def _ratings(events: Sequence[EvaluationEvent]) -> Iterator[tuple[int, Fault]]:
    """Yield how judges of steps rated them, each with the number of its step."""
    for event in events:
        metadata = event.evaluation.metadata
        arrays = [metadata.get(name) for name in ("rated_steps", "ratings", "rationales")]
        steps, ratings, reasons = (array if isinstance(array, list) else [] for array in arrays)
        for place, (number, rating) in enumerate(zip(steps, ratings, strict=False)):
            if type(number) is int and isinstance(rating, (str, bool, float)):
                why = as_text(reasons[place] or "")[:500] if place < len(reasons) else ""
                yield number, Fault(event.evaluation.name, cell(event.evaluation.name, rating), why)
