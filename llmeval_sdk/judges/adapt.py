"""Evaluators written for other libraries, and plain functions, as evaluators of ours."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from llmeval_sdk import registry
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.judges.base import BaseJudge
from llmeval_sdk.judges.function import FunctionJudge, finished, is_async, outcome
from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.model.protocols import LLM, Evaluator
from llmeval_sdk.process.threads import HelperThreads


_FOREIGN_NAMES = {"input_data", "output_data", "expected_output"}


@dataclass(frozen=True, slots=True)
class EvaluatorContext:
    """What ddtrace hands to an evaluator of its experiments, under the same names."""

    input_data: object
    output_data: object
    expected_output: object = None
    metadata: Mapping[str, object] = field(default_factory=dict)
    span_id: str | None = None
    trace_id: str | None = None


def as_evaluator(thing: Any) -> Evaluator:
    """Make an evaluator of a ddtrace evaluator or a function.

    ====================================================  =================================
    an evaluator of ours                                  as it is
    a metric object of Ragas                              a judge
    ``.name`` and ``.evaluate(context)``, as in ddtrace   a judge
    ``(input_data, output_data, expected_output)``        a judge
    ``(record, llm)`` and ``(record, chunk, llm)``        a judge, as `judge` makes it
    ``(record)``                                          a heuristic for the worker
    ====================================================  =================================

    A foreign evaluator counts as a judge, since it may spend: it runs in the worker and under the
    sampling rules. Calls that it makes with a client of its own are outside the budget.

    Raises:
        ConfigurationError: It is none of these.
    """
    if getattr(thing, "kind", None) in ("heuristic", "judge") and hasattr(thing, "evaluate"):
        found: Evaluator = thing
        return found
    judge = registry.adapted(thing)
    if judge is not None:
        return judge
    if isinstance(thing, type):
        raise ConfigurationError(
            f"{thing.__name__} is a class: pass an instance, {thing.__name__}()"
        )
    name = getattr(thing, "name", None)
    if isinstance(name, str) and callable(getattr(thing, "evaluate", None)):
        return ForeignJudge(name, thing.evaluate)
    if callable(thing):
        return _of_function(thing)
    raise ConfigurationError(
        f"{type(thing).__name__} is not an evaluator: expected a name, a function of (record), "
        "(record, llm) or (record, chunk, llm), or an object with `name` and `evaluate`"
    )


def _of_function(function: Callable[..., Any]) -> Evaluator:
    name = str(getattr(function, "__name__", type(function).__name__))
    registry.check_name(name)
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        names = ["record"]
    if len(_FOREIGN_NAMES & set(names)) >= 2:

        def spread(context: EvaluatorContext) -> Any:
            return function(*(getattr(context, each) for each in names if hasattr(context, each)))

        return ForeignJudge(name, spread, blocking=not is_async(function))
    if len(names) == 1:
        return PlainHeuristic(name, function)
    if len(names) == 2:
        return FunctionJudge(function, name=name)
    if len(names) == 3:
        return FunctionJudge(function, name=name, per="chunk", needs=("retrieved_context",))
    raise ConfigurationError(
        f"{name}({', '.join(names)}) is not an evaluator: expected (record), (record, llm) or "
        "(record, chunk, llm)"
    )


class ForeignJudge(BaseJudge):
    """Calls an evaluator of another library with an `EvaluatorContext`."""

    needs = ("request", "response")

    def __init__(
        self,
        name: str,
        function: Callable[[EvaluatorContext], Any],
        *,
        blocking: bool | None = None,
    ) -> None:
        registry.check_name(name)
        self.name = name
        self.blocking = not is_async(function) if blocking is None else blocking
        self._aside = HelperThreads(f"judge {name}")
        self._function = function

    def __repr__(self) -> str:
        return f"<judge {self.name!r} of another library>"

    async def judge(self, record: Record, llm: LLM) -> Evaluation:
        """Call it, aside on a daemon thread where it blocks."""
        if self.blocking:
            return await self._aside.call_async(self._judge_blocking, record)
        return self._read(await self._function(_context(record)))

    def _judge_blocking(self, record: Record) -> Evaluation:
        return self._read(finished(self._function(_context(record))))

    def _read(self, result: Any) -> Evaluation:
        """Read a plain value, or an object with ``value``, ``reasoning`` and ``assessment``."""
        if isinstance(result, Evaluation) or not hasattr(result, "reasoning"):
            return outcome(self.name, result, rating=False)
        label, metadata = result.assessment, dict(result.metadata or {})
        if getattr(result, "tags", None):
            metadata["tags"] = dict(result.tags)
        found = outcome(self.name, result.value, rating=False)
        return Evaluation(
            self.name,
            found.value,
            label=None if label is None else str(label),
            explanation=None if result.reasoning is None else str(result.reasoning),
            metadata=metadata,
        )


def _context(record: Record) -> EvaluatorContext:
    request = record.request
    expected: Any = record.expected_response
    if expected is None and record.expected_facts is not None:
        expected = list(record.expected_facts)
    metadata = dict(record.attributes)
    if record.retrieved_context is not None:
        metadata.setdefault(
            "retrieved_context", [chunk.content for chunk in record.retrieved_context]
        )
    return EvaluatorContext(
        input_data={"request": request} if isinstance(request, str) else dict(request or {}),
        output_data=record.response,
        expected_output=expected,
        metadata=metadata,
        span_id=record.span_id,
        trace_id=record.trace_id,
    )


class PlainHeuristic:
    """A function of a Record alone: free, run in the worker, where it was asked for."""

    kind: Literal["heuristic"] = "heuristic"
    version = "1"
    needs: tuple[str, ...] = ()
    inline = False
    automatic = False
    runs_foreign_code = True

    def __init__(self, name: str, function: Callable[[Record], object]) -> None:
        self.name = name
        self._function = function

    def __repr__(self) -> str:
        return f"<heuristic {self.name!r}>"

    def evaluate(self, record: Record, /) -> Any:
        """Call the function."""
        return self._function(record)
