"""Makes the Record that evaluators see of finished spans, whoever made the spans.

The same code serves live requests, spans of other libraries, traces in a data set, requests read
back from the store and apps that run offline. A span that ends contributes to the evaluated span
above it (`contributions_of`): the documents of a retrieval, the tokens of a model call, annotations
for the request. `record_of` makes a Record of a span and of its contributions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, TypeVar

from llmeval_sdk.model import (
    NOTHING,
    Chunk,
    Extraction,
    Failure,
    Prompt,
    Record,
    SpanKind,
    Step,
    Usage,
)
from llmeval_sdk.model.chat import (
    is_answer,
    last_message,
    messages_of,
    read_call,
    text_of,
    to_answer,
    to_text,
)
from llmeval_sdk.model.fields import CONTEXT_ARGUMENTS, TRUNCATED, to_chunk, to_chunks
from llmeval_sdk.model.placeholders import (
    NOT_READ,
    Path,
    Placeholder,
    evidence,
    paths_in,
    places,
    without_paths,
)


# The gate of evidence: what was not read is never an answer, a value or a passage.


def paths_not_read(
    response: object,
    value: object,
    chunks: Sequence[Chunk] | None,
    extractions: Sequence[Extraction] | None,
) -> list[Path]:
    """Return the attribute `NOT_READ` of a span: where the placeholders of its answer stand."""
    paths = paths_in("response", response) + paths_in("value", value)
    for place, chunk in enumerate(chunks or ()):
        if type(chunk.content) is Placeholder:
            paths.append(["retrieved_context", place])
    for place, one in enumerate(extractions or ()):
        if one.value is not None and evidence(one.value) is None:
            paths.append(["extractions", place])
    return paths


def _answer(span: FinishedSpan, name: str) -> Any:
    """Return the response, or another such field of a span, without what was not read."""
    value, paths = getattr(span, name), (span.attributes or NOTHING).get(NOT_READ)
    return value if paths is None else without_paths(name, value, paths)


def _passages(span: FinishedSpan) -> tuple[Chunk, ...] | None:
    """Return the passages of a span; those that were not read keep their place, without a text."""
    chunks, paths = span.retrieved_context, (span.attributes or NOTHING).get(NOT_READ)
    return chunks if paths is None or chunks is None else _only_read(chunks, paths)


def _only_read(chunks: tuple[Chunk, ...], paths: object) -> tuple[Chunk, ...]:
    gone = places("retrieved_context", paths)
    return tuple(
        replace(chunk, content=None) if place in gone else chunk
        for place, chunk in enumerate(chunks)
    )


_END = 60
"""Characters within which `TRUNCATED` begins at the end of a text that was cut."""


def lacks_passages(record: Record) -> bool:
    """Say whether a record lacks passages, or ends of them, because there were too many to keep."""
    return any(
        chunk.doc_uri is None if chunk.content is None else TRUNCATED in chunk.content[-_END:]
        for chunk in record.retrieved_context or ()
    )


def without_marks(record: Record) -> Record:
    """Return a record without what capturing wrote at the end of texts that it cut.

    How many characters are missing is no number of the app's, which a score could look for.
    """
    changed: dict[str, Any] = {}
    for name in ("request", "response"):
        text = getattr(record, name)
        if type(text) is str and TRUNCATED in text[-_END:]:
            changed[name] = _unmarked(text)
    if lacks_passages(record):
        changed["retrieved_context"] = tuple(
            replace(chunk, content=_unmarked(chunk.content)) if chunk.content else chunk
            for chunk in record.retrieved_context or ()
        )
    return replace(record, **changed) if changed else record


def _unmarked(text: str) -> str:
    return text[: text.rfind(TRUNCATED)] if TRUNCATED in text[-_END:] else text


def _extractions(span: FinishedSpan) -> tuple[Extraction, ...] | None:
    extractions, paths = span.extractions, (span.attributes or NOTHING).get(NOT_READ)
    if paths is None or extractions is None:
        return extractions
    gone = places("extractions", paths)
    return tuple(one for place, one in enumerate(extractions) if place not in gone)


def _results(span: FinishedSpan) -> tuple[Any, Any, tuple[Extraction, ...] | None]:
    """Return response, value and extractions of a span, without what was not read."""
    if NOT_READ not in (span.attributes or NOTHING):
        return span.response, span.value, span.extractions
    return _answer(span, "response"), _answer(span, "value"), _extractions(span)


def with_evidence(record: Record) -> Record:
    """Return a Record whose texts became placeholders after it was made, without those."""
    paths = paths_not_read(
        record.response, record.value, record.retrieved_context, record.extractions
    )
    steps = record.steps and tuple(
        replace(step, result=evidence(step.result)) for step in record.steps
    )
    if not paths:
        return record if steps == record.steps else replace(record, steps=steps)
    gone = places("extractions", paths)
    return replace(
        record,
        response=evidence(record.response),
        value=evidence(record.value),
        retrieved_context=record.retrieved_context and _only_read(record.retrieved_context, paths),
        extractions=record.extractions
        and tuple(one for place, one in enumerate(record.extractions) if place not in gone),
        steps=steps,
        attributes={**record.attributes, NOT_READ: paths},
    )


# The messages of model calls.


class Conversation(NamedTuple):
    """The messages of a model call, for the evaluated span that it belongs to.

    Where no span shows the tools, the messages show what the agent did; see `with_steps`.
    """

    messages: Sequence[object]
    response: object
    tools: Any
    """The tools that the model was offered, as they were written."""


def conversation_of(span: Any) -> Conversation | None:
    """Return the messages of the span of a model call; ``None`` where it was asked otherwise."""
    asked = span.arguments if span.request is None else span.request
    messages = messages_of(asked)
    if messages is None or type(messages[-1]) is not dict:
        return None
    tools = asked.get("tools") if isinstance(asked, Mapping) else None
    return Conversation(messages, _answer(span, "response"), tools)


def with_steps(record: Record, gathered: Iterable[object] | None) -> Record:
    """Add what the messages of the longest model call tell of a run: tools, and missing steps.

    Reading messages takes its time, so this is no part of `record_of`, which the app waits for.
    """
    held = [item for item in gathered or () if type(item) is Conversation]
    if not held:
        return record
    messages, response, offered = max(held, key=_length)
    steps, tools = read_call(evidence(messages) or (), response, offered)
    return replace(record, steps=record.steps or steps, tools=record.tools or tools)


def _length(conversation: Conversation) -> int:
    return len(conversation.messages)


# All that an app had to go by when it answered: documents, and what tools returned.

_MAX_RESULTS = 50
"""Of the tool calls of a run, the last ones count."""
_MAX_TEXT = 64_000
"""Characters of all results together; one that is longer than its share is cut."""


def evidence_of(record: Record) -> tuple[Chunk, ...] | None:
    """Return the retrieved chunks, and after them a chunk for each call of a tool.

    Those of tools have the ``retrieval_method`` ``tool`` and begin with the tool's name, so that a
    reader knows where the text comes from. The arguments of a call are not in them: the model wrote
    those itself. ``None`` where there is neither.
    """
    steps = enumerate(record.steps or (), 1)
    calls = [(number, step) for number, step in steps if _brought_something(step)]
    results = [_chunk(number, step, _MAX_TEXT // len(calls[-_MAX_RESULTS:]))
               for number, step in calls[-_MAX_RESULTS:]]  # fmt: skip
    chunks = record.retrieved_context
    return chunks if not results else (*(chunks or ()), *results)


def _brought_something(step: Step) -> bool:
    return step.role == "tool" and (step.result is not None or step.error is not None)


def _chunk(number: int, step: Step, most: int) -> Chunk:
    outcome = "returned" if step.error is None else f"failed: {step.error};"
    text = f"tool {step.name} {outcome} {(to_text(step.result) or '')[:most]}"
    about = {"tool": step.name, "step": number}
    return Chunk(text, None, None, None, None, "tool", about)


# Reads question, contexts and answer of an ``llm`` span that has a prompt.
#
# The prompt's variables come first, as in Datadog's evaluators, and then the last messages.


def question_of(prompt: Prompt, request: object) -> object:
    """Return the prompt's question variables, else the last input message."""
    values = (prompt.variables.get(name) for name in prompt.rag_query_variables)
    question = " ".join(text for value in values if value and (text := _text_of_variable(value)))
    return question or last_message(request) or request


