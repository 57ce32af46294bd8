"""Records an offline run as traces, calls the app under evaluation, and sends spans to exporters.

In every backend a run stands apart from what is online: the MLflow experiment, Phoenix project,
Datadog ML app and OTel service bear its name, each of its spans has the name as a tag, and the
local store is a file of its own.
"""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from llmeval_sdk import config
from llmeval_sdk.config import Settings
from llmeval_sdk.errors import DataError
from llmeval_sdk.evaluation.running import addressed
from llmeval_sdk.judges.models.prices import total
from llmeval_sdk.model import Evaluation, Failure, Record, Target, Usage
from llmeval_sdk.model.chat import messages_of, to_answer
from llmeval_sdk.model.fields import to_usage
from llmeval_sdk.model.placeholders import Placeholder
from llmeval_sdk.model.protocols import Exporter
from llmeval_sdk.model.records import record_of, rolled_up, spent_by
from llmeval_sdk.offline.data.record import absent, record_from
from llmeval_sdk.offline.report.row import Row
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.pipeline.stats import ExporterStats
from llmeval_sdk.process.threads import HelperThreads
from llmeval_sdk.tracing import Span, task
from llmeval_sdk.tracing.internals import (
    Link,
    Recorder,
    Scope,
    capture,
    current,
    new_trace_id,
    settle,
    state,
)


class Trail:
    """The spans below one row's span, in the order in which they ended."""

    def __init__(self, prices: Mapping[str, tuple[float, ...]] | None = None) -> None:
        self._prices = prices
        self._ended: list[Span] = []

    def add(self, span: Span) -> None:
        """Take a span that ended."""
        self._ended.append(span)

    def fields(self, span: Span) -> dict[str, Any]:
        """Return the fields of Record that a row's span and those below it tell."""
        left = rolled_up(span, self._ended, whole=True)
        record = record_of(span, left)
        fields = {name: getattr(record, name) for name in _TRACE_FIELDS}
        fields["usage"] = total(spent_by(span, left), own=self._prices)
        return {name: value for name, value in fields.items() if value is not None}


_TRACE_FIELDS = (
    "retrieved_context", "extractions", "value", "confidence", "field_config", "retrieval",
    "latency_seconds", "abstained",
)  # fmt: skip


class RunRecorder:
    """A recorder that keeps the trails of rows, and hands every span on to where it belongs."""

    def __init__(
        self,
        ours: Recorder,
        others: Recorder | None,
        prices: Mapping[str, tuple[float, ...]] | None = None,
    ) -> None:
        self._prices = prices
        self._ours = ours
        self._others = others
        self._trails: dict[int, Trail] = {}

    @contextmanager
    def row(self, scope: Scope, links: tuple[Target, ...] = ()) -> Iterator[tuple[Span, Trail]]:
        """Open a row's span as the root of a trace of its own, and keep that trace's trail."""
        number, trail = new_trace_id(), Trail(self._prices)
        self._trails[number] = trail
        before = current.get()
        current.set(Link(number, 0, 1))
        numbers = [number]
        try:
            with scope as span:
                span.links = links
                numbers.append(span.trace_number)  # an exporter may have given it another
                self._trails[span.trace_number] = trail
                yield span, trail
        finally:
            current.set(before)
            for number in numbers:
                self._trails.pop(number, None)

    def on_start(self, span: Span, /) -> None:
        """Take note of a span that begins."""
        target = self._of(span)
        if target is not None:
            target.on_start(span)

    def on_end(self, span: Span, /) -> None:
        """Take a span that ended."""
        trail = self._trails.get(span.trace_number)
        if trail is not None:
            settle(span)
            trail.add(span)
        target = self._of(span)
        if target is not None:
            target.on_end(span)

    @property
    def reads_at_once(self) -> bool:
        """Whether all that is left to a span has to be there the moment it ends."""
        return True

    def evaluate(self, span: Span, name: str, /) -> Evaluation | None:
        """Compute one heuristic at once."""
        target = self._of(span)
        return None if target is None else target.evaluate(span, name)

    def scores(self, span: Span, /) -> Iterable[Evaluation]:
        """Return the scores of a span so far."""
        target = self._of(span)
        return span.scored or () if target is None else target.scores(span)

    def take(
        self,
        read: Callable[[], Iterable[Span]],
        size: int,
        /,
        *,
        exported: bool = False,
        trace: int = 0,
    ) -> None:
        """Leave spans of other libraries to the app's own set-up."""
        if self._others is not None:
            self._others.take(read, size, exported=exported, trace=trace)

    def _of(self, span: Span) -> Recorder | None:
        return self._ours if span.trace_number in self._trails else self._others


def _with_ids(record: Record, span: Span) -> Record:
    """Say in a Record which span it is about."""
    return replace(
        record,
        trace_id=span.trace_id,
        span_id=span.span_id,
        span_name=span.name,
        span_kind=span.kind,
    )


