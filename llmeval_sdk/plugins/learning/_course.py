"""From outcomes to weights in use: a fit waits until later outcomes have shown that it is better.

A fit never judges itself. It becomes a candidate, and the next `LATER` outcomes, none of which it
was fitted on, decide. It comes into use where it predicts them better (by log loss) than what it
would replace, with the scale of both set right first, and ranks them no worse. Where it does not,
it is refused; then the weights in use are checked on the same outcomes too, and withdrawn where
they have become worse than what they replaced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from llmeval_sdk.plugins.learning._fit import (
    Outcome,
    Slices,
    auroc,
    fitted,
    importance,
    loss,
    recalibrated,
)
from llmeval_sdk.plugins.learning._weights import Weights, entries, number


FEWEST, FEWEST_OF_EACH = 100, 10
"""Outcomes that a fit needs, and how many of them have to be good and how many bad."""
LATER, LATER_OF_EACH = 50, 5
"""Later outcomes that check a fit, and how many of them have to be good and how many bad."""
GROWTH = 0.25
"""The part by which outcomes have to have grown since the last fit."""
MOST_OUTCOMES = 1_000
"""The latest outcomes that a fit uses; older ones may be of another app by now."""


class Source(NamedTuple):
    """Who gave verdicts. Those of two sources are never mixed in one fit."""

    judge: str
    version: str
    model: str

    def __str__(self) -> str:
        """Name it for people."""
        about = f"version {self.version}" if self.version else ""
        return f"{self.judge} ({', '.join(filter(None, (about, self.model)))})"


PEOPLE = "people"
"""The model of a source whose verdicts are labels that people gave."""


@dataclass(frozen=True, slots=True)
class FitCheck:
    """How weights did on outcomes that they were not fitted on."""

    outcomes: int
    before: float | None
    """AUROC of what they would replace; ``None`` where all outcomes were alike."""
    after: float | None
    """Their own AUROC."""
    gain: float
    """By how much the mean log loss fell; at most 0 where they are no better."""
    at: float
    """Seconds since the epoch."""

    @property
    def is_passed(self) -> bool:
        """Whether they predict these outcomes better, and rank them no worse."""
        return self.gain > 0 and (self.after or 0.0) >= (self.before or 0.0)

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, data: Any) -> FitCheck:
        """Read a check; raises `ValueError` for anything else."""
        data = entries(data)
        before, after = (None if data.get(k) is None else number(data[k]) for k in _SCORES)
        at = _time(data.get("at"))
        return cls(_count(data.get("outcomes")), before, after, number(data.get("gain")), at)


_SCORES = ("before", "after")


@dataclass(frozen=True, slots=True)
class Fit:
    """Weights, and what they were fitted on."""

    weights: Weights
    source: Source
    outcomes: int
    until: int
    """The last outcome that it was fitted on, by `Outcome.seq`."""
    at: float
    """When it was made, in seconds since the epoch."""
    check: FitCheck | None = None
    """What brought it into use."""

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads."""
        return {
            "weights": self.weights.to_json(),
            "source": list(self.source),
            "outcomes": self.outcomes,
            "until": self.until,
            "at": self.at,
            "check": self.check and self.check.to_json(),
        }

    @classmethod
    def from_json(cls, data: Any, features: int) -> Fit:
        """Read a fit; raises `ValueError` for anything else."""
        data = entries(data)
        source = data.get("source")
        if not isinstance(source, list) or len(source) != 3:
            raise ValueError("no source")
        return cls(
            Weights.from_json(data.get("weights"), features),
            Source(*(str(part)[:200] for part in source)),
            _count(data.get("outcomes")),
            _count(data.get("until")),
            _time(data.get("at")),
            None if data.get("check") is None else FitCheck.from_json(data["check"]),
        )


