"""Free scores of a conversation, one small file each, and what they have in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal

from llmeval_sdk.heuristics.function import FunctionHeuristic
from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.model.conversation import SpokenTurn, is_conversation, turns_of


MOST_SHOWN = 20
"""Turns that the metadata of an evaluation names."""
MOST_WORDS = 400
"""Words of a text that are compared with another's."""
MOST_LOOKED_BACK = 20
"""Earlier turns that a turn is compared with."""
COUNTED = "turns"
"""Key among the attributes of a session's Record: how many turns it had, also of those cut."""
_WORD = re.compile(r"\w+")

Scored = tuple[float | None, Sequence[int], str | None]
"""The value, the numbers of the turns at fault, and an explanation of the first fault."""


def of_turns(
    score: Callable[[list[SpokenTurn]], Scored],
    name: str,
    *,
    output: Literal["score", "count"] = "count",
) -> FunctionHeuristic[Evaluation | None]:
    """Make a heuristic of a function of the turns of a conversation."""

    def evaluate(record: Record) -> Evaluation | None:
        turns = turns_of(record)
        if not turns:
            return None
        value, at_fault, explanation = score(turns)
        if value is None:
            return None
        metadata: dict[str, object] = {}
        if shown := list(at_fault[:MOST_SHOWN]):
            starts = {turn.number: turn.start_ns for turn in turns}
            metadata = {"turns": shown, "turn_starts_ns": [starts.get(n) for n in shown]}
        return Evaluation(name, float(value), None, explanation, None, metadata)

    evaluate.__doc__ = score.__doc__
    evaluate.__name__ = name
    return of_a_session(evaluate, name, output=output)


def of_a_session(
    evaluate: Callable[[Record], Evaluation | None], name: str, *, output: Literal["score", "count"]
) -> FunctionHeuristic[Evaluation | None]:
    """Make a heuristic of a function of a Record that holds a conversation."""
    return FunctionHeuristic(
        evaluate,
        name,
        needs=("steps|request",),
        output=output,
        applies=is_conversation,
        per="session",
    )


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text that are compared, in lower case."""
    return frozenset(_WORD.findall(text.lower())[:MOST_WORDS])


def likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """Return how many of the words of two texts are common to both, 0 to 1."""
    return len(one & other) / len(one | other) if one and other else 0.0
