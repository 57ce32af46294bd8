"""A judge that rates a run with yes or no, and names the steps at fault."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llmeval_sdk.agents.run import run_of
from llmeval_sdk.errors import JudgeError
from llmeval_sdk.judges._base import BaseJudge, Forms, Typed, ask
from llmeval_sdk.judges._verdict import TEXT, form
from llmeval_sdk.judges.agent._shown_run import faults, shown_run, tools
from llmeval_sdk.judges.prompt import Example, Section, render
from llmeval_sdk.judges.stand_in import Rule
from llmeval_sdk.model import Answer, Evaluation, Option, Question, Record
from llmeval_sdk.protocols import LLM


FORM = form(
    '"rationale": a short text that gives the reason first and names the step; "steps": the '
    'numbers of the steps at fault, the decisive one first, [] where the rating is "yes"; '
    '"rating": "yes" or "no".',
    rationale=TEXT,
    steps={"type": "array", "items": {"type": "integer"}},
    rating={"type": "string", "enum": ["yes", "no"]},
)
MOST_STEPS = 20
"""Steps that a verdict names, and that a decision model chooses from."""
READING = """
The material is the run of an agent. Each section "step 3, …" is one step, in order: what a user,
the system or the agent (assistant) said, or a tool call with its arguments and its result. Name a
step by its number.
"""


@dataclass(frozen=True, kw_only=True)
class RunJudge(BaseJudge):
    """A rubric about a run, and what of a Record is shown beside the steps."""

    name: str
    version: str
    rubric: str
    examples: tuple[Example, ...] = ()
    needs: tuple[str, ...] = ("steps",)
    beside: Callable[[Record], Sequence[Section]] = tools
    missing: Callable[[Record], str | None] = lambda _: None
    """Names what a run lacks so that there is nothing to judge in it."""
    stand_in: Rule | None = None
    form = FORM
    output = "yes_no"
    predictor: str | None = "run_faults"

    def lacks(self, record: Record) -> str | None:
        """Name what the run lacks beyond its steps."""
        return self.missing(record) if record.steps else "steps"

    async def judge(self, record: Record, llm: LLM) -> Evaluation:
        """Ask once; a no has to name a step that there is."""
        run = shown_run(record)
        task, sections = f"{self.name}/{self.version}", [*self.beside(record), *run.sections]
        prompt = render(task, self._task, self.form, sections, self.examples)
        verdict = await ask(llm, prompt, self.form, max_tokens=1024)
        steps = list(dict.fromkeys(verdict["steps"]))
        unknown = [number for number in steps if number not in run.numbers]
        if unknown:
            raise JudgeError(
                "malformed", f"the verdict names step {unknown[0]}, which is not shown"
            )
        is_good = verdict["rating"] == "yes"
        if not is_good and not steps:
            raise JudgeError("malformed", "the verdict is no and names no step at fault")
        named = {} if is_good else {"steps": steps[:MOST_STEPS]}
        return Evaluation(
            self.name,
            verdict["rating"],
            explanation=verdict["rationale"],
            metadata={**named, **run.notes, **prompt.notes},
        )

    @property
    def _task(self) -> str:
        return f"{READING.strip()}\n\n{self.rubric.strip()}"

    def asks(self) -> str | None:
        """Return its question in words, for people who label what it judged."""
        return self.rubric

    def typed(self, forms: Forms) -> Typed:
        """Ask the rubric, and which step is at fault most of all."""

        def sections(record: Record) -> list[Section]:
            return [*self.beside(record), *shown_run(record).sections]

        whole = forms.yes_no(self._task, sections)

        def typed_form(record: Record) -> Any:
            base = whole(record)
            question = self._which_step(record, base.questions[0])

            def read(
                answers: Mapping[str, Answer], threshold: float, odds: float = 1.0, /
            ) -> Evaluation:
                rated = base.read(answers, threshold, odds)
                chances = answers[question.name].probabilities
                if rated.value != "no" or not chances:
                    return rated
                step = int(max(chances, key=chances.__getitem__))
                return replace(rated, metadata={**rated.metadata, "steps": [step]})

            return replace(base, questions=(*base.questions, question), read=read)

        return typed_form

    def _which_step(self, record: Record, whole: Question) -> Question:
        """Return the question which step is at fault, among those that are likeliest to be."""
        run, shown = run_of(record), shown_run(record).numbers
        order = dict.fromkeys((*faults(run), shown[-1], *(c.number for c in run.changes), *shown))
        known = [number for number in order if number in shown][:MOST_STEPS]
        if len(known) == 1:  # a choice needs two
            known.append(known[0] + 1)
        wording = (
            f"{whole.instructions}\n\nSuppose that the answer is no. Choose the number of the step "
            "that is at fault most of all."
        )
        options = tuple(Option(str(number), f"step {number}") for number in sorted(known))
        return Question(f"{self.name}.step", "choice", wording, options)


def tool_calls_missing(record: Record) -> str | None:
    """Name the tool calls where a run has none."""
    return None if run_of(record).calls else "tool calls in steps"
