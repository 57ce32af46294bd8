"""A decision model that is a function of the app: its own client, a classifier, a rule."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.judges.models.callable_llm import called
from llmeval_sdk.judges.models.clients import name_of
from llmeval_sdk.judges.models.decisions._reading import distribution, malformed, yes_no
from llmeval_sdk.model import Answer, Decision, Question
from llmeval_sdk.model.protocols import DecisionModel
from llmeval_sdk.process.threads import HelperThreads


Decided = Decision | Mapping[str, Any]
"""Answers by the name of the question. Each is an `Answer`, the probability of each option by its
value, or, of a yes/no question, the probability of yes."""


class CallableDecisions(DecisionModel):
    """Wraps a function, sync or async, that takes data and questions and returns the answers.

    The function returns a mapping from the name of each question to the probabilities of its
    options, or to that of yes; or a `Decision`, which may report tokens. What it returns is
    checked as strictly as what a server answers. A sync function runs on a daemon thread.
    """

    def __init__(
        self,
        function: Callable[[Mapping[str, str], Sequence[Question]], Decided | Awaitable[Decided]],
        *,
        model: str | None = None,
    ) -> None:
        self._function = function
        self.model = model or name_of(function)
        self._aside = HelperThreads(f"decision model {self.model}"[:100])

    def __repr__(self) -> str:
        return f"CallableDecisions({self.model!r})"

    async def decide(self, data: Mapping[str, str], questions: Sequence[Question], /) -> Decision:
        """Call the function; raises `JudgeError` if it returns anything but answers."""
        decided = await called(self._function, self._aside, data, questions)
        if isinstance(decided, Decision):
            answers = {question.name: _read(question, decided.answers) for question in questions}
            return Decision(answers, decided.model or self.model, decided.usage, decided.requests)
        if not isinstance(decided, Mapping):
            raise JudgeError(
                "malformed", f"{self.model} returned {type(decided).__name__}, no answers"
            )
        return Decision(
            {question.name: _read(question, decided) for question in questions}, self.model
        )


def _read(question: Question, answers: Mapping[str, Any]) -> Answer:
    answer = answers.get(question.name)
    if isinstance(answer, Answer):
        if answer.error is not None:
            return answer
        answer = answer.probabilities
    if isinstance(answer, Mapping):
        return distribution(question, answer.items())
    if question.type == "yes_no" and answer is not None:
        return yes_no(answer)
    return malformed("no answer has the name of this question")
