"""What the decision server answers: the rules of the stand-in, and what it can do wrong.

A fault that concerns a single answer is done to the first question of a request, so that the others
show whether it costs them anything.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any, Literal

from llmeval_sdk import registry
from llmeval_sdk.judges.stand_in import Rule, share
from llmeval_sdk.model import Question
from llmeval_sdk.testing._behaviours import ServedAnswer, error
from llmeval_sdk.testing._decision_wires import DecisionRequest, spelled, token


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
