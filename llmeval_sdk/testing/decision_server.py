"""A server of decisions on the loopback interface, for tests and demos without a model.

It speaks every wire over real HTTP: OpenAI's decisions, System One, and chat completions with
logprobs. By default it answers by rules on shared words; this is the stand-in, and the model's name
in every reply says so. For tests it can do to a client whatever a server in production may do::

    with DecisionServer(script=["rate_limited", "good"]) as server:
        model = HttpDecisions("systemone/any", base_url=server.base_url)

``python -m llmeval_sdk.testing.decision_server`` serves the stand-in until it is interrupted, and
answers judges as `JudgeServer` does.
"""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from llmeval_sdk import registry
from llmeval_sdk.judges.prompt import Rule, share
from llmeval_sdk.model import STAND_IN, Option, Question
from llmeval_sdk.testing.judge_server import JudgeServer, ReceivedRequest, ServedAnswer, error, main


__all__ = ["Decide", "DecisionServer", "Fault", "stand_in_decision"]


# How a server of decisions reads its requests and spells its answers, wire by wire.
#
# This is written from the vendors' side, and shares nothing with the clients in
# `llms.decisions`.

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


# What the decision server answers: the rules of the stand-in, and what it can do wrong.
#
# A fault that concerns a single answer is done to the first question of a request, so that the
# others show whether it costs them anything.

Decide = Callable[[Mapping[str, str], Question], "float | Mapping[str, float]"]
"""Gets the data and one question; returns the probability of yes, or that of each option."""

Fault = Literal[
    "good", "refusal", "wrong_order", "renamed", "missing", "surplus", "twice", "wrong_type", "nan",
    "bad_sum", "low_mass", "cut", "not_the_wire", "html",
    "rate_limited", "unavailable", "overloaded", "html_504", "error", "unauthorized", "not_found",
    "too_long", "invalid_object", "invalid_list", "refuses_logprobs", "without_logprobs",
    "slow", "drip", "hang", "reset",
]  # fmt: skip


def stand_in_decision(data: Mapping[str, str], question: Question) -> Mapping[str, float]:
    """Answer a question by shared words: of the response and whatever else it is about.

    Where the question is one of our own judges, its rule says which way the answer goes.
    """
    about = {title: text for title, text in data.items() if f'"{title}"' in question.instructions}
    sections = about or data
    subject = "response" if "response" in sections else "request"
    others = "\n".join(text for title, text in sections.items() if title != subject)
    matching = share(sections.get(subject, ""), others)
    judge = registry.known(question.name.partition(".")[0])
    rule: Rule | None = getattr(judge, "stand_in", None)
    rating = rule(sections).get("rating") if rule is not None else None
    is_good = rating == "yes" if rating in ("yes", "no") else matching >= 0.5
    strength = round(0.55 + 0.4 * abs(2 * matching - 1), 4)
    if question.type == "yes_no":
        yes = strength if is_good else 1 - strength
        return {"yes": yes, "no": 1 - yes}
    values = [option.value for option in question.options]
    place = round(matching * (len(values) - 1))
    if question.type == "choice":
        place = len(values) - 1 - place  # the better the words match, the earlier the choice
        if "none" in values:  # of the problems that a judge looks for
            place = values.index("none") if is_good else int(values[0] == "none")
    rest = (1 - strength) / (len(values) - 1)
    return {value: strength if values[place] == value else rest for value in values}


def decide(request: DecisionRequest, answer: Decide) -> dict[str, Any]:
    """Build the good reply that carries the answers to all questions of a request."""
    chances = []
    for question in request.questions:
        answered = answer(request.data, question)
        if not isinstance(answered, Mapping):
            answered = {"yes": answered, "no": 1 - answered}
        chances.append(answered)
    return spelled(request, chances)