@dataclass(frozen=True, slots=True)
class LearningCourse:
    """Where learning stands for one group of records."""

    in_use: Fit | None = None
    candidate: Fit | None = None
    """A fit that waits for later outcomes."""
    refused: FitCheck | None = None
    """The check that the last candidate failed; ``None`` once one has passed."""
    fitted_until: int = 0
    """The last outcome of the last fit."""

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads."""
        return {
            "in_use": self.in_use and self.in_use.to_json(),
            "candidate": self.candidate and self.candidate.to_json(),
            "refused": self.refused and self.refused.to_json(),
            "fitted_until": self.fitted_until,
        }

    @classmethod
    def from_json(cls, data: Any, features: int) -> LearningCourse:
        """Read a course for so many features; raises `ValueError` for anything else."""
        data = entries(data)
        in_use, candidate = (
            None if data.get(name) is None else Fit.from_json(data[name], features)
            for name in ("in_use", "candidate")
        )
        refused = None if data.get("refused") is None else FitCheck.from_json(data["refused"])
        if in_use is not None and in_use.check is None:
            raise ValueError("weights in use that nothing has checked")
        return cls(in_use, candidate, refused, _count(data.get("fitted_until")))


def chosen(
    latest: Mapping[tuple[Source, str], int], totals: Mapping[tuple[Source, str], int]
) -> Source | None:
    """Return the source to learn from: people, else who gave most of the latest outcomes.

    Sources with too few outcomes for a fit are left out. The order of names decides between equals.
    """
    enough: dict[Source, int] = {}
    for (source, _), count in totals.items():
        enough[source] = enough.get(source, 0) + count
    recent = dict.fromkeys(enough, 0)
    for (source, _), count in latest.items():
        recent[source] = recent.get(source, 0) + count
    able = [source for source, count in enough.items() if count >= FEWEST]
    return max(able, key=lambda s: (s.model == PEOPLE, recent[s], s), default=None)


def advanced(
    course: LearningCourse,
    source: Source,
    outcomes: Sequence[Outcome],
    now: float,
    *,
    rival: Weights | None = None,
) -> Slices[LearningCourse]:
    """Take the next steps that the outcomes allow: check the candidate, and make another.

    Args:
        course: Where learning stands.
        source: Who gave the outcomes.
        outcomes: The latest of that source, oldest first.
        now: Seconds since the epoch.
        rival: Weights that apply where this group has none of its own; ``None``: the shipped ones.
    """
    candidate = course.candidate
    if candidate is not None and candidate.source != source:
        candidate = None
        course = replace(course, candidate=None)
    if candidate is not None and _can_check(later := _after(outcomes, candidate.until)):
        check = yield from checked(candidate, outcomes, later, now, rival=rival)
        if check.is_passed:
            in_use = replace(candidate, check=check)
            course = replace(course, in_use=in_use, candidate=None, refused=None)
        else:
            course = replace(course, candidate=None, refused=check)
            if course.in_use is not None:
                again = yield from checked(course.in_use, outcomes, later, now, rival=rival)
                if again.gain <= 0:
                    course = replace(course, in_use=None, refused=again)
    if course.candidate is None and _can_fit(course, source, outcomes):
        weights = yield from fitted(outcomes)
        until = outcomes[-1].seq
        fit = Fit(weights, source, len(outcomes), until, now)
        course = replace(course, candidate=fit, fitted_until=until)
    return course


def checked(
    fit: Fit,
    outcomes: Sequence[Outcome],
    later: Sequence[Outcome],
    now: float,
    *,
    rival: Weights | None = None,
) -> Slices[FitCheck]:
    """Compare a fit with what it would replace on outcomes that came after it."""
    earlier = outcomes[: len(outcomes) - len(later)]
    scale = earlier if len(earlier) >= LATER else later  # the latter favours what is there
    bias, slope = yield from recalibrated(
        _replaced(scale, rival), [each.bad for each in scale], importance(scale)
    )
    shares, bad = importance(later), [each.bad for each in later]
    before = [bias + slope * logit for logit in _replaced(later, rival)]
    yield
    after = [fit.weights.logit(each.logit, each.features) for each in later]
    yield
    gain = loss(before, bad, shares) - loss(after, bad, shares)
    return FitCheck(len(later), auroc(before, bad, shares), auroc(after, bad, shares), gain, now)


def _replaced(outcomes: Sequence[Outcome], rival: Weights | None) -> list[float]:
    if rival is None:
        return [each.logit for each in outcomes]
    return [rival.logit(each.logit, each.features) for each in outcomes]


def _after(outcomes: Sequence[Outcome], until: int) -> Sequence[Outcome]:
    return [each for each in outcomes if each.seq > until]


def _can_check(later: Sequence[Outcome]) -> bool:
    return len(later) >= LATER and _differ(later, LATER_OF_EACH)


def _can_fit(course: LearningCourse, source: Source, outcomes: Sequence[Outcome]) -> bool:
    if len(outcomes) < FEWEST or not _differ(outcomes, FEWEST_OF_EACH):
        return False
    known = course.in_use
    if known is not None and known.source != source:
        return True
    new = len(_after(outcomes, course.fitted_until))
    return new >= LATER and new >= GROWTH * (len(outcomes) - new)


def _differ(outcomes: Sequence[Outcome], fewest: int) -> bool:
    bad = sum(each.bad for each in outcomes)
    return fewest <= bad <= len(outcomes) - fewest


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
        raise ValueError("no count")
    return value


def _time(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e11:
        raise ValueError("no time")
    return float(value)
