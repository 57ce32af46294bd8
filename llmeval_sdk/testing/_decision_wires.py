"""How a server of decisions reads its requests and spells its answers, wire by wire.

This is written from the vendors' side, and shares nothing with the clients in `llms.decisions`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from llmeval_sdk.model import STAND_IN, Option, Question


Chances = Mapping[str, float]
"""The probability of each option, by its value."""


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """What one request asks, and on which wire."""

    wire: Literal["openai", "systemone", "logprobs"]
    data: Mapping[str, str]
    questions: Sequence[Question]
    label_of: Mapping[str, str]
    """On ``logprobs``, what stands for each option."""

    def characters(self) -> int:
        """Return the length of all texts."""
        texts = [*self.data.values(), *(question.instructions for question in self.questions)]
        return sum(map(len, texts))


def decision_request(body: Mapping[str, Any]) -> DecisionRequest | None:
    """Read a request by the form of its body; ``None`` where it asks for no decision."""
    if isinstance(body.get("questions"), list) and "input" in body:
        parts = [part for turn in body["input"] for part in turn["content"]]
        data = {title: text for part in parts for title, text in part["data"].items()}
        return DecisionRequest("openai", data, [_of_openai(one) for one in body["questions"]], {})
    if isinstance(body.get("questions"), Mapping) and "state" in body:
        questions = [_of_systemone(name, one) for name, one in body["questions"].items()]
        return DecisionRequest("systemone", body["state"], questions, {})
    if body.get("logprobs") and body.get("messages"):
        return _of_chat(body["messages"])
    return None


def _of_openai(question: Mapping[str, Any]) -> Question:
    kind = {"predicate": "yes_no"}.get(question["type"], question["type"])
    options = [
        Option(one.get("value", one.get("label")), one.get("description", ""))
        for one in (*question.get("choices", ()), *question.get("levels", ()))
    ]
    return Question(question.get("name", ""), kind, question["instructions"], tuple(options))


def _of_systemone(name: str, question: Mapping[str, Any]) -> Question:
    kind = {"noul": "yes_no"}.get(question["type"], question["type"])
    criteria = question.get("criteria", {}) if kind != "yes_no" else {}
    options = tuple(
        Option(str(one), str(criteria[one] if isinstance(criteria, Mapping) else ""))
        for one in criteria
    )
    return Question(name, kind, question.get("instructions", ""), options)


_TASK = re.compile(r"^Task: (\S+)$", re.MULTILINE)
_ANSWERS = re.compile(r"^# Answers\n\n(.+?)\n\n#", re.MULTILINE | re.DOTALL)
_ANSWER = re.compile(r"^(\w+): (.*)$", re.MULTILINE)


def _of_chat(messages: Sequence[Mapping[str, str]]) -> DecisionRequest:
    system = "\n".join(turn["content"] for turn in messages if turn["role"] == "system")
    data = json.loads(next(turn["content"] for turn in messages if turn["role"] == "user"))
    task, answers = _TASK.search(system), _ANSWERS.findall(system)
    value_of = dict(_ANSWER.findall(answers[-1])) if answers else {}
    name = task[1] if task else ""
    if set(value_of) == {"yes", "no"}:
        same = {label: label for label in value_of}
        return DecisionRequest("logprobs", data, [Question(name, "yes_no", system)], same)
    kind: Any = "score" if "0" in value_of else "choice"
    question = Question(name, kind, system, tuple(Option(text) for text in value_of.values()))
    return DecisionRequest(
        "logprobs", data, [question], {text: label for label, text in value_of.items()}
    )


def spelled(request: DecisionRequest, chances: Sequence[Chances]) -> dict[str, Any]:
    """Spell a good reply: one distribution for each question."""
    pairs = list(zip(request.questions, chances, strict=True))
    read, written = max(1, request.characters() // 4), len(pairs)
    if request.wire == "logprobs":
        return _chat(request, chances[0], read)
    counts = {"input_tokens": read, "output_tokens": written}
    if request.wire == "openai":
        details = {
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": read + written,
        }
        answers: Any = [_openai(question, chance_of) for question, chance_of in pairs]
        return {"model": STAND_IN, "answers": answers, "usage": {**counts, **details}}
    answers = {question.name: _systemone(question, chance_of) for question, chance_of in pairs}
    return {"model": STAND_IN, "answers": answers, "usage": counts}


def _openai(question: Question, chance_of: Chances) -> dict[str, Any]:
    if question.type == "yes_no":
        probability = chance_of["yes"]
        return {"type": "predicate", "name": question.name, "probability": probability}
    confidence = max(chance_of.values())
    head = {"type": question.type, "name": question.name, "confidence": confidence}
    if question.type == "choice":
        probabilities = [{"value": one, "probability": p} for one, p in chance_of.items()]
        return {**head, "choice": _likeliest(chance_of), "probabilities": probabilities}
    levels = [
        {"value": place, "label": label, "probability": chance}
        for place, (label, chance) in enumerate(chance_of.items())
    ]
    return {**head, "score": _mean(chance_of), "probabilities": levels}


def _systemone(question: Question, chance_of: Chances) -> dict[str, Any]:
    if question.type == "yes_no":
        return {"type": "noul", "noul": chance_of["yes"]}
    head = {"type": question.type, "confidence": max(chance_of.values())}
    if question.type == "choice":
        return {**head, "choice": _likeliest(chance_of), "probabilities": dict(chance_of)}
    return {
        **head,
        "score": _mean(chance_of),
        "legend": {str(place): label for place, label in enumerate(chance_of)},
        "probabilities": {str(place): chance for place, chance in enumerate(chance_of.values())},
    }


def _chat(request: DecisionRequest, chance_of: Chances, read: int) -> dict[str, Any]:
    """Spell a chat completion whose first token is blank and whose second is the answer."""
    label_of = {value: request.label_of[value] for value in chance_of}
    likeliest = sorted(chance_of, key=chance_of.__getitem__, reverse=True)
    spellings = [
        token(text, chance_of[value] * part)
        for value in likeliest
        for text, part in ((label_of[value], 0.75), (f" {label_of[value]}".title(), 0.25))
    ]
    answer = label_of[likeliest[0]]
    content = [
        {**token("\n", 0.9), "top_logprobs": [token("\n", 0.9)]},
        {**token(answer, chance_of[likeliest[0]]), "top_logprobs": spellings},
    ]
    message = {"role": "assistant", "content": f"\n{answer}"}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": STAND_IN,
        "choices": [{**choice, "logprobs": {"content": content}}],
        "usage": {"prompt_tokens": read, "completion_tokens": 2, "total_tokens": read + 2},
    }


def token(text: str, chance: float) -> dict[str, Any]:
    """Spell a token with its logprob."""
    return {"token": text, "logprob": math.log(chance) if chance > 0 else -9999.0}


def _likeliest(chance_of: Chances) -> str:
    return max(chance_of, key=chance_of.__getitem__)


def _mean(chance_of: Chances) -> float:
    return sum(place * chance for place, chance in enumerate(chance_of.values()))
