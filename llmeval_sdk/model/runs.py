"""A run of an agent, read once for all the scores that are made of it.

It has three parts: the run itself, where the turn begins that a Record is about, and what a tool
call did.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Literal, NamedTuple

from llmeval_sdk.model import Record, Step
from llmeval_sdk.model.chat import (
    MAX_QUESTION,
    bounded_question,
    definitions_of,
    is_note_of_a_cut,
    messages_of,
    results_at_end,
    to_text,
)
from llmeval_sdk.model.fields import TRUNCATED
from llmeval_sdk.model.records import ENDED_WITHOUT_ANSWER
from llmeval_sdk.process.pieces import json_text, read_json


MAX_RESULT = 64_000
"""Characters that are read of one result or message."""
_END = 60
"""Characters at the end of a text in which it says that it was cut when it was captured."""
MAX_TEXT = 400_000
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
    """The steps of a Record, and all that the scores of a run read of them.

    The steps before the question of the Record are history: a chat sends its former turns along
    with each new one. The history was scored when it happened, so its calls and its words are no
    faults of this run.

    A model call that is no part of an agent's span shows little of a run: the results that it was
    the first to be asked with, and the calls that it asks for. The messages before them belong to
    earlier model calls.

    Attributes:
        steps: the messages and tool calls in order, with those of the history.
        turn: the tool calls since the question.
        calls: the calls of the turn whose outcomes this run shows.
        made: the calls of the turn that this run shows to have been made.
        earlier: the tool calls of the history.
        changes: the successful calls that changed something, with those of the history.
        spoken: the agent's statements since the question; its final answer comes last.
        said: the statements that this run shows; of a model call its own answer.
        asked: the user's words in lower case, or the arguments that the agent was called with.
        request: the user's words since the history, in lower case.
        seen: all that the agent has not written since the question, in lower case and in order:
            instructions, the user's words, the results of tools, and all of the history.
        ends_with_answer: whether the last step is a statement of the agent's.
        is_under_way: whether the run is not over: a model call asks for a tool, somebody stopped
            the run, as by closing the tab, or it ends with a call without a result and has no
            answer.
        schemas: the JSON schemas of the tools' parameters by name; empty where they are not known.
        cut_at: the first step of whose text not all was read; ``None`` where all was. The agent may
            have seen more there, so nothing that comes later can be called invented.
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
        begins = _begin_of_turn(self.steps, record)
        asked = [arguments] if (arguments := arguments_text(record.request)) else []
        request: list[str] = []
        seen = [*asked]
        length, spoken = sum(len(text) + 1 for text in seen), 0
        for number, step in enumerate(self.steps, 1):
            if step.role == "assistant" and number >= begins:
                text = (step.content or "")[: min(MAX_RESULT, max(0, MAX_TEXT - spoken))]
                spoken += len(text)
                self.spoken.append(Statement(number, text))
                continue
            result = to_text(step.result) if step.role == "tool" else None
            text = (result if step.role == "tool" else step.content) or ""
            room = max(0, min(MAX_RESULT, MAX_TEXT - length))
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
        self.calls, self.made, self.said = self._shown(record)
        last = self.steps[-1] if self.steps else None
        answered = last is not None and last.role == "assistant" and bool(self.said)
        self.ends_with_answer = answered and len(self.said[-1].text.strip()) > 1
        self.is_under_way = self._is_under_way(record)
        offered = record.request.get("tools") if isinstance(record.request, dict) else None
        tools = definitions_of(record.tools) or definitions_of(offered) or ()
        self.schemas = {str(tool["name"]): tool["parameters"] for tool in tools}

    def _shown(self, record: Record) -> tuple[list[ToolCall], list[ToolCall], list[Statement]]:
        """Return the calls, the calls made, and the statements that this run shows."""
        count = _new_results(record)
        if count is None:
            return self.turn, self.turn, self.spoken
        made = [call for call in self.turn if call.outcome == "pending"]
        ended = [call for call in self.turn if call.outcome != "pending"]
        since = ended[-1].number if ended else 0
        calls = [*ended[max(0, len(ended) - count) :], *made]
        return calls, made, [said for said in self.spoken if said.number > since]

    def _is_under_way(self, record: Record) -> bool:
        if any(record.attributes.get(name) for name in ENDED_WITHOUT_ANSWER):
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


# Where the turn begins that a Record is about, among the steps of a whole chat.


_MAX_TEXTS = 20
"""Texts among the arguments of an agent that may be its question."""
_MAX_READ = 20_000
"""Characters of a message in which a question is looked for."""
_RESULT = re.compile(
    r"\s*(?:observations?|tool[ _](?:results?|outputs?|responses?)|function[ _]results?)\s*:"
    r"|\s*<(?:tool|function)_\w+>|\s*<(?:observation|system-reminder)>",
    re.IGNORECASE,
)
"""How a message begins that an app wrote in the user's name: a result of a tool, or a reminder."""