def _holds_contexts(prompt: Prompt) -> bool:
    """Say whether a prompt has a variable that holds passages, or says that there are none."""
    return bool(prompt.variables) and bool(_held(prompt))


def _contexts_of(prompt: Prompt) -> tuple[Chunk, ...] | None:
    """Return the passages in the prompt's context variables, each of which holds one or several.

    ``None`` where the prompt has none of these variables, or only blank texts in them: its context
    is not known. An empty list says that nothing was retrieved.
    """
    held = _held(prompt)
    if not held:
        return None
    passages: list[Chunk] = []
    for value in held:
        several = to_chunks(value)
        one = to_chunk(value) if several is None else None
        passages.extend(several or ([one] if one is not None else []))
    return tuple(passages)


def _held(prompt: Prompt) -> list[object]:
    """Return what the context variables hold, but for blank texts."""
    values = [prompt.variables.get(name) for name in prompt.rag_context_variables]
    return [
        value
        for value in values
        if value is not None
        and type(value) is not Placeholder
        and not (isinstance(value, str) and not value.strip())
    ]


def _text_of_variable(value: object) -> str | None:
    return None if value is None else text_of(value) or str(value)


# The contributions of a finished span to the evaluated span above it, whoever made the two.
#
# A live span gets these items one by one, as the spans below it end. For spans that are all
# there at once, such as those of another library or of a store, `rolled_up` collects the
# same items.

