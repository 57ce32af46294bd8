"""What an evaluator returned -> one Evaluation that says whose it is."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from llmeval_sdk.model import Evaluation, Failure
from llmeval_sdk.protocols import Evaluator


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
    number = _number(result)
    if number is None or not math.isfinite(number):
        return _named(evaluator, error=_not_a_value(result))
    return _named(evaluator, value=number)


def failed(evaluator: Evaluator, type: str, message: str = "") -> Evaluation:
    """Make the Evaluation of an evaluator that gave no value."""
    return _named(evaluator, error=Failure(type, message[:2_000]))


def _named(evaluator: Evaluator, **fields: Any) -> Evaluation:
    return Evaluation(
        evaluator.name,
        evaluator_kind=evaluator.kind,
        evaluator_version=evaluator.version,
        **fields,
    )


def _number(result: Any) -> float | None:
    """Read an int, a float, or a scalar of a numeric library."""
    try:
        return float(result)
    except (TypeError, ValueError, OverflowError):
        return None


def _not_a_value(result: Any) -> Failure:
    shown = f"{result}" if isinstance(result, float) else type(result).__name__
    return Failure("malformed", f"expected a finite number, bool, str or None, not {shown}")
