"""Finds calls that repeat earlier ones, call by call, so that an open run can be watched."""

from __future__ import annotations

from typing import NamedTuple

from llmeval_sdk.model.runs import Signature, ToolCall


LONGEST_PERIOD = 4
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
        self._repeated = (0,) * LONGEST_PERIOD
        self.longest = Circle()

    def add(self, signature: Signature) -> None:
        """Take note of a call."""
        self.longest, self._repeated = self._after(signature)
        self._latest = (signature, *self._latest[: LONGEST_PERIOD - 1])
        self._count += 1

    def with_call(self, signature: Signature) -> Circle:
        """Return what the longest stretch would be after one more call."""
        return self._after(signature)[0]

    def _after(self, signature: Signature) -> tuple[Circle, tuple[int, ...]]:
        longest = self.longest
        repeated = [0] * LONGEST_PERIOD
        for place, before in enumerate(self._latest):
            if before == signature:
                repeated[place] = self._repeated[place] + 1
                if repeated[place] > max(place, longest.length):
                    longest = Circle(repeated[place], self._count, place + 1)
        return longest, tuple(repeated)
