"""Judges of an agent's run, one small file each, and the base that all of them derive from.

A judge rates a run with yes or no, and names the steps at fault.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, NamedTuple

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.judges.base import BaseJudge, Forms, Typed, ask, combine, rate_chunks
from llmeval_sdk.judges.function import FunctionJudge, outcome
from llmeval_sdk.judges.prompt import (
    TEXT,
    Example,
    Rule,
    Section,
    Sections,
    form,
    render,
    shortened,
)
from llmeval_sdk.model import Answer, Evaluation, Option, Question, Record
from llmeval_sdk.model.chat import both_ends
from llmeval_sdk.model.protocols import LLM
from llmeval_sdk.model.runs import WENT_WRONG, Run, ToolCall, run_of
from llmeval_sdk.plugins.agents.phrases import hijacks


# The part of a run that a judge sees: all of it where it fits, else a digest.
#
# Each step has a section of its own, so that no tool's result can pass for another step. A run
# fits if it has at most `MAX_WHOLE` steps. Of a longer one the judge sees `MOST_SHOWN` steps,
# chosen in this order: both ends; the calls that failed, were refused, repeat an earlier one or
# follow an instruction from a tool's result; the user's messages; calls that change something;
# the agent's messages; and the latest of all others. Between them a line says how many steps are
# not shown, and which. Long texts lose their middle, as in every prompt.

MAX_WHOLE = 300
"""Steps of the longest run that is shown whole."""
MOST_SHOWN = 160
"""Steps that are shown of a longer run."""
_OF_A_KIND = 40
"""How many faults, messages of the user, and changes are sure of a place, half from each end."""
_FIRST, _LAST = 4, 8
_MAX_WORK = 4_000.0
"""Thousands of characters that the search for hijacked calls may read."""
MAX_TOOLS = 16_000
"""Characters of the definitions of tools."""
_MAX_TEXT = 64_000
"""Characters of one text, of which the prompt shows the more the fewer others there are."""


class ShownRun(NamedTuple):
    """A run as sections of a prompt."""

    sections: list[Section]
    numbers: list[int]
    """Which steps are shown, beginning with 1."""
    notes: dict[str, Any]
    """What the metadata of a verdict has to say of it."""


def shown_run(record: Record) -> ShownRun:
    """Return what a judge is shown of the run of a Record."""
    run = run_of(record)
    count = len(run.steps)
    numbers = list(range(1, count + 1)) if count <= MAX_WHOLE else _chosen(run)
    calls = {call.number: call for call in (*run.earlier, *run.turn)}
    sections: list[Section] = []
    last = 0
    for number in [*numbers, count + 1]:
        if number > last + 1:
            sections.append(_gap(range(last + 1, number), calls))
        if number <= count:
            sections.append(_step(run, number, calls.get(number)))
        last = number
    notes = {} if len(numbers) == count else {"steps_left_out": count - len(numbers)}
    return ShownRun(sections, numbers, notes)


def tools(record: Record) -> list[Section]:
    """Return the section of the tools that the agent had, where they are known."""
    if not record.tools:
        return []
    lines = [
        f"{tool.get('name')}: {tool.get('description') or ''} {_json(tool.get('parameters') or {})}"
        for tool in record.tools
    ]
    return [Section("tools", "\n".join(lines)[:MAX_TOOLS])]


def of_call(call: ToolCall) -> str:
    """Write a tool call as text.

    What precedes the result is a line each, so that nothing in a name, in arguments or in an error
    can pass for a result.
    """
    step = call.step
    lines = [f"tool: {_line(step.name or '')}", f"arguments: {_line(_json(step.arguments))}"]
    if step.error is not None:
        lines.append(f"error: {_line(str(step.error))}")
    result = call.result
    shown = None if result is None else f"result: {shortened(result, _MAX_TEXT)}"
    return "\n".join([*lines, shown or "no result came"])


def _line(text: str) -> str:
    return " ".join(text.splitlines())


def faults(run: Run) -> list[int]:
    """Return the steps that went wrong, as far as that shows without a model."""
    at_fault = {call.number for call in run.turn if call.outcome in WENT_WRONG}
    made = set()
    for call in run.turn:
        if call.signature in made:
            at_fault.add(call.number)
        made.add(call.signature)
    with suppress(_SpentError):  # a run made to be slow to read
        at_fault |= {hijack.call.number for hijack in hijacks(run, _Allowance().spend)}
    return sorted(at_fault)


class _SpentError(Exception):
    pass


class _Allowance:
    def __init__(self) -> None:
        self._left = _MAX_WORK

    def spend(self, work: float) -> None:
        self._left -= work
        if self._left < 0:
            raise _SpentError


def _chosen(run: Run) -> list[int]:
    """Return the steps of a long run that are shown, in order."""
    count = len(run.steps)
    by_role = {role: _numbers(run, role) for role in ("user", "assistant")}
    order = chain(
        range(1, _FIRST + 1),
        range(count - _LAST + 1, count + 1),
        both_ends(faults(run), _OF_A_KIND),
        both_ends(by_role["user"], _OF_A_KIND),
        both_ends([call.number for call in run.changes], _OF_A_KIND),
        both_ends(by_role["assistant"], _OF_A_KIND),
        range(count, 0, -1),
    )
    return sorted(islice(dict.fromkeys(order), MOST_SHOWN))


def _numbers(run: Run, role: str) -> list[int]:
    return [number for number, step in enumerate(run.steps, 1) if step.role == role]


def _gap(numbers: range, calls: dict[int, ToolCall]) -> Section:
    there = [calls[number] for number in numbers if number in calls]
    unlike = sum(call.outcome in WENT_WRONG for call in there)
    text = (
        f"[{len(numbers)} steps are left out here: {len(there)} tool calls, of which {unlike} "
        f"failed or were refused, and {len(numbers) - len(there)} messages]"
    )
    return Section(f"left out, steps {numbers[0]} to {numbers[-1]}", text)


def _step(run: Run, number: int, call: ToolCall | None) -> Section:
    step = run.steps[number - 1]
    if call is not None:
        return Section(f"step {number}, tool call", of_call(call))
    return Section(f"step {number}, {step.role}", shortened(step.content or "", _MAX_TEXT))


def _json(value: object) -> str:
    if isinstance(value, str):
        return shortened(value, _MAX_TEXT)
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
        return shortened(text, _MAX_TEXT)
    except (TypeError, ValueError, RecursionError):
        return repr(type(value))


# The reading of a run by the rules that stand in for a model.

_TITLE = re.compile(r"step (\d+), (.+)")
_FAILED = re.compile(
    r"^(?:error: |result: (?:error|failed|exception))", re.MULTILINE | re.IGNORECASE
)

NumberedStep = tuple[int, str, str]
"""A step's number, who it is by (``tool call`` for a call), and its text."""


