"""A run of an agent, read once for all the scores that are made of it."""

from __future__ import annotations

import threading
from typing import NamedTuple

from llmeval_sdk.model import Record, Step
from llmeval_sdk.model.chat import bounded_question, definitions_of, is_note_of_a_cut, to_text
from llmeval_sdk.model.coerce import TRUNCATED
from llmeval_sdk.model.runs.calls import Outcome, Signature, is_write, outcome_of, signature
from llmeval_sdk.model.runs.turns import begin_of_turn, given, new_results


LONGEST_RESULT = 64_000
"""Characters that are read of one result or message."""
_END = 60
"""Characters at the end of a text in which it says that it was cut when it was captured."""
MOST_TEXT = 400_000
"""Characters that are read of all results and messages together, the first of a run."""


class ToolCall(NamedTuple):
    """One tool call of a run."""

    number: int
    """Which step of the run it is, beginning with 1."""
    step: Step
    result: str | None
    """What it returned, as text; ``None`` where no result came."""
    outcome: Outcome
    writes: bool
    signature: Signature
    seen: int
    """How many characters of `Run.seen` the agent knew when it made the call."""
    returned: int
    """Where in `Run.seen` the call's result ends."""


class Statement(NamedTuple):
    """What the agent said at one step."""

    number: int
    text: str


class Run:
    """The steps of a Record, and what every score of a run asks of them.

    What stands before the question of the Record is history: a chat sends its former turns along
    with each new one. It was scored when it happened, so its calls and words are none of this run's
    faults.

    Attributes:
        steps: the messages and tool calls, in order, with those of the history.
        turn: the tool calls since the question.
        calls: those of them of which this run tells what became. A model call that is no part of an
            agent's span tells of the results that it was the first to be asked with, and of the
            calls that it asks for; what its messages held before was told by the calls before it.
        made: those of them that this run tells to have been made: of such a model call, those that
            it asks for.
        earlier: the tool calls of the history.
        changes: the calls that changed something, as far as they succeeded, with the history's.
        spoken: what the agent said since the question; its final answer comes last.
        said: as much of it as this run tells: of a model call its own answer.
        asked: what the user said, in lower case, or what the agent was called with.
        request: what the user said since the history, in lower case.
        seen: all that the agent has not written since the question, in lower case: instructions,
            what the user said, what tools returned, and all of the history, in order.
        ends_with_answer: whether the last step is something that the agent said.
        is_under_way: whether it is the run so far: a model call shows it that asks for a tool, and
            one that somebody stopped, as by closing the tab, ends with it. So does a run that ends
            with a call without a result, and has no answer.
        schemas: the JSON schemas of the tools' parameters by name; empty where they are not known.
        cut_at: the first step of whose text not all was read; ``None`` where all was. What the
            agent saw there is not known, so nothing that comes later can be called invented.
    """

    __slots__ = (
        "asked", "calls", "changes", "cut_at", "earlier", "ends_with_answer", "is_under_way",
        "made", "request", "said", "schemas", "seen", "spoken", "steps", "turn",
    )  # fmt: skip

    def __init__(self, record: Record) -> None:
        self.steps = _steps(record)
        self.turn: list[ToolCall] = []
        self.earlier: list[ToolCall] = []
        self.spoken: list[Statement] = []
        self.cut_at: int | None = None
        begins = begin_of_turn(self.steps, record)
        asked = [arguments] if (arguments := given(record.request)) else []
        request: list[str] = []
        seen = [*asked]
        length, spoken = sum(len(text) + 1 for text in seen), 0
        for number, step in enumerate(self.steps, 1):
            if step.role == "assistant" and number >= begins:
                text = (step.content or "")[: min(LONGEST_RESULT, max(0, MOST_TEXT - spoken))]
                spoken += len(text)
                self.spoken.append(Statement(number, text))
                continue
            result = to_text(step.result) if step.role == "tool" else None
            text = (result if step.role == "tool" else step.content) or ""
            room = max(0, min(LONGEST_RESULT, MOST_TEXT - length))
            if len(text) > room or TRUNCATED in text[-_END:]:
                self.cut_at = self.cut_at or number
            low = text[:room].lower()
            if step.role == "user":
                asked.append(low)
                if number >= begins:
                    request.append(low)
            seen.append(low)
            if is_note_of_a_cut(step):
                self.cut_at = self.cut_at or number
            known, length = length, length + len(low) + 1
            if step.role == "tool":
                about = outcome_of(step, result), is_write(step), signature(step)
                calls = self.turn if number >= begins else self.earlier
                calls.append(ToolCall(number, step, result, *about, known, length - 1))
        calls = [*self.earlier, *self.turn]
        self.changes = [call for call in calls if call.writes and call.outcome == "done"]
        self.asked = "\n".join(asked)
        self.request = "\n".join(request)
        self.seen = "\n".join(seen)
        self.calls, self.made, self.said = self._told(record)
        last = self.steps[-1] if self.steps else None
        answered = last is not None and last.role == "assistant" and bool(self.said)
        self.ends_with_answer = answered and len(self.said[-1].text.strip()) > 1
        self.is_under_way = self._is_under_way(record)
        offered = record.request.get("tools") if isinstance(record.request, dict) else None
        tools = definitions_of(record.tools) or definitions_of(offered) or ()
        self.schemas = {str(tool["name"]): tool["parameters"] for tool in tools}

    def _told(self, record: Record) -> tuple[list[ToolCall], list[ToolCall], list[Statement]]:
        """Return the calls, the calls made, and the statements that this run tells of."""
        count = new_results(record)
        if count is None:
            return self.turn, self.turn, self.spoken
        made = [call for call in self.turn if call.outcome == "pending"]
        ended = [call for call in self.turn if call.outcome != "pending"]
        since = ended[-1].number if ended else 0
        told = [*ended[max(0, len(ended) - count) :], *made]
        return told, made, [said for said in self.spoken if said.number > since]

    def _is_under_way(self, record: Record) -> bool:
        if record.attributes.get("cancelled") is True:
            return True
        since = self.spoken[-1].number if self.spoken and record.span_kind != "llm" else 0
        waits = any(call.outcome == "pending" and call.number > since for call in self.turn)
        return waits and (record.span_kind == "llm" or not record.response)

    @property
    def settled(self) -> list[ToolCall]:
        """The calls of the turn that are not pending, which alone can repeat one another.

        Where no call has a result and yet there is an answer, nobody recorded results.
        """
        ended = [call for call in self.turn if call.outcome != "pending"]
        return ended or (self.turn if self.ends_with_answer else [])


def _steps(record: Record) -> tuple[Step, ...]:
    """Return the steps of a Record; request and response stand for messages that are missing."""
    steps = record.steps or ()
    roles = {step.role for step in steps}
    if "user" not in roles and (question := bounded_question(record.request)):
        steps = (Step("user", question), *steps)
    answer = record.response
    spoken = [step.content for step in steps if step.role == "assistant"]
    if answer and not (spoken and spoken[-1] == answer):
        steps = (*steps, Step("assistant", answer))
    return steps


class _Latest(threading.local):
    record: Record | None = None
    run: Run | None = None


_latest = _Latest()


def run_of(record: Record) -> Run:
    """Return the run of a Record; scores that follow each other on a thread share it."""
    if _latest.record is not record or _latest.run is None:
        _latest.run, _latest.record = Run(record), record
    return _latest.run


def is_run(record: Record) -> bool:
    """Say whether a Record holds the steps of an agent."""
    return bool(record.steps)
