"""Judges that are functions of the app: ``@judge``."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, Literal, TypeAlias, TypeVar, overload

from llmeval_sdk import registry
from llmeval_sdk.errors import ConfigurationError, JudgeError
from llmeval_sdk.judges.base import BaseJudge, Forms, Typed, combine, failure, rate_chunks
from llmeval_sdk.judges.prompt import Template
from llmeval_sdk.model import Chunk, Evaluation, Record, Step, Unit, values
from llmeval_sdk.model.protocols import LLM
from llmeval_sdk.process.threads import HelperThreads


Verdict: TypeAlias = "bool | float | str | Evaluation | None"
"""What a judge function returns: a bool is the rating yes or no, a number a score, a text a
category, ``None`` not applicable."""

AnswerFunction: TypeAlias = (
    "Callable[[Record, LLM], Verdict] | Callable[[Record, LLM], Awaitable[Verdict]]"
)
ChunkFunction: TypeAlias = (
    "Callable[[Record, Chunk, LLM], Verdict] | Callable[[Record, Chunk, LLM], Awaitable[Verdict]]"
)
StepFunction: TypeAlias = (
    "Callable[[Record, Step, LLM], Verdict] | Callable[[Record, Step, LLM], Awaitable[Verdict]]"
)
F = TypeVar("F", bound="Callable[..., Any]")
A = TypeVar("A", bound="AnswerFunction")
C = TypeVar("C", bound="ChunkFunction")
S = TypeVar("S", bound="StepFunction")


class FunctionJudge(BaseJudge, Generic[F]):
    """A judge made of a function ``(record, llm)`` or, per chunk, ``(record, chunk, llm)``.

    It can still be called as the function it was. A plain ``def`` is ``blocking``.
    """

    def __init__(
        self,
        function: F,
        *,
        name: str,
        per: Unit = "answer",
        version: str = "1",
        needs: tuple[str, ...] = (),
        question: Template | None = None,
    ) -> None:
        self.function = function
        self._question = question
        self.output = None if question is None else "yes_no"
        self.name = name
        self.per = per
        self.version = version
        self.needs = needs
        self.blocking = not is_async(function)
        self._aside = HelperThreads(f"judge {name}")
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def __repr__(self) -> str:
        return f"<judge {self.name!r} per {self.per}>"

    def __call__(self, *args: object) -> object:
        """Call the function itself."""
        return self.function(*args)

    def asks(self) -> str | None:
        """Return its question in words, for people who label what it judged."""
        return None if self._question is None else self._question.rubric

    def typed(self, forms: Forms) -> Typed | None:
        """Ask the question that says in words what the function asks."""
        if self._question is None:
            return None
        return forms.template(self._question, per=self.per, output="yes_no", levels=())

    async def judge(self, record: Record, llm: LLM) -> Evaluation:
        """Call the function, aside on a daemon thread where it blocks."""
        if self.blocking:
            return await self._aside.call_async(self._judge_blocking, record, llm)
        if self.per != "chunk":
            return outcome(self.name, await self.function(record, llm))

        async def rate(chunk: Chunk) -> Evaluation:
            return outcome(self.name, await self.function(record, chunk, llm))

        return await rate_chunks(self.name, record.retrieved_context or (), rate)

    def _judge_blocking(self, record: Record, llm: LLM) -> Evaluation:
        if self.per != "chunk":
            return self._call(record, llm)
        return combine(
            self.name, [self._rate(record, chunk, llm) for chunk in record.retrieved_context or ()]
        )

    def _rate(self, *args: object) -> Evaluation:
        try:
            return self._call(*args)
        except Exception as error:
            return Evaluation(self.name, error=failure(error))

    def _call(self, *args: object) -> Evaluation:
        return outcome(self.name, finished(self.function(*args)))


def finished(result: object) -> object:
    """Return the result of a plain function; a coroutine that it returned is run to its end."""
    return asyncio.run(_awaited(result)) if inspect.isawaitable(result) else result


async def _awaited(result: Awaitable[object]) -> object:
    return await result


def outcome(name: str, result: Any, *, rating: bool = True) -> Evaluation:
    """Make an Evaluation of what a judge function returned; a bool is a rating unless told not to.

    Raises:
        JudgeError: ``malformed``: a number that is not finite, or something else altogether.
    """
    if isinstance(result, Evaluation):
        return result
    if result is None or isinstance(result, str):
        return Evaluation(name, result)
    if isinstance(result, bool):
        return Evaluation(name, ("yes" if result else "no") if rating else result)
    number = values.number(result)
    if number is not None:
        return Evaluation(name, number)
    shown = str(result) if isinstance(result, float) else type(result).__name__
    raise JudgeError("malformed", f"expected a bool, a finite number, a str or None, not {shown}")


def is_async(function: object) -> bool:
    """Say whether calling it gives a coroutine."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object with an async __call__
    )


