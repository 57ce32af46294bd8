"""The live span, and the state that all of tracing works with.

A span is written to by the app's thread between its start and its end. The state connects tracing
with the runtime, which installs itself and its recorder here.
"""

from __future__ import annotations

import atexit
import re
import sys
import threading
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from operator import attrgetter
from os import getpid
from time import perf_counter_ns, time_ns
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, final

from llmeval_sdk import process
from llmeval_sdk.errors import nearest
from llmeval_sdk.model import (
    Chunk,
    Evaluation,
    Extraction,
    Failure,
    Prompt,
    Record,
    SpanKind,
    Usage,
)
from llmeval_sdk.model.fields import (
    CONTEXT_ARGUMENTS,
    FIELD_OF,
    to_chunks,
    to_details,
    to_extractions,
    to_prompt,
    to_reason,
    to_texts,
    to_usage,
)
from llmeval_sdk.model.placeholders import NOT_READ
from llmeval_sdk.model.records import (
    OWNERS,
    Contribution,
    Conversation,
    paths_not_read,
)
from llmeval_sdk.model.span_fields import SPAN_FIELDS
from llmeval_sdk.process import forks
from llmeval_sdk.process.shield import caught, swallow, tell_once
from llmeval_sdk.tracing import ids
from llmeval_sdk.tracing._capture import (
    Room,
    attribute,
    capture,
    known_as,
    name_of,
    new_room,
    rows,
    used,
)


if TYPE_CHECKING:
    from collections.abc import Iterable

    from llmeval_sdk.model import Evaluation
    from llmeval_sdk.model.protocols import ContextBridge


class Recorder(Protocol):
    """What receives spans. Both calls run on the app's thread and never raise."""

    @property
    def reads_at_once(self) -> bool:
        """Whether all contributions to a span have to be there the moment it ends."""

    def on_start(self, span: Span, /) -> None:
        """Take note of a span that begins."""

    def on_end(self, span: Span, /) -> None:
        """Take a span that ended."""

    def evaluate(self, span: Span, name: str, /) -> Evaluation | None:
        """Compute one heuristic at once."""

    def scores(self, span: Span, /) -> Iterable[Evaluation]:
        """Return the scores of a span so far, which are made now where they were not yet."""

    def take(
        self,
        read: Callable[[], Iterable[Span]],
        size: int,
        /,
        *,
        exported: bool = False,
        trace: int = 0,
    ) -> None:
        """Take finished spans of another library, to be read and scored in the background."""


MAX_REQUESTED = 1_000
"""Decorators with evaluators that are remembered."""


class State:
    """What tracing works with now; a plain object, so that the hot path only reads attributes."""

    __slots__ = (
        "ambient_parent", "enabled", "identities", "named", "neighbours", "read_calls_of",
        "recorder", "requested", "sample_below",
    )  # fmt: skip

    def __init__(self) -> None:
        self.enabled = True
        self.recorder: Recorder | None = None
        self.sample_below = 1 << 64
        """A new trace is recorded when the low 64 bits of its id are below this."""
        self.ambient_parent: Any = None
        """Returns the Link of another library's active span, where an exporter installed one."""
        self.read_calls_of: Callable[[Span], None] | None = None
        """Reads the instrumented calls inside an open span that wait for the worker."""
        self.identities: Any = None
        """Hashes the ids of users and sessions, where a setting asks for that."""
        self.neighbours: tuple[ContextBridge, ...] = ()
        """Other libraries' contexts, which are switched together with ours."""
        self.requested: dict[tuple[object, ...], tuple[str, tuple[object, ...]]] = {}
        """Names of spans with the evaluators that their decorators name, for `configure` to check.
        The key keeps a decorator that runs in every request from adding an entry each time."""

        self.named: dict[object, object] = {}
        """The evaluators that any span has named: a name by itself, an object by its id."""

    def note_named(self, evaluators: tuple[object, ...]) -> None:
        """Remember the evaluators that a span names, for as long as there are not too many."""
        for evaluator in evaluators:
            if len(self.named) < MAX_REQUESTED:
                self.named[evaluator if type(evaluator) is str else id(evaluator)] = evaluator

    def note_requested(self, name: str, evaluators: tuple[object, ...]) -> None:
        """Remember the evaluators that a decorator names, for as long as there are not too many."""
        if len(self.requested) < MAX_REQUESTED:
            key = (name, *map(id, evaluators))
            self.requested[key] = (name, evaluators)