ENDED_WITHOUT_ANSWER = ("cancelled", "control_flow")
"""Attributes of a span that an exception ended without a failure: nobody waits for its answer."""
OWNERS = ("workflow", "agent")
"""Kinds of spans that are always evaluated; what is below one of them belongs to it."""
_NOTED = ("value", "confidence", "field_config", "retrieval")


class FinishedSpan(Protocol):
    """What can be read of a span that has ended: of a live span of ours, or of `SpanData`."""

    @property
    def trace_id(self) -> str:
        """The id of its trace."""

    @property
    def span_id(self) -> str:
        """Its own id."""

    @property
    def parent_id(self) -> str | None:
        """The id of the span above it."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def kind(self) -> SpanKind:
        """Its kind."""

    @property
    def start_ns(self) -> int:
        """When it began."""

    @property
    def end_ns(self) -> int:
        """When it ended."""

    @property
    def arguments(self) -> Mapping[str, object] | None:
        """What the function was called with, by name."""

    @property
    def request(self) -> Any:
        """What was asked, where it was annotated; otherwise it follows from the arguments."""

    @property
    def response(self) -> Any:
        """What was answered."""

    @property
    def retrieved_context(self) -> tuple[Chunk, ...] | None:
        """The retrieved chunks in rank order."""

    @property
    def extractions(self) -> tuple[Extraction, ...] | None:
        """What was taken from the chunks."""

    @property
    def value(self) -> Any:
        """The aggregated value."""

    @property
    def confidence(self) -> Any:
        """How sure the aggregation is."""

    @property
    def field_config(self) -> Any:
        """What is known of the extracted field."""

    @property
    def retrieval(self) -> Any:
        """How it was searched."""

    @property
    def expected(self) -> Mapping[str, Any] | None:
        """Ground truth, by field of Record."""

    @property
    def attributes(self) -> Mapping[str, Any] | None:
        """What the app noted."""

    @property
    def prompt(self) -> Prompt | None:
        """The prompt of a model call."""

    @property
    def usage(self) -> Usage | None:
        """The tokens of a model call."""

    @property
    def metrics(self) -> Mapping[str, float] | None:
        """Its numbers."""

    @property
    def model_name(self) -> str | None:
        """The model that was called."""

    @property
    def error(self) -> Failure | None:
        """How it failed."""

    @property
    def tags(self) -> Mapping[str, str] | None:
        """Its labels."""


class Retrieved(NamedTuple):
    """The documents of one retrieval, for the evaluated span that they belong to."""

    start_ns: int
    chunks: tuple[Chunk, ...]
    retrieval: Any = None
    """How it was searched."""


class Spent(NamedTuple):
    """The usage of a model call, for the evaluated span that it belongs to."""

    usage: Usage
    model: str | None = None
    """The model, by which the usage has a price."""
    metrics: Mapping[str, float] = NOTHING
    """Its cached tokens, which have a price of their own."""


ANSWERED = object()
"""The contribution of an ``llm`` span with a prompt and a response, which judges can look at."""

PROMPTED = "prompted"
"""The note under which an ``llm`` span contributes a prompt with passages in it; its chunks, where
it comes from a spool."""

Contribution = Any
"""One item that a finished span contributes to the evaluated span above it.

It is a `Retrieved`, `Spent` or `Conversation`, a tuple of Extractions, `ANSWERED`, the `Step` of a
tool call, or a mapping of annotations by field of Record."""

EFFECT_TAG = "tool.effect"
"""The tag in which a tool's span says whether the tool reads or writes."""


