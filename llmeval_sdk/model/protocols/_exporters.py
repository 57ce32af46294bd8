"""What an exporter is, in parts: it takes batches, and may also follow spans while they are open.

======================  ===========================================  =============================
part                    what it is for                               on which thread it is called
======================  ===========================================  =============================
`Exporter`              takes batches of finished records            its own delivery thread
`BaseExporter`          the same with all parts, each a no-op        see each method
`LiveSpans`             needs each span while it is open             the app's
`ContextBridge`         connects with a library that has a current   the app's
                        span of its own
`Services`              what the SDK does for an exporter            any
======================  ===========================================  =============================

The smallest exporter is an object with the four members of `Exporter`. One that needs more derives
from `BaseExporter` and sets ``live`` or ``bridge`` to objects of its own. Nothing is looked for by
name: what the base does not have, nobody calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, Protocol

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model import Batch


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

    def detect(self, value: Any, /) -> Any:
        """Return a plain value with what the built-in detectors find taken out of its texts."""


class Services(NamedTuple):
    """What the SDK does for an exporter. None of the functions ever raises."""

    redaction: Redaction
    losses: Callable[[], Mapping[str, Mapping[str, int]]]
    """Returns what this process could not deliver so far, by exporter and reason."""
    end: Callable[[], None]
    """Delivers what is there, within the deadline for the end of a process. For an exporter whose
    library handles the end of the process itself and has to come after us."""
    deliver: Callable[[], None]
    """Judges and delivers what is there, for as long as one judgement may take. For an exporter
    whose library has a flush of its own, of which our records are a part."""


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

    def ids_of(self, span: Any, /) -> dict[str, str] | None:
        """Return the library's ids of a span, for ``export_span()``; ``None`` where it has none."""
        return None

    def read_ids(self, trace_id: str | None, span_id: str, /) -> tuple[str | None, str]:
        """Return our ids for those that `ids_of` gave; others come back as they are."""
        return trace_id, span_id

    def mirror(self, span: Any, /) -> None:
        """Tell the library at once of a prompt or session that a span has got."""

    def annotation_context(self, **fields: Any) -> AbstractContextManager[Any]:
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