def _begin_of_turn(steps: Sequence[Step], record: Record) -> int:
    """Return the number of the step with which the turn of a Record begins; 1 where all is one.

    That is the last message of the user's that ends with what was asked, or, inside of a prompt,
    contains it. Where none does, as for an agent without arguments, it is the user's last message.
    One that comes right after a tool call is in the middle of the run, such as a reminder beside a
    result, and begins no turn unless it ends with what was asked.
    """
    questions = tuple(_questions(record))
    for number in range(len(steps), 0, -1):
        step = steps[number - 1]
        if step.role == "user" and questions:
            text = (step.content or "").strip()[-_MAX_READ:]
            if text.endswith(questions):
                return number
            if any(words in text for words in questions) and not _is_mid_run(steps, number):
                return number
    return 1 if record.request is None and record.span_kind is None else _last_spoken(steps)


def _questions(record: Record) -> Iterator[str]:
    """Yield the texts of a request of which one is the question."""
    question = bounded_question(record.request).strip()
    if question:
        yield question
    else:
        yield from _texts_of(record.request)


def arguments_text(request: object) -> str:
    """Return the texts and numbers that an agent was called with, where none is its question.

    They are in lower case, with a line for each; ``""`` for a request that is a text or a chat.
    """
    if bounded_question(request).strip() or not isinstance(request, dict):
        return ""
    plain = (value for _, value in values_of(request) if isinstance(value, (int, float)))
    return "\n".join((*_texts_of(request), *map(str, plain))).lower()


def _new_results(record: Record) -> int | None:
    """Return how many results of tools a model call was the first to be asked with.

    They stand in its messages after the last one of the model's. ``None`` for a Record that is not
    of a model call, or whose messages are not known.
    """
    if record.span_kind != "llm":
        return None
    messages = messages_of(record.request)
    return None if messages is None else results_at_end(messages)


def _texts_of(request: object) -> Iterator[str]:
    values = values_of(request) if isinstance(request, dict) else ()
    texts = (value[-MAX_QUESTION:].strip() for _, value in values if isinstance(value, str))
    yield from islice((text for text in texts if text), _MAX_TEXTS)


def _last_spoken(steps: Sequence[Step]) -> int:
    """Return the number of the user's last message, or of the first of several in a row."""
    begins = 1
    was_user = False
    for number, step in enumerate(steps, 1):
        if step.role == "user":
            if not was_user and not _is_mid_run(steps, number):
                begins = number
            was_user = True
        elif step.role != "system":
            was_user = False
    return begins


def _is_mid_run(steps: Sequence[Step], number: int) -> bool:
    """Say whether a message in the user's name belongs to what the agent was doing."""
    if _RESULT.match((steps[number - 1].content or "")[:200]):
        return True
    for place in range(number - 2, -1, -1):
        if steps[place].role not in ("user", "system"):
            return steps[place].role == "tool"
    return False


# The outcome of a tool call, its arguments, and whether it changes something.


Outcome = Literal["failed", "refused", "pending", "done"]
"""``failed``: the call raised or returned an error. ``refused``: its short result says that it did
not do what was asked. ``pending``: it has no result yet. ``done``: anything else."""
WENT_WRONG = frozenset(("failed", "refused"))
"""The outcomes of a call that are faults."""

HEAD = 300
"""An error shows in this many characters at the beginning of a result."""
SHORT = 240
"""Only a result of at most this many characters can be a refusal. What is longer is content, in
which the words of a refusal mean nothing."""

_NOTHING = r"(?!\s*(?:null|none|false|\[\s*\]|\{\s*\}|\"\"|''))"
_ERROR = re.compile(
    r"""[\s"'\[{(<]*(?:
        (?:error|exception|traceback|fatal|failed|failure|invalid|unauthori[sz]ed|forbidden|errno)\b
        | \w{0,40}error:
        | exit\s?code:?\s[1-9]
        | (?:http\s(?:error\s)?)?[45]\d\d\s[a-z]
        | http\s(?:error\s)?[45]\d\d
        | ["']?errors?["']?\s?:"""
    + _NOTHING
    + ")",
    re.IGNORECASE | re.VERBOSE,
)
_ERROR_KEY = re.compile(
    r"[\"'](?:errors?|exception|error_message)[\"']\s?:" + _NOTHING, re.IGNORECASE
)
_REFUSALS = (
    "not found", "n't exist", "not exist", "no such", "could not", "couldn't", "cannot", "can not",
    "can't", "unable to", "incorrect", "insufficient", "denied", "not allowed", "not permitted",
    "is required", "are required", "missing", "invalid", "not valid", "failed", "already",
    "no results", "not available", "must be", "not registered", "not logged in", "log in first",
    "wrong",
)  # fmt: skip
EMPTY = frozenset(("", "[]", "{}", "()", "none", "null", "''", '""'))
"""Results that bring nothing."""