state = State()


def hide_ids(span: object) -> None:
    """Hash the session and the user of a span, where a setting asks for that."""
    if state.identities is not None:
        state.identities.hide(span)


current: ContextVar[Span | Link | None] = ContextVar("llmeval_current", default=None)
"""The active span, a Link to a parent elsewhere, or a Link that says: nothing is recorded here."""

_bootstrap = threading.RLock()


def _renew_lock() -> None:
    """Make the lock anew in a forked child: the thread that held it lives in the parent only."""
    global _bootstrap  # noqa: PLW0603
    _bootstrap = threading.RLock()


forks.after_in_child(_renew_lock)


class _Switching(threading.local):
    """Whether this thread is inside ``ContextVar.set``."""

    busy = False


_switching = _Switching()


def make_current(value: Span | Link | None) -> None:
    """Make a span the active one.

    Before Python 3.12 garbage may be collected inside ``ContextVar.set``, while it copies the
    context. A finaliser that sets a variable then frees what is being copied, and the process
    crashes. So a span that a finaliser begins at that moment does not become the active one.
    """
    if _switching.busy:
        return
    _switching.busy = True
    try:
        current.set(value)
    finally:
        _switching.busy = False


if sys.version_info >= (3, 12):
    make_current = current.set  # type: ignore[assignment]  # the collector waits for a safe place


class _Runtime(NamedTuple):
    set_up: Callable[[], None]
    take_over: Callable[[], None]
    deliver: Callable[[float | None], bool]


_installed: _Runtime | None = None


def install(
    *,
    set_up: Callable[[], None],
    take_over: Callable[[], None],
    deliver: Callable[[float | None], bool],
) -> None:
    """Take from the runtime how to configure the SDK, look for children at exit, and deliver."""
    global _installed  # noqa: PLW0603
    _installed = _Runtime(set_up, take_over, deliver)


def deliver(timeout: float | None) -> bool:
    """Score and deliver what was recorded so far, and return whether that was done in time.

    Args:
        timeout: how many seconds to wait at most; None for as long as the exit may wait.
    """
    return _installed is None or state.recorder is None or _installed.deliver(timeout)


def _runtime() -> _Runtime:
    """Return what the runtime installed; load the runtime if this is the first span."""
    if _installed is None:
        process.load_runtime()
    assert _installed is not None
    return _installed


def recorder() -> Recorder | None:
    """Return the recorder; configure the SDK from the environment if nothing has so far."""
    if forks.process != getpid():
        forks.begin_anew()
    if state.recorder is None and state.enabled:
        with _bootstrap:
            if state.recorder is None and state.enabled:
                _runtime().set_up()
    return state.recorder


def _before_exit() -> None:
    """Let the runtime deliver what children left, if this process has recorded nothing itself."""
    if state.recorder is None and state.enabled and "multiprocessing.process" in sys.modules:
        _runtime().take_over()


atexit.register(_before_exit)


def outside_contexts() -> list[object]:
    """Return the current contexts of the other libraries; empty where there are none."""
    return [neighbour.get() for neighbour in state.neighbours]


def swap_contexts(others: list[object]) -> list[object]:
    """Make other contexts of the other libraries current, and return those that were."""
    if not others or _switching.busy:
        return others
    before = []
    for neighbour, context in zip(state.neighbours, others, strict=False):
        before.append(neighbour.get())
        neighbour.put(context)
    return before


# The fields of a live span that the app may write, and how each is captured.

Writer = Callable[["Span", object], None]
"""Captures a value into a field of a span."""


def _put(name: str) -> Writer:
    def write(span: Span, value: object) -> None:
        setattr(span, name, capture(value, span.room))

    return write