def tool_call(span: FinishedSpan) -> Step:
    """Return the step that the span of a tool stands for."""
    effect: object = (span.tags or NOTHING).get(EFFECT_TAG)
    return Step(
        "tool",
        None,
        span.name,
        span.arguments if span.request is None else span.request,
        _answer(span, "response"),
        None if span.error is None else f"{span.error.type}: {span.error.message}",
        effect if effect in ("read", "write") else None,
        span.start_ns,
        span.end_ns,
        span_id=span.span_id,
    )


def named(item: Contribution, agent: str) -> Contribution:
    """Name the agent of a step that belongs to an agent below another one."""
    return replace(item, agent=agent) if type(item) is Step and item.agent is None else item


def steps_above(span: FinishedSpan, gathered: Iterable[Contribution] | None) -> list[Contribution]:
    """Return the steps of an evaluated span below an agent, which are steps of that one, too."""
    return [named(item, span.name) for item in gathered or () if type(item) is Step]


def contributions_of(  # noqa: C901, PLR0912
    span: FinishedSpan,
    gathered: Iterable[Contribution] | None = None,
    *,
    keeps: bool,
) -> list[Contribution]:
    """Return the contributions of a finished span to the evaluated span above it.

    Args:
        span: the span that ended.
        gathered: the contributions of the spans below it.
        keeps: whether the span is evaluated itself. Its extractions and annotations are then its
            own. Its documents and tokens still count for the request above it.
    """
    kind, extractions, usage = span.kind, _extractions(span), span.usage
    contributions: list[Contribution] = []
    if gathered:
        own: tuple[type, ...] = () if extractions is None or kind not in OWNERS else (tuple,)
        own = (tuple, dict) if keeps else own
        if kind == "llm" and usage is not None:
            own = (*own, Spent)  # its usage includes that of the calls inside it
        contributions = [item for item in gathered if type(item) not in own]
    chunks = _passages(span)
    if kind == "retrieval" and chunks is not None:
        retrieval = _retrieval_of(span, _notes_of(gathered))
        contributions.append(Retrieved(span.start_ns, chunks, retrieval))
    if kind == "tool":
        contributions.append(tool_call(span))
    if kind == "agent":
        contributions = [named(item, span.name) for item in contributions]
    if kind == "llm":
        if usage is not None:
            contributions.append(Spent(usage, span.model_name, span.metrics or NOTHING))
        if (conversation := conversation_of(span)) is not None:
            contributions.append(conversation)
        if span.prompt is not None and _answer(span, "response") is not None:
            contributions.append(ANSWERED)
        if span.prompt is not None and _holds_contexts(span.prompt):
            contributions.append({PROMPTED: span.prompt})
    if keeps:
        if kind == "retrieval" and span.retrieval is not None:
            contributions.append({"retrieval": span.retrieval})
        return contributions
    if extractions is not None:
        contributions.append(extractions)
    notes = {name: note for name in _NOTED if (note := _answer(span, name)) is not None}
    if span.expected:
        notes.update(span.expected)
    if chunks is not None and kind != "retrieval":
        notes["retrieved_context"] = chunks
    if notes:
        contributions.append(notes)
    return contributions


_Span = TypeVar("_Span", bound=FinishedSpan)


def rolled_up(top: _Span, spans: Iterable[_Span], *, whole: bool = False) -> list[Contribution]:
    """Return the contributions of finished spans to one above them.

    A span below another workflow or agent belongs to that one, and not to ``top``. With ``whole``
    the spans are one request: then all of them belong to ``top``, also those below another workflow
    or agent, and those whose parent is missing.
    """
    families = _families(top, spans, whole=whole)
    order: list[_Span] = [top]
    contributions: dict[str, list[Contribution]] = {}
    for span in order:
        order.extend(families.get(span.span_id, ()))
    for span in reversed(order):
        below = sorted(families.get(span.span_id, ()), key=_end)
        gathered = [item for child in below for item in contributions[child.span_id]]
        if span is top:
            return gathered
        if span.kind in OWNERS and not whole:
            contributions[span.span_id] = steps_above(span, gathered) if top.kind == "agent" else []
        else:
            contributions[span.span_id] = contributions_of(
                span, _nested(span, gathered), keeps=False
            )
    return []


def _end(span: FinishedSpan) -> int:
    return span.end_ns


