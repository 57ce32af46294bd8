"""What a decision model is asked and what it answers, in no vendor's words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from llmeval_sdk.model._nouns import Failure, Usage


@dataclass(frozen=True, slots=True)
class Option:
    """One possible answer to a question.

    Args:
        value: Its name: ``yes`` and ``no``, a category, or the label of a level.
        description: When it applies, in the words of the rubric.
    """

    value: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """A typed question about a record.

    Args:
        name: What its answer is found by; unique within one call of `DecisionModel.decide`. It is
            never made of anything that a record holds.
        type: ``yes_no``, ``choice`` (one of the options) or ``score`` (a level, the options being
            ordered from low to high).
        instructions: The rubric. It refers to parts of the data by their titles and holds nothing
            of what is judged.
        options: Those of ``choice`` and ``score``; for ``yes_no`` none, or ``yes`` and ``no`` with
            their descriptions.
    """

    name: str
    type: Literal["yes_no", "choice", "score"]
    instructions: str
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one question: a probability for each option, or the reason why there is none.

    Args:
        probabilities: By the option's value (``yes`` and ``no`` of a ``yes_no`` question), each in
            0..1, with the sum 1. Empty where there is an error.
        error: ``refused``, ``malformed`` or ``unanswered``, where the model gave no usable answer
            to this question. The other questions of the same request are not affected.
    """

    probabilities: Mapping[str, float] = field(default_factory=dict)
    error: Failure | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What came of one call of `DecisionModel.decide`.

    Args:
        answers: By the name of the question; every question that was asked has one.
        model: The exact name of the model that answered.
        usage: Tokens and money of all requests together.
        requests: How many requests it took: more than one where a limit of the wire, or a retry,
            made it so.
    """

    answers: Mapping[str, Answer]
    model: str = ""
    usage: Usage | None = None
    requests: int = 1
