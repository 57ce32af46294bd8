"""What each evaluator gives: numbers, whole numbers, passes, words, yes or no, and per what.

Where evaluations stand in the schema follows from it, for rows without a value too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Literal, NamedTuple

from llmeval_sdk import registry
from llmeval_sdk.model import Evaluation
from llmeval_sdk.offline.results.row import Row
from llmeval_sdk.protocols import Heuristic, Judge


Gives = Literal["number", "count", "flag", "word", "yes_no", "any"]
_DECLARED: dict[Any, Gives] = {"score": "number", "count": "count", "yes_no": "yes_no"}
_ANNOTATED: dict[str, Gives] = {"float": "number", "int": "number", "bool": "flag", "str": "word"}


class Output(NamedTuple):
    """What one evaluator gives. ``any`` is known only once there are values."""

    is_judge: bool = False
    per_chunk: bool = False
    gives: Gives = "any"
    words: tuple[str, ...] = ()
    """The categories it may give; empty where they are not known."""


_UNKNOWN = Output()
_OF_VALUES: dict[type, Gives] = {float: "number", bool: "flag", str: "word"}
_OF_HEURISTICS = {kind: Output(gives=gives) for kind, gives in _OF_VALUES.items()}


def output_of(evaluator: Heuristic | Judge) -> Output:
    """Read what an evaluator declares as its ``output``, or its function as what it returns."""
    is_judge = evaluator.kind == "judge"
    per_chunk = is_judge and getattr(evaluator, "per", "answer") == "chunk"
    declared = getattr(evaluator, "output", None)
    if isinstance(declared, (tuple, list)):
        return Output(is_judge, per_chunk, "word", tuple(declared))
    gives = _DECLARED.get(declared)
    if gives is None:
        gives = _returned(evaluator)
        if is_judge and gives == "flag":
            gives = "yes_no"  # a judge's bool is a rating
        if gives == "any" and not is_judge and evaluator.name in registry.HEURISTICS:
            gives = "number"
    return Output(is_judge, per_chunk, gives)


@cache
def whole_numbers() -> frozenset[str]:
    """Return the names of the built-in evaluators that count something."""
    counting = (registry.evaluator(name) for name in registry.HEURISTICS)
    return frozenset(each.name for each in counting if output_of(each).gives == "count")


def _returned(evaluator: Any) -> Gives:
    function: Callable[..., Any] | None = getattr(evaluator, "function", None)
    try:
        annotation = inspect.signature(function or evaluator.evaluate).return_annotation
    except (TypeError, ValueError):
        return "any"
    return _ANNOTATED.get(getattr(annotation, "__name__", str(annotation)), "any")


def output_seen(evaluation: Evaluation) -> Output:
    """Tell from one evaluation what its evaluator gives, where nothing was declared."""
    value = evaluation.value
    if evaluation.evaluator_kind != "judge":
        return _OF_HEURISTICS.get(type(value), _UNKNOWN)
    per_chunk = "ratings" in evaluation.metadata or _rates_chunks(evaluation.name)
    gives = "yes_no" if value in ("yes", "no") else _OF_VALUES.get(type(value), "any")
    return Output(True, per_chunk, gives)


def _rates_chunks(name: str) -> bool:
    """Say whether a judge of this package or the app rates chunks; where it failed none shows."""
    return getattr(registry.known(name), "per", "answer") == "chunk"


def from_plain(saved: Any) -> dict[str, Output]:
    """Read what a saved report says of its evaluators' outputs."""
    if not isinstance(saved, Mapping):
        return {}
    return {
        name: Output(is_judge, per_chunk, gives, tuple(words))
        for name, (is_judge, per_chunk, gives, words) in saved.items()
    }


def seen_in(rows: Iterable[Row]) -> dict[str, Output]:
    """Tell the outputs from the evaluations of rows: of a report whose file does not say them."""
    found: dict[str, Output] = {}
    for row in rows:
        for name, evaluation in row.evaluations.items():
            if found.get(name, _UNKNOWN).gives == "any":
                found[name] = output_seen(evaluation)
    return found
