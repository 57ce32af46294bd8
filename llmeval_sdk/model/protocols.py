"""The verbs: what an evaluator, a judge model and an exporter must be able to do.

These are the extension points for other packages. To write an exporter, begin with `Exporter` or
`BaseExporter`; a judge, with `Judge`; a free evaluator, with `Heuristic`; a way to reach a judge
model, with `LLM`. ``examples/my_own_exporter.py`` and ``examples/evaluator_package.py`` show two of
them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from contextvars import ContextVar
from math import inf
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from llmeval_sdk.errors import ConfigurationError, JudgeError
from llmeval_sdk.model import (
    Batch,
    Completion,
    Decision,
    Evaluation,
    Message,
    Question,
    Record,
    Score,
    Unit,
)


__all__ = [
    "LLM",
    "BaseExporter",
    "ContextBridge",
    "DecisionModel",
    "Evaluator",
    "Exporter",
    "Heuristic",
    "Judge",
    "LiveSpans",
    "Redaction",
    "Services",
    "answer_by",
    "check_judge",
    "complete_exporter",
    "further_place",
    "further_request",
    "refuse_in_loop",
]


class _Named(Protocol):
    """The attributes that heuristics and judges share."""

    @property
    def name(self) -> str:
        """What its evaluations are called."""

    @property
    def version(self) -> str:
        """Changes when its values are no longer comparable."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Record fields that must be present; ``a|b`` is satisfied by either.

        ``retrieved_context.content`` asks for chunks that have text.
        """


@runtime_checkable
class Heuristic(_Named, Protocol):
    """A free evaluator: pure computation over one Record, no I/O."""

    @property
    def kind(self) -> Literal["heuristic"]:
        """What tells it from a judge."""

    @property
    def inline(self) -> bool:
        """True if it runs on the caller's thread; only what takes microseconds may do so."""

    @property
    def automatic(self) -> bool:
        """True when it attaches to every evaluated span that has its inputs."""

    def evaluate(self, record: Record, /) -> Evaluation | Score:
        """Return an outcome; a plain value becomes an Evaluation of this heuristic's name."""


class LLM(Protocol):
    """A model that judges ask. Derive from it and write ``complete``; it brings ``ask``."""

    model: str
    """The model's name, which prices go by and which each judgement records."""

    @abstractmethod
    async def complete(
        self,
        messages: Sequence[Message],
        /,
        *,
        schema: Mapping[str, object] | None = None,
        max_tokens: int = 4096,
    ) -> Completion:
        """Answer a chat.

        Args:
            messages: The turns of the chat, the oldest first.
            schema: The JSON schema that the answer has to satisfy, if it has to be JSON.
            max_tokens: How many tokens the answer may have at most.

        Raises:
            JudgeError: The model could not be reached, or refused.
        """

    def ask(
        self, prompt: str, /, *, schema: Mapping[str, object] | None = None, max_tokens: int = 4096
    ) -> str:
        """Answer one prompt and wait for it, for a judge that is a plain function.

        Raises:
            RuntimeError: It was called in an event loop, which it would block.
        """
        import asyncio

        refuse_in_loop()
        call = self.complete([Message("user", prompt)], schema=schema, max_tokens=max_tokens)
        return asyncio.run(_finished(call)).text


further_request: ContextVar[Callable[[JudgeError | None], Awaitable[None]] | None] = ContextVar(
    "llmeval_further_request", default=None
)
"""Awaited by an LLM before every request of one ``complete`` but the first, where it is set.

It gets what went wrong before (``None``: a reply that could not be read) and raises a `JudgeError`
where no further request may be made. So retries count against the budget as calls do."""


def refuse_in_loop() -> None:
    """Raise if waiting would block an event loop, which might then wait for itself for ever."""
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError("ask() blocks the event loop: in a coroutine, `await llm.complete([...])`")


async def _finished(call: Any) -> Completion:
    result: Completion = await call
    return result


