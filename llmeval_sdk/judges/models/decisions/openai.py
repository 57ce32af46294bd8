"""The wire of OpenAI's Decisions API: ``POST /v1/decisions``.

Requests are posted by themselves: the client has a method for them only since 3.26.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from llmeval_sdk.judges.models.decisions._reading import (
    chosen,
    distribution,
    failed,
    malformed,
    yes_no,
)
from llmeval_sdk.judges.models.decisions._wire import Limits, Wire
from llmeval_sdk.judges.models.failures import CallFailed
from llmeval_sdk.judges.models.sending import Dialect
from llmeval_sdk.model import Answer, Option, Question


_TYPES = {"yes_no": "predicate", "choice": "choice", "score": "score"}


class OpenAIWire(Wire):
    """Questions and answers are lists in the same order; a refused question is an answer."""

    name = "openai"
    path = "/decisions"
    limits = Limits(questions=400, options=255, levels=10, tokens=922_000)

    def body(
        self, model: str, data: Mapping[str, str], questions: Sequence[Question], known: Dialect
    ) -> dict[str, Any]:
        """Send each text as a JSON part of its own, because a part may have 256 KiB at most."""
        parts = [{"type": "input_json", "data": {title: text}} for title, text in data.items()]
        return {
            "model": model,
            "input": [{"role": "user", "content": parts}],
            "questions": [_question(question) for question in questions],
            "prompt_cache_key": _cache_key(data),
        }

    def read(self, reply: Any, questions: Sequence[Question]) -> dict[str, Answer]:
        """Find the answers by their names; those that are in another order are errors."""
        answers = reply.get("answers") if isinstance(reply, dict) else None
        if not isinstance(answers, list):
            raise CallFailed(
                "malformed",
                "the reply has no list of answers, as OpenAI's decisions have one; a server whose "
                "answers are an object is reached by `systemone/…`",
            )
        names = [_name(answer) for answer in answers]
        counts = Counter(names)
        asked = {question.name: None for question in questions}
        in_turn = [name for name in asked if counts[name] == 1]
        answered = [name for name in names if counts[name] == 1 and name in asked]
        misplaced = {one for one, other in zip(answered, in_turn, strict=True) if one != other}
        answer_of = dict(zip(names, answers, strict=True))

        def read(question: Question) -> Answer:
            if counts[question.name] != 1:
                times = "no answer has" if not counts[question.name] else "several answers have"
                return malformed(f"{times} the name of this question")
            if question.name in misplaced:
                return malformed("it was answered out of order")
            return _read(question, answer_of[question.name])

        return {question.name: read(question) for question in questions}


def _question(question: Question) -> dict[str, Any]:
    instructions = question.instructions
    more: dict[str, Any] = {}
    if question.type == "yes_no":
        meaning = {option.value: f": {option.description}" for option in question.options}
        instructions += f"\n\nTrue means yes{meaning.get('yes', '.')}"
        instructions += f"\nFalse means no{meaning.get('no', '.')}"
    elif question.type == "choice":
        more["choices"] = [_described("value", option) for option in question.options]
    else:
        more["levels"] = [_described("label", option) for option in question.options]
    head = {"type": _TYPES[question.type], "name": question.name}
    return {**head, "instructions": instructions, **more}


def _described(key: str, option: Option) -> dict[str, str]:
    described = {"description": option.description} if option.description else {}
    return {key: option.value, **described}


def _cache_key(data: Mapping[str, str]) -> str:
    """Name the data, so that further requests about it find it in the cache."""
    digest = hashlib.sha256()
    for title, text in data.items():
        digest.update(f"{len(title)} {title}{len(text)} {text}".encode("utf-8", "replace"))
    return digest.hexdigest()[:32]


def _name(answer: Any) -> str | None:
    name = answer.get("name") if isinstance(answer, dict) else None
    return name if isinstance(name, str) else None


def _read(question: Question, answer: Mapping[str, Any]) -> Answer:
    kind = answer.get("type")
    if kind == "refusal":
        return failed("refused", "the model declined to answer this question")
    if kind != _TYPES[question.type]:
        return malformed("the answer is to a question of another type")
    if question.type == "yes_no":
        return yes_no(answer.get("probability"))
    entries = answer.get("probabilities")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        return malformed("there is no list of probabilities")
    if question.type == "choice":
        chances = [(entry.get("value"), entry.get("probability")) for entry in entries]
        return chosen(distribution(question, chances), answer.get("choice"))
    return distribution(
        question, [(_level(question, entry), entry.get("probability")) for entry in entries]
    )


def _level(question: Question, entry: Mapping[str, Any]) -> str | None:
    """Return the level that an entry is of, if number and label say the same."""
    number, levels = entry.get("value"), question.options
    if type(number) is not int or not 0 <= number < len(levels):
        return None
    return levels[number].value if entry.get("label") == levels[number].value else None
