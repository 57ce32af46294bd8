"""What a judge is shown of a run: all of it where it fits, else a digest that says what it lacks.

Each step has a section of its own, so that no tool's result can pass for another step. A run fits
if it has at most `MOST_WHOLE` steps. Of a longer one the judge sees `MOST_SHOWN` steps, chosen in
this order: both ends; the calls that failed, were refused, repeat an earlier one or follow an
instruction from a tool's result; what the user said; calls that change something; what the agent
said; and the latest of all others. Between them stands how many steps are left out, and what they
were. Long texts lose their middle, as in every prompt.
"""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import chain, islice
from typing import Any, NamedTuple

from llmeval_sdk.agents.calls import WENT_WRONG
from llmeval_sdk.agents.injections import hijacks
from llmeval_sdk.agents.messages import both_ends
from llmeval_sdk.agents.run import Run, ToolCall, run_of
from llmeval_sdk.judges.cut import shortened
from llmeval_sdk.judges.prompt import Section
from llmeval_sdk.model import Record


MOST_WHOLE = 300
"""Steps of the longest run that is shown whole."""
MOST_SHOWN = 160
"""Steps that are shown of a longer run."""
_OF_A_KIND = 40
"""How many faults, messages of the user, and changes are sure of a place, half from each end."""
_FIRST, _LAST = 4, 8
_MOST_WORK = 4_000.0
"""Thousands of characters that the search for hijacked calls may read."""
MOST_TOOLS = 16_000
"""Characters of the definitions of tools."""
_LONGEST_TEXT = 64_000
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
    numbers = list(range(1, count + 1)) if count <= MOST_WHOLE else _chosen(run)
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
    return [Section("tools", "\n".join(lines)[:MOST_TOOLS])]


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
    shown = None if result is None else f"result: {shortened(result, _LONGEST_TEXT)}"
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
        self._left = _MOST_WORK

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
    return Section(f"step {number}, {step.role}", shortened(step.content or "", _LONGEST_TEXT))


def _json(value: Any) -> str:
    if isinstance(value, str):
        return shortened(value, _LONGEST_TEXT)
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
        return shortened(text, _LONGEST_TEXT)
    except (TypeError, ValueError, RecursionError):
        return repr(type(value))
