"""Reads answers strictly: what is not a distribution over the asked options is not an answer.

Nothing that a server says of its own confidence is read; that is computed from the probabilities,
by one definition for all servers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from llmeval_sdk.judges.models.decisions._wire import Limits
from llmeval_sdk.model import Answer, Failure, Question


YES_NO = ("yes", "no")

LEAST_LABEL_MASS = 0.5
"""The answers on offer have to hold this much of a model's probability together. Below it, the
model would rather have said something else, and what is left says little about the question."""

ROUNDING, MOST_ROUNDING = 0.005, 0.05
"""How far a sum of probabilities may be from 1: for each option half a unit of the second decimal,
because some hosts round to two, and for all together never more than could hide an option."""


def values_of(question: Question) -> tuple[str, ...]:
    """Return the values that an answer gives probabilities for, in the order of the question."""
    return (
        YES_NO if question.type == "yes_no" else tuple(option.value for option in question.options)
    )


def unfit(question: Question, wire: str, limits: Limits) -> str | None:
    """Say why a question cannot be asked on a wire; ``None`` where it can."""
    values = [option.value for option in question.options]
    if len(set(values)) < len(values):
        return "two of its options have the same value"
    if question.type == "yes_no":
        return None if set(values) <= set(YES_NO) else "its options can only be yes and no"
    what, most = (
        ("options", limits.options) if question.type == "choice" else ("levels", limits.levels)
    )
    if not 2 <= len(values) <= most:
        return f"it has {len(values)} {what}, and {wire} takes 2 to {most}"
    return None


def failed(type: str, message: str) -> Answer:  # noqa: A002
    """Return an answer that is an error."""
    return Answer(error=Failure(type, message))


def malformed(message: str) -> Answer:
    """Return the answer of a server that broke the wire's rules in this one."""
    return failed("malformed", message)


def _is_probability(number: Any) -> bool:
    """Say whether something is a number from 0 to 1; NaN, true and "0.5" are not."""
    return type(number) in (int, float) and 0 <= number <= 1


def yes_no(probability: Any) -> Answer:
    """Return the answer to a yes/no question by the probability of yes."""
    if not _is_probability(probability):
        return malformed("the probability is no number from 0 to 1")
    return Answer({"yes": float(probability), "no": 1.0 - probability})


def distribution(question: Question, chances: Iterable[tuple[Any, Any]]) -> Answer:
    """Return the answer whose probabilities stand beside the options' values, in any order."""
    values = values_of(question)
    chance_of: dict[str, float] = {}
    for value, chance in chances:
        if not isinstance(value, str) or value not in values:
            return malformed("an option has a probability that was not on offer")
        if value in chance_of:
            return malformed("an option has two probabilities")
        if not _is_probability(chance):
            return malformed("a probability is no number from 0 to 1")
        chance_of[value] = float(chance)
    if len(chance_of) < len(values):
        return malformed("an option has no probability")
    total = sum(chance_of.values())
    if abs(total - 1) > min(ROUNDING * len(values), MOST_ROUNDING):
        return malformed(f"the probabilities sum to {total:.3g}")
    return Answer({value: chance_of[value] / total for value in values})


def chosen(answer: Answer, choice: Any) -> Answer:
    """Return an answer if the choice that the server names is a likeliest option of it."""
    if answer.error is None:
        likeliest = max(answer.probabilities.values()) - 2 * ROUNDING
        if not isinstance(choice, str) or answer.probabilities.get(choice, -1.0) < likeliest:
            return malformed("the choice is not the likeliest option")
    return answer


def on_labels(answer: Answer, mass: Any) -> Answer:
    """Return an answer if its options hold enough of the model's probability.

    Args:
        answer: The answer so far.
        mass: What the server says of it; ``None`` where it says nothing.
    """
    if answer.error is not None or mass is None:
        return answer
    if type(mass) not in (int, float) or not 0 <= mass <= 1 + MOST_ROUNDING:
        return malformed("the label mass is no number from 0 to 1")
    if mass < LEAST_LABEL_MASS:
        return failed(
            "unanswered",
            f"only {mass:.0%} of the model's probability is on the answers that were on offer",
        )
    return answer


class _Twice:
    """Stands for the value of a key that an object has twice; it is nothing anybody expects."""


def decoded(body: bytes) -> Any:
    """Decode JSON; a key that an object has twice has no value that could be read."""
    return json.loads(body, object_pairs_hook=_without_the_second)


def _without_the_second(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    decoded = dict(pairs)
    if len(decoded) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                decoded[key] = _Twice()
            seen.add(key)
    return decoded
