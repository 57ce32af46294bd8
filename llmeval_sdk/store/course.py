"""The course of one alert: evidence gathered hour by hour, an alarm raised, and over again.

An alarm is raised when the evidence of `estimates.sequence` reaches the level that keeps false
alarms of all alerts together at 5 % in 30 days. It is over when evidence of the opposite kind, that
the mean has come back to the right side of the bound, reaches a level of its own. Both have to be
gathered from nothing after every change, so quality that flaps around its bound raises no flapping
alarm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import log
from typing import Any

from llmeval_sdk.estimates.sequence import DROPS, HORIZON_HOURS, Evidence, Seen
from llmeval_sdk.store.hours import HOUR_NS, Hour


ALPHA = 0.05
"""False alarms in 30 days of all alerts of a file together, at most."""
RECOVERY = 0.2
"""The same for "it is over": wrong at most so often, because a mistake costs less here."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What a mean over all traffic should keep, such as ``groundedness<0.9``."""

    evaluator: str
    sign: str
    value: float

    def __str__(self) -> str:
        return f"{self.evaluator}{self.sign}{self.value:g}"


@dataclass(frozen=True, slots=True)
class Event:
    """Something to tell people about an alert."""

    kind: str
    """``raised``, ``over`` or ``judge_changed``."""
    at_ns: int
    detail: str = ""