def _nested(span: FinishedSpan, gathered: list[Contribution]) -> list[Contribution]:
    """Add the chunks that a workflow inside the request was called with to what it gathered."""
    if span.kind in OWNERS and span.retrieved_context is None:
        chunks = chunks_of_arguments(span)
        if chunks is not None and _context_of(span, gathered) is chunks:
            return [*gathered, {"retrieved_context": chunks}]
    return gathered


def _families(top: _Span, spans: Iterable[_Span], *, whole: bool) -> dict[str, list[_Span]]:
    """Return the spans below the top one by the id of their parent; cycles are cut."""
    by_id = {span.span_id: span for span in spans}
    by_id[top.span_id] = top
    families: dict[str, list[_Span]] = {}
    reached, waiting = {top.span_id}, [top]
    below: dict[str | None, list[_Span]] = {}
    for span in by_id.values():
        below.setdefault(span.parent_id, []).append(span)

    def descend() -> None:
        while waiting:
            above = waiting.pop()
            for span in below.get(above.span_id, ()):
                if span.span_id not in reached:
                    reached.add(span.span_id)
                    families.setdefault(above.span_id, []).append(span)
                    waiting.append(span)

    descend()
    for span in by_id.values() if whole else ():
        if span.span_id not in reached and span.parent_id not in by_id:
            reached.add(span.span_id)
            families.setdefault(top.span_id, []).append(span)
            waiting.append(span)
            descend()
    return families


def _context_of(
    span: FinishedSpan, gathered: Iterable[Contribution] | None, retrieved: str = "last"
) -> tuple[Chunk, ...] | None:
    """Return the annotated passages, else those of the retrievals below, else of an argument.

    Where there are none of these, they are those in the last prompt below.
    """
    if span.retrieved_context is not None:
        return _passages(span)
    retrievals, noted, prompted = [], None, None
    for item in gathered or ():
        if type(item) is Retrieved:
            retrievals.append(item)
        elif type(item) is dict:
            noted = item.get("retrieved_context", noted)
            prompted = item.get(PROMPTED, prompted)
    if noted is not None:
        return noted  # type: ignore[no-any-return]
    if not retrievals:
        chunks = chunks_of_arguments(span)
        if chunks is not None or prompted is None or span.kind == "llm":
            return chunks
        return _contexts_of(prompted) if isinstance(prompted, Prompt) else tuple(prompted)
    if retrieved == "all":
        retrievals.sort(key=_start)
        return _union(retrievals)
    last = retrievals[0] if len(retrievals) == 1 else max(retrievals, key=_start)
    return last.chunks


def with_chunks(notes: dict[str, object]) -> dict[str, object]:
    """Return notes in which the chunks of a prompt stand in the place of the prompt."""
    prompt = notes.get(PROMPTED)
    return {**notes, PROMPTED: _contexts_of(prompt)} if type(prompt) is Prompt else notes


def chunks_of_arguments(span: FinishedSpan) -> tuple[Chunk, ...] | None:
    """Return the chunks that an argument of the function or a key of the request holds.

    Messages are no chunks, and an empty ``context`` is none that was retrieved: an app may call
    much else by this name.
    """
    for holder in (span.arguments, span.request):
        if type(holder) is dict and not CONTEXT_ARGUMENTS.keys().isdisjoint(holder):
            for name in CONTEXT_ARGUMENTS:
                argument = holder.get(name)
                if not isinstance(argument, (list, tuple)) or messages_of(argument) is not None:
                    continue
                chunks = to_chunks(evidence(argument))
                if chunks or (chunks is not None and name != "context"):
                    return chunks
    return None


def _union(retrievals: list[Retrieved]) -> tuple[Chunk, ...]:
    chunks: list[Chunk] = []
    for retrieval in retrievals:
        chunks.extend(chunk for chunk in retrieval.chunks if chunk not in chunks)
    return tuple(chunks)


def _start(item: Retrieved) -> int:
    return item.start_ns


