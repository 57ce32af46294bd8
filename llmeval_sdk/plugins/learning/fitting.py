"""Learned weights, which correct a shipped risk by its features, and how they are fitted.

The model is logistic. Its offset is the shipped logit, so that weights of nothing are the shipped
score, and two penalties keep it near there: a strong one on each feature and a weak one on the
slope of the shipped logit (ridge regression; le Cessie and van Houwelingen 1992). The penalties
were chosen by ``benchmarks/quality/learned_risk.py`` on four labelled sets, each of which the
shipped weights had not seen.

Outcomes weigh the inverse of their inclusion probability, because the judged records lean towards
the risky ones. The weights are bounded (`HEAVIEST`), which costs a little bias and saves much
variance, and together they count as much as Kish's effective number of outcomes.

A fit takes 0.1 to 0.5 s of processor time. It is a generator that yields at least once a
millisecond or so, so that a worker can rest between.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import copysign, exp, isfinite, log, log1p, sqrt
from operator import mul
from typing import NamedTuple, TypeVar


FARTHEST = 3.0
"""Standard deviations beyond which a feature counts no further, so that no outlier decides."""
MOST_FEATURES = 200
LARGEST = 1e6
"""Numbers beyond it are no weights that a fit can have come to."""


class Score(NamedTuple):
    """A risk score that can learn."""

    name: str
    features: str
    """Which features it has, in which version; weights are for these and no others."""
    names: tuple[str, ...]
    """The features in order."""

    @property
    def made_of(self) -> tuple[str, int]:
        """Which features weights have to be for, and how many those are."""
        return self.features, len(self.names)


@dataclass(frozen=True, slots=True)
class Weights:
    """A logistic model around a shipped one: its logit, corrected by its features.

    Args:
        bias: What is added.
        slope: What the shipped logit is multiplied by.
        means: The mean of each feature over the outcomes, after `_tamed`.
        spreads: The standard deviation of each.
        weights: The weight of each feature, standardised.
        shift: With ``stretch``, what brings the logit back to the scale of the shipped risk.
        stretch: See ``shift``.
    """

    bias: float
    slope: float
    means: tuple[float, ...]
    spreads: tuple[float, ...]
    weights: tuple[float, ...]
    shift: float = 0.0
    stretch: float = 1.0

    def logit(self, shipped: float, features: Sequence[float]) -> float:
        """Return the logit that the outcomes speak for, from the shipped one and the features."""
        logit = self.bias + self.slope * shipped
        columns = zip(features, self.means, self.spreads, self.weights, strict=True)
        for value, mean, spread, weight in columns:
            logit += weight * standardised(_tamed(value), mean, spread)
        return logit

    def risk(self, shipped: float, features: Sequence[float]) -> float:
        """Return the risk, 0..1, on the scale of the shipped one.

        Over the outcomes of the fit its logits have the mean and the spread of the shipped ones. So
        a rule such as ``above("groundedness_risk", 0.6)`` still flags about as many records, and
        ranks among recent scores still mean something when the weights change.
        """
        return risk_of(self.shift + self.stretch * self.logit(shipped, features))

    def to_json(self) -> dict[str, object]:
        """Return what `from_json` reads."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, data: object, features: int) -> Weights:
        """Read weights for so many features; raises `ValueError` for anything else."""
        known = entries(data)
        lists = [_numbers(known.get(name), features) for name in ("means", "spreads", "weights")]
        bias, slope, shift, stretch = (
            number(known.get(name)) for name in ("bias", "slope", "shift", "stretch")
        )
        if min(lists[1], default=1.0) <= 0 or not 0 < stretch < 100:
            raise ValueError("a spread that is not positive")
        return cls(bias, slope, lists[0], lists[1], lists[2], shift, stretch)

    @property
    def version(self) -> str:
        """What tells these weights from others: eight hexadecimal digits."""
        return blake2b(json.dumps(self.to_json()).encode(), digest_size=4).hexdigest()


def _tamed(value: float) -> float:
    """Shrink large values of a feature: counts and masses have long tails."""
    return copysign(log1p(abs(value)), value)


def standardised(value: float, mean: float, spread: float) -> float:
    """Return how many spreads a value is away from the mean, at most `FARTHEST`."""
    return min(max((value - mean) / spread, -FARTHEST), FARTHEST)


