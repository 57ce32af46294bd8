"""Running one evaluator over one Record, so that whatever happens in it becomes an Evaluation."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter, time_ns
from typing import Any

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.heuristics import TooLargeError
from llmeval_sdk.model import Evaluation, EvaluationEvent, Failure, Record, Target, values
from llmeval_sdk.model.fields import missing
from llmeval_sdk.model.protocols import Evaluator, Heuristic, Judge
from llmeval_sdk.process.shield import swallow
from llmeval_sdk.process.threads import within
from llmeval_sdk.tracing.internals import new_span_id


_MAX_MESSAGE = 2_000
_INFINITY = float("inf")


def run_heuristic(heuristic: Heuristic, record: Record) -> Evaluation:
    """Run one heuristic; an exception in it, or its ``sys.exit()``, becomes an error."""
    begun = 0.0 if heuristic.inline else perf_counter()
    try:
        result = heuristic.evaluate(record)
        if (
            type(result) is Evaluation
            and type(result.value) is float
            and -_INFINITY < result.value < _INFINITY
        ):
            evaluation = result  # as the built-in scores return it: there is nothing to check
        else:
            evaluation = outcome(result, heuristic)
    except (Exception, SystemExit) as error:
        evaluation = raised(heuristic, error)
    if heuristic.inline or evaluation.duration is not None:
        return evaluation
    return replace(evaluation, duration=perf_counter() - begun)


async def run_judge(judge: Judge, record: Record, llm: Any, *, timeout: float) -> Evaluation:
    """Judge a Record within ``timeout`` seconds; every failure is an Evaluation with an error.

    ``llm`` may be any LLM. A judge that never calls it needs none.
    """
    begun = perf_counter()
    try:
        result = await within(timeout, judge.evaluate(record, llm))
        evaluation = outcome(result, judge)
    except (TimeoutError, asyncio.TimeoutError):
        evaluation = failed(judge, "timeout", f"no verdict after {timeout:g} s")
    except JudgeError as error:
        evaluation = failed(judge, error.type, str(error))
    except (Exception, SystemExit) as error:
        evaluation = failed(judge, type(error).__name__, str(error))
    cut = getattr(llm, "cut_prompts", 0)  # only a budgeted model counts the prompts that it cut
    return replace(
        evaluation,
        evaluator_kind="judge",
        duration=evaluation.duration or perf_counter() - begun,
        metadata={**evaluation.metadata, "cut_prompts": cut} if cut else evaluation.metadata,
    )


def outcome(result: Any, evaluator: Evaluator) -> Evaluation:
    """Read what an evaluator returned: an Evaluation, or a plain float, bool, str or ``None``.

    A number that is not finite, or a value of any other type, is an error and never a score.
    """
    if type(result) is Evaluation:
        value: Any = result.value
        if value is None or type(value) is str or type(value) is bool:
            return result
        if type(value) in (float, int) and math.isfinite(value):
            return result if type(value) is float else replace(result, value=float(value))
        return replace(result, value=None, error=_not_a_value(value))
    if result is None or type(result) is bool or type(result) is str:
        return _named(evaluator, value=result)
    number = values.number(result)
    if number is None:
        return _named(evaluator, error=_not_a_value(result))
    return _named(evaluator, value=number)


def failed(evaluator: Evaluator, type: str, message: str = "") -> Evaluation:  # noqa: A002
    """Return the Evaluation of an evaluator that failed: an error and no value."""
    return _named(evaluator, error=Failure(type, message[:_MAX_MESSAGE]))


def raised(heuristic: Heuristic, error: BaseException) -> Evaluation:
    """Return the Evaluation of a heuristic that raised an exception.

    An exception that is not the heuristic's own, such as that of a signal handler, is raised again.
    """
    if isinstance(error, TooLargeError):
        return failed(heuristic, error.type, str(error))
    if not swallow(f"heuristic {heuristic.name}", error, calls_out=True):
        raise error
    return failed(heuristic, type(error).__name__, str(error))


def not_applicable(evaluator: Evaluator, absent: str) -> Evaluation:
    """Return the Evaluation of an evaluator that was asked for by name and lacks an input."""
    return replace(
        outcome(None, evaluator),
        explanation=f"not applicable: no {absent}",
        metadata={"missing_inputs": absent},
    )


def run_requested(
    heuristic: Heuristic,
    record: Record,
    by: Callable[[Heuristic, Record], Evaluation | None] = run_heuristic,
) -> Evaluation | None:
    """Run a heuristic that was asked for by name, or return an Evaluation that names what it lacks.

    ``by`` runs it where the record has what it needs.
    """
    absent = missing(record, heuristic.needs)
    return by(heuristic, record) if absent is None else not_applicable(heuristic, absent)


def addressed(evaluation: Evaluation, target: Target, *, serial: str = "") -> EvaluationEvent:
    """Attach an Evaluation to the span that it is about.

    The event has the same id however often it is delivered, so that a backend keeps it once.
    ``serial`` tells apart several evaluations of one name on one span.
    """
    where = target.span_id or serial or f"{new_span_id():016x}"
    suffix = f"-{serial}" if serial and target.span_id else ""
    if target.marks:
        evaluation = replace(evaluation, metadata={**evaluation.metadata, **dict(target.marks)})
        suffix += "".join(f"-{mark}" for key, mark in target.marks if key in ("scope", "period"))
    if evaluation.evaluator_kind == "decision":  # a judge model may rate under the same name
        suffix += "-decision"
    return EvaluationEvent(f"{where}-{evaluation.name}{suffix}", target, evaluation, time_ns())


def is_built_in(heuristic: Heuristic) -> bool:
    """Say whether the heuristic's code is part of this package.

    An adapter of ours that runs somebody else's code says so by ``runs_foreign_code``.
    """
    home = getattr(heuristic.evaluate, "__module__", None) or ""
    return home.startswith("llmeval_sdk.") and not getattr(heuristic, "runs_foreign_code", False)


_OPEN = ("request", "value", "field_config", "retrieval", "attributes")
"""Fields that may hold dicts and lists; all others are frozen through and through."""


def own_copy(record: Record) -> Record:
    """Return a copy of the record whose dicts and lists may be changed.

    An evaluator of the app gets such a copy, so that no exporter and no other evaluator sees what
    it changes.
    """
    changed = {
        name: _copied(value)
        for name in _OPEN
        if (value := getattr(record, name)) and type(value) is not str
    }
    return replace(record, **changed) if changed else record


def _copied(value: Any) -> Any:
    cls = type(value)
    if cls is dict:
        return {key: _copied(item) for key, item in value.items()}
    if cls is list or cls is tuple:
        return cls(_copied(item) for item in value)
    return value


def _named(evaluator: Evaluator, **fields: Any) -> Evaluation:
    return Evaluation(
        evaluator.name,
        evaluator_kind=evaluator.kind,
        evaluator_version=evaluator.version,
        **fields,
    )


def _not_a_value(result: Any) -> Failure:
    shown = f"{result}" if isinstance(result, float) else type(result).__name__
    return Failure("malformed", f"expected a finite number, bool, str or None, not {shown}")
