"""Which records are drawn: by sampling rules, and as the share of a stream."""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, field
from hashlib import blake2b
from math import isfinite
from numbers import Real
from typing import Any

from llmeval_sdk import registry
from llmeval_sdk.errors import ConfigurationError, is_like
from llmeval_sdk.evaluation.admission import Ruling
from llmeval_sdk.evaluation.groups import TagTest, Where, is_about, read_where
from llmeval_sdk.model import Record
from llmeval_sdk.process.forks import Locked
from llmeval_sdk.statistics.allocation import Allocation


# Sampling rules: the chance that a paid judge runs.
#
# The first rule that matches wins, names must match exactly, and without a match the judge runs.
# One draw per trace decides for all judges, so that a trace is judged as a whole and the traces
# of a lower rate are among those of a higher one. Datadog fails open or crashes on a bad rule,
# and ours fails closed: a rule that cannot be understood means rate 0 for whatever it could have
# matched, and JSON that cannot be read means rate 0 for everything.


# Random draws that are the same everywhere for the same id.
#
# A draw is a keyed BLAKE2b of the id, so it is uniform for ids that are not random (sequential
# test ids, 64-bit ids padded to 128) and independent of samplers that look at the id's low bits,
# such as OpenTelemetry's ratio sampler: a stream cut to 1 % at its head is still sampled at the
# asked rate. ``draw < rate`` keeps a lower rate's set inside a higher one's.

_SAMPLING = blake2b(digest_size=8, person=b"sampling")
_ESCALATION = blake2b(digest_size=8, person=b"escalation")
_OVERLOAD = blake2b(digest_size=8, person=b"overload")
_SCORING = blake2b(digest_size=8, person=b"scoring")
_UNIT = 2.0**-53


def sampling_draw(trace_id: str | None) -> float:
    """Draw from 0..1 (1 excluded) for a trace; a missing id draws afresh each time."""
    return _draw(_SAMPLING, trace_id)


def escalation_draw(key: str | None) -> float:
    """Draw from 0..1 (1 excluded) for one evaluated span, independently of `sampling_draw`."""
    return _draw(_ESCALATION, key)


def overload_draw(trace_id: str | None) -> float:
    """Draw for whether a trace stays; the sampling's draw would keep exactly the judged ones."""
    return _draw(_OVERLOAD, trace_id)


def scoring_draw(trace_id: str | None) -> float:
    """Draw for whether the heuristics of a trace run, independently of all other draws."""
    return _draw(_SCORING, trace_id)


def _draw(salted: blake2b, key: str | None) -> float:
    if not key:
        return random.random()  # noqa: S311 - sampling, not a secret
    digest = salted.copy()
    digest.update(key.encode("utf-8", "surrogatepass"))
    return (int.from_bytes(digest.digest(), "big") >> 11) * _UNIT


@dataclass(frozen=True, slots=True)
class SamplingRule:
    """The chance that a paid judge runs.

    Args:
        sample_rate: The chance: from 0 (never) to 1 (always).
        evaluator: The exact name of the judge; ``None`` matches any.
        span_name: The exact name of the span; ``None`` matches any.
        where: Tags that the span must have, such as ``{"tag:tenant": "acme"}`` or
            ``{"tag:tenant": ["acme", "globex"], "user": "u-17"}``.

    Raises:
        ConfigurationError: The rate is no number in 0..1, a name is empty, or ``where`` names no
            tags.

    Examples:
        >>> llmeval.configure(sampling_rules=[llmeval.SamplingRule(0.05, evaluator="safety")])
    """

    sample_rate: float
    _: KW_ONLY
    evaluator: str | None = None
    span_name: str | None = None
    where: Where = field(default=None, hash=False)
    tests: tuple[TagTest, ...] = field(default=(), init=False, repr=False)
    """``where``, as it was read: a record has to pass all of these tests."""

    def __post_init__(self) -> None:
        rate: object = self.sample_rate
        if not is_rate(rate):
            raise ConfigurationError(
                "SamplingRule: sample_rate must be a number from 0 (never) to 1 (always), "
                f"not {rate!r}"
            )
        for key, name in (("evaluator", self.evaluator), ("span_name", self.span_name)):
            if name is not None and not (isinstance(name, str) and name):
                raise ConfigurationError(
                    f"SamplingRule: {key} must be a name or None for any, not {name!r}"
                )
        object.__setattr__(self, "tests", read_where(self.where, "SamplingRule"))

    def matches(self, evaluator: str, record: Record) -> bool:
        """Return whether the rule is about an evaluator on a record."""
        return (
            self.evaluator in (None, evaluator)
            and self.span_name in (None, record.span_name)
            and is_about(self.tests, record.tags)
        )


