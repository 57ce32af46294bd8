"""The state of an open run for its live scores, which grows with the calls of the run.

The state is made when an app first asks for a live score, and stands on the span of the run. An app
that never asks has none. It covers the calls that have ended so far. If the app asks on the open
span of a tool, a score also counts that call, so that it can stop before the tool does anything.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from llmeval_sdk.model import Step
from llmeval_sdk.model.chat import bounded_question, to_text
from llmeval_sdk.model.runs import (
    MAX_RESULT,
    MAX_TEXT,
    Signature,
    ToolCall,
    arguments_text,
    is_write,
    outcome_of,
    signature,
)
from llmeval_sdk.plugins.agents.phrases import AddressedPassages, Hijack


Answer = TypeVar("Answer")


class LiveRun:
    """The calls of an open run as far as they ended, and what repeats or was injected among them.

    Args:
        request: what the run was asked.
    """

    def __init__(self, request: object) -> None:
        question = bounded_question(request)
        self.asked = question.lower() or arguments_text(request)
        self.calls: list[ToolCall] = []
        self._steps: list[Step] = []
        self.repeats: list[tuple[ToolCall, int]] = []
        """The calls that repeat an earlier one, each with the number of the earlier call's step."""
        self.hijacks: list[Hijack] = []
        self.is_cut = False
        """Whether the results were so long that only a part of them was searched."""
        self._first = 2 if question else 1
        self._read = self._compared = self._circled = self._searched = 0
        self._made = Repeats()
        self._circles = Circles()
        self._passages = AddressedPassages()
        self._room = MAX_TEXT
        self._turn = threading.Lock()

    def ask(self, gathered: list[object], question: Callable[[LiveRun], Answer]) -> Answer:
        """Read what has been left to the run since it was asked last, and answer a question.

        Where another thread asks at this moment, or did when this process was forked, the run is
        read anew for this one question.
        """
        if not self._turn.acquire(blocking=False):
            other = LiveRun(None)
            other.asked, other._first = self.asked, self._first
            return other.ask(gathered, question)
        try:
            left = gathered[self._read :]
            self._read += len(left)
            self._steps.extend(item for item in left if type(item) is Step)
            return question(self)
        finally:
            self._turn.release()

    def call(self, step: Step, number: int | None = None) -> ToolCall:
        """Read a call, by default as the next one; only of a write it matters what became of it."""
        writes = is_write(step)
        outcome = outcome_of(step, to_text(step.result)) if writes else "done"
        place = len(self._steps) if number is None else number
        return ToolCall(self._first + place, step, None, outcome, writes, signature(step), 0, 0)

    def _known(self, since: int) -> list[ToolCall]:
        """Return the calls that ended so far, without the first ``since``."""
        for step in self._steps[len(self.calls) :]:
            self.calls.append(self.call(step, len(self.calls)))
        return self.calls[since:]

    def repeated(self, pending: ToolCall | None) -> list[tuple[ToolCall, int]]:
        """Return the calls that repeat an earlier one although nothing has changed in between."""
        for call in self._known(self._compared):
            self._compared += 1
            earlier = self._made.earlier(call.signature)
            if earlier is not None:
                self.repeats.append((call, earlier))
            self._made.add(call)
        earlier = None if pending is None else self._made.earlier(pending.signature)
        if pending is None or earlier is None:
            return self.repeats
        return [*self.repeats, (pending, earlier)]

    def circle(self, pending: ToolCall | None) -> Circle:
        """Return the longest stretch of calls that repeats those before it."""
        for call in self._known(self._circled):
            self._circled += 1
            self._circles.add(call.signature)
        return (
            self._circles.longest if pending is None else self._circles.with_call(pending.signature)
        )

    def hijacked(self, pending: ToolCall | None) -> list[Hijack]:
        """Return the calls that do what a text in an earlier result told the agent to do."""
        for step in self._steps[self._searched :]:
            number = self._first + self._searched
            self._searched += 1
            hijack = self._follows(step, number)
            if hijack is not None:
                self.hijacks.append(hijack)
            text = to_text(step.result) or ""
            room = min(MAX_RESULT, self._room)
            self.is_cut = self.is_cut or len(text) > room
            self._room -= min(len(text), room)
            self._passages.read(number, text[:room].lower())
        hijack = pending and self._follows(pending.step, pending.number)
        return [*self.hijacks, hijack] if hijack else self.hijacks

    def _follows(self, step: Step, number: int) -> Hijack | None:
        if self._passages.is_empty:
            return None
        return self._passages.hijack(self.call(step, number - self._first), self.asked, _spend)


def _spend(_: float) -> None:
    """Take any amount of work: what is read of a run is bounded already."""


# Calls that repeat earlier ones, found call by call, so that an open run can be watched.


MAX_PERIOD = 4
"""Calls in the longest circle that is looked for."""


class Repeats:
    """Knows the calls that were made since anything last changed."""

    __slots__ = ("_made",)

    def __init__(self) -> None:
        self._made: dict[str, dict[str, int]] = {}
        """By tool and arguments, the step at which a call was made last."""

    def earlier(self, signature: Signature) -> int | None:
        """Return the step at which the same call was made although nothing changed since."""
        return self._made.get(signature.tool, {}).get(signature.arguments)

    def add(self, call: ToolCall) -> None:
        """Take note of a call. A successful write of another tool lets others ask again."""
        tool, arguments = call.signature
        if call.writes and call.outcome == "done":
            self._made = {tool: self._made.get(tool, {})}
        self._made.setdefault(tool, {})[arguments] = call.number


class Circle(NamedTuple):
    """A stretch of calls that repeats the calls before it."""

    length: int = 0
    """How many calls repeat; 0 where none do."""
    end: int = 0
    """The place of the last of them, counted from 0."""
    period: int = 0
    """After how many calls they repeat."""


class Circles:
    """Knows the longest stretch so far that repeats the one to four calls before it."""

    __slots__ = ("_count", "_latest", "_repeated", "longest")

    def __init__(self) -> None:
        self._count = 0
        self._latest: tuple[Signature, ...] = ()
        self._repeated = (0,) * MAX_PERIOD
        self.longest = Circle()

    def add(self, signature: Signature) -> None:
        """Take note of a call."""
        self.longest, self._repeated = self._after(signature)
        self._latest = (signature, *self._latest[: MAX_PERIOD - 1])
        self._count += 1

    def with_call(self, signature: Signature) -> Circle:
        """Return what the longest stretch would be after one more call."""
        return self._after(signature)[0]

    def _after(self, signature: Signature) -> tuple[Circle, tuple[int, ...]]:
        longest = self.longest
        repeated = [0] * MAX_PERIOD
        for place, before in enumerate(self._latest):
            if before == signature:
                repeated[place] = self._repeated[place] + 1
                if repeated[place] > max(place, longest.length):
                    longest = Circle(repeated[place], self._count, place + 1)
        return longest, tuple(repeated)
