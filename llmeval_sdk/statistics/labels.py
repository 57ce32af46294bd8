"""Labels of people beside a judge's verdicts: what they correct, and which records to label.

**Correction.** The judge passes some answers that people fail and fails some that people pass. On
either side of the judge's verdict, the mean difference between label and verdict is estimated from
the labelled records, each weighing the inverse of its chance to be judged and to be labelled; over
all traffic the corrected mean is::

    mean(verdict) + share(passed) * off(passed) + share(failed) * off(failed)

which for yes and no is the predictive-value form of the correction for misclassification (Rogan and
Gladen 1978 in its post-stratified form; two-phase sampling, Cochran 1977, chapter 12; as
prediction-powered inference, Angelopoulos et al. 2023). Its variance adds that of the labels, on
both sides, to that of the judge's mean times ``(1 + off(passed) - off(failed))**2``. For the
interval only, each side gets two records that weigh 0.35 times its heaviest, one without a mistake
and one with the largest, because few labels without a mistake are no proof that there are none.

Among the records with the same verdict, the chances alone must decide which were labelled. A label
whose chance is unknown counts as drawn at random among the judged records with its verdict: people
who look at failed answers first do no harm, people who look for mistakes among the passed ones do.
Thumbs of an app's users must not be used, because users choose themselves what they rate.

**Choice.** A label narrows `corrected_mean` the more of the traffic its record stands for and the
less sure its verdict is. Each judged record therefore gets the size ``w * sqrt(e * (1 - e))``: w is
the inverse of its chance to be judged and e the chance that people disagree with the verdict, taken
to be larger where the judge failed the record and where its free score contradicts a verdict that
passed it. This is Neyman's allocation (1934) with guessed variances: a bad guess costs width and
makes no bias, because a record's chance to be chosen is known.

Each record has a fixed random number u, made from its id; the ``count`` records with the smallest
``u / size`` are chosen (priority sampling: Duffield, Lund and Thorup 2007; sequential Poisson
sampling: Ohlsson 1998). With t the next smallest of these ratios the chance of a record is
``min(1, t * size)``, as if the records were drawn one by one. The chosen records come in a random
order, so that somebody who stops early has labelled a random part of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import sqrt
from typing import NamedTuple

from llmeval_sdk.statistics.mean import (
    Bounds,
    Estimate,
    Seen,
    Tally,
    quantile,
    weighted_mean,
    within,
)


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
    """The mean that people would give to all traffic, and how far the judge is off."""

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


FEWEST_FOR_DOUBT = 10
"""Labels below which all may well be alike."""


def doubt_about(pairs: Iterable[tuple[str, str]]) -> str:
    """Return a sentence on what is odd about labels, and what to do; empty where nothing is.

    Args:
        pairs: For each labelled record what a person said, and what the judge said.
    """
    said = list(pairs)
    if len(said) < FEWEST_FOR_DOUBT:
        return ""
    count = f"{len(said):,}"
    again = "read some of these records again in `llmeval view`, beside what the judge asks"
    if all(label != verdict for label, verdict in said):
        return (
            f"All {count} labels contradict the judge: either yes and no were mixed up, or people"
            f" answered another question than the judge; {again}, before you rely on them."
        )
    only = said[0][0]
    if any(label != only for label, _ in said):
        return ""
    against = sum(verdict != only for _, verdict in said)
    beside = f", and the judge says otherwise of {against:,} of these records" if against else ""
    return (
        f"All {count} labels are {only!r}{beside}: such labels cannot tell a good answer from a bad"
        f" one, and often nobody has read the answers; {again}, before you rely on them."
    )


PASSED_OFF, RISKY_OFF, FAILED_OFF = 0.02, 0.20, 0.25
"""How often people are taken to disagree with a verdict that passes a record, what is added for the
riskiest of those, and with one that fails it."""


class Candidate(NamedTuple):
    """One judged record that could be labelled."""

    id: str
    verdict: float
    """In 0..1."""
    chance: float
    """Its chance to be judged, in 0..1, above 0."""
    risk: float | None = None
    """Its free score, higher where the record is more likely to be bad, on any scale."""


class Choice(NamedTuple):
    """A record to label and the chance, in 0..1, with which it was chosen among the judged."""

    id: str
    chance: float


def choose(candidates: Sequence[Candidate], count: int, *, key: str = "") -> list[Choice]:
    """Choose records to label, in the order in which to show them.

    Args:
        candidates: All judged records, those that have labels already included: the same records
            are chosen again while the traffic is the same, and more of them for a larger count.
        count: How many, at least 1; all of them where there are not so many.
        key: What makes the random numbers of one purpose differ from another's.
    """
    ranks = _ranks(candidates)
    sizes = [_size(each, rank) for each, rank in zip(candidates, ranks, strict=True)]
    ordered = sorted(
        (_uniform(f"{key}/{each.id}") / size, place)
        for place, (each, size) in enumerate(zip(candidates, sizes, strict=True))
    )
    threshold = ordered[count][0] if count < len(ordered) else None
    chosen = [
        Choice(
            candidates[place].id,
            1.0 if threshold is None else min(1.0, threshold * sizes[place]),
        )
        for _, place in ordered[:count]
    ]
    return sorted(chosen, key=lambda choice: _uniform(f"{key}/order/{choice.id}"))


def _size(each: Candidate, rank: float) -> float:
    off = PASSED_OFF + RISKY_OFF * rank * rank if each.verdict >= PASS else FAILED_OFF
    return sqrt(off * (1 - off)) / each.chance


def _ranks(candidates: Sequence[Candidate]) -> list[float]:
    """Return where each free score stands among all traffic, from 0 for the safest to below 1."""
    known = sorted((each.risk, 1 / each.chance) for each in candidates if each.risk is not None)
    total = sum(weight for _, weight in known)
    place: dict[float, float] = {}
    below = 0.0
    for risk, weight in known:
        place.setdefault(risk, below / total)
        below += weight
    return [0.5 if each.risk is None else place[each.risk] for each in candidates]


def _uniform(text: str) -> float:
    """Return a number above 0 and at most 1 that is always the same for a text."""
    digest = blake2b(text.encode("utf-8", "replace"), digest_size=7).digest()
    return (int.from_bytes(digest, "big") + 1) / 2**56