@runtime_checkable
class Judge(_Named, Protocol):
    """A paid evaluator. `llmeval_sdk.judges.BaseJudge` has a default for all but its name.

    ``evaluate`` runs in the event loop of the judges' thread, never in the app's, for at most
    ``judge_timeout`` seconds. What it raises becomes an Evaluation with an error, and each
    judgement that was not made is counted with its reason.
    """

    @property
    def kind(self) -> Literal["judge"]:
        """What tells it from a heuristic."""

    @property
    def per(self) -> Unit:
        """What one rating is for: the whole answer, each chunk, each tool call, or a session."""

    @property
    def needs_model(self) -> bool:
        """False if it asks no judge model, so that it runs even if none is configured."""

    @property
    def blocking(self) -> bool:
        """True where it is plain code that blocks.

        Its ``evaluate`` then has to run that code on another thread than the event loop's, as
        `BaseJudge` does: aside, on a daemon thread that is abandoned when the judgement times out.
        """

    @property
    def calls_here(self) -> bool:
        """False if its calls of the model are made elsewhere, such as in another process.

        The model's client is then not prepared here.
        """

    @property
    def model(self) -> str | LLM | None:
        """The judge model that it asks for; ``None`` stands for the configured one."""

    @property
    def span_kinds(self) -> tuple[str, ...]:
        """``("llm",)`` where it looks at ``llm`` spans that have a prompt.

        It then looks at the workflow above them only where there is no such span.
        """

    @property
    def span_tags(self) -> Mapping[str, str]:
        """Tags of the trace that shows its run."""

    async def evaluate(self, record: Record, llm: LLM, /) -> Evaluation:
        """Judge one Record; a failure is an Evaluation with ``error``, never a value."""

    def lacks(self, record: Record, /) -> str | None:
        """Name an input that is missing although ``needs`` are met; ``None`` if nothing is missing.

        For example, an extraction that found nothing has no value.
        """

    def configured(self, settings: Any, /) -> Judge:
        """Return this judge under the settings in force; itself where it reads none."""


_JUDGE = (
    "needs_model", "blocking", "calls_here", "model", "span_kinds", "span_tags", "lacks",
    "configured",
)  # fmt: skip
"""The parts of a judge for which `llmeval_sdk.judges.BaseJudge` has a default."""


def check_judge(judge: Judge) -> Judge:
    """Return a judge that has all parts of its protocol.

    Raises:
        ConfigurationError: It lacks some of them; the message names them.
    """
    absent = [name for name in _JUDGE if not hasattr(judge, name)]
    if absent:
        raise ConfigurationError(
            f"the judge {judge.name!r} lacks {', '.join(absent)}: derive it from "
            "llmeval_sdk.judges.BaseJudge, which has a default for each"
        )
    return judge


Evaluator = Heuristic | Judge


@runtime_checkable
class DecisionModel(Protocol):
    """A model that answers typed questions. Derive from it and write ``decide``."""

    model: str
    """The model's name, which prices go by and which each decision records."""

    @abstractmethod
    async def decide(self, data: Mapping[str, str], questions: Sequence[Question], /) -> Decision:
        """Answer all questions about the data.

        Args:
            data: The parts of a record by their titles (``request``, ``response``, ``chunk 1`` …).
                It is sent once, as data: nothing in it may reach the model as an instruction.
            questions: At least one. Where they are more than the model takes in one request, they
                are asked in several; none is cut or left out.

        Raises:
            JudgeError: The model could not be reached or refused the request as a whole.
        """


further_place: ContextVar[Callable[[], AbstractAsyncContextManager[bool]] | None] = ContextVar(
    "further_place", default=None
)
"""Whom a model asks that wants to make several requests of one `decide` at the same time, before
each but the first: it enters the context, whose value says whether there is room, and makes the
request inside it."""

answer_by: ContextVar[float] = ContextVar("answer_by", default=inf)
"""When one `decide` has to return, by the running loop, so that what was answered by then counts:
a little later it is given up."""