@dataclass(slots=True)
class Course:
    """Where one alert stands. `follow` takes in hour after hour."""

    bound: Bound
    cursor_ns: int = 0
    """What came before is counted."""
    evidence: Evidence = field(default_factory=lambda: Evidence(0.5))
    recovery: Evidence | None = None
    """Evidence that it is over, while an alarm is in force."""
    raised_ns: int | None = None
    since_ns: int | None = None
    """When the change that raised the alarm began, as far as the evidence tells."""
    silenced_until_ns: int = 0
    version: str = ""
    """The version of the evaluator whose verdicts are counted."""
    problem: str = ""
    """Why nothing can be decided at present."""
    eligible: int = 0
    judged: int = 0
    weight: float = 0.0
    spread: float = 0.0

    @classmethod
    def begun(cls, bound: Bound, since_ns: int) -> Course:
        """Begin to follow an alert."""
        return cls(bound, since_ns - since_ns % HOUR_NS, Evidence(_turned(bound, bound.value)))

    @property
    def is_alarm(self) -> bool:
        """Whether an alarm is in force."""
        return self.raised_ns is not None

    def follow(self, hour: Hour, level: float) -> list[Event]:
        """Take in one hour; ``level`` is the evidence that raises an alarm."""
        self.cursor_ns = hour.start_ns + HOUR_NS
        self.problem = _problem(hour)
        if self.problem or not hour.seen:
            return []
        events = self._changed(hour)
        self._count(hour)
        seen = hour.seen
        if self.bound.sign == ">":
            seen = [e if e.value is None else e._replace(value=1 - e.value) for e in seen]
        if self.recovery is None:
            self.evidence.add(hour.start_ns, 1.0, seen)
            if self.evidence.total >= level and not self.lacking():
                self.raised_ns, self.since_ns = self.cursor_ns, self.evidence.since_ns
                self.recovery = Evidence(1 - self.evidence.bound)
                events.append(Event("raised", self.cursor_ns))
            return events
        self.recovery.add(hour.start_ns, 1.0, [_mirrored(each) for each in seen])
        if self.recovery.total >= 1 / RECOVERY:
            self.resolve()
            events.append(Event("over", self.cursor_ns))
        return events

    def resolve(self) -> None:
        """End an alarm; evidence for another one is gathered from nothing."""
        self.raised_ns = self.since_ns = self.recovery = None
        self.evidence = Evidence(self.evidence.bound, past=self.evidence.past)

    def lacking(self) -> str:
        """Say what keeps the judged records from standing for the rest; empty where nothing does.

        Then the inverses of their chances add up to the number of eligible records, but for chance.
        """
        if self.problem:
            return self.problem
        if not self.judged:
            return "nothing was judged"
        if self.weight + 3 * self.spread**0.5 < 0.9 * self.eligible:
            return "no control sample: the mean describes the judged records only"
        return ""

    def mean(self) -> float | None:
        """Return the mean over all traffic of the last days, older hours counting less."""
        past = self.evidence.past
        return _turned(self.bound, past.y / past.weight) if past.weight else None

    def needed(self, level: float) -> int | None:
        """Return about how many more judged records it takes to raise an alarm.

        That is where the mean stays where it was lately. ``None`` is returned where that mean is on
        the right side of the bound, so that no number of records would raise one.
        """
        evidence = self.evidence
        if evidence.past.weight:
            gap = evidence.bound - evidence.past.y / evidence.past.weight
        else:
            gap = DROPS[0]  # nothing is known yet: for a drop of five points
        if gap <= 0:
            return None
        variance = max(evidence.variance(), evidence.bound * (1 - evidence.bound), 0.01)
        stake = gap / (variance + gap * gap)
        growth = stake * gap - stake * stake * (variance + gap * gap) / 2
        missing = log(level / max(evidence.total, 24 / HORIZON_HOURS))
        part = self.judged / self.eligible if self.eligible else 1.0
        return max(1, round(missing / growth * part))

    def as_plain(self) -> dict[str, Any]:
        """Return what `from_plain` reads, in types of JSON."""
        plain = {name: getattr(self, name) for name in _SIMPLE}
        recovery = self.recovery.as_plain() if self.recovery else None
        return {**plain, "evidence": self.evidence.as_plain(), "recovery": recovery}

    @classmethod
    def from_plain(cls, bound: Bound, plain: Mapping[str, Any]) -> Course:
        """Read what `as_plain` returned."""
        recovery = plain["recovery"]
        return cls(
            bound,
            evidence=Evidence.from_plain(plain["evidence"]),
            recovery=Evidence.from_plain(recovery) if recovery else None,
            **{name: plain[name] for name in _SIMPLE},
        )

    def _changed(self, hour: Hour) -> list[Event]:
        """Begin anew where another version of the evaluator answers: verdicts are never mixed."""
        (version,) = hour.versions or {self.version}
        before, self.version = self.version, version
        if not before or before == version:
            return []
        self.evidence = Evidence(self.evidence.bound)
        if self.recovery is not None:
            self.recovery = Evidence(self.recovery.bound)
        self.eligible = self.judged = 0
        self.weight = self.spread = 0.0
        return [Event("judge_changed", hour.start_ns, f"{before} -> {version}")]

    def _count(self, hour: Hour) -> None:
        self.eligible += len(hour.seen)
        self.judged += hour.judged
        for each in hour.seen:
            if each.value is not None:
                weight = 1 / each.chance
                self.weight += weight
                self.spread += weight * (weight - 1)


_SIMPLE = (
    "cursor_ns", "raised_ns", "since_ns", "silenced_until_ns", "version", "problem", "eligible",
    "judged", "weight", "spread",
)  # fmt: skip


def _turned(bound: Bound, value: float) -> float:
    return value if bound.sign == "<" else 1 - value


def _mirrored(seen: Seen) -> Seen:
    return seen if seen.value is None else seen._replace(value=1 - seen.value)


def _problem(hour: Hour) -> str:
    if hour.is_out_of_scale:
        return "its scores leave 0..1, and a mean without a scale cannot be tested at any time"
    if hour.has_categories:
        return "its answers are categories, which have shares and no mean"
    if hour.unweighted and not hour.judged:
        return "no inclusion probabilities: the mean describes the judged records only"
    if len(hour.versions) > 1:
        both = " and ".join(sorted(hour.versions))
        return f"two versions of the judge answer in the same hour ({both}): they are not mixed"
    return ""
