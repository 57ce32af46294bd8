"""The state of one alert: evidence gathered hour by hour, an alarm raised, and its end.

An alarm is raised when the evidence of `statistics.sequence` reaches the level that keeps false
alarms of all alerts together at 5 % in 30 days. The alarm is over when the opposite evidence, that
the mean has come back to the right side of the bound, reaches a level of its own. Both have to be
gathered from nothing after every change, so quality that flaps around its bound raises no flapping
alarm.

Hours in which nothing can be counted, such as those in which the judge lost every judgement, are
left out, and so is what arrives late from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import log
from typing import Any

from llmeval_sdk.model import HOUR_NS
from llmeval_sdk.statistics.mean import (
    CATEGORIES,
    NO_CHANCE,
    NO_CONTROL,
    NO_SCALE,
    Seen,
    stands_for,
)
from llmeval_sdk.statistics.sequence import DROPS, HORIZON_HOURS, MEMORY, Evidence
from llmeval_sdk.store.latest import distinct_versions
from llmeval_sdk.store.selection import values_of
from llmeval_sdk.store.verdicts_by_hour import LATE_NS, Arrived, Hour, Silence
from llmeval_sdk.text.terminal import moment, printable


ALPHA = 0.05
"""The chance that any alert of a file raises a false alarm within 30 days, at most."""
MOST_EMPTY_HOURS = 24.0
"""How much empty time counts with the hour after it. Evidence is gathered over time, in which new
gamblers begin (see `statistics.sequence`), and most hours of a small group are empty."""
RECOVERY = 0.2
"""The chance that "it is over" is wrong; higher than `ALPHA`, because that mistake costs less."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What a mean over all traffic should keep, such as ``groundedness<0.9``."""

    evaluator: str
    sign: str
    value: float
    where: tuple[str, ...] = ()
    """The conditions of the requests that it is about; all requests without any."""
    by: tuple[str, ...] = ()
    """What its requests are grouped by; each group has an alert of its own."""
    group: str | None = None
    """The group that it is about, as `selection` names it; ``None`` for all of its requests."""

    def __str__(self) -> str:
        text = f"{self.evaluator}{self.sign}{self.value:g}"
        text += "".join(f" where {printable(condition)}" for condition in self.where)
        if self.group is not None:
            return f"{text} of {self.group_name}"
        return f"{text} by {', '.join(self.by)}" if self.by else text

    @property
    def group_name(self) -> str:
        """The group in words, such as ``tag:tenant=acme``; empty where it is about all requests."""
        return ", ".join(f"{by}={printable(value)}" for by, value in self.group_values.items())

    @property
    def group_values(self) -> dict[str, str]:
        """The values that its group stands for, by grouping; empty where it is about no group."""
        if self.group is None:
            return {}
        values = zip(self.by, values_of(self.group, len(self.by)), strict=True)
        return {by: value for by, value in values if value}

    @property
    def whole(self) -> Bound:
        """The bound that this one is a group of; itself, where it is none of a group."""
        return self if self.group is None else replace(self, group=None)

    def as_plain(self) -> dict[str, object]:
        """Return what ``Bound`` takes, in types of JSON."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Bound:
        """Read what `as_plain` returned."""
        return cls(**{**plain, "where": tuple(plain["where"]), "by": tuple(plain["by"])})


NOTHING = "nothing was judged"


@dataclass(frozen=True, slots=True)
class Event:
    """Something to tell people about an alert."""

    kind: str
    """``raised``, ``over`` or ``judge_changed``."""
    at_ns: int
    detail: str = ""


@dataclass(slots=True)
class AlertState:
    """Where one alert stands. `follow` takes in hour after hour."""

    bound: Bound
    cursor_ns: int = 0
    """Up to when hours have been taken in."""
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
    """Why the last hour could not be counted."""
    eligible: int = 0
    judged: int = 0
    weight: float = 0.0
    spread: float = 0.0
    lately_judged: float = 0.0
    """Verdicts of the last days, older hours counting less."""
    lately_lost: float = 0.0
    """Lost judgements of the last days, older hours counting less."""
    unweighted: int = 0
    """Verdicts without an inclusion probability, which are not counted."""
    left_out: list[int] = field(default_factory=list)
    """The beginnings of the hours of the last seven days that could not be counted."""
    late_left_out: int = 0
    """Records that arrived after their hour was taken in and could not be counted any more."""
    arrived: Arrived | None = None
    """How much of the store had arrived at the last look; ``None`` before the first one."""
    silence: Silence = field(default_factory=Silence)

    @classmethod
    def begun(cls, bound: Bound, since_ns: int) -> AlertState:
        """Begin to follow an alert."""
        return cls(bound, since_ns - since_ns % HOUR_NS, Evidence(_turned(bound, bound.value)))

    @property
    def is_alarm(self) -> bool:
        """Whether an alarm is in force."""
        return self.raised_ns is not None

    @property
    def is_new(self) -> bool:
        """Whether nothing was judged yet, and no verdict is known to be missing."""
        return not (self.judged or self.problem or self._silent())

    def follow(self, hour: Hour, level: float) -> list[Event]:
        """Take in one hour; ``level`` is the evidence that raises an alarm."""
        passed = (hour.start_ns + HOUR_NS - self.cursor_ns) / HOUR_NS if self.eligible else 1.0
        self.cursor_ns = hour.start_ns + HOUR_NS
        self.silence.note(hour)
        self.unweighted += hour.unweighted
        self.left_out = [start for start in self.left_out if start >= self.cursor_ns - LATE_NS]
        self.problem = _problem(hour)
        if self.problem or (not hour.judged and self._silent()):
            self.left_out.append(hour.start_ns)
            return []
        if not hour.seen:
            return []
        length = min(max(passed, 1.0), MOST_EMPTY_HOURS)
        return [*self._changed(hour), *self._weigh(hour, length, level)]

    def follow_late(self, late: Hour, left_out: int, level: float) -> list[Event]:
        """Take in what arrived after its hour; see `verdicts_by_hour.late` for the arguments.

        Late records are bet on when they come. That is as valid as betting in time, because the
        bet is about a verdict that was not known when its stake and its prediction were fixed.
        """
        self.late_left_out += left_out
        self.unweighted += late.unweighted
        others = self.version and len(distinct_versions({*late.versions, self.version})) > 1
        if _problem(late) or others or (late.lost and not late.judged):
            self.late_left_out += len(late.seen)
            return []
        self._changed(late)
        self.silence.last_verdict_ns = max(self.silence.last_verdict_ns, late.last_verdict_ns)
        return self._weigh(late, 0.0, level)

    def resolve(self) -> None:
        """End an alarm; evidence for another one is gathered from nothing."""
        self.raised_ns = self.since_ns = self.recovery = None
        self.evidence = Evidence(self.evidence.bound, past=self.evidence.past)

    def lacking(self) -> str:
        """Say why the judged records cannot stand for the rest; empty where they can."""
        if self.problem:
            return self.problem
        if silent := self._silent():
            return silent
        if not self.judged:
            return NOTHING
        return "" if stands_for(self.weight, self.spread, self.eligible) else NO_CONTROL

    def notes(self) -> list[str]:
        """Say what was not counted although it was recorded, one sentence for each kind."""
        notes = []
        if self.lately_lost >= 0.5:
            selected = self.lately_judged + self.lately_lost
            notes.append(
                f"{self.lately_lost / selected:.0%} of the judgements of the last days were lost"
                f" (about {self.lately_lost:,.0f} of {selected:,.0f}) and are taken to be like the"
                " rest"
            )
        if self.left_out:
            hours = "1 hour" if len(self.left_out) == 1 else f"{len(self.left_out)} hours"
            notes.append(
                f"{hours} of the last seven days could not be counted, the latest from"
                f" {moment(self.left_out[-1])} on"
            )
        if self.unweighted:
            notes.append(f"{self.unweighted:,} verdicts have {NO_CHANCE.partition(':')[0]}")
        if self.late_left_out:
            notes.append(
                f"{self.late_left_out:,} records came too late to be counted: their hours had been"
                " left out, or another version of the judge gave their verdicts"
            )
        return notes

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
        part = self.judged / self.eligible if self.judged else 1.0
        return max(1, round(missing / growth * part))

    def as_plain(self) -> dict[str, object]:
        """Return what `from_plain` reads, in types of JSON."""
        plain: dict[str, object] = {name: getattr(self, name) for name in _PLAIN}
        recovery = self.recovery.as_plain() if self.recovery else None
        return {
            **plain,
            "bound": self.bound.as_plain(),
            "evidence": self.evidence.as_plain(),
            "recovery": recovery,
            "arrived": self.arrived,
            "silence": self.silence.as_plain(),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> AlertState:
        """Read what `as_plain` returned."""
        bound = Bound.from_plain(plain["bound"])
        recovery, arrived = plain["recovery"], plain["arrived"]
        return cls(
            bound,
            evidence=Evidence.from_plain(plain["evidence"]),
            recovery=Evidence.from_plain(recovery) if recovery else None,
            arrived=Arrived(*arrived) if arrived else None,
            silence=Silence.from_plain(plain["silence"]),
            **{name: plain[name] for name in _PLAIN},
        )

    def _silent(self) -> str:
        return self.silence.sentence(self.judged / self.eligible if self.eligible else 0.0)

    def _weigh(self, hour: Hour, length: float, level: float) -> list[Event]:
        """Add an hour's records to the evidence, and return the events that follow.

        ``length`` is the hours that have passed with this one, empty ones before it included. It
        is 0 for records that arrived late, because the time of their hour was counted before.
        """
        if not hour.seen:
            return []
        self._count(hour, length)
        seen = hour.seen if self.bound.sign == "<" else _mirrored(hour.seen)
        if self.recovery is None:
            self.evidence.add(hour.start_ns, length, seen)
            if self.evidence.total < level or self.lacking():
                return []
            self.raised_ns, self.since_ns = self.cursor_ns, self.evidence.since_ns
            self.recovery = Evidence(1 - self.evidence.bound)
            return [Event("raised", self.cursor_ns)]
        self.recovery.add(hour.start_ns, length, _mirrored(seen))
        if self.recovery.total < 1 / RECOVERY:
            return []
        self.resolve()
        return [Event("over", self.cursor_ns)]

    def _changed(self, hour: Hour) -> list[Event]:
        """Begin anew where another version of the evaluator answers: verdicts are never mixed."""
        (version,) = hour.versions or {self.version}
        before, self.version = self.version, version
        versions = distinct_versions({before, version})
        if not before or len(versions) == 1:
            (self.version,) = versions if before else {version}
            return []
        self.evidence = Evidence(self.evidence.bound)
        if self.recovery is not None:
            self.recovery = Evidence(self.recovery.bound)
        self.eligible = self.judged = 0
        self.weight = self.spread = 0.0
        return [Event("judge_changed", hour.start_ns, f"{before} -> {version}")]

    def _count(self, hour: Hour, length: float) -> None:
        self.eligible += len(hour.seen)
        self.judged += hour.judged
        faded = MEMORY**length
        self.lately_judged = self.lately_judged * faded + hour.judged
        self.lately_lost = self.lately_lost * faded + hour.lost
        for value, chance, _ in hour.seen:
            if value is not None:
                weight = 1 / chance
                self.weight += weight
                self.spread += weight * (weight - 1)


_PLAIN = (
    "cursor_ns", "raised_ns", "since_ns", "silenced_until_ns", "version", "problem", "eligible",
    "judged", "weight", "spread", "lately_judged", "lately_lost", "unweighted", "left_out",
    "late_left_out",
)  # fmt: skip
"""The fields that are written down as they are."""


def _turned(bound: Bound, value: float) -> float:
    return value if bound.sign == "<" else 1 - value


def _mirrored(seen: Sequence[Seen]) -> list[Seen]:
    return [
        request if request.value is None else request._replace(value=1 - request.value)
        for request in seen
    ]


def _problem(hour: Hour) -> str:
    """Say why the verdicts of an hour cannot be counted; empty where they can."""
    if hour.is_out_of_scale:
        return NO_SCALE
    if hour.has_categories:
        return CATEGORIES
    if hour.unweighted and not hour.judged:
        return NO_CHANCE
    if len(hour.versions) > 1:
        both = " and ".join(sorted(hour.versions))
        return f"two versions of the judge answer in the same hour ({both}): they are not mixed"
    return ""
