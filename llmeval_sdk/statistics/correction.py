"""What people would say: labels correct the judge's mean for its mistakes of both kinds.

The judge passes some answers that people fail and fails some that people pass. Among the labelled
records on either side of the judge's verdict the mean difference between label and verdict is
estimated, each record weighing the inverse of its chance to be judged and to be labelled; over all
traffic the corrected mean is::

    mean(verdict) + share(passed) * off(passed) + share(failed) * off(failed)

which for yes and no is the predictive-value form of the correction for misclassification (Rogan and
Gladen 1978 in its post-stratified form; two-phase sampling, Cochran 1977, chapter 12; as
prediction-powered inference, Angelopoulos et al. 2023). Its variance adds that of the labels, on
both sides, to that of the judge's mean times ``(1 + off(passed) - off(failed))**2``. For the
interval only, each side gets two records that weigh 0.35 times its heaviest, one without a mistake
and one with the largest, because few labels without a mistake are no proof that there are none.

**Assumptions.** Among the records with the same verdict, the chances alone decide which of them
were labelled. A label whose chance is unknown counts as drawn at random among the judged records
with its verdict: people who look at failed answers first do no harm, people who look for mistakes
among the passed ones do. Thumbs of an app's users must not be used, because users choose themselves
what they rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

from llmeval_sdk.statistics.mean import Bounds, Estimate, quantile, weighted_mean, within
from llmeval_sdk.statistics.sequence import Seen
from llmeval_sdk.statistics.tally import Tally


FEWEST = 20
"""Labels below which nothing is corrected."""
PADDING = 0.35
PASS = 0.5
"""Verdicts from here on pass."""


def side_of(value: float) -> str:
    """Return ``yes`` for a verdict or label in 0..1 that passes, else ``no``."""
    return "yes" if value >= PASS else "no"


class Labelled(NamedTuple):
    """One judged record that a person labelled."""

    verdict: float
    label: float
    """In 0..1 as the verdict is; 1 and 0 for yes and no."""
    chance: float
    """The chance, above 0, with which the record was chosen to be judged."""
    label_chance: float | None = None
    """The chance, above 0, with which it was chosen to be labelled among the judged records;
    ``None`` where it is unknown."""


@dataclass(frozen=True, slots=True)
class Correction:
    """What people would say of all traffic, and how far the judge is off."""

    estimate: Estimate
    labels: int
    off: float
    """The corrected mean less the judge's: below 0 the judge is too kind."""
    passed_wrongly: float | None
    """How much lower people rate what it passes, 0..1; ``None`` where none of it has a label."""
    failed_wrongly: float | None
    """How much higher people rate what it fails; ``None`` where none of it has a label."""


def corrected_mean(
    values: Sequence[float],
    chances: Sequence[float],
    labelled: Sequence[Labelled],
    *,
    mean: float | None = None,
    bounds: Bounds = (0.0, 1.0),
) -> Correction | None:
    """Correct the mean of judged records by those that have labels too.

    Args:
        values: What the judge said, in 0..1.
        chances: The inclusion probability of each, in 0..1, above 0.
        labelled: Those of them that people labelled.
        mean: A better estimate of the judge's mean over all traffic, such as `assisted_mean`'s; by
            default the weighted mean of ``values``.
        bounds: The ends of the scale.

    Returns:
        ``None`` with fewer than 20 labels, or where nothing was judged.
    """
    whole, passed = Tally(), Tally()
    for value, chance in zip(values, chances, strict=True):
        seen = Seen(value, chance, None)
        whole.add(seen)
        if value >= PASS:
            passed.add(seen)
    return tallied_correction(whole, passed.w, passed.judged, labelled, mean=mean, bounds=bounds)


def tallied_correction(
    whole: Tally,
    passed_weight: float,
    passed_count: int,
    labelled: Sequence[Labelled],
    *,
    mean: float | None = None,
    bounds: Bounds = (0.0, 1.0),
) -> Correction | None:
    """Correct the mean of judged records from their sums; see `corrected_mean`.

    Args:
        whole: The sums over all judged records.
        passed_weight: The sum of the weights of those that the judge passed.
        passed_count: How many those are.
        labelled: The records that people labelled.
        mean: A better estimate of the judge's mean over all traffic.
        bounds: The ends of the scale.
    """
    if not whole.judged or len(labelled) < FEWEST:
        return None
    centre = whole.mean()
    spread = whole.wwyy - 2 * centre * whole.wwy + centre * centre * whole.ww
    judge_variance = max(spread, 0.0) / whole.w**2
    share = passed_weight / whole.w
    failed_count = whole.judged - passed_count
    passed = _VerdictSide(True, share if passed_count else 0.0, passed_count, labelled)
    failed = _VerdictSide(False, 1 - share if failed_count else 0.0, failed_count, labelled)
    sides = passed, failed
    off = sum(side.share * side.off for side in sides)
    padded = sum(side.share * side.padded_off for side in sides)
    slope = min(max(1 + passed.padded_off - failed.padded_off, 0.0), 1.0)
    variance = slope**2 * judge_variance + sum(side.share**2 * side.variance for side in sides)
    judge_mean = centre if mean is None else mean
    half = quantile([w for side in sides for w in side.weights]) * sqrt(variance)
    corrected, middle = judge_mean + off, judge_mean + padded
    if bounds is not None:
        corrected = min(max(corrected, bounds[0]), bounds[1])
    estimate = within(Estimate(corrected, middle - half, middle + half, "corrected"), bounds)
    return Correction(
        estimate,
        len(labelled),
        corrected - judge_mean,
        -passed.off if passed.weights else None,
        failed.off if failed.weights else None,
    )


class _VerdictSide:
    """The records on one side of the judge's verdict."""

    def __init__(
        self,
        passed: bool,  # noqa: FBT001
        share: float,
        judged: int,
        labelled: Sequence[Labelled],
    ) -> None:
        self.share = share
        """The part of all traffic on this side, 0..1."""
        mine = [each for each in labelled if (each.verdict >= PASS) is passed]
        unknown = sum(each.label_chance is None for each in mine)
        usual = unknown / judged if judged else 1.0
        self.weights = [1 / (each.chance * (each.label_chance or usual)) for each in mine]
        differences = [each.label - each.verdict for each in mine]
        self.off = weighted_mean(differences, self.weights) if mine else 0.0
        """The mean difference between label and verdict."""
        heaviest = PADDING * max(self.weights, default=1.0)
        padded = [*differences, 0.0, -1.0 if passed else 1.0]
        heavier = [*self.weights, heaviest, heaviest]
        self.padded_off = weighted_mean(padded, heavier)
        squares = sum(
            (w * (d - self.padded_off)) ** 2 for w, d in zip(heavier, padded, strict=True)
        )
        self.variance = squares / sum(heavier) ** 2
