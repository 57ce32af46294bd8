"""A decision model of the tests' own: it answers by a rule and keeps what it was asked."""

import asyncio

from llmeval_sdk.model import Answer, Decision, Usage
from llmeval_sdk.model.protocols import DecisionModel


def evenly(question):
    """Give every answer the same probability."""
    names = [option.value for option in question.options] or ["yes", "no"]
    return Answer(dict.fromkeys(names, 1 / len(names)))


def yes(probability):
    """Make the answer to a question for yes or no."""
    return Answer({"yes": probability, "no": 1 - probability})


class ScriptedDecisions(DecisionModel):
    """Answers each question by its name, else by ``rule``; an exception is raised.

    Args:
        answers: By the name of a question; ``None`` leaves it without an answer.
        rule: Answers what is in no ``answers``.
        error: Raised instead.
        usage: Of each request.
    """

    def __init__(self, answers=None, *, rule=evenly, error=None, usage=Usage(100, 0, 100)):  # noqa: B008
        self.model = "scripted-1"
        self.answers = answers or {}
        self.rule = rule
        self.error = error
        self.usage = usage
        self.asked = []

    async def decide(self, data, questions, /):
        self.asked.append((dict(data), list(questions)))
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        given = {
            question.name: self.answers.get(question.name, self.rule(question))
            for question in questions
        }
        return Decision(
            {name: answer for name, answer in given.items() if answer is not None},
            "scripted-1-2026",
            self.usage,
        )