def _read(name: str, read: Callable[[object], object]) -> Writer:
    def write(span: Span, value: object) -> None:
        setattr(span, name, read(capture(value, span.room)))

    return write


def _merge(name: str) -> Writer:
    def write(span: Span, value: object) -> None:
        added = capture(value, span.room)
        if type(added) is not dict:
            raise TypeError(name)
        setattr(span, name, {**(getattr(span, name) or {}), **added})

    return write


def _nouns(name: str, noun: type, read: Callable[[object], object]) -> Writer:
    """Return what writes a sequence of our nouns, or of whatever can be read as such."""

    def write(span: Span, value: Any) -> None:
        if type(value) in (list, tuple) and value and all(type(item) is noun for item in value):
            captured = capture(list(value), span.room)
            value = tuple(noun(**fields) for fields in captured if type(fields) is dict)
        else:
            value = rows(value, span.room)
        setattr(span, name, read(value))

    return write


def _expect(name: str, read: Callable[[object], object]) -> Writer:
    def write(span: Span, value: object) -> None:
        span._expected = {**(span._expected or {}), name: read(capture(value, span.room))}

    return write


def _abstained(span: Span, value: object) -> None:
    """Note why the app abstains; with a value that says that it does not, nothing is noted."""
    reason = to_reason(capture(value, span.room))
    others = {name: each for name, each in (span._expected or {}).items() if name != "abstained"}
    span._expected = others if reason is None else {**others, "abstained": reason}


def _usage(span: Span, value: object) -> None:
    _merge("_metrics")(span, value)
    span._metrics = {**(span._metrics or {}), **to_details(span._metrics)}
    span._usage = to_usage(span._metrics) or span._usage


def _tags(span: Span, value: object) -> None:
    _merge("_tags")(span, value)
    hide_ids(span)
    session = (span._tags or {}).get("session_id")
    if type(session) is str:
        _session(span, session)


def _tag(name: str) -> Writer:
    def write(span: Span, value: object) -> None:
        _tags(span, {name: str(capture(value, span.room))})

    return write


def _session(span: Span, value: object) -> None:
    span.session_id = str(capture(value, span.room))
    hide_ids(span)
    _mirror(span)


def _field_config(span: Span, value: object) -> None:
    """Capture what is known of a field. A format that is a function is kept for the worker."""
    captured = capture(value, span.room)
    if type(captured) is not dict:
        raise TypeError("field_config is no mapping")
    path = (span._field_config or {}).get("path")
    span._field_config = captured
    form = dict.get(value, "format") if type(value) is dict else None
    if type(form) is FunctionType or type(form) is re.Pattern:
        span._field_config["format"] = form
    if path is not None:
        _field_path(span, path)


def _field_path(span: Span, value: object) -> None:
    """Keep the path of the field that the span is about, and a name made of it if there is none."""
    from llmeval_sdk.model.structure import name_of_path  # a millisecond that few apps need

    path = str(capture(value, span.room))
    span._field_config = {"name": name_of_path(path), **(span._field_config or {}), "path": path}


def _set(name: str) -> Writer:
    def write(span: Span, value: object) -> None:
        setattr(span, name, str(capture(value, span.room)))

    return write


def _prompt(span: Span, value: object) -> None:
    span._prompt = to_prompt(capture(value, span.room))
    _mirror(span)


def _mirror(span: Span) -> None:
    """Tell other libraries with a live span which prompt and session it has now."""
    if span.context is not None:
        for neighbour in state.neighbours:
            neighbour.mirror(span)


