"""From outcomes to weights in use: a fit waits until later outcomes have shown that it is better.

A fit never judges itself. It becomes a candidate, and the next `LATER` outcomes, none of which it
was fitted on, decide. It comes into use where it predicts them better (by log loss) than what it
would replace, with the scale of both set right first, and ranks them no worse. Where it does not,
it is refused; then the weights in use are checked on the same outcomes too, and withdrawn where
they have become worse than what they replaced.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from llmeval_sdk.plugins.learning.fitting import (
    Outcome,
    Slices,
    Weights,
    auroc,
    entries,
    fitted,
    importance,
    loss,
    number,
    recalibrated,
)


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

    def to_json(self) -> dict[str, object]:
        """Return what `from_json` reads."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, data: object) -> FitCheck:
        """Read a check; raises `ValueError` for anything else."""
        known = entries(data)
        before, after = (
            None if known.get(name) is None else number(known[name]) for name in ("before", "after")
        )
        at = _time(known.get("at"))
        return cls(_count(known.get("outcomes")), before, after, number(known.get("gain")), at)


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

    def to_json(self) -> dict[str, object]:
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
    def from_json(cls, data: object, features: int) -> Fit:
        """Read a fit; raises `ValueError` for anything else."""
        known = entries(data)
        source = known.get("source")
        if not isinstance(source, list) or len(source) != 3:
            raise ValueError("no source")
        return cls(
            Weights.from_json(known.get("weights"), features),
            Source(*(str(part)[:200] for part in source)),
            _count(known.get("outcomes")),
            _count(known.get("until")),
            _time(known.get("at")),
            None if known.get("check") is None else FitCheck.from_json(known["check"]),
        )


@dataclass(frozen=True, slots=True)
class FitState:
    """Where learning stands for one group of records."""

    in_use: Fit | None = None
    candidate: Fit | None = None
    """A fit that waits for later outcomes."""
    refused: FitCheck | None = None
    """The check that the last candidate failed; ``None`` once one has passed."""
    fitted_until: int = 0
    """The last outcome of the last fit."""

    def to_json(self) -> dict[str, object]:
        """Return what `from_json` reads."""
        return {
            "in_use": self.in_use and self.in_use.to_json(),
            "candidate": self.candidate and self.candidate.to_json(),
            "refused": self.refused and self.refused.to_json(),
            "fitted_until": self.fitted_until,
        }

    @classmethod
    def from_json(cls, data: object, features: int) -> FitState:
        """Read a state for so many features; raises `ValueError` for anything else."""
        known = entries(data)
        in_use, candidate = (
            None if known.get(name) is None else Fit.from_json(known[name], features)
            for name in ("in_use", "candidate")
        )
        refused = None if known.get("refused") is None else FitCheck.from_json(known["refused"])
        if in_use is not None and in_use.check is None:
            raise ValueError("weights in use that nothing has checked")
        return cls(in_use, candidate, refused, _count(known.get("fitted_until")))


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
    state: FitState,
    source: Source,
    outcomes: Sequence[Outcome],
    now: float,
    *,
    rival: Weights | None = None,
) -> Slices[FitState]:
    """Take the next steps that the outcomes allow: check the candidate, and make another.

    Args:
        state: Where learning stands.
        source: Who gave the outcomes.
        outcomes: The latest of that source, oldest first.
        now: Seconds since the epoch.
        rival: Weights that apply where this group has none of its own; ``None``: the shipped ones.
    """
    candidate = state.candidate
    if candidate is not None and candidate.source != source:
        candidate = None
        state = replace(state, candidate=None)
    if candidate is not None and _can_check(later := _after(outcomes, candidate.until)):
        check = yield from checked(candidate, outcomes, later, now, rival=rival)
        if check.is_passed:
            in_use = replace(candidate, check=check)
            state = replace(state, in_use=in_use, candidate=None, refused=None)
        else:
            state = replace(state, candidate=None, refused=check)
            if state.in_use is not None:
                again = yield from checked(state.in_use, outcomes, later, now, rival=rival)
                if again.gain <= 0:
                    state = replace(state, in_use=None, refused=again)
    if state.candidate is None and _can_fit(state, source, outcomes):
        weights = yield from fitted(outcomes)
        until = outcomes[-1].seq
        fit = Fit(weights, source, len(outcomes), until, now)
        state = replace(state, candidate=fit, fitted_until=until)
    return state


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


