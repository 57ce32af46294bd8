"""What a tool call did: whether it failed, what it was given, and whether it changes something."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from llmeval_sdk.model import Step


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
            read = json.loads(self.arguments)
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
        text = _ENCODER.encode(plain)
    except (TypeError, ValueError, RecursionError):
        text = repr(type(arguments))
    return Signature(step.name or "", text)


def _with_whole_numbers(value: Any, depth: int) -> Any:
    """Write 2.0 as 2, because models do not tell the two apart."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if depth < _DEEPEST and isinstance(value, dict):
        return {key: _with_whole_numbers(held, depth + 1) for key, held in value.items()}
    if depth < _DEEPEST and isinstance(value, (list, tuple)):
        return [_with_whole_numbers(held, depth + 1) for held in value]
    return value


MOST_VALUES = 200
_DEEPEST = 8
"""How far arguments are read into arguments."""


def values_of(arguments: Any) -> Iterator[tuple[str, Any]]:
    """Yield the plain values in the arguments of a call, each with the name it stands under."""
    waiting: list[tuple[str, Any, int]] = [("", arguments, 0)]
    count = 0
    while waiting and count < MOST_VALUES:
        name, value, depth = waiting.pop()
        if isinstance(value, dict) and depth < _DEEPEST:
            items = list(value.items())[:MOST_VALUES]
            waiting.extend((str(key), held, depth + 1) for key, held in reversed(items))
        elif isinstance(value, (list, tuple)) and depth < _DEEPEST:
            waiting.extend((name, held, depth + 1) for held in reversed(value[:MOST_VALUES]))
        else:
            count += 1
            yield name, value
