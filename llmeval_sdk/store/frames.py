"""Which records a label was drawn from, and so in which figures it counts.

A label's chance holds among the records that it was drawn from, its frame: those of all traffic, or
those of a filter and a period. Every part of a frame is sampled with the chances of the whole, so a
label counts in each figure that is about its frame or about a part of it. In any other figure it
would stand for records that could not have been drawn, so it is left out there and counted.

A frame is known by the conditions that all of its requests meet. Whatever meets more conditions is
a part of it, so comparing the two sets of texts decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from llmeval_sdk.text.terminal import moment, plural, printable


class Frame(NamedTuple):
    """The judged records that labels are drawn from, or that a figure is about."""

    where: frozenset[str] = frozenset()
    """The conditions on their requests, as `filters.Condition.text` writes them."""
    since_ns: int = 0
    """They were judged from this time on, in nanoseconds since the epoch."""

    def covers(self, other: Frame) -> bool:
        """Say whether all records of another frame are in this one."""
        return self.where <= other.where and self.since_ns <= other.since_ns

    def __str__(self) -> str:
        parts = [printable(condition, _SHOWN) for condition in sorted(self.where)[:_MOST_NAMED]]
        parts += ["…"] * (len(self.where) > _MOST_NAMED)
        parts += [f"judged since {moment(self.since_ns)}"] if self.since_ns else []
        return " and ".join(parts) or "all traffic"

    def as_metadata(self) -> dict[str, Any]:
        """Return what the metadata of a label say of its frame; nothing where that is all traffic.

        `frame_in` reads it.
        """
        if self == ALL_TRAFFIC:
            return {}
        return {DRAWN_FROM: {"where": sorted(self.where), "since_ns": self.since_ns}}


ALL_TRAFFIC = Frame()
DRAWN_FROM = "drawn_from"
"""The key of a label's frame in its metadata."""
_UNREADABLE = Frame(frozenset(("(unreadable)",)))
"""Covers no figure's frame, because no condition has this text."""
_SHOWN = 80
"""Characters of a condition that are shown."""
_MOST_NAMED = 3
"""The most conditions of a frame, and frames of a sentence, that are shown."""


def frame_in(metadata: Mapping[str, object]) -> Frame:
    """Return the frame that a label's metadata name; without one it is all traffic."""
    frame = metadata.get(DRAWN_FROM)
    if frame is None:
        return ALL_TRAFFIC
    if not isinstance(frame, Mapping):
        return _UNREADABLE
    where, since_ns = frame.get("where", []), frame.get("since_ns", 0)
    if not isinstance(where, list) or type(since_ns) is not int:
        return _UNREADABLE
    return Frame(frozenset(map(str, where)), since_ns)


class LeftOut(dict[str, int]):
    """How many labels do not count in a figure, by the words for their frames."""

    def add(self, frame: Frame | str, count: int = 1) -> None:
        """Count labels that were drawn from a frame."""
        self[str(frame)] = self.get(str(frame), 0) + count

    @property
    def sentence(self) -> str:
        """How many they are and what to do; empty where all labels count."""
        if not self:
            return ""
        frames = "; ".join(list(self)[:_MOST_NAMED]) + "; …" * (len(self) > _MOST_NAMED)
        return (
            f"{plural(sum(self.values()), 'label')} drawn from a part of the traffic ({frames}) are"
            " left out, because they say nothing of the rest: a report with that filter and period"
            " counts them, and `llmeval label` without them draws from all traffic."
        )
