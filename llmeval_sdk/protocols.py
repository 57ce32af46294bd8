"""The verbs: what an evaluator, a judge model and an exporter have to be able to do."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from llmeval_sdk.model import Batch, Completion, Evaluation, Message, Record, Score


@runtime_checkable
class Heuristic(Protocol):
    """A free evaluator: pure computation over one Record, no I/O."""

    @property
    def kind(self) -> Literal["heuristic"]:
        """What tells it from a judge."""

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

    @property
    def inline(self) -> bool:
        """True when it runs on the caller's thread; only what stays in microseconds may."""

    @property
    def automatic(self) -> bool:
        """True when it attaches to every evaluated span that has its inputs."""

    def evaluate(self, record: Record, /) -> Evaluation | Score:
        """Return an outcome; a plain value becomes an Evaluation of this heuristic's name."""


@runtime_checkable
class Learner(Protocol):
    """A heuristic that also learns from the records of its app.

    ``evaluate`` stays a pure reading of what was learnt so far: offline, and where a score is asked
    for at once, nothing is learnt.
    """

    def learn(self, record: Record, /) -> None:
        """Take in one live record. The worker calls it once for each; it may read and write."""


class LLM(Protocol):
    """A judge model. Subclass it and write ``complete``; ``ask`` comes with it."""

    model: str

    @abstractmethod
    async def complete(
        self,
        messages: Sequence[Message],
        /,
        *,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int = 4096,
    ) -> Completion:
        """Answer a chat; ``schema`` is the JSON schema that the answer has to satisfy."""

    def ask(
        self, prompt: str, /, *, schema: Mapping[str, Any] | None = None, max_tokens: int = 4096
    ) -> str:
        """Answer one prompt and wait for it: what a judge that is a plain function calls."""
        import asyncio

        refuse_in_loop()
        call = self.complete([Message("user", prompt)], schema=schema, max_tokens=max_tokens)
        return asyncio.run(_finished(call)).text


def refuse_in_loop() -> None:
    """Raise where waiting would block an event loop, and may wait for itself for ever."""
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
class Judge(Protocol):
    """A paid evaluator.

    Optional: ``span_kinds = ("llm",)`` has it look at ``llm`` spans with a prompt, and at the
    workflow above only where there is none; ``calls_here = False`` says that its calls are made
    elsewhere; ``span_tags`` go on the trace of its run; ``configured(settings)`` returns it under
    the settings in force; ``lacks(record)`` names an input that is missing although ``needs`` are
    met, such as a value in an extraction that found none, or returns ``None``.
    """

    @property
    def kind(self) -> Literal["judge"]:
        """What tells it from a heuristic."""

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

    @property
    def per(self) -> Literal["answer", "chunk"]:
        """Whether one rating is for the whole answer, or one for every chunk."""

    async def evaluate(self, record: Record, llm: LLM, /) -> Evaluation:
        """Judge one Record; a failure is an Evaluation with ``error``, never a value."""


Evaluator = Heuristic | Judge


class Exporter(Protocol):
    """Where spans and evaluations go. Called from its own delivery thread only, never re-entered.

    ``export`` returns ``None`` when everything was taken, or a mapping from a reason to how many
    records the far end refused. It raises ``errors.ExportError`` for the batch as a whole; any
    other exception drops the batch under the exception's name.

    Two optional live hooks, ``on_start(span)`` and ``on_end(span)``, run on the caller's thread for
    libraries whose own context has to be active; an optional ``after_fork()`` runs in the child.
    An optional ``surroundings`` object connects with a library that has a current span of its own:
    ``parent()`` returns what a root of ours nests under (a span of ours, ``(trace_id, span_id,
    flags)`` as numbers, or ``None``), ``get()`` and ``put()`` switch its context with ours around
    the steps of a generator; where it has them, ``ids_of(span)`` returns what ``export_span()``
    shall, ``annotation_context(**fields)`` opens the library's own, ``mirror(span)`` tells it of a
    prompt or session at once, and ``inject(headers)`` and ``extract(headers)`` carry its baggage to
    other processes, the latter returning what to ``put()`` back. With ``on_drop(span)`` an exporter
    hears of spans that ended and will not be exported; ``use_redactor(redactor)`` gives it what
    redacts, for what its live hooks hand on before delivery; ``gives_ids`` lets its ``on_start``
    run before the others'. With ``keeps_foreign = True`` it is given the spans, too, that another
    library made and ours evaluated. ``at_exit_signal(deliver)`` may have ``deliver`` called on
    SIGTERM.
    """

    name: str

    def export(self, batch: Batch, /) -> Mapping[str, int] | None:
        """Send or write one batch."""

    def flush(self, timeout: float, /) -> None:
        """Wait until what was exported is safe."""

    def close(self, timeout: float, /) -> None:
        """Flush and release what is held."""
