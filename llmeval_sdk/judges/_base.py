"""What every judge shares: it never raises, it counts its tokens and time, it asks in one way."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from llmeval_sdk._needs import lacking
from llmeval_sdk.errors import JudgeError
from llmeval_sdk.judges._verdict import VerdictForm, read
from llmeval_sdk.judges.prompt import JudgePrompt
from llmeval_sdk.judges.stand_in import Rule
from llmeval_sdk.model import Completion, Evaluation, Failure, Message, Record, Unit, Usage
from llmeval_sdk.protocols import LLM, refuse_in_loop


if TYPE_CHECKING:
    from llmeval_sdk.judges.typed import Forms as Forms  # noqa: PLC0414 - for all judges
    from llmeval_sdk.judges.typed import Typed as Typed  # noqa: PLC0414
else:  # decision models are no part of the core
    Forms = Typed = Any

ERROR_CHARACTERS = 500


class BaseJudge:
    """A judge with a default for every part of the protocol `llmeval_sdk.protocols.Judge`.

    Set ``name`` and write `judge`, which may raise; `evaluate` does not. ``per``, ``needs`` and the
    others mean what they mean there.
    """

    kind: Literal["judge"] = "judge"
    name: str = ""
    version: str = "1"
    needs: tuple[str, ...] = ()
    per: Unit = "answer"
    blocking: bool = False
    """True where the judge is plain code that blocks, so that ``evaluate`` runs it aside."""
    needs_model: bool = True
    calls_here: bool = True
    span_kinds: tuple[str, ...] = ()
    span_tags: Mapping[str, str] = MappingProxyType({})
    output: str | Sequence[str] | None = None
    """``yes_no``, ``score`` or the categories it gives; ``None`` where only its values tell."""
    better: Literal["lower", "higher"] | None = None
    """Which of its values are better; ``None`` leaves that to its name."""
    model: str | LLM | None = None
    """The model this judge asks for; ``None`` leaves it to the configuration."""
    automatic: bool = False
    """Whether it runs offline without being asked for, where a judge model is configured and a row
    has its inputs. Online no judge does."""
    share_of: Literal["extractions", "answers"] | None = None
    """The records of which the setting ``judge_share`` has this judge look at a share."""
    predictor: str | None = None
    """The free score that says most about its verdicts: estimates for all traffic use it."""
    report_path: str | None = None
    """Where its ratings stand in a report; ``None`` follows from its name and output."""
    metric_path: str | None = None
    """What its aggregate is called; ``None`` follows from ``report_path``."""
    stand_in: Rule | None = None
    """How a stand-in answers its prompt, in demos and tests; see `judges.stand_in`."""

    def lacks(self, record: Record, /) -> str | None:
        """Name an input that is missing although ``needs`` are met; ``None`` where nothing is."""
        return None

    def asks(self) -> str | None:
        """Return its question in words, for people who label what it judged."""
        return None

    def configured(self, settings: Any, /) -> BaseJudge:
        """Return this judge under the settings in force: itself, as it reads none."""
        return self

    def located(self, verdict: Evaluation, record: Record, /) -> Evaluation:
        """Add to a verdict which spans its parts are about; an earlier verdict named others."""
        return verdict

    def settled(self, record: Record, /) -> Evaluation | None:
        """Return the outcome that no model need be asked for, such as that of an empty answer.

        Raises:
            JudgeError: The record cannot be judged.
        """
        return None

    def typed(self, forms: Forms, /) -> Typed | None:
        """Return what a decision model is asked in place of a judge model.

        ``None`` where the judge cannot be asked as a typed question: it stays with judge models.

        Args:
            forms: Makes the typed forms of this judge, such as ``forms.yes_no(RUBRIC, sections)``.

        Raises:
            ConfigurationError: There are more options or levels than any decision model takes.
        """
        return None

    async def judge(self, record: Record, llm: LLM) -> Evaluation:
        """Judge a Record that has what is needed; raises `JudgeError` where there is no verdict."""
        raise NotImplementedError

    async def evaluate(self, record: Record, llm: LLM, /) -> Evaluation:
        """Judge one Record: a value, an error, or neither where inputs are missing."""
        absent = lacking(self, record, blanks=True)
        if absent is not None:
            return self._complete(Evaluation(self.name, metadata={"missing_inputs": absent}))
        started = time.perf_counter()
        metered = Metered(llm)
        try:
            settled = self.settled(record)
            found = await self.judge(record, metered) if settled is None else settled
        except Exception as error:
            found = Evaluation(self.name, error=failure(error))
        return self._complete(found, time.perf_counter() - started, metered.usage)

    def _complete(
        self, found: Evaluation, seconds: float | None = None, usage: Usage | None = None
    ) -> Evaluation:
        return replace(
            found,
            name=self.name,
            evaluator_kind="judge",
            evaluator_version=self.version,
            duration=seconds,
            usage=usage or found.usage,
        )


class Metered(LLM):
    """Hands calls on and sums their usage, that of failed ones too."""

    def __init__(self, llm: LLM) -> None:
        self._llm = llm
        self.model = getattr(llm, "model", "")
        self.usage: Usage | None = None

    async def complete(
        self,
        messages: Sequence[Message],
        /,
        *,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int = 4096,
    ) -> Completion:
        """Answer with the LLM inside."""
        try:
            completion = await self._llm.complete(messages, schema=schema, max_tokens=max_tokens)
        except JudgeError as error:
            self._add(error.usage)
            raise
        self._add(completion.usage)
        return completion

    def ask(
        self, prompt: str, /, *, schema: Mapping[str, Any] | None = None, max_tokens: int = 4096
    ) -> str:
        """Answer one prompt with the LLM inside, in its own way where it has one."""
        refuse_in_loop()
        own = getattr(type(self._llm), "ask", LLM.ask)
        if own is LLM.ask:
            return super().ask(prompt, schema=schema, max_tokens=max_tokens)
        return self._llm.ask(prompt, schema=schema, max_tokens=max_tokens)

    def _add(self, usage: Usage | None) -> None:
        if usage is not None:
            self.usage = usage if self.usage is None else self.usage + usage


def failure(error: Exception) -> Failure:
    """Describe an exception: a JudgeError by its type, any other by its class."""
    kind = error.type if isinstance(error, JudgeError) else type(error).__name__
    return Failure(kind, str(error)[:ERROR_CHARACTERS])


async def ask(
    llm: LLM, prompt: JudgePrompt, form: VerdictForm, *, max_tokens: int = 4096
) -> dict[str, Any]:
    """Ask once and read the form; raises `JudgeError`."""
    completion = await llm.complete(prompt.messages, schema=form.schema, max_tokens=max_tokens)
    return read(completion.text, form)