def numbered(sections: Sections) -> list[NumberedStep]:
    """Return the steps that a prompt shows."""
    titles = ((_TITLE.fullmatch(title), text) for title, text in sections.items())
    return [(int(title[1]), title[2], text) for title, text in titles if title is not None]


def last_step(steps: Sequence[NumberedStep]) -> int:
    """Return the number of the last step."""
    return steps[-1][0] if steps else 1


def called(text: str) -> str:
    """Return the lines of a tool call that say what was called, with which arguments."""
    return "\n".join(text.split("\n")[:2])


def has_failed(text: str) -> bool:
    """Say whether a tool call shows an error."""
    return _FAILED.search(text) is not None


def verdict(at_fault: Sequence[int], why: str) -> dict[str, object]:
    """Return a verdict that is good where no step is at fault."""
    return {
        "rationale": f"stand-in: {why}",
        "steps": list(at_fault),
        "rating": "no" if at_fault else "yes",
    }


FORM = form(
    '"rationale": a short text that gives the reason first and names the step; "steps": the '
    'numbers of the steps at fault, the decisive one first, [] where the rating is "yes"; '
    '"rating": "yes" or "no".',
    rationale=TEXT,
    steps={"type": "array", "items": {"type": "integer"}},
    rating={"type": "string", "enum": ["yes", "no"]},
)
MAX_STEPS = 20
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
        named = {} if is_good else {"steps": steps[:MAX_STEPS]}
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
        known = [number for number in order if number in shown][:MAX_STEPS]
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


# Judges that are functions of the app and rate each tool call: ``@judge(per="step")``.


MOST_CALLS = 100
"""The most tool calls of a run that are rated; of a longer run, its first and last calls are."""
_UNITS = "tool calls"


class StepJudge(FunctionJudge[Any]):
    """Asks a function ``(record, step, llm)`` about each tool call of a run.

    The value is the share of calls that are rated yes, or the mean of scores. The metadata has one
    entry per call in ``ratings``, ``rationales`` and ``error_messages``, the number of each call's
    step in ``rated_steps``, and in ``steps`` those that are rated no. Where the calls have spans,
    ``rated_spans`` has the ids of these.
    """

    def __init__(self, function: Any, *, name: str, **options: Any) -> None:
        super().__init__(function, name=name, **options)
        self.report_path = f"agent/llm_judged/{name}"
        self.metric_path = f"{self.report_path}/precision/average"

    def lacks(self, record: Record, /) -> str | None:
        """Name the tool calls where the run has none."""
        return tool_calls_missing(record)

    async def judge(self, record: Record, llm: LLM) -> Evaluation:
        """Ask about each call, several at a time; a plain function is called aside, in order."""
        calls = _rated(record)
        if self.blocking:
            rated = await self._aside.call_async(self._one_by_one, record, calls, llm)
            combined = combine(self.name, rated, _UNITS)
        else:

            async def rate(call: ToolCall) -> Evaluation:
                return outcome(self.name, await self.function(record, call.step, llm))

            combined = await rate_chunks(self.name, calls, rate, units=_UNITS)
        return _by_step(combined, calls, len(run_of(record).calls))

    def located(self, verdict: Evaluation, record: Record, /) -> Evaluation:
        """Add the ids of the spans of the rated calls, ``rated_spans``, where they have spans."""
        spans = [call.step.span_id for call in _rated(record)] if record.steps else []
        if "rated_steps" not in verdict.metadata or not any(spans):
            return verdict
        return replace(verdict, metadata={**verdict.metadata, "rated_spans": spans})

    def _one_by_one(self, record: Record, calls: Sequence[ToolCall], llm: LLM) -> list[Evaluation]:
        return [self._rate(record, call.step, llm) for call in calls]


def _rated(record: Record) -> Sequence[ToolCall]:
    return both_ends(run_of(record).calls, MOST_CALLS)


def _by_step(combined: Evaluation, calls: Sequence[ToolCall], count: int) -> Evaluation:
    """Add which step each rating is for, and which steps are at fault."""
    numbers = [call.number for call in calls]
    ratings: Sequence[Any] = combined.metadata["ratings"]
    at_fault = [number for number, rating in zip(numbers, ratings, strict=True) if rating == "no"]
    about: Mapping[str, Any] = {
        **combined.metadata,
        "rated_steps": numbers,
        **({"steps": at_fault[:MAX_STEPS]} if at_fault else {}),
        **({"steps_left_out": count - len(numbers)} if count > len(numbers) else {}),
    }
    return replace(combined, metadata=about)
