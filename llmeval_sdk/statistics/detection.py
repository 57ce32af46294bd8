"""How far probabilities can be believed, and how many of the bad records a score or a bound finds.

**Assumptions.** Labels are 0 (bad) or 1 (good), one for each probability of the good outcome; each
weighs the inverse of its chance to be there. Records are independent.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from math import exp, log, pi, sqrt
from typing import NamedTuple


_Z = 1.959964


def caught_at(
    share: float,
    risks: Sequence[float],
    bad: Sequence[bool],
    weights: Sequence[float] | None = None,
) -> float | None:
    """Return the part, 0..1, of the bad records that stand among the riskiest ``share``.

    Records with the same risk are taken in random order, so a constant score catches ``share``.

    Args:
        share: The part of the traffic that is judged, 0..1.
        risks: A score of each record; the highest are judged first.
        bad: Whether each record is bad, in the same order.
        weights: How much traffic each record stands for, such as the inverse of its chance to be
            here; 1 each by default.

    Returns:
        ``None`` where no record is bad.
    """
    rows = sorted(
        zip(risks, bad, weights or [1.0] * len(risks), strict=True), key=lambda row: -row[0]
    )
    total = sum(weight for _, _, weight in rows)
    all_bad = sum(weight for _, is_bad, weight in rows if is_bad)
    if not all_bad:
        return None
    left, caught = share * total, 0.0
    for _, tied in groupby(rows, key=lambda row: row[0]):
        group = list(tied)
        size = sum(weight for _, _, weight in group)
        part = min(1.0, left / size) if size else 0.0
        caught += part * sum(weight for _, is_bad, weight in group if is_bad)
        left -= size
        if left <= 0:
            break
    return caught / all_bad


def caught_interval(
    caught: float | None, bad: Sequence[bool], weights: Sequence[float] | None = None
) -> tuple[float, float] | None:
    """Return the 95 % interval of a part that `caught_at` found, by how many records were bad."""
    found = [w for is_bad, w in zip(bad, weights or [1.0] * len(bad), strict=True) if is_bad]
    if caught is None or not found:
        return None
    return wilson(caught, sum(found) ** 2 / sum(weight * weight for weight in found))


def wilson(share: float, count: float) -> tuple[float, float]:
    """Return the 95 % interval of a share of ``count`` records (Wilson 1927), within 0..1."""
    middle = (share + _Z**2 / (2 * count)) / (1 + _Z**2 / count)
    half = _Z / (1 + _Z**2 / count) * sqrt(share * (1 - share) / count + _Z**2 / (4 * count**2))
    return max(0.0, middle - half), min(1.0, middle + half)


class Figure(NamedTuple):
    """How well a score finds what is bad, with its 95 % interval; all lie in 0..1."""

    value: float
    low: float
    high: float


def auroc(risks: Sequence[float], bad: Sequence[bool]) -> Figure | None:
    """Return the chance that a bad record looks riskier than a good one; 0.5 is a coin.

    Ties count half. The variance is DeLong's (1988), and the interval is symmetric on the scale of
    log odds; where every bad record is riskier than all good ones, it is Wilson's of as many
    records as there are of the rarer kind. ``None`` where all records are bad, or none is.

    Args:
        risks: A score of each record, high where it looks bad.
        bad: Whether each record is bad, in the same order.
    """
    high = sorted(risk for risk, is_bad in zip(risks, bad, strict=True) if is_bad)
    low = sorted(risk for risk, is_bad in zip(risks, bad, strict=True) if not is_bad)
    if not high or not low:
        return None
    above = [(bisect_left(low, one) + bisect_right(low, one)) / (2 * len(low)) for one in high]
    below = [
        1 - (bisect_left(high, one) + bisect_right(high, one)) / (2 * len(high)) for one in low
    ]
    area = sum(above) / len(above)
    deviation = sqrt(_variance_of_mean(above) + _variance_of_mean(below))
    if not deviation or not 0 < area < 1:
        return Figure(area, *wilson(area, min(len(high), len(low))))
    odds, half = log(area / (1 - area)), _Z * deviation / (area * (1 - area))
    return Figure(area, 1 / (1 + exp(half - odds)), 1 / (1 + exp(-half - odds)))


def _variance_of_mean(values: Sequence[float]) -> float:
    count = len(values)
    if count < 2:
        return 0.25
    mean = sum(values) / count
    return sum((value - mean) ** 2 for value in values) / (count - 1) / count


def accuracy_at(coverage: float, risks: Sequence[float], bad: Sequence[bool]) -> Figure | None:
    """Return the share of good records among the safest ``coverage``, with Wilson's interval.

    ``None`` where there is no record. Takes what `auroc` takes; records with the same risk are
    taken in random order.
    """
    count = coverage * len(risks)
    if count <= 0:
        return None
    caught = caught_at(1 - coverage, risks, bad)
    left = 0.0 if caught is None else (1 - caught) * sum(bad)
    share = 1 - left / count
    return Figure(share, *wilson(share, count))


BINS = 10


@dataclass(frozen=True, slots=True)
class Bin:
    """The records whose probability lies in one tenth of 0..1.

    Args:
        low: Where the tenth begins.
        high: Where it ends.
        count: How many records there are.
        probability: Their mean probability of being good.
        good: The share of them that people called good, weighted.
        interval: The 95 % interval of ``good`` (Wilson 1927).
    """

    low: float
    high: float
    count: int
    probability: float
    good: float
    interval: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Reliability:
    """How far probabilities are from the shares that they promise.

    Args:
        bins: Tenths that hold records, rising.
        brier: The mean squared distance of the probability from the label (Brier 1950); 0 is
            perfect, 0.25 is what saying 0.5 of everything gets.
        calibration_error: The expected calibration error over the bins (Naeini et al. 2015), 0..1.
        floor: What the calibration error of a perfect judge would be, on average, with as many
            labels at the same probabilities. An error near its floor says nothing against a judge.
    """

    bins: tuple[Bin, ...]
    brier: float
    calibration_error: float
    floor: float


@dataclass(frozen=True, slots=True)
class Caught:
    """What a bound on the probability catches.

    Args:
        threshold: Records with a lower probability of being good are called bad.
        recall: The share of the bad records that are called bad.
        interval: Its 95 % interval (Wilson 1927).
        flagged: The share of all records that are called bad.
    """

    threshold: float
    recall: float
    interval: tuple[float, float]
    flagged: float


def reliability(
    probabilities: Sequence[float], labels: Sequence[float], chances: Sequence[float] | None = None
) -> Reliability | None:
    """Compare probabilities with labels; ``None`` without any.

    Args:
        probabilities: Of the good outcome, 0..1.
        labels: 1 where people called the record good, else 0.
        chances: The chance of each record to be labelled, in 0..1, above 0; 1 by default.
    """
    if not labels:
        return None
    weights = _weights(labels, chances)
    total = sum(weights)
    members: dict[int, list[int]] = {}
    for place, p in enumerate(probabilities):
        members.setdefault(min(int(p * BINS), BINS - 1), []).append(place)
    bins, error, floor = [], 0.0, 0.0
    for number in sorted(members):
        inside = members[number]
        weight = sum(weights[i] for i in inside)
        mean = sum(weights[i] * probabilities[i] for i in inside) / weight
        good = sum(weights[i] * labels[i] for i in inside) / weight
        effective = weight**2 / sum(weights[i] ** 2 for i in inside)
        bins.append(
            Bin(
                number / BINS, (number + 1) / BINS, len(inside), mean, good,
                wilson(good, effective),
            )
        )  # fmt: skip
        error += weight / total * abs(mean - good)
        spread = sum(weights[i] ** 2 * probabilities[i] * (1 - probabilities[i]) for i in inside)
        floor += sqrt(2 / pi * spread) / total  # the mean distance of a normal from its mean
    brier = (
        sum(w * (p - y) ** 2 for p, y, w in zip(probabilities, labels, weights, strict=True))
        / total
    )
    return Reliability(tuple(bins), brier, error, floor)


def caught_below(
    probabilities: Sequence[float],
    labels: Sequence[float],
    threshold: float,
    chances: Sequence[float] | None = None,
) -> Caught | None:
    """Say what share of the bad records has a probability below a threshold; ``None``: no bad one.

    Takes what `reliability` takes.
    """
    weights = _weights(labels, chances)
    bad = [(p, w) for p, y, w in zip(probabilities, labels, weights, strict=True) if not y]
    if not bad:
        return None
    weight = sum(w for _, w in bad)
    recall = sum(w for p, w in bad if p < threshold) / weight
    effective = weight**2 / sum(w * w for _, w in bad)
    below = zip(probabilities, weights, strict=True)
    flagged = sum(w for p, w in below if p < threshold) / sum(weights)
    return Caught(threshold, recall, wilson(recall, effective), flagged)


def threshold_for(
    probabilities: Sequence[float],
    labels: Sequence[float],
    share: float,
    chances: Sequence[float] | None = None,
) -> Caught | None:
    """Return the lowest threshold, in hundredths, that catches a share of the bad records.

    ``None`` where no threshold does, or no record is bad. Takes what `reliability` takes.
    """
    for hundredth in range(1, 101):
        caught = caught_below(probabilities, labels, hundredth / 100, chances)
        if caught is not None and caught.recall >= share:
            return caught
    return None


def _weights(labels: Sequence[float], chances: Sequence[float] | None) -> list[float]:
    return [1.0] * len(labels) if chances is None else [1 / chance for chance in chances]
