"""The wire of System One: ``POST /v1/systemone``, as TypeSafe made it and others serve it.

TypeSafe, Upstage, Perplexity (whose path is ``/decisions``), vLLM, SGLang and llama.cpp take the
same body; Cloudflare wraps the same reply, and has the model in its path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llmeval_sdk.judges.models.decisions._reading import (
    chosen,
    distribution,
    failed,
    malformed,
    on_labels,
    yes_no,
)
from llmeval_sdk.judges.models.decisions._wire import Limits, Wire
from llmeval_sdk.judges.models.failures import CallFailed
from llmeval_sdk.judges.models.sending import Dialect
from llmeval_sdk.model import Answer, Question


_TYPES = {"yes_no": "noul", "choice": "choice", "score": "score"}


class SystemOneWire(Wire):
    """Questions and answers are objects by name. There is no refusal of a single question."""

    name = "systemone"
    path = "/systemone"
    limits = Limits(questions=64, options=255, levels=10)
    """64 questions is what vLLM and Cloudflare take; the other hosts take more."""
    of_openai = False
    address_needed = (
        "https://api.typesafe.ai/v1 or http://localhost:8000/v1 (of vLLM, SGLang or llama.cpp); "
        "for Perplexity, https://api.perplexity.ai/v1 with LLMEVAL_DECISION_PATH=/decisions"
    )

    def body(
        self, model: str, data: Mapping[str, str], questions: Sequence[Question], known: Dialect
    ) -> dict[str, Any]:
        """Send the texts as the state, by their titles."""
        asked = {question.name: _question(question) for question in questions}
        return {"model": model, "state": dict(data), "questions": asked}

    def read(self, reply: Any, questions: Sequence[Question]) -> dict[str, Answer]:
        """Find the answers by their names; an object has no order."""
        answers = reply.get("answers") if isinstance(reply, dict) else None
        if not isinstance(answers, dict):
            raise CallFailed(
                "malformed",
                "the reply has no object of answers, as System One has one; a server whose answers "
                "are a list is reached by `openai/…`",
            )
        diagnostics = reply.get("diagnostics")
        masses = diagnostics if isinstance(diagnostics, dict) else {}
        return {
            question.name: _read(question, answers.get(question.name), masses.get(question.name))
            for question in questions
        }

    def opened(self, reply: Any) -> Any:
        """Take a reply out of Cloudflare's envelope."""
        is_wrapped = isinstance(reply, dict) and "answers" not in reply and "result" in reply
        return reply["result"] if is_wrapped else reply


def _question(question: Question) -> dict[str, Any]:
    described = {option.value: option.description or option.value for option in question.options}
    criteria: Any = described
    if question.type == "yes_no":
        names = {"yes": "true", "no": "false"}
        criteria = {names[value]: text for value, text in described.items()}
    elif question.type == "score":
        criteria = [
            f"{option.value}: {option.description}" if option.description else option.value
            for option in question.options
        ]
    head = {"type": _TYPES[question.type], "instructions": question.instructions}
    return {**head, "criteria": criteria} if criteria else head


def _read(question: Question, answer: Any, diagnosis: Any) -> Answer:
    if answer is None:
        return malformed("no answer has the name of this question")
    if not isinstance(answer, dict):
        return malformed("the answer is no object, or there are two of them")
    kind = answer.get("type")
    if kind == "refusal":  # of hosts that pass on what another wire answered
        return failed("refused", "the model declined to answer this question")
    if kind != _TYPES[question.type]:
        return malformed("the answer is to a question of another type")
    mass = answer.get("x_label_mass")  # of SGLang
    if mass is None and isinstance(diagnosis, dict):  # of vLLM
        mass = diagnosis.get("label_mass")
    return on_labels(_distribution(question, answer), mass)


def _distribution(question: Question, answer: Mapping[str, Any]) -> Answer:
    if question.type == "yes_no":
        return yes_no(answer.get("noul"))
    chance_of = answer.get("probabilities")
    if not isinstance(chance_of, dict):
        return malformed("there is no object of probabilities")
    if question.type == "choice":
        return chosen(distribution(question, chance_of.items()), answer.get("choice"))
    level_of = {str(number): option.value for number, option in enumerate(question.options)}
    return distribution(
        question, [(level_of.get(number), chance) for number, chance in chance_of.items()]
    )