# Exporters.
#
# ==============  ============================================  =============================
# part            what it is for                                on which thread it is called
# ==============  ============================================  =============================
# Exporter        takes batches of finished records             its own delivery thread
# BaseExporter    the same with all parts, each a no-op         see each method
# LiveSpans       needs each span while it is open              the app's
# ContextBridge   connects with a library that has a current    the app's
#                 span of its own
# Services        does things for an exporter                   any
# ==============  ============================================  =============================
#
# The smallest exporter is an object with the four members of `Exporter`. One that needs more
# derives from `BaseExporter` and sets ``live`` or ``bridge`` to objects of its own. Nothing is
# looked for by name: a method that the base does not have is never called.


class Exporter(Protocol):
    """A place that spans and evaluations are sent to, such as a store or a backend.

    All calls come from the exporter's own delivery thread, one after the other. The thread is a
    daemon, so an exporter that hangs delays neither the scoring, nor other exporters, nor the exit.
    """

    name: str
    """Its name in settings, counters and logs. Only one exporter at a time uses it."""

    def export(self, batch: Batch, /) -> Mapping[str, int] | None:
        """Send or write one batch of at most 500 records.

        Returns ``None`` where all of it was taken, or how many records were refused, by reason:
        these are counted as dropped. There is no deadline, but while it waits records gather in a
        bounded queue, which drops and counts what is too much; so it should have a timeout.

        Raises:
            ExportError: the batch as a whole was not taken. With ``retryable`` delivery calls again
                with the very same object, for up to ten minutes. Any other exception drops the
                batch and counts it under the name of the exception.
        """

    def flush(self, timeout: float, /) -> None:
        """Wait, for at most so many seconds, until what was exported is safe.

        What it raises is caught and counted.
        """

    def close(self, timeout: float, /) -> None:
        """Flush within so many seconds and release what is held. Called once, as the last call."""


class Redaction(Protocol):
    """What an exporter redacts with, where it hands something on before delivery."""

    @property
    def has_custom(self) -> bool:
        """Whether the app redacts by a function of its own, which only the worker may call."""

    def detect(self, value: object, /) -> Any:
        """Return a plain value with what the built-in detectors find taken out of its texts."""


class Services(NamedTuple):
    """What the SDK does for an exporter. None of the functions ever raises."""

    redaction: Redaction
    losses: Callable[[], Mapping[str, Mapping[str, int]]]
    """Returns what this process could not deliver so far, by exporter and reason. Under
    ``traces`` it has, by exporter, how many traces are among it whose first span is lost."""
    end: Callable[[], None]
    """Delivers what is there, within the deadline for the end of a process. For an exporter whose
    library handles the end of the process itself and has to come after us."""


class LiveSpans:
    """Follows spans while they are open; each method does nothing until it is overridden.

    All of them run on the app's thread, in the middle of its call: they must not block, and take
    microseconds. What they raise is caught and counted, and the app's call goes on. A ``span`` is
    the open `llmeval_sdk.tracing.Span`; its ``context`` is a mapping (or ``None``) in which an
    exporter keeps what belongs to it under a key of its own, and which reaches `Exporter.export`.
    """

    gives_ids: bool = False
    """True where `on_start` gives the span other ids: it is then called before the others'."""

    def on_start(self, span: Any, /) -> None:
        """Take note of a span that begins."""

    def on_end(self, span: Any, /) -> None:
        """Take note of a span that has ended, before it is scored."""

    def on_drop(self, span: Any, /) -> None:
        """Take note of a span that has ended and that this exporter will not be given.

        Also called by the worker's and the delivery thread, with finished `SpanData`.
        """


