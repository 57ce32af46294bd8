"""Judges for yes or no: an empty answer is settled without a model, all others by one question."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from llmeval_sdk.judges.base import BaseJudge, Forms, Typed, ask
from llmeval_sdk.judges.prompt import YES_NO, Example, Rule, Section, render
from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.model.protocols import LLM


# Answers that are decided before any call, because judges are known to fall for them.
#
# A colon or the opening words of a reasoning, alone, get favourable verdicts from many models ("One
# Token to Fool LLM-as-a-Judge", arXiv:2507.08794). They say nothing, and no model need be asked.


_SAY_NOTHING = frozenset(
    {
        "thought process",
        "reasoning",
        "answer",
        "final answer",
        "the answer is",
        "solution",
        "let's solve this problem step by step",
        "let's think step by step",
        "let us solve this problem step by step",
        "解",
        "かいせつ",
        "respuesta",
    }
)
_MOST_SIGNS = max(sum(map(str.isalnum, phrase)) for phrase in _SAY_NOTHING)
_HEAD = 200
"""Signs of an answer that are looked at first: most answers say something long before."""


def empty_answer(record: Record) -> str | None:
    """Say why a record's response is no answer; ``None`` where it may be one.

    A response that is exactly what was expected is an answer, whatever it looks like.
    """
    answer = (record.response or "").strip()
    if answer and record.expected_response and answer == record.expected_response.strip():
        return None
    if sum(map(str.isalnum, answer[:_HEAD])) > _MOST_SIGNS:
        return None
    said = "".join(sign for sign in answer if _says_something(sign)).strip().casefold()
    if not said:
        return "The response is empty."
    if " ".join(said.replace("\u2019", "'").split()).strip("' ") in _SAY_NOTHING:
        return "The response only announces an answer."
    return None


def decided(judge: str, record: Record, outcome: str | float) -> Evaluation | None:
    """Return the outcome of a judge for a response that is no answer; ``None`` for any other."""
    nothing = empty_answer(record)
    if nothing is None:
        return None
    return Evaluation(judge, outcome, explanation=nothing, metadata={"decided_by": "precheck"})


@lru_cache(4_096)  # three judges of a record read the same few signs
def _says_something(sign: str) -> bool:
    """Letters, digits and symbols do; punctuation, space and control characters do not."""
    return sign in "'\u2019 " or unicodedata.category(sign)[0] in "LNSM"


# A judge that rates an answer as a whole with yes or no.


@dataclass(frozen=True, kw_only=True)
class YesNoJudge(BaseJudge):
    """A rubric, what is shown with it, and what an empty answer gets without a call."""

    name: str
    version: str
    needs: tuple[str, ...]
    rubric: str
    sections: Callable[[Record], Sequence[Section]]
    examples: tuple[Example, ...] = ()
    when_empty: Literal["yes", "no"] | None = None
    """Rating of a response that says nothing; ``None`` asks the model all the same."""
    output = "yes_no"
    automatic: bool = False
    share_of: Literal["extractions", "answers"] | None = None
    predictor: str | None = None
    report_path: str | None = None
    metric_path: str | None = None
    stand_in: Rule | None = None

    def settled(self, record: Record) -> Evaluation | None:
        """Decide what a response that says nothing gets."""
        return None if self.when_empty is None else decided(self.name, record, self.when_empty)

    def asks(self) -> str | None:
        """Return its question in words, for people who label what it judged."""
        return self.rubric

    def typed(self, forms: Forms) -> Typed:
        """Ask the rubric as one question."""
        return forms.yes_no(self.rubric, self.sections)

    async def judge(self, record: Record, llm: LLM) -> Evaluation:
        """Ask once."""
        task = f"{self.name}/{self.version}"
        prompt = render(task, self.rubric, YES_NO, self.sections(record), self.examples)
        verdict = await ask(llm, prompt, YES_NO, max_tokens=1024)
        return Evaluation(
            self.name,
            verdict["rating"],
            explanation=verdict["rationale"],
            metadata=prompt.notes,
        )