_READS = (
    "get", "list", "search", "find", "read", "view", "check", "calculate", "compute", "think",
    "lookup", "look_up", "show", "fetch", "browse", "query", "count", "describe", "inspect", "open",
    "is", "has", "estimate", "display", "retrieve", "ls", "pwd", "cat", "grep", "tail", "head",
    "wc", "du", "diff", "sort",
)  # fmt: skip
_READ_NAME = re.compile(
    rf"^(?:mcp__\w+?__)?(?:{'|'.join(_READS)})(?:[_\W]|$|(?-i:[A-Z0-9]))"
    r"|_(?:info|status|details|history|total|prices?)$",
    re.IGNORECASE,
)
_HAND_OVER = re.compile(r"transfer_to|hand_?(?:off|over)|escalat|human_agent", re.IGNORECASE)
SEARCHES = re.compile(r"search|query|list|browse|calculat|comput|think|grep|fetch", re.IGNORECASE)
"""In the names of tools whose arguments are the agent's own to choose."""


def outcome_of(step: Step, result: str | None) -> Outcome:
    """Say what became of a call, by its error and by how its result, as text, begins."""
    if step.error is not None:
        return "failed"
    if result is None:  # a function that ended without a result did return; a chat's call did not
        return "pending" if step.end_ns is None else "done"
    head = result[:HEAD]
    if _ERROR.match(head):
        return "failed"
    low = head.lower()  # far cheaper to search than by a pattern
    if ("error" in low or "exception" in low) and _ERROR_KEY.search(head):
        return "failed"
    if len(result) <= SHORT:
        low = result.lower()
        if any(words in low for words in _REFUSALS):
            return "refused"
    return "done"


def is_write(step: Step) -> bool:
    """Say whether a call changes something: as the app declared it, else by the tool's name.

    A tool whose name begins with a verb of reading reads, and one that hands the conversation over
    to somebody changes nothing either; any other is taken to write.
    """
    if step.effect is not None:
        return step.effect == "write"
    return _writes_by_name(step.name or "")


def hands_over(step: Step) -> bool:
    """Return whether a call transfers the conversation to another agent or to a person."""
    return _HAND_OVER.search((step.name or "")[:200]) is not None


@lru_cache(maxsize=1024)
def _writes_by_name(name: str) -> bool:
    name = name[:200]
    return not (_READ_NAME.search(name) or _HAND_OVER.search(name))


class Signature(NamedTuple):
    """Identifies a call: calls of one tool with equal arguments, in any order, are the same."""

    tool: str
    arguments: str
    """JSON with sorted keys and whole numbers in one form, or the model's text that is no JSON."""

    @property
    def shown(self) -> str:
        """The call as people read it, cut to a line."""
        return f"{self.tool} {self.arguments}"[:200]

    def named(self) -> dict[str, str]:
        """Return each argument's value as JSON, by its name."""
        try:
            read = read_json(self.arguments)
        except ValueError:
            return {}
        held = read if isinstance(read, dict) else {}
        return {name: json.dumps(value, sort_keys=True) for name, value in held.items()}


_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, default=str)


def signature(step: Step) -> Signature:
    """Return the signature of a call. Missing arguments and an empty object are the same."""
    arguments = {} if step.arguments is None else step.arguments
    if isinstance(arguments, str):
        return Signature(step.name or "", arguments)
    try:
        plain = _with_whole_numbers(arguments, 0)
        text = json_text(_ENCODER, plain)
    except (TypeError, ValueError, RecursionError):
        text = repr(type(arguments))
    return Signature(step.name or "", text)


def _with_whole_numbers(value: object, depth: int) -> object:
    """Write 2.0 as 2, because models do not tell the two apart."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if depth < _MAX_DEPTH and isinstance(value, dict):
        return {key: _with_whole_numbers(held, depth + 1) for key, held in value.items()}
    if depth < _MAX_DEPTH and isinstance(value, (list, tuple)):
        return [_with_whole_numbers(held, depth + 1) for held in value]
    return value


_MAX_VALUES = 200
_MAX_DEPTH = 8
"""How far arguments are read into arguments."""


def values_of(arguments: object) -> Iterator[tuple[str, object]]:
    """Yield the plain values in the arguments of a call, each with the name it stands under."""
    waiting: list[tuple[str, object, int]] = [("", arguments, 0)]
    count = 0
    while waiting and count < _MAX_VALUES:
        name, value, depth = waiting.pop()
        if isinstance(value, dict) and depth < _MAX_DEPTH:
            items = list(value.items())[:_MAX_VALUES]
            waiting.extend((str(key), held, depth + 1) for key, held in reversed(items))
        elif isinstance(value, (list, tuple)) and depth < _MAX_DEPTH:
            waiting.extend((name, held, depth + 1) for held in reversed(value[:_MAX_VALUES]))
        else:
            count += 1
            yield name, value