class ContextBridge:
    """Connects with a library that has a current span of its own, both ways.

    Each method does nothing until it is overridden. All of them run on the app's thread and are
    bound by what is said of `LiveSpans`.
    """

    def parent(self) -> Any:
        """Return what a new root of ours nests under, or ``None``.

        That is a span of ours, or a span of the library's as a tuple of numbers: ``(trace_id,
        span_id, flags)``.
        """

    def get(self) -> Any:
        """Return the library's current context, to be `put` back later."""

    def put(self, context: Any, /) -> None:
        """Make a context current that `get` returned: generators switch theirs at each step."""

    def leave(self, span: Any, /) -> None:
        """Make current what was before a span, which stays open: its function returned a stream."""

    def ids_of(self, span: Any, /) -> dict[str, str] | None:
        """Return the library's ids of a span, for ``export_span()``; ``None`` where it has none."""
        return None

    def read_ids(self, trace_id: str | None, span_id: str, /) -> tuple[str | None, str]:
        """Return our ids for those that `ids_of` gave; others come back as they are."""
        return trace_id, span_id

    def mirror(self, span: Any, /) -> None:
        """Tell the library at once of a prompt or session that a span has got."""

    def annotation_context(self, **fields: object) -> AbstractContextManager[Any]:
        """Open the library's own annotation context beside ours."""
        return nullcontext()

    def inject(self, headers: MutableMapping[str, str], /) -> None:
        """Write what the library carries into the headers of a call to another process."""

    def extract(self, headers: Mapping[str, str], /) -> Any:
        """Make current what a caller's headers carry.

        Returns the context to `put` back afterwards, or ``None`` where nothing was changed.
        """


class BaseExporter:
    """An exporter with all parts, of which each does nothing until it is overridden.

    Write `export` and set ``name``; override or set what else is needed.
    """

    name: str = "?"
    live: LiveSpans | None = None
    """What follows spans while they are open; read once, when the configuration is put in force."""
    bridge: ContextBridge | None = None
    """What connects with a library that has a current span of its own; read once as well."""
    is_local: bool = False
    """Whether it writes a file of this machine, for which other processes may make it wait."""
    keeps_foreign: bool = False
    """True where it also takes spans that another library made and that ours evaluated."""
    in_memory: int = 0
    """Delivered records that are kept in memory only and end with the process; shown in stats."""

    def connect(self, services: Services) -> None:
        """Take what the SDK does for an exporter.

        Called on the thread that configures, before the first record, and again with each
        configuration that uses this exporter. What it raises is caught and counted.
        """

    def export(self, batch: Batch, /) -> Mapping[str, int] | None:
        """See `Exporter.export`."""
        raise NotImplementedError(f"{type(self).__name__} has no export()")

    def flush(self, timeout: float, /) -> None:
        """See `Exporter.flush`. Does nothing: right where a batch is safe once it is exported."""

    def close(self, timeout: float, /) -> None:
        """See `Exporter.close`."""

    def note(self, lost: Mapping[str, Mapping[str, int]], /) -> None:
        """Keep a note of what this process could not deliver, by exporter and reason.

        Called as the process ends, after `close`, where something is lost. Does nothing: right
        where nobody would look for it.
        """

    def after_fork(self) -> None:
        """Begin anew in a forked child: connections, threads and what waits are the parent's.

        Called in the child, on the thread that forked. What it raises is caught and counted.
        """


_SMALLEST = ("name", "export", "flush", "close")


def complete_exporter(exporter: Exporter) -> BaseExporter:
    """Return an exporter that has all parts: itself, or its four members on a `BaseExporter`.

    Raises:
        ConfigurationError: It is not an exporter; the message says what it lacks.
    """
    if isinstance(exporter, BaseExporter):
        return exporter
    absent = [name for name in _SMALLEST if not hasattr(exporter, name)]
    if absent or isinstance(exporter, type):
        what = exporter.__name__ if isinstance(exporter, type) else type(exporter).__name__
        why = "it is a class: pass an instance" if not absent else f"it lacks {', '.join(absent)}"
        raise ConfigurationError(f"{what} is no exporter: {why} (see llmeval_sdk.model.protocols)")
    return _CompletedExporter(exporter)


class _CompletedExporter(BaseExporter):
    """Passes the calls on to a smallest exporter; two are equal if they stand for the same one."""

    def __init__(self, exporter: Exporter) -> None:
        self.name = exporter.name
        self._exporter = exporter
        self.export = exporter.export  # type: ignore[method-assign]
        self.flush = exporter.flush  # type: ignore[method-assign]
        self.close = exporter.close  # type: ignore[method-assign]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _CompletedExporter) and other._exporter is self._exporter

    def __hash__(self) -> int:
        return id(self._exporter)

    def __repr__(self) -> str:
        return repr(self._exporter)