TAG = "experiment"
FLUSH_EVERY = 2_000
"""Evaluations after which delivery is waited for, so that no queue runs over."""
FLUSH_SECONDS = 120.0


class Experiment:
    """Records the rows of one run; use it inside `recording`."""

    def __init__(self, name: str, recording: RunRecorder, *, exports: bool) -> None:
        self.name = name
        self.exports = exports
        self._recording = recording
        self._waiting = 0

    def open(self, record: Record) -> AbstractContextManager[tuple[Span, Trail]]:
        """Open the span of a row."""
        attributes = {"request_id": record.request_id} if record.request_id else None
        scope = task(self.name, tags={TAG: self.name}, request=record.request, metadata=attributes)
        return self._recording.row(scope, _source_of(record))

    def mark(self, record: Record) -> Record:
        """Make a span for a row that was answered before, and return the row with its ids."""
        with self.open(record) as (span, _):
            span.annotate(
                response=record.response,
                retrieved_context=record.retrieved_context,
                extractions=record.extractions,
                expected_facts=record.expected_facts,
                expected_response=record.expected_response,
                expected_retrieved_context=record.expected_retrieved_context,
                abstained=record.abstained,
            )
        return _with_ids(record, span)

    def submit(self, row: Row) -> None:
        """Send what was said of a row."""
        record, pipeline = row.record, runtime.pipeline()
        if pipeline is None or record.span_id is None:
            return
        target = Target(record.trace_id, record.span_id, record.span_name, record.span_kind)
        for evaluation in row.evaluations.values():
            pipeline.submit(addressed(evaluation, target))
        self._waiting += 1 + len(row.evaluations)
        if self._waiting >= FLUSH_EVERY:
            self._waiting = 0
            runtime.flush(FLUSH_SECONDS)

    def finish(self) -> Mapping[str, ExporterStats]:
        """Wait until all is delivered and return each exporter's account."""
        return runtime.flush(FLUSH_SECONDS).exporters


@contextmanager
def recording(
    name: str, exporters: Sequence[Exporter | str], settings: Settings
) -> Iterator[Experiment]:
    """Set tracing up for a run; the app's own set-up stands aside and comes back.

    Raises:
        ConfigurationError: an exporter that is not known or lacks its library.
    """
    names = tuple(name for name in exporters if isinstance(name, str))
    exporter_objects = tuple(each for each in exporters if not isinstance(each, str))
    problems: list[str] = []
    resolved = config.from_environment(
        problems=problems,
        exporters=names if exporters else ("memory",),  # whatever the environment names
        prices=settings.prices,
        store=str(store_of_experiments(Path(settings.store))),
        **config.in_experiment(name),
    )
    others = state.recorder
    with runtime.recording(resolved, problems, exporters=exporter_objects, exports=bool(exporters)):
        assert state.recorder is not None
        recorder = state.recorder = RunRecorder(state.recorder, others, settings.prices)
        yield Experiment(name, recorder, exports=bool(exporters))


def store_of_experiments(store: Path) -> Path:
    """Return the local store of experiments, beside that of the app."""
    return store.with_name("experiments.db")


def _source_of(record: Record) -> tuple[Target, ...]:
    """Return a link to the request that a row was made of, so that both can be forgotten."""
    if not (_is_id(record.trace_id, 32) and _is_id(record.span_id, 16)):
        return ()
    return (Target(record.trace_id, record.span_id, record.span_name, record.span_kind),)


def _is_id(text: str | None, length: int) -> bool:
    return text is not None and re.fullmatch(f"[0-9a-f]{{{length}}}", text) is not None


Open = Callable[[Record], AbstractContextManager[tuple[Span, Trail]]]
"""Opens the span of a row; what happens below it is kept in the trail."""


class App:
    """Calls ``model=``: plain function or coroutine function, generator or not.

    It gets the row's request as it is, as the function behind a decorator gets it online. A
    function whose only parameter is named for chat requests (`CHAT_PARAMETERS`) gets a text as
    ``{"messages": [{"role": "user", "content": …}]}``, and one that calls it ``messages`` gets that
    list; of ``{query, history}``, the history and then the query.

    It returns the response: a text, a chat completion, an iterator of texts, or a mapping of
    columns (``response``, ``retrieved_context``, ``abstained`` …).
    """

    def __init__(self, function: Callable[[Any], Any], open_span: Open) -> None:
        self.function = function
        self._open = open_span
        self._helper_threads = HelperThreads("model=")
        self._is_async = _returns_awaitable(function)
        self._form = _form_of(function)

    async def answer(self, record: Record) -> Record | Failure:
        """Return the row with what the app made of it, or what it raised."""
        trail: Trail | None = None
        try:
            with self._open(record) as (span, trail):
                result = _plain(await self._call(self._form(record.request)))
                result = None if absent(result) else _readable(result)
                columns = _columns(result)
                span.annotate(response=columns.get("response") if columns is result else result)
            joined = _joined(record, columns, trail, span)
            return joined if joined.usage else replace(joined, usage=_usage(result))
        except DataError as error:
            return Failure("DataError", str(error))
        except Exception as error:
            return Failure(type(error).__name__, f"{str(error)[:2_000]} ({_place(error)})")

    async def _call(self, request: object) -> Any:
        result: Any
        if self._is_async:
            result = self.function(request)
        else:
            result = await self._helper_threads.call_async(_call_plainly, self.function, request)
        if inspect.isawaitable(result):
            result = await result
        if inspect.isasyncgen(result):
            return "".join([str(part) async for part in result])
        return "".join(map(str, result)) if inspect.isgenerator(result) else result