def _can_fit(state: FitState, source: Source, outcomes: Sequence[Outcome]) -> bool:
    if len(outcomes) < FEWEST or not _differ(outcomes, FEWEST_OF_EACH):
        return False
    known = state.in_use
    if known is not None and known.source != source:
        return True
    new = len(_after(outcomes, state.fitted_until))
    return new >= LATER and new >= GROWTH * (len(outcomes) - new)


def _differ(outcomes: Sequence[Outcome], fewest: int) -> bool:
    bad = sum(each.bad for each in outcomes)
    return fewest <= bad <= len(outcomes) - fewest


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
        raise ValueError("no count")
    return value


def _time(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e11:
        raise ValueError("no time")
    return float(value)


# How the fits of a host are written down: one text of the file of state, believed only if it is
# sound.

TEXT = "learned weights"
"""The name of the text."""
VERSION = 1
MAX_CHARACTERS = 1 << 20
MAX_GROUPS = 20
"""Span names of one score that have weights of their own."""

FitStates = dict[str, dict[str, FitState]]
"""How learning stands, by part (a score and a language) and span name; ``""`` stands for all."""


class UnusableError(Exception):
    """The text is ignored.

    ``reason`` is ``untrusted``, ``too_large``, ``unreadable``, ``other_version`` or
    ``other_features``.
    """

    def __init__(self, reason: str, words: str) -> None:
        super().__init__(words)
        self.reason = reason


def parts_of(text: str) -> Mapping[str, object]:
    """Read the parts of a text as they stand there; `states_of` reads one of them.

    Raises:
        UnusableError: it cannot be believed. An empty text has no parts.
    """
    if not text:
        return {}
    if len(text) > MAX_CHARACTERS:
        raise UnusableError("too_large", f"they have more than {MAX_CHARACTERS:,} characters")
    try:
        data: object = json.loads(text)
    except (ValueError, RecursionError):
        raise UnusableError("unreadable", "they are no JSON") from None
    if not isinstance(data, dict):
        raise UnusableError("unreadable", "they have no parts")
    if data.get("version") != VERSION:
        raise UnusableError("other_version", "they were written by another release")
    parts = data.get("parts")
    if not isinstance(parts, dict):
        raise UnusableError("unreadable", "they have no parts")
    return parts


def states_of(part: object, features: str, width: int) -> dict[str, FitState]:
    """Read how learning stands for one part.

    Args:
        part: What stands in the text.
        features: Which features weights have to be for.
        width: How many those are.

    Raises:
        UnusableError: it is damaged, or for other features (``other_features``).
    """
    groups = part.get("groups") if isinstance(part, Mapping) else None
    if not isinstance(part, Mapping) or not isinstance(groups, dict):
        raise UnusableError("unreadable", "a part has no groups")
    if part.get("features") != features:
        raise UnusableError(
            "other_features", "the weights are for other features than this version's"
        )
    if len(groups) > MAX_GROUPS + 1:
        raise UnusableError("unreadable", "a part has too many groups")
    try:
        return {name: FitState.from_json(state, width) for name, state in groups.items()}
    except (ValueError, TypeError, KeyError, OverflowError):
        raise UnusableError("unreadable", "the weights are damaged") from None


def text_of(parts: Mapping[str, tuple[str, Mapping[str, FitState]]]) -> str:
    """Write down which features each part has, and how learning stands for it."""
    plain = {
        name: {
            "features": features,
            "groups": {group: state.to_json() for group, state in states.items()},
        }
        for name, (features, states) in parts.items()
    }
    return json.dumps({"version": VERSION, "parts": plain}, allow_nan=False)