@overload
def judge(function: A, /) -> FunctionJudge[A]: ...
@overload
def judge(
    *,
    per: Literal["answer", "session"] = ...,
    name: str | None = ...,
    version: str = ...,
    needs: tuple[str, ...] | None = ...,
    better: Literal["lower", "higher"] | None = ...,
    question: str | None = ...,
    assessment_type: Literal["ANSWER"] | None = ...,
) -> Callable[[A], FunctionJudge[A]]: ...
@overload
def judge(
    *,
    per: Literal["chunk"] = ...,
    name: str | None = ...,
    version: str = ...,
    needs: tuple[str, ...] | None = ...,
    better: Literal["lower", "higher"] | None = ...,
    question: str | None = ...,
    assessment_type: Literal["RETRIEVAL"] | None = ...,
) -> Callable[[C], FunctionJudge[C]]: ...
@overload
def judge(
    *,
    per: Literal["step"],
    name: str | None = ...,
    version: str = ...,
    needs: tuple[str, ...] | None = ...,
    better: Literal["lower", "higher"] | None = ...,
) -> Callable[[S], FunctionJudge[S]]: ...
def judge(
    function: Any = None,
    /,
    *,
    per: Unit = "answer",
    name: str | None = None,
    version: str = "1",
    needs: tuple[str, ...] | None = None,
    better: Literal["lower", "higher"] | None = None,
    question: str | None = None,
    assessment_type: Literal["ANSWER", "RETRIEVAL"] | None = None,
) -> Any:
    """Make a paid evaluator of a function and register it under its name.

    Args:
        function: ``(record, llm)``, ``(record, chunk, llm)`` per chunk, or ``(record, step, llm)``
            per step; sync or async.
        per: ``chunk`` calls it for each retrieved chunk; the value is then the precision. ``step``
            does the same for each tool call of a run. ``session`` calls it once for a conversation,
            when that has been idle; the Record holds the whole of it in ``steps``.
        name: Of its evaluations; the function's name where not given.
        version: Recorded with each evaluation; raise it when the judge changes.
        needs: Record fields that must be present, ``a|b`` for either. Per chunk:
            ``retrieved_context``; ``retrieved_context.content`` asks for chunks with text. Per
            step: ``steps``. With a question: the fields that it names.
        better: Which values are better, ``lower`` or ``higher``; by default higher ones, unless the
            name ends in ``_risk``. With ``lower``, a yes is bad.
        question: What the function asks, as a question for yes or no with ``{fields}`` as in
            `LLMJudge`. A decision model is asked it in place of the function, which is code and
            cannot be asked.
        assessment_type: Another way to say ``per``: ``ANSWER`` is per answer, ``RETRIEVAL`` per
            chunk.

    Raises:
        ConfigurationError: An unknown ``per``, a function of other parameters than it will get, or
            an unknown field in the question.

    Examples:
        >>> @llmeval.judge(per="chunk")
        ... def on_topic(record: llmeval.Record, chunk: llmeval.Chunk, llm: llmeval.LLM) -> bool:
        ...     question = f"Is this about {record.request}? Say yes or no. {chunk.content}"
        ...     return llm.ask(question).strip().lower() == "yes"
    """
    unit = unit_of("judge", per, assessment_type, tuple(_UNITS))
    units = registry.table("units")
    make = registry.load(units[unit]) if unit in units else FunctionJudge
    parameters, needed = _UNITS[unit]

    def decorate(function: Any) -> FunctionJudge[Any]:
        called = name or str(getattr(function, "__name__", ""))
        registry.check_name(called)
        _check_parameters(called, function, parameters)
        default = needed
        template = None
        if question is not None:
            template = Template(question, per_chunk=unit == "chunk", where=f"the judge {called!r}")
            default = tuple(dict.fromkeys((*default, *template.needs)))
        made: FunctionJudge[Any] = make(
            function,
            name=called,
            per=unit,
            version=version,
            needs=default if needs is None else needs,
            question=template,
        )
        made.better = better
        registry.register(made)
        return made

    return decorate if function is None else decorate(function)


_UNITS: Mapping[Unit, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "answer": (("record", "llm"), ()),
    "chunk": (("record", "chunk", "llm"), ("retrieved_context",)),
    "step": (("record", "step", "llm"), ("steps",)),
    "session": (("record", "llm"), ()),
}
"""By what is rated at a time: the parameters of a judge's function, and what it needs."""
_TYPES: Mapping[str, Literal["answer", "chunk"]] = {"ANSWER": "answer", "RETRIEVAL": "chunk"}


def unit_of(
    where: str,
    per: Unit,
    assessment_type: str | None,
    units: tuple[Unit, ...] = ("answer", "chunk"),
) -> Unit:
    """Return what a judge rates at a time; raises `ConfigurationError` for any other word."""
    if per not in units:
        hint = _TYPES.get(str(per).upper())
        raise ConfigurationError(
            f"{where}: per is {', '.join(map(repr, units[:-1]))} or {units[-1]!r}, not {per!r}"
            + (f"; write per={hint!r} or assessment_type={str(per).upper()!r}" if hint else "")
        )
    if assessment_type is None:
        return per
    unit = _TYPES.get(assessment_type)
    if unit is None:
        raise ConfigurationError(
            f"{where}: assessment_type is 'ANSWER' or 'RETRIEVAL', not {assessment_type!r}"
        )
    if per not in ("answer", unit):
        raise ConfigurationError(f"{where}: per={per!r} and {assessment_type=} differ")
    return unit


def _check_parameters(name: str, function: Any, wanted: tuple[str, ...]) -> None:
    try:
        inspect.signature(function).bind(*wanted)
    except TypeError:
        raise ConfigurationError(
            f"the judge {name!r} must take ({', '.join(wanted)})"
            + ("" if len(wanted) == 3 else '; with per="chunk": (record, chunk, llm)')
        ) from None
    except ValueError:  # a builtin without a signature
        return
