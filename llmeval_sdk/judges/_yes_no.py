"""A judge that rates an answer as a whole with yes or no."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from llmeval_sdk.judges._precheck import decided
from llmeval_sdk.judges.base import BaseJudge, Forms, Typed, ask
from llmeval_sdk.judges.prompt import Example, Section, render
from llmeval_sdk.judges.stand_in import Rule
from llmeval_sdk.judges.verdict import YES_NO
from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.model.protocols import LLM


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