def logit_of(risk: float) -> float:
    """Turn a risk, 0..1, into a logit; the ends of the scale become ±9.2."""
    risk = min(max(risk, 1e-4), 1 - 1e-4)
    return log(risk / (1 - risk))


def risk_of(logit: float) -> float:
    """Turn a logit into a risk, 0..1."""
    return 1.0 / (1.0 + exp(-min(max(logit, -30.0), 30.0)))


def number(value: object) -> float:
    """Read a number; raises `ValueError` for what no fit can have come to."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("not a number")  # noqa: TRY004 - one error for all that is unreadable
    if not -LARGEST <= value <= LARGEST or not isfinite(value):
        raise ValueError("a number out of range")
    return float(value)


def entries(data: object) -> Mapping[str, object]:
    """Read a mapping; raises `ValueError`, as all readers of a file here do, for anything else."""
    if not isinstance(data, Mapping):
        raise ValueError("not a mapping")  # noqa: TRY004
    return data


def _numbers(values: object, count: int) -> tuple[float, ...]:
    if not isinstance(values, list) or len(values) != count or count > MOST_FEATURES:
        raise ValueError("not one number for each feature")
    return tuple(map(number, values))


# Fitting, in plain Python and in small pieces.

RIDGE, SLOPE_RIDGE, LEAST_RIDGE = 60.0, 5.0, 1e-3
"""The penalties on each feature, on the slope, and on the bias (which only keeps it finite)."""
HEAVIEST = 4.0
"""The most that an outcome weighs, where one that was judged for certain weighs 1."""
STEPS, CLOSE = 12, 1e-4
"""Newton steps at most, and the change of the weights below which a further one changes nothing."""

T = TypeVar("T")
Slices = Generator[None, None, T]
Vector = list[float]


class Outcome(NamedTuple):
    """What a judge, or a person, said of a record, and what the risk score knew of it before."""

    seq: int
    """The order of arrival."""
    logit: float
    """The logit of the shipped risk."""
    features: tuple[float, ...]
    bad: float
    """0 where the verdict was good, 1 where it was bad."""
    chance: float
    """The chance that it was judged, above 0 and at most 1."""


def importance(outcomes: Sequence[Outcome]) -> Vector:
    """Return the weight of each outcome in a fit; see the module's text."""
    raw = [min(1 / outcome.chance, HEAVIEST) for outcome in outcomes]
    total = sum(raw)
    effective = total**2 / sum(map(mul, raw, raw))
    return [weight * effective / total for weight in raw]


def fitted(outcomes: Sequence[Outcome]) -> Slices[Weights]:
    """Fit weights to outcomes of which at least one is good and one bad."""
    shares = importance(outcomes)
    total = sum(shares)
    means, spreads, columns = [], [], []
    for raw in zip(*(outcome.features for outcome in outcomes), strict=True):
        column = list(map(_tamed, raw))
        yield
        mean = sum(map(mul, shares, column)) / total
        squares = sum(
            share * (value - mean) ** 2 for share, value in zip(shares, column, strict=True)
        )
        spread = sqrt(squares / total) + 1e-6
        means.append(mean)
        spreads.append(spread)
        yield
        columns.append([standardised(value, mean, spread) for value in column])
        yield
    logits = [outcome.logit for outcome in outcomes]
    bad = [outcome.bad for outcome in outcomes]
    beta = yield from _newton(logits, columns, bad, shares)
    centre = _mean(logits, shares)
    slope = 1 + beta[1]
    weights = Weights(
        beta[0] - slope * centre, slope, tuple(means), tuple(spreads), tuple(beta[2:])
    )
    learned = []
    for outcome in outcomes:
        learned.append(weights.logit(outcome.logit, outcome.features))
        yield
    stretch = min(max(_spread(logits, shares) / _spread(learned, shares), 0.1), 10.0)
    shift = centre - stretch * _mean(learned, shares)
    return Weights(
        weights.bias, slope, weights.means, weights.spreads, weights.weights, shift, stretch
    )


def recalibrated(
    logits: Vector, bad: Sequence[float], shares: Vector
) -> Slices[tuple[float, float]]:
    """Fit a bias and a slope alone: what any score comes to once its scale is right."""
    beta = yield from _newton(logits, [], bad, shares)
    slope = 1 + beta[1]
    return beta[0] - slope * _mean(logits, shares), slope