WRITERS: dict[str, Writer] = {
    **{field.name: _put(field.slot) for field in SPAN_FIELDS if field.can_be_annotated},
    "retrieved_context": _nouns("_retrieved", Chunk, to_chunks),
    "extractions": _nouns("_extractions", Extraction, to_extractions),
    "field_config": _field_config,
    "field": _field_path,
    "retrieval": _merge("_retrieval"),
    "expected_facts": _expect("expected_facts", to_texts),
    "expected_response": _expect("expected_response", lambda value: value),
    "expected_retrieved_context": _expect("expected_retrieved_context", to_chunks),
    "abstained": _abstained,
    "prompt": _prompt,
    "metadata": _merge("_attributes"),
    "metrics": _usage,
    "tags": _tags,
    "name": _set("name"),
    "session_id": _session,
    "user_id": _tag("user_id"),
}
"""How each field is written, by its name and by those that other libraries have for it."""
for _name, _field in {**FIELD_OF, "attributes": "metadata", "user": "user_id"}.items():
    if _field in WRITERS:  # a name that is a field itself, such as ``prompt``, keeps its meaning
        WRITERS.setdefault(_name, WRITERS[_field])


# Describes an exception that left a span, without running any code of the app.

_CANCELLED = ("CancelledError", "Cancelled", "GeneratorExit")
"""What asyncio and trio throw into a task that is cancelled, and Python into a generator that is
closed, as when a user closes the tab. The app did nothing wrong, so the span has no error."""
_CONTROL_FLOW: dict[str, tuple[str, int]] = {
    **dict.fromkeys(
        (
            "celery.exceptions.TaskPredicate",  # Retry, Ignore and Reject
            "django.core.exceptions.BadRequest",
            "django.core.exceptions.PermissionDenied",
            "django.core.exceptions.SuspiciousOperation",
            "django.http.response.Http404",
            "dramatiq.errors.Retry",
            "starlette.requests.ClientDisconnect",
            "starlette.websockets.WebSocketDisconnect",
        ),
        ("", 0),
    ),
    **dict.fromkeys(("click.exceptions.Exit", "typer.exceptions.Exit"), ("exit_code", 1)),
    "aiohttp.web_exceptions.HTTPException": ("_status", 500),
    "falcon.http_error.HTTPError": ("status", 500),
    "falcon.http_status.HTTPStatus": ("status", 500),
    "litestar.exceptions.http_exceptions.HTTPException": ("status_code", 500),
    "rest_framework.exceptions.APIException": ("status_code", 500),
    "sanic.exceptions.SanicException": ("status_code", 500),
    "starlette.exceptions.HTTPException": ("status_code", 500),
    "tornado.web.HTTPError": ("status_code", 500),
    "werkzeug.exceptions.HTTPException": ("code", 500),
}
"""Exceptions by which an app tells its framework what to do next, and which are no failures: all of
a class, or those whose status, in the attribute named here, is below a number."""


def _ended_by(error: BaseException) -> Failure | dict[str, object]:
    """Describe how an exception ends a span: as a failure, or by attributes that say how else."""
    kind = type(error)
    if not isinstance(error, Exception) and name_of(kind) in _CANCELLED:
        return {"cancelled": True}
    if (known := known_as(kind, _CONTROL_FLOW)) is not None:
        status_at, failing = _CONTROL_FLOW[known]
        if not status_at:
            return {"control_flow": name_of(kind)}
        status = _status_of(error, status_at)
        if status is not None and 0 <= status < failing:
            return {"control_flow": f"{name_of(kind)} {status}"}
    return Failure(name_of(kind), _first_text(error))


def _status_of(error: BaseException, name: str) -> int | None:
    """Return a status that is a number or begins with one, as in ``404 Not Found``."""
    try:
        status = capture(attribute(error, name))
        if status is None:  # `flask.abort(redirect(…))` raises a response that the app made
            status = capture(attribute(attribute(error, "response"), "_status_code"))
        return int(status[:3] if type(status) is str else status)
    except (AttributeError, TypeError, ValueError, OverflowError):
        return None


_args_of = BaseException.__dict__["args"].__get__


def _first_text(error: BaseException) -> str:
    """Read an exception's message from its arguments: its own ``__str__`` is the app's code."""
    args = _args_of(error)
    return str(capture(args[0]))[:2_000] if args else ""


# Counts annotations that cannot be kept, and logs each kind once.


def _note_unknown(name: str) -> None:
    """Count an annotation of an unknown field; the first time, log which one was probably meant."""
    caught.add("annotate: unknown field")
    tell_once(
        f"annotate({name[:40]}=…)",
        f"there is no such field and it is left out: {nearest(name[:80], WRITERS)}; "
        "anything else goes into metadata={...} or tags={...}",
    )