@dataclass(frozen=True, slots=True)
class SamplingRules:
    """Sampling rules in order, and the problems of the text that they were read from."""

    rules: tuple[SamplingRule, ...] = ()
    problems: tuple[str, ...] = ()
    """The problems, one line each, as people read them."""
    nobodys: frozenset[str] = frozenset()
    """Names in these rules that no judge had when they were read."""
    awaited: frozenset[str] = frozenset()
    """Names in escalations that no judge had when they were read."""

    @classmethod
    def of(cls, rules: Iterable[SamplingRule]) -> SamplingRules:
        """Make rules of `SamplingRule` objects; raises `ConfigurationError` for others."""
        known = tuple(rules)
        for rule in known:
            if not isinstance(rule, SamplingRule):
                raise ConfigurationError(
                    f"sampling_rules takes SamplingRule(0.1, evaluator=...) objects, not {rule!r}"
                )
        return cls(known)

    def rate(self, evaluator: str, record: Record) -> float:
        """Return the chance, from 0 to 1, that an evaluator runs on a record."""
        if self.misspelling(evaluator, record) is not None:
            return 0.0
        for rule in self.rules:
            if rule.matches(evaluator, record):
                return float(rule.sample_rate)
        return 1.0

    def misspelling(self, evaluator: str, record: Record) -> str | None:
        """Return a name that nobody has and that may have meant this evaluator on this record.

        A rule with such a name counts as one of rate 0 until a judge of that name is declared.
        """
        for name in self.awaited:
            if _may_mean(name, evaluator):
                return name
        for rule in self.rules if self.nobodys else ():
            if rule.matches(evaluator, record):
                return None
            name = rule.evaluator or ""
            is_near = name in self.nobodys and _may_mean(name, evaluator)
            if is_near and rule.matches(name, record):
                return name
        return None

    def decide(self, evaluator: str, record: Record) -> tuple[bool, float]:
        """Return whether the evaluator runs on a record, and with what chance."""
        rate = self.rate(evaluator, record)
        return rate >= 1 or (rate > 0 and sampling_draw(record.trace_id) < rate), rate


def _may_mean(name: str, evaluator: str) -> bool:
    return is_like(name, evaluator) and registry.known(name) is None


def is_rate(rate: Any) -> bool:
    """Return whether a rate is a number from 0 to 1; NaN and booleans are not."""
    is_number = isinstance(rate, Real) and not isinstance(rate, bool)
    return is_number and bool(0 <= rate <= 1)


# Escalation of a share: judge the riskiest part of a stream, and keep it at that share.


# Where a score stands among the recent ones: the running quantile behind escalation by share.


class RecentScores:
    """The last ``size`` scores, kept in order of age and of height.

    Adding one costs two binary searches and two short memory moves.
    """

    __slots__ = ("_by_age", "_by_height", "_size")

    def __init__(self, size: int = 500) -> None:
        self._size = size
        self._by_age: deque[float] = deque()
        self._by_height: list[float] = []

    def __len__(self) -> int:
        return len(self._by_age)

    def add(self, score: float) -> None:
        """Take a score in, and let go of the oldest when there are too many."""
        self._by_age.append(score)
        insort(self._by_height, score)
        if len(self._by_age) > self._size:
            oldest = self._by_age.popleft()
            place = bisect_left(self._by_height, oldest)
            if self._by_height[place : place + 1] == [oldest]:
                del self._by_height[place]
            else:  # a fork or signal came between two steps: put it right
                self._by_height = sorted(self._by_age)

    def ranks(self, score: float) -> tuple[float, float]:
        """Return between which ranks a new score falls: 0 is the highest of all, 1 the lowest.

        The new score takes a random place among its equals, itself included: with g of n recent
        scores above it and e equal to it, its rank is uniform in g..g+e+1, here over n + 1. For
        any stream whose order is arbitrary the rank is uniform in 0..1 exactly, however many scores
        are equal (the smoothed p-value of conformal prediction).
        """
        count = len(self._by_height)
        right = bisect_right(self._by_height, score)
        equal = right - bisect_left(self._by_height, score, 0, right)
        above = count - right
        return above / (count + 1), (above + equal + 1) / (count + 1)