def loss(logits: Sequence[float], bad: Sequence[float], shares: Vector) -> float:
    """Return the weighted mean of the log loss."""
    rows = zip(logits, bad, shares, strict=True)
    total: float = sum(w * (_softplus(logit) - y * logit) for logit, y, w in rows)
    return total / sum(shares)


def auroc(scores: Sequence[float], bad: Sequence[float], shares: Vector) -> float | None:
    """Return how often a bad outcome has the higher score than a good one; ties count half.

    ``None`` where all are good or all are bad.
    """
    good_below = won = goods = bads = 0.0
    rows = sorted(zip(scores, bad, shares, strict=True))
    start = 0
    while start < len(rows):
        end = start
        good = ill = 0.0
        while end < len(rows) and rows[end][0] == rows[start][0]:
            _, y, w = rows[end]
            good, ill, end = good + w * (1 - y), ill + w * y, end + 1
        won += ill * (good_below + good / 2)
        good_below, goods, bads, start = good_below + good, goods + good, bads + ill, end
    return won / (goods * bads) if goods > 0 and bads > 0 else None


def _newton(
    logits: Vector, columns: list[Vector], bad: Sequence[float], shares: Vector
) -> Slices[Vector]:
    """Return bias, change of the slope, and weights, by penalised Newton steps."""
    centre = _mean(logits, shares)
    offsets = [logit - centre for logit in logits]
    design = [[1.0] * len(logits), offsets, *columns]
    penalties = [LEAST_RIDGE, SLOPE_RIDGE, *(RIDGE for _ in columns)]
    beta = [0.0] * len(design)
    for _ in range(STEPS):
        totals = offsets
        for weight, column in zip(beta, design, strict=True):
            totals = [total + weight * x for total, x in zip(totals, column, strict=True)]
            yield
        risks = list(map(risk_of, totals))
        yield
        misses = [w * (y - p) for w, y, p in zip(shares, bad, risks, strict=True)]
        yield
        gradient = []
        for column, penalty, weight in zip(design, penalties, beta, strict=True):
            gradient.append(sum(map(mul, column, misses)) - penalty * weight)
            if len(gradient) % 8 == 0:
                yield
        curves = [w * p * (1 - p) for w, p in zip(shares, risks, strict=True)]
        hessian = []
        for place, column in enumerate(design):
            curved = list(map(mul, column, curves))
            row = []
            for other in design[: place + 1]:
                row.append(sum(map(mul, curved, other)))
                if len(row) % 8 == 0:
                    yield
            row[place] += penalties[place]
            hessian.append(row)
            yield
        step = yield from _solved(hessian, gradient)
        beta = [weight + change for weight, change in zip(beta, step, strict=True)]
        if max(map(abs, step)) < CLOSE:
            break
    return beta


def _solved(matrix: list[Vector], vector: Vector) -> Slices[Vector]:
    """Solve for a positive definite matrix, of which the lower half is given (Cholesky)."""
    lower: list[Vector] = []
    for row in matrix:
        made: Vector = []
        for place, value in enumerate(row):
            rest = value - sum(map(mul, made, lower[place] if place < len(lower) else made))
            made.append(rest / lower[place][place] if place < len(lower) else sqrt(rest))
        lower.append(made)
        yield
    forward: Vector = []
    for row, value in zip(lower, vector, strict=True):
        forward.append((value - sum(map(mul, row, forward))) / row[-1])
    solution = [0.0] * len(vector)
    for place in reversed(range(len(vector))):
        below = range(place + 1, len(vector))
        rest = forward[place] - sum(lower[k][place] * solution[k] for k in below)
        solution[place] = rest / lower[place][place]
    return solution


def _mean(values: Sequence[float], shares: Vector) -> float:
    total: float = sum(map(mul, values, shares))
    return total / sum(shares)


def _spread(values: Vector, shares: Vector) -> float:
    mean = _mean(values, shares)
    squares = sum(w * (value - mean) ** 2 for value, w in zip(values, shares, strict=True))
    return sqrt(squares / sum(shares)) + 1e-6


def _softplus(logit: float) -> float:
    return max(logit, 0.0) + log1p(exp(-abs(logit)))