def _note_late() -> None:
    """Count an annotation of a span that has ended."""
    caught.add("annotate after the span ended")


@final
class Link(NamedTuple):
    """A parent that is no live span of ours: a span elsewhere, or one that records nothing."""

    trace_id: int
    span_id: int
    flags: int
    recording: bool = True
    """False where nothing below is recorded: in ``disabled()`` and on threads of our own."""
    session_id: str | None = None
    """The session that the caller in another process named."""


class Spec(NamedTuple):
    """What a decorator or a ``with`` block declares about its spans."""

    kind: SpanKind
    name: str
    evaluators: tuple[object, ...] = ()
    session_id: str | None = None
    tags: Mapping[str, str] | None = None
    model_name: str | None = None
    model_provider: str | None = None
    function: Callable[..., object] | None = None
    """The decorated function. Descriptions of the answer's fields are read from its annotation."""


def _annotated(name: str, slot: str, doc: str) -> Any:
    """Make a property that captures what is assigned to it, and returns what was captured."""

    def write(span: Span, value: object) -> None:
        span.annotate(**{name: value})

    return property(attrgetter(slot), write, doc=doc)


@final
class Span:
    """One timed step. Set ``request``, ``response`` and ``retrieved_context``, or ``annotate`` it.

    What is assigned is captured at once, so later changes to the object are not seen. After the
    span has ended it can be read, but not written to.
    """

    __slots__ = (
        "_arguments", "_attributes", "_confidence", "_error", "_expected", "_extractions",
        "_field_config", "_metrics", "_perf_ns", "_prompt", "_request", "_response", "_retrieval",
        "_retrieved", "_tags", "_usage", "_value", "context", "end_ns", "fate", "flags", "gathered",
        "held", "links", "live", "name", "outside_parent", "owner", "parent", "parent_number",
        "record", "room", "scored", "scored_for", "session_id", "span_number", "spec", "start_ns",
        "trace_number",
    )  # fmt: skip

    def __init__(self, spec: Spec, parent: Span | Link | None) -> None:  # noqa: PLR0915
        self.spec = spec
        self.name = spec.name
        self.parent = parent
        self.trace_number: int
        self.parent_number: int
        self.flags: int
        self.outside_parent = False
        """Whether the parent is no span of ours: the span is then a local root all the same."""
        if parent is None:
            self.trace_number = ids.new_trace_id()
            self.parent_number = 0
            self.flags = 1
            self.owner: Span | None = None
            self.session_id = spec.session_id
            self.fate: list[float] = []
            """The chance with which the trace stays, shared by its spans here; 0: it goes.

            Empty until it is decided. Of several that decide at once the first one's word counts.
            """
        else:
            self.flags = parent.flags
            self.session_id = spec.session_id or parent.session_id
            if type(parent) is Span:
                self.trace_number = parent.trace_number
                self.parent_number = parent.span_number
                self.owner = parent if parent.is_evaluated else parent.owner
                self.fate = parent.fate
            else:
                self.trace_number = parent.trace_id
                self.parent_number = parent.span_id
                self.outside_parent = parent.span_id != 0
                self.owner = None
                self.fate = []
        self.span_number: int = ids.new_span_id()
        self.room: Room = new_room()
        self._arguments: dict[str, Any] | None = None
        self._request: Any = None
        self._response: Any = None
        self._retrieved: tuple[Chunk, ...] | None = None
        self._extractions: tuple[Extraction, ...] | None = None
        self._value: Any = None
        self._confidence: Any = None
        self._field_config: Any = None
        self._retrieval: Any = None
        self._expected: dict[str, Any] | None = None
        self._attributes: dict[str, Any] | None = None
        self._metrics: dict[str, float] | None = None
        self._tags = spec.tags and capture(spec.tags, self.room)
        self._prompt: Prompt | None = None
        self._usage: Usage | None = None
        self._error: Failure | None = None
        self.links: tuple[Any, ...] = ()
        self.gathered: list[Contribution] | None = None
        self.held = 0
        self.scored: list[Evaluation] | None = None
        self.scored_for: tuple[tuple[object, ...], Evaluation | None] | None = None
        """What `llmeval.accepts` last had scored, and the score."""
        self.record: Record | None = None
        self.context: dict[str, Any] | None = None
        """What exporters keep here while their library has a live span of its own, by exporter."""
        self.end_ns = 0
        if state.identities is not None:
            state.identities.hide(self)
        self._perf_ns = perf_counter_ns()
        self.start_ns = time_ns()

    # -- what the app reads ---------------------------------------------------------------------

    @property
    def kind(self) -> SpanKind:
        """Return the kind of the span."""
        return self.spec.kind

    @property
    def trace_id(self) -> str:
        """Return the W3C trace id, 32 hex characters."""
        return f"{self.trace_number:032x}"

    @property
    def span_id(self) -> str:
        """Return the W3C span id, 16 hex characters."""
        return f"{self.span_number:016x}"

    @property
    def is_evaluated(self) -> bool:
        """Whether evaluators run on this span: it is a workflow or an agent, or names one."""
        return self.spec.kind in OWNERS or bool(self.spec.evaluators)

    @property
    def evaluations(self) -> dict[str, Evaluation]:
        """The scores of the inline heuristics so far, by name, which are made when they are read.

        ``context_relevance`` is there as soon as the span holds a context: a retrieval below it
        ended, or the chunks are an argument, annotated or assigned. The rest is there when the
        span has ended; a score with the label ``pending`` is yet to be made in the background.
        """
        scores: Iterable[Evaluation] = self.scored or ()
        try:
            if self.room[2]:
                note_not_read(self)
            target = state.recorder or (None if self.end_ns else recorder())
            if target is not None:
                scores = target.scores(self)
        except Exception as error:
            if not swallow("span.evaluations", error):
                raise
        return {evaluation.name: evaluation for evaluation in scores}

    def evaluate(self, name: str) -> Evaluation | None:
        """Compute a heuristic at once on what the span holds so far, to act on it.

        Returns ``None`` when that is not possible; never raises.
        """
        try:
            if self.room[2]:
                note_not_read(self)
            target = recorder()
            return target.evaluate(self, name) if target else None
        except Exception as error:
            if not swallow("span.evaluate", error):
                raise
            return None

    # -- what the app writes --------------------------------------------------------------------

    request = _annotated("request", "_request", "What was asked, as captured.")
    response = _annotated("response", "_response", "What was answered, as captured.")
    retrieved_context = _annotated(
        "retrieved_context", "_retrieved", "The retrieved chunks, as captured."
    )
    extractions = _annotated("extractions", "_extractions", "What was taken from the chunks.")
    value = _annotated("value", "_value", "The aggregated value, where one was annotated.")
    confidence = _annotated("confidence", "_confidence", "The aggregation's own confidence.")
    field_config = _annotated("field_config", "_field_config", "What is known of the field.")
    retrieval = _annotated("retrieval", "_retrieval", "How it was searched: limits, totals.")
    prompt = _annotated("prompt", "_prompt", "The prompt of a model call.")

    def annotate(self, **fields: object) -> None:
        """Add to the span; see `llmeval_sdk.annotate` for the fields. Never raises."""
        if self.end_ns:
            _note_late()
            return
        for name, value in fields.items():
            if value is None:
                continue
            try:
                writer = WRITERS.get(name)
                if writer is None:
                    _note_unknown(name)
                else:
                    writer(self, value)
            except Exception as error:
                if not swallow("annotate", error):
                    raise

    # -- what the SDK reads ---------------------------------------------------------------------

    arguments = property(attrgetter("_arguments"), doc="What the function was called with.")
    expected = property(attrgetter("_expected"), doc="Ground truth, by its field of Record.")
    attributes = property(attrgetter("_attributes"), doc="Free metadata of the app.")
    usage = property(attrgetter("_usage"), doc="What a model call used.")
    error = property(attrgetter("_error"), doc="How the span failed.")
    metrics = property(attrgetter("_metrics"), doc="Numbers, such as tokens from a cache.")
    tags = property(attrgetter("_tags"), doc="Labels to filter by.")

    @property
    def parent_id(self) -> str | None:
        """Return the span id of the parent, 16 hex characters; ``None`` for the root of a trace."""
        return f"{self.parent_number:016x}" if self.parent_number else None

    @property
    def is_local_root(self) -> bool:
        """Whether no span of ours is above it here, so that it is where a request begins."""
        return self.outside_parent or not self.parent_number

    @property
    def inclusion_probability(self) -> float | None:
        """The chance that the trace stayed when there was too much; ``None`` where nothing went."""
        return self.fate[0] if self.fate and self.fate[0] != 1 else None

    @inclusion_probability.setter
    def inclusion_probability(self, chance: float | None) -> None:
        self.fate = [] if chance is None else [chance]

    @property
    def model_name(self) -> str | None:
        """Return the model that an ``llm`` or ``embedding`` span calls."""
        return self.spec.model_name

    # -- what the recorder does -----------------------------------------------------------------

    def collect(self, item: Contribution) -> None:
        """Take a contribution of a finished span below, such as its documents or its usage."""
        if self.gathered is None:
            self.gathered = []
        self.gathered.append(item)

    @property
    def has_metadata(self) -> bool:
        """Whether there is anything that a metadata heuristic could read, which no chat is."""
        gathered = self.gathered
        return bool(
            (gathered and (len(gathered) > 1 or type(gathered[0]) is not Conversation))
            or self._retrieved is not None
            or self._extractions is not None
            or self._confidence is not None
            or self._expected
            or (self._arguments and not CONTEXT_ARGUMENTS.keys().isdisjoint(self._arguments))
        )

    @property
    def size(self) -> int:
        """Return about how many bytes the span holds."""
        return used(self.room) + 1_000