WARM_UP = 20
"""Scores that have to be known before ranks mean anything."""
GAIN, STEEP = 0.0025, 5.0
"""How the share moves with what is owed: gently around zero, so that a calm stream's riskiest are
chosen by rank alone, and steeply beyond STEEP records, so that no stream gets far."""


class Quota(Locked):
    """Admits a ``share`` of one stream of scored records: the riskiest, and a sample of the rest.

    Records may be scored by different evaluators, each on a scale of its own: a score is ranked
    among the recent ones of the same evaluator, and all draw on the one share. The score of an
    answer with many fields is that of its worst one, and is ranked among those of answers with
    about as many, once 20 of them are known: else long answers would take the share of short ones.

    A record is admitted when its draw is below the chance that `Allocation` gives to its rank among
    the recent scores. The share that is spent now is moved by what the stream is owed: the share
    times its length less what was admitted. So drift, steps and sorted streams cost what calm ones
    do, give or take fifty records in all (the idea of adaptive conformal inference, Gibbs and
    Candès 2021). The chance depends on the past and the score alone, never on this record's draw,
    so weighting by its inverse is unbiased.

    Until 20 scores are known, and for records without a score, admission is random at ``share``.
    """

    __slots__ = ("_allocation", "_owed", "_recent", "_window")

    def __init__(self, share: float, control_rate: float, *, window: int = 500) -> None:
        super().__init__()
        self._allocation = Allocation(share, control_rate)
        self._owed = 0.0
        self._window = window
        self._recent: dict[tuple[str, int], RecentScores] = {}

    def warm(self, scores: Iterable[float], by: str = "") -> None:
        """Take in scores of the past, oldest first, such as those of an earlier process."""
        with self._lock:
            recent = self._scores(by)
            for score in scores:
                if isfinite(score):
                    recent.add(score)

    def decide(self, risk: float | None, key: str | None, by: str = "", fields: int = 0) -> Ruling:
        """Decide on the next record of the stream; ``key`` is the identity that it draws by.

        ``by`` names the evaluator that gave the score, and ``fields`` is the number of fields among
        which the score is the greatest. Call it once per record, since the score joins the recent
        ones.
        """
        draw = escalation_draw(key)
        allocation, aimed = self._allocation, self._allocation.share
        if risk is None or not isfinite(risk):
            return Ruling(draw < aimed, aimed, f"unknown: random {aimed:.3g}")
        with self._lock:
            recent = self._scores(by)
            alike = self._scores(by, fields.bit_length()) if fields > 0 else recent
            among = alike if len(alike) >= WARM_UP else recent
            share = aimed + GAIN * self._owed * (1 + abs(self._owed) / STEEP)
            ranks = among.ranks(risk) if len(among) >= WARM_UP else None
            probability = aimed if ranks is None else allocation.chance(*ranks, share)
            run = draw < probability
            self._owed += aimed - run
            recent.add(risk)
            if alike is not recent:
                alike.add(risk)
        if ranks is None:
            why = f"{risk:.2f}: few scores yet, random {aimed:.3g}"
        else:
            why = _why(risk, ranks, allocation.aim(share), run=run)
        return Ruling(run, probability, why)

    def _scores(self, by: str, size: int = 0) -> RecentScores:
        """Return the recent scores of an evaluator, of answers of any size or of one."""
        return self._recent.setdefault((by, size), RecentScores(self._window))


def _why(risk: float, ranks: tuple[float, float], aim: float, *, run: bool) -> str:
    first, last = ranks
    top = f"top {aim:.0%} of recent scores"
    if last <= aim:
        return f"{risk:.2f} is in the {top}"
    if first < aim:
        return f"{risk:.2f} is on the edge of the {top}"
    return f"{risk:.2f} is below the {top}" + (", control sample" if run else "")