def faulty_answer(
    fault: str, request: DecisionRequest, answer: Decide, retry_after: float
) -> ServedAnswer:
    """Answer one request in one of the ways of `Fault`."""
    if fault in _ERRORS:
        status, body = _ERRORS[fault]
        headers = {"Retry-After": f"{retry_after:g}"} if status in (429, 503, 529) else {}
        return ServedAnswer(status, json.dumps(body).encode(), headers)
    if fault == "html_504":
        page = b"<html><h1>504 Gateway Time-out</h1></html>"
        return ServedAnswer(504, page, content_type="text/html")
    if fault == "html":
        return ServedAnswer(200, b"<html>Please sign in.</html>", content_type="text/html")
    if fault == "refuses_logprobs":
        message = "Unsupported parameter: 'logprobs' is not supported with this model."
        return error(400, message, "unsupported_parameter")
    body = json.dumps(_faulty(fault, request, decide(request, answer)))
    if fault == "twice" and request.wire == "systemone":
        name = request.questions[0].name
        body = body.replace('"answers": {', f'"answers": {{{json.dumps(name)}: {{}}, ', 1)
    if fault == "cut":
        body = body[: len(body) // 2]
    if fault in ("slow", "drip", "hang", "reset"):
        return ServedAnswer(200, body.encode(), manner=fault)  # type: ignore[arg-type]
    return ServedAnswer(200, body.encode())


_ERRORS: dict[str, tuple[int, Any]] = {
    "rate_limited": (429, {"error": {"message": "Too many requests.", "code": "rate_limit"}}),
    "unavailable": (
        503,
        {"error": {"message": "Decision inference is unavailable.", "type": "server_error"}},
    ),
    "overloaded": (529, {"detail": "Overloaded."}),
    "error": (500, {"error": {"message": "Something broke."}}),
    "unauthorized": (401, {"detail": "Invalid API key."}),
    "not_found": (404, {"detail": "Not Found"}),
    "too_long": (400, {"detail": {"type": "max_tokens_exceeded"}}),
    "invalid_object": (422, {"detail": {"code": "invalid", "message": "The question is invalid."}}),
    "invalid_list": (
        422,
        {"detail": [{"loc": ["body", "questions"], "msg": "Field required", "type": "missing",
                     "input": "all of the request"}]},
    ),
}  # fmt: skip


def _faulty(fault: str, request: DecisionRequest, reply: dict[str, Any]) -> dict[str, Any]:
    if fault == "not_the_wire":
        return {"object": "list", "data": []}
    change = {
        "openai": _faulty_openai,
        "systemone": _faulty_systemone,
        "logprobs": _faulty_chat,
    }[request.wire]
    changed = copy.deepcopy(reply)
    change(fault, request, changed)
    return changed


def _faulty_openai(fault: str, request: DecisionRequest, reply: dict[str, Any]) -> None:
    answers = reply["answers"]
    first = answers[0]
    if fault == "refusal":
        answers[0] = {"type": "refusal", "name": first["name"]}
    elif fault == "wrong_order":
        answers[:2] = answers[1::-1]
    elif fault == "renamed":
        first["name"] = "another"
    elif fault == "missing":
        answers.pop(0)
    elif fault == "surplus":
        answers.insert(0, {**first, "name": "another"})
    elif fault == "twice":
        answers.insert(1, dict(first))
    else:
        _faulty_answer(fault, first)


def _faulty_systemone(fault: str, request: DecisionRequest, reply: dict[str, Any]) -> None:
    answers, name = reply["answers"], request.questions[0].name
    if fault == "refusal":
        answers[name] = {"type": "refusal"}
    elif fault == "wrong_order":  # which an object does not have
        reply["answers"] = dict(reversed(answers.items()))
    elif fault in ("renamed", "surplus"):
        answers["another"] = answers[name] if fault == "surplus" else answers.pop(name)
    elif fault == "missing":
        answers.pop(name)
    elif fault == "low_mass":
        reply["diagnostics"] = {name: {"label_mass": 0.1, "argmax_is_label": False}}
    else:
        _faulty_answer(fault, answers[name])


def _faulty_answer(fault: str, answer: dict[str, Any]) -> None:
    """Change the numbers of one answer; a list and an object of probabilities look the same."""
    if fault == "wrong_type":
        answer["type"] = "box"
        return
    number = {"nan": float("nan"), "bad_sum": 1.4}.get(fault)
    if number is None:
        return
    chances = answer.get("probabilities")
    if isinstance(chances, list):
        chances[0]["probability"] = number
    elif isinstance(chances, dict):
        chances[next(iter(chances))] = number
    else:
        answer["noul" if "noul" in answer else "probability"] = number


def _faulty_chat(fault: str, request: DecisionRequest, reply: dict[str, Any]) -> None:
    choice = reply["choices"][0]
    first = choice["logprobs"]["content"][1]
    if fault == "refusal":
        choice["message"] = {"role": "assistant", "content": None, "refusal": "I cannot do that."}
    elif fault == "without_logprobs":
        choice["logprobs"] = None
    elif fault == "missing":
        del choice["logprobs"]["content"][1]
    elif fault == "nan":
        first["top_logprobs"][0]["logprob"] = float("nan")
    elif fault == "bad_sum":
        first["top_logprobs"] = [token(label, 0.7) for label in request.label_of.values()]
    elif fault == "low_mass":
        likeliest = next(iter(request.label_of.values()))
        first["top_logprobs"] = [token("Well", 0.9), token(likeliest, 0.05)]


class DecisionServer(JudgeServer):
    """Serves decisions beside what `JudgeServer` serves, while it is entered.

    Which wire a request is on is seen from its body, as three of them share a path:
    ``/v1/decisions``, ``/v1/systemone``, ``/v1/chat/completions`` with ``logprobs``. Below
    ``/v1/ai/run/`` the answers of System One come in Cloudflare's envelope.

    Args:
        decide: Decides the probabilities of a good answer; the stand-in by default.
        script: How the first requests are answered, one entry each: a `Fault` or a function as
            ``decide``.
        default: How the requests after the script are answered.
        most_tokens: If given, a request that is longer is refused; four characters are a token.
        most_questions: If given, a request with more questions is refused.
        options: Further options of `JudgeServer`: ``delay``, ``retry_after``, ``key``, ``port`` …
    """

    stands_in_for: ClassVar[str] = "decision model"

    def __init__(
        self,
        decide: Decide = stand_in_decision,
        *,
        script: Iterable[Fault | Decide] = (),
        default: Fault = "good",
        most_tokens: int | None = None,
        most_questions: int | None = None,
        **options: object,
    ) -> None:
        super().__init__(script=script, default=default, **options)  # type: ignore[arg-type]
        self.decide = decide
        self.most_tokens = most_tokens
        self.most_questions = most_questions

    @property
    def decisions(self) -> list[ReceivedRequest]:
        """The requests for decisions, in the order in which they came."""
        return [request for request in list(self.requests) if _decision(request) is not None]

    def reply(self, request: ReceivedRequest) -> ServedAnswer:
        """Decide what one request gets."""
        decision = _decision(request)
        if decision is None:
            return super().reply(request)
        answer = self.refused(request) or self._too_much(decision) or self._scripted(decision)
        if "/ai/run/" in request.path and answer.status == 200:
            envelope = {"result": json.loads(answer.body), "success": True, "errors": []}
            return ServedAnswer(200, json.dumps(envelope).encode())
        return answer

    def _scripted(self, request: DecisionRequest) -> ServedAnswer:
        entry: Any = self.script.popleft() if self.script else self.default
        decide, fault = (entry, "good") if callable(entry) else (self.decide, entry)
        return faulty_answer(fault, request, decide, self.retry_after)

    def _too_much(self, request: DecisionRequest) -> ServedAnswer | None:
        if self.most_tokens is not None and request.characters() // 4 > self.most_tokens:
            return faulty_answer("too_long", request, self.decide, self.retry_after)
        if self.most_questions is not None and len(request.questions) > self.most_questions:
            return error(400, f"At most {self.most_questions} questions.", "too_many_questions")
        return None


def _decision(request: ReceivedRequest) -> DecisionRequest | None:
    last = request.path.rpartition("/")[2]
    is_here = last in ("decisions", "systemone", "completions") or "/ai/run/" in request.path
    return decision_request(request.body) if is_here else None


if __name__ == "__main__":
    main(server_class=DecisionServer)