def note_not_read(span: Span) -> None:
    """Say in a span's attributes what of its answer and passages was not read.

    Needed only where the span's room counts placeholders.
    """
    paths = paths_not_read(span._response, span._value, span._retrieved, span._extractions)
    attributes = span._attributes or {}
    if paths:
        span._attributes = {**attributes, NOT_READ: paths}
    elif NOT_READ in attributes:  # what was not read has been replaced since
        span._attributes = {key: item for key, item in attributes.items() if key != NOT_READ}


def start(spec: Spec, parent: Span | Link | None) -> Span | None:
    """Begin a span, or return ``None`` where nothing is recorded.

    A trace that is not sampled has spans too, so that the spans below them and other processes know
    of it; they go nowhere.
    """
    is_root = type(parent) is not Span
    if is_root and forks.process != getpid():
        forks.begin_anew()
    target = state.recorder or recorder()
    if target is None:
        return None
    if parent is None and state.ambient_parent is not None:
        parent = state.ambient_parent()
    if type(parent) is Link and not parent.recording:
        return None
    span = Span(spec, parent)
    if is_root and ids.has_jumped(span.start_ns - span._perf_ns):
        span = Span(spec, parent)
    if parent is None and (span.trace_number & 0xFFFFFFFFFFFFFFFF) >= state.sample_below:
        span.flags = 0
    if span.flags & 1:
        target.on_start(span)
    return span


def finish(span: Span, error: BaseException | None = None, *, perf_ns: int | None = None) -> None:
    """End a span and hand it on: now, or as of a time of ``perf_counter_ns``. Never raises."""
    if span.end_ns:
        return
    try:
        span.end_ns = span.start_ns + (perf_ns or perf_counter_ns()) - span._perf_ns
        if error is not None:
            ended = _ended_by(error)
            if isinstance(ended, Failure):
                span._error = ended
            else:
                span._attributes = {**(span._attributes or {}), **ended}
        target = state.recorder
        if target is not None and (span.flags & 1 or span.context is not None):
            target.on_end(span)
    except Exception as problem:
        if not swallow("span.finish", problem):
            raise