CHAT_PARAMETERS = ("messages", "model_input", "chat_request")
"""Names of a parameter that say that a function takes a chat request, as agents do that were
written for a server. So does an annotation that is a mapping."""


def _form_of(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return what makes the argument of a function of a row's request, by its signature."""
    try:
        signature = _signature_of(function)
    except (TypeError, ValueError):  # a builtin without one
        return _as_it_is
    parameter = next(iter(signature.parameters.values()), None)
    if parameter is None:
        return _as_it_is
    if parameter.name == "messages":
        return _messages
    is_chat = _takes_mappings(parameter.annotation) or parameter.name in CHAT_PARAMETERS
    return _chat if is_chat else _as_it_is


def _takes_mappings(annotation: Any) -> bool:
    """Return whether an annotation is that of a mapping, one that may be ``None`` too."""
    kind = get_origin(annotation) or annotation
    if kind is Annotated:
        return _takes_mappings(annotation.__origin__)
    if kind in (Union, UnionType):
        kinds = [each for each in get_args(annotation) if each is not type(None)]
        return bool(kinds) and all(map(_takes_mappings, kinds))
    return isinstance(kind, type) and issubclass(kind, Mapping)


def _signature_of(function: Callable[[Any], Any]) -> inspect.Signature:
    try:
        return inspect.signature(function, eval_str=True)
    except Exception:  # an annotation that names what is only there for type checkers
        return inspect.signature(function)


def _as_it_is(request: object) -> Any:
    return request


def _chat(request: object) -> Any:
    if not isinstance(request, str):
        return request
    return {"messages": [{"role": "user", "content": request}]}


def _messages(request: object) -> Any:
    """Return the messages of a chat request; those of a query follow its history."""
    messages = messages_of(_chat(request))
    return request if messages is None else messages


def _place(error: BaseException) -> str:
    """Say where something was raised: ``app.py:12``."""
    raised = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(raised.filename).name}:{raised.lineno}"


def _returns_awaitable(function: object) -> bool:
    call = function if inspect.isroutine(function) else getattr(function, "__call__", None)  # noqa: B004
    plain = inspect.unwrap(call) if callable(call) else call
    return any(
        test(each)
        for each in (call, plain)
        for test in (inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    )


def _call_plainly(function: Callable[[Any], Any], request: object) -> Any:
    result = function(request)
    return "".join(map(str, result)) if inspect.isgenerator(result) else result


def _readable(result: object) -> object:
    """Return what an app answered with; raises `DataError` for a stream or another odd object."""
    captured = capture(result)
    if type(captured) is Placeholder:
        raise DataError(f"the model returned {captured}, which is no answer")
    return result


def _columns(result: object) -> Mapping[str, Any]:
    """Return the columns that an app answered with; any other answer is the response."""
    if isinstance(result, Mapping) and not {"response", "abstained"}.isdisjoint(result):
        return result
    return {} if result is None else {"response": to_answer(result)}


def _plain(result: object) -> Any:
    """Turn a chat completion of the openai client into the mapping that it is."""
    return result.model_dump() if hasattr(result, "model_dump") else result


def _usage(result: object) -> Usage | None:
    """Read the tokens that a chat completion tells, for an app that traces no call of its model."""
    return to_usage(result.get("usage")) if isinstance(result, Mapping) else None


def _joined(record: Record, columns: Mapping[str, object], trail: Trail, span: Span) -> Record:
    """Complete a row with what its trace says; what the app returned has precedence."""
    returned = record_from(columns, place="what the model returned") if columns else Record()
    names = [name for name in RETURNED if getattr(returned, name) is not None]
    if "value" not in columns and "value" in names:
        names.remove("value")  # it is only the response again
    said = {name: getattr(returned, name) for name in names}
    earlier = {"response": None, "abstained": None}  # the data may hold the answers of another run
    fields = {**earlier, "value": returned.response, **trail.fields(span), **said}
    return _with_ids(replace(record, **fields), span)


RETURNED = (
    "response", "retrieved_context", "extractions", "value", "confidence", "field_config",
    "retrieval", "usage", "abstained",
)  # fmt: skip
