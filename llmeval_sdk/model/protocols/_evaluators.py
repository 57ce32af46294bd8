"""What an evaluator and a judge model have to be able to do."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Literal, Protocol, runtime_checkable

from llmeval_sdk.errors import ConfigurationError, JudgeError
from llmeval_sdk.model import Completion, Evaluation, Message, Record, Score, Unit


class _Named(Protocol):
    """What heuristics and judges have in common."""

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


@runtime_checkable
class Learner(Protocol):
    """A heuristic that also learns from the records of its app.

    ``evaluate`` only reads what was learnt so far. Nothing is learnt offline, or when a score is
    asked for before the span has ended.
    """

    def learn(self, record: Record, /) -> None:
        """Take in one live record. The worker calls it once for each; it may read and write."""


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
        schema: Mapping[str, Any] | None = None,
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
        self, prompt: str, /, *, schema: Mapping[str, Any] | None = None, max_tokens: int = 4096
    ) -> str:
        """Answer one prompt and wait for it, for a judge that is a plain function.

        Raises:
            RuntimeError: It was called in an event loop, which it would block.
        """
        import asyncio

        refuse_in_loop()
        call = self.complete([Message("user", prompt)], schema=schema, max_tokens=max_tokens)
        return asyncio.run(_finished(call)).text


further_request: ContextVar[Callable[[JudgeError | None], None] | None] = ContextVar(
    "llmeval_further_request", default=None
)
"""Asked by an LLM before every request of one ``complete`` but the first, where it is set.

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
