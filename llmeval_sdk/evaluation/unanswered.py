"""A record without an answer: whether it abstained or the answer got lost, and what scores say.

Where an answer was expected, a missing one is a miss for every score that compares the two. Where
none was, a score that needs an answer has no value, and says that it is for want of an answer.
"""

from __future__ import annotations

import inspect
from typing import Any, Literal

from llmeval_sdk.evaluation._running import is_built_in
from llmeval_sdk.model import Evaluation, Record, Score, values
from llmeval_sdk.model.chat import is_answer
from llmeval_sdk.model.fields import alternatives, is_met
from llmeval_sdk.model.protocols import Evaluator


NO_ANSWER = "no_answer"
"""The key of an evaluation's metadata that says that the record has no answer, and why: `LOST` or
`ABSTAINED`."""
LOST = "lost"
ABSTAINED = values.ABSTAINED

_ANSWERS = ("response", "value")
_EXPECTED = ("expected_response", "expected_facts")
_RETURNED: dict[str, tuple[Score, Score]] = {
    "bool": (False, True),
    "float": (0.0, 1.0),
    "score": (0.0, 1.0),
    "yes_no": ("no", "yes"),
}
"""By what an evaluator gives: its worst and its best value."""


def answer_of(record: Record) -> Literal["given", "abstained", "lost"]:
    """Say whether a record has an answer, the app declared that it gives none, or it got lost.

    What is an answer, `is_answer` says.
    """
    if record.abstained is not None:
        return "abstained"
    return "given" if is_answer(record.response) or is_answer(record.value) else "lost"


def without_answer(evaluator: Evaluator, record: Record) -> Evaluation | None:
    """Return what an evaluator says of a record without an answer; ``None`` where it has to run.

    ``None`` is also returned for an evaluator that needs no answer, or lacks more than that.
    """
    answers = [need for need in evaluator.needs if _is_answer(need)]
    if not answers:
        return None
    state = answer_of(record)
    compares = any(_is_expected(need) for need in evaluator.needs)
    is_absent = not all(is_met(need, record) for need in answers)
    if not is_absent and not (compares and state == ABSTAINED):
        return None
    if not all(is_met(need, record) for need in evaluator.needs if need not in answers):
        return None
    value: Score = None
    why = f"no answer: {record.abstained or 'it got lost'}"
    if compares:
        value, why = _compared(evaluator, record, why)
    return Evaluation(
        evaluator.name,
        value,
        explanation=why,
        metadata={NO_ANSWER: ABSTAINED if state == ABSTAINED else LOST},
        evaluator_kind=evaluator.kind,
        evaluator_version=evaluator.version,
    )


def _compared(evaluator: Evaluator, record: Record, why: str) -> tuple[Score, str]:
    """Return what no answer is worth to an evaluator that compares it with the expected one."""
    worst, best = _ends(evaluator)
    if record.expected_facts or (record.expected_response or "").strip():
        return worst, f"an answer was expected, and there is {why}"
    if record.abstained is not None:
        return best, f"no answer was expected, and there is {why}"
    return None, why


def _ends(evaluator: Any) -> tuple[Score, Score]:
    """Return the worst and the best value of an evaluator; ``None`` where it does not say."""
    given = evaluator.output
    if given is None:
        function = getattr(evaluator, "function", None) or evaluator.evaluate
        try:
            returned = inspect.signature(function).return_annotation
        except (TypeError, ValueError):
            returned = None
        given = getattr(returned, "__name__", str(returned))
        if given == "bool" and evaluator.kind == "judge":
            given = "yes_no"
        elif evaluator.kind == "heuristic" and is_built_in(evaluator):
            given = "bool"
    worst, best = _RETURNED.get(given, (None, None)) if isinstance(given, str) else (None, None)
    if given in ("float", "score") and values.high_is_bad(evaluator.name):
        return best, worst
    return worst, best


def _is_answer(need: str) -> bool:
    return not set(alternatives(need)).isdisjoint(_ANSWERS)


def _is_expected(need: str) -> bool:
    return not set(alternatives(need)).isdisjoint(_EXPECTED)