def record_of(
    span: FinishedSpan,
    gathered: Sequence[Contribution] | None = None,
    *,
    retrieved: str = "last",
    limits: object = None,
) -> Record:
    """Build what evaluators see of a span: its own values first, then the contributions.

    Args:
        span: the evaluated span.
        gathered: the contributions of the spans below it.
        retrieved: ``last`` takes the documents of the last retrieval, ``all`` those of all.
        limits: the retrieval limits of the settings, for calls that were annotated with none.
    """
    own_usage = span.usage if span.kind == "llm" else None
    usage: Usage | None = own_usage
    response, value, extractions = _results(span)
    notes: Mapping[str, Any] = NOTHING
    steps: list[Step] = []
    for item in gathered or ():
        cls = type(item)
        if cls is Step:
            steps.append(item)
        elif cls is tuple:
            if span.extractions is None:
                extractions = item if extractions is None else extractions + item
        elif cls is dict:
            notes = _joined(notes, item)
        elif cls is Spent and own_usage is None:  # as `spent_by`
            usage = item.usage if usage is None else usage + item.usage
    request = request_of(span)
    context = _context_of(span, gathered, retrieved)
    text = response if type(response) is str else to_answer(response)
    prompt = span.prompt
    if prompt is not None and span.kind == "llm":
        request = question_of(prompt, request)
        text = (last_message(response) or text) if is_answer(response) else text
        context = _contexts_of(prompt) if context is None else context
    confidence, field_config = span.confidence, span.field_config
    expected = span.expected or NOTHING
    if notes:
        value = notes.get("value") if value is None else value
        confidence = notes.get("confidence") if confidence is None else confidence
        field_config = notes.get("field_config") if field_config is None else field_config
        if "abstained" in notes and (is_answer(response) or is_answer(value)):
            notes = {**notes, "abstained": None}  # a step abstained, and the whole answered
        expected = {**notes, **expected}
    return Record(
        None,
        request,
        text,
        context,
        expected.get("expected_facts"),
        expected.get("expected_response"),
        expected.get("expected_retrieved_context"),
        extractions,
        response if value is None else value,
        confidence,
        field_config,
        _retrieval_of(span, notes, limits),
        span.attributes or NOTHING,
        usage,
        (span.end_ns - span.start_ns) / 1e9 if span.end_ns else None,
        span.trace_id,
        span.span_id,
        span.name,
        span.kind,
        tuple(sorted(steps, key=lambda step: step.start_ns or 0)) if steps else None,
        expected.get("tools"),
        expected.get("expected_trajectory"),
        expected.get("abstained"),
        span.tags or NOTHING,
    )


def _joined(notes: Mapping[str, Any], more: Mapping[str, Any]) -> Mapping[str, object]:
    """Return two spans' notes as one; where both have a field, the later span's counts."""
    if "retrieval" in notes and "retrieval" in more:
        return {**notes, **more, "retrieval": {**notes["retrieval"], **more["retrieval"]}}
    return {**notes, **more} if notes else more


def spent_by(span: FinishedSpan, gathered: Iterable[Contribution] | None) -> Iterator[Spent]:
    """Yield the usage of each model call: the span's own if it is one, else of those below it."""
    if span.kind == "llm" and span.usage is not None:
        yield Spent(span.usage, span.model_name, span.metrics or NOTHING)
        return
    for item in gathered or ():
        if type(item) is Spent:
            yield item


def request_of(span: FinishedSpan) -> Any:
    """Return what was asked: annotated, else the one string argument, else the bound arguments."""
    if span.request is not None:
        return span.request
    arguments = span.arguments
    if not arguments:
        return None
    texts = [value for value in arguments.values() if type(value) is str]
    return texts[0] if len(texts) == 1 else arguments


def _retrieval_of(span: FinishedSpan, notes: Mapping[str, Any], limits: Any = None) -> Any:
    """Return how the search went: annotated, else noted below; with the limits of the settings."""
    retrieval, noted = span.retrieval, notes.get("retrieval")
    if noted is not None:
        retrieval = {**noted, **(retrieval or NOTHING)}
    if limits is not None and (retrieval is None or "limits" not in retrieval):
        retrieval = {**(retrieval or NOTHING), "limits": limits}
    return retrieval


def early_record(
    span: FinishedSpan, gathered: Sequence[Contribution] | None, *, retrieved: str = "last"
) -> Record | None:
    """Return a Record of the context that a span holds so far; ``None`` without one."""
    context = _context_of(span, gathered, retrieved)
    if context is None:
        return None
    retrieval = _retrieval_of(span, _notes_of(gathered))
    return Record(retrieved_context=context, retrieval=retrieval)


def _notes_of(gathered: Iterable[Contribution] | None) -> Mapping[str, Any]:
    notes: Mapping[str, Any] = NOTHING
    for item in gathered or ():
        if type(item) is dict:
            notes = _joined(notes, item)
    return notes
