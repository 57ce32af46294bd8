"""Which values need no look: the threshold for a score of risk, with what it promises.

Values whose score lies at or below the threshold are accepted unseen: with 95 % confidence at most
``error`` of them is wrong. The thresholds that are tried are quantiles of unlabelled traffic, the
first at half of it, each later one accepting more. One after the other is tested by the exact
binomial test (Clopper and Pearson 1934) until the first that fails; the last that held is taken.
Because the order is fixed before a label is read, no test pays for another (fixed-sequence testing:
Maurer, Hothorn and Lehmacher 1995; for risks, Angelopoulos, Bates, Candès, Jordan and Lei 2021).
The start decides: where it accepts few values no test of so few labels can hold, and where it
accepts many the first test fails and nothing is promised.

**Assumptions.** Each labelled value was drawn from the traffic with the same chance, independently
of its score; labels chosen by risk, by a judge or by the app's users are none of these. The
traffic to come is like the traffic that the labels were drawn from. A promise is about one field
or group: of several of them made at once, each stands alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, exp, isfinite, lgamma, log, log1p
from typing import NamedTuple

from llmeval_sdk.statistics.labels import FEWEST
from llmeval_sdk.statistics.mean import CONFIDENCE


START = 0.5
"""The share of the traffic that the first threshold accepts."""
STEP = 0.025
"""How much more of the traffic each later threshold accepts."""
MOVED = 0.05
"""The smallest change of the accepted share that is reported."""
_MOVED_BY_CHANCE = 3.29
"""A normal deviation, in standard errors, that chance exceeds once in a thousand times."""
MOST_LABELS = 100_000
"""The number of labels beyond which no more are asked for."""


class LabelledScore(NamedTuple):
    """One value that was drawn at random and looked at by a person."""

    score: float | None
    """Its risk, higher where it is more likely to be wrong; ``None`` where it was not checked."""
    wrong: bool


@dataclass(frozen=True, slots=True)
class Promise:
    """A threshold with what is promised below it, or why nothing is."""

    threshold: float | None
    """The highest score that is accepted; ``None`` where nothing is promised."""
    share: float
    """The part of the traffic that is accepted, 0..1."""
    labels: int
    """How many labels lie at or below the threshold."""
    wrong: int
    """How many of those are wrong."""
    of_accepted: float | None
    """At most this part of the accepted values is wrong, with 95 % confidence; ``None`` where
    nothing is promised."""
    missing: int | None
    """How many more labels would do if they are like those so far, or, where these are too few to
    tell, how many are missing until they are not. It is 0 where there is a promise, and ``None``
    where no number of labels would do."""
    reason: str = ""
    """Why nothing is promised; empty where there is a promise."""


def at_most(wrong: int, count: int, confidence: float = CONFIDENCE) -> float:
    """Return the share of which ``wrong`` out of ``count`` prove that it is not exceeded.

    The upper end of the one-sided interval of Clopper and Pearson, 0..1.
    """
    if wrong >= count:
        return 1.0
    low, high = wrong / count, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        if _chance_of_at_most(wrong, count, middle) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high


def is_exceeded(wrong: int, count: int, error: float, confidence: float = CONFIDENCE) -> bool:
    """Say whether ``wrong`` out of ``count`` values prove that more than ``error`` is wrong.

    The one-sided exact binomial test.
    """
    return wrong > 0 and 1 - _chance_of_at_most(wrong - 1, count, error) <= 1 - confidence


def has_moved(before: float, before_count: int, now: float, now_count: int) -> bool:
    """Say whether the accepted share of the traffic has changed: by 5 points, and not by chance.

    The test of two shares with a pooled variance, at 1 in 1,000, as it is asked again and again.

    Args:
        before: The share when the threshold was found, 0..1.
        before_count: The number of values it was counted over.
        now: The share since then, 0..1.
        now_count: The number of values it was counted over.
    """
    if not before_count or not now_count or abs(now - before) < MOVED:
        return False
    pooled = (before * before_count + now * now_count) / (before_count + now_count)
    variance = pooled * (1 - pooled) * (1 / before_count + 1 / now_count)
    return variance > 0 and (now - before) ** 2 > _MOVED_BY_CHANCE**2 * variance


def fewest_labels(error: float) -> int:
    """Return how many labels a promise takes at least: none of the accepted half is wrong."""
    _check(error)
    return ceil(log(1 - CONFIDENCE) / log1p(-error) / START - 1e-9)


def doubt_about_labels(labels: Sequence[LabelledScore]) -> str:
    """Return a sentence on why labels cannot set any threshold; empty where they can."""
    if len(labels) < FEWEST:
        return (
            f"{len(labels):,} labels of values drawn at random are too few to say anything:"
            f" {FEWEST - len(labels):,} more are missing."
        )
    wrong = [each.score for each in labels if each.wrong]
    right = [each.score for each in labels if not each.wrong]
    if not wrong or not right:
        word = "right" if right else "wrong"
        return (
            f"All {len(labels):,} labels say {word}: they cannot show that the score tells a wrong"
            " value from a right one, and often nobody has looked. Look at some of them again, and"
            " label more."
        )
    wrong_scores, right_scores = _sorted(wrong), _sorted(right)
    if not wrong_scores or not right_scores:
        word = "right" if wrong_scores else "wrong"
        return f"None of the values that were labelled {word} has a score: label more."
    if all(score <= right_scores[0] for score in wrong_scores) and (
        wrong_scores[0] < right_scores[-1]
    ):
        return (
            "Every label contradicts the score: all wrong values have lower scores than the right"
            " ones. Either right and wrong were mixed up, or people answered another question."
        )
    return ""


def sure_acceptance(
    traffic: Sequence[float | None], labels: Sequence[LabelledScore], error: float
) -> Promise:
    """Find the threshold below which, with 95 % confidence, at most ``error`` is wrong.

    Args:
        traffic: The scores of traffic as the labels were drawn from, theirs included or not;
            ``None`` and what is no number stand for values that were not checked, which are never
            accepted.
        labels: Values drawn at random from it.
        error: The share of the accepted values that may be wrong, above 0 and below 1.
    """
    _check(error)
    doubt = doubt_about_labels(labels)
    if doubt:
        return _refused(doubt, max(FEWEST - len(labels), 0) or None)
    scores = _sorted(traffic)
    thresholds = _sequence(scores, len(traffic))
    if not thresholds:
        return _refused("Less than half of the traffic has a score.", None)
    labelled, wrong = _split(labels)
    held: tuple[float, int, int] | None = None
    for threshold in thresholds:
        count, bad = bisect_right(labelled, threshold), bisect_right(wrong, threshold)
        if _chance_of_at_most(bad, count, error) > 1 - CONFIDENCE:
            break
        held = threshold, count, bad
    if held is not None:
        threshold, count, bad = held
        share = bisect_right(scores, threshold) / len(traffic)
        return Promise(threshold, share, count, bad, at_most(bad, count), 0)
    count, bad = bisect_right(labelled, thresholds[0]), bisect_right(wrong, thresholds[0])
    share = bisect_right(scores, thresholds[0]) / len(traffic)
    return _refused(
        f"Of the {count:,} labelled values in the safest {share:.0%} of the traffic {bad:,} are"
        f" wrong, which does not prove that at most {error:.2%} is.",
        _missing(count, bad, len(labels), error),
    )


def _check(error: float) -> None:
    if not 0 < error < 1:
        raise ValueError(f"error must lie between 0 and 1, and {error!r} does not")


def _refused(reason: str, missing: int | None) -> Promise:
    return Promise(None, 0.0, 0, 0, None, missing, reason)


def _sorted(scores: Sequence[float | None]) -> list[float]:
    return sorted(score for score in scores if score is not None and isfinite(score))


def _split(labels: Sequence[LabelledScore]) -> tuple[list[float], list[float]]:
    """Return the scores of all labelled values and of the wrong ones, rising."""
    return _sorted([each.score for each in labels]), _sorted(
        [each.score for each in labels if each.wrong]
    )


def _sequence(scores: Sequence[float], traffic: int) -> list[float]:
    """Return the thresholds to try, rising, each once."""
    thresholds: list[float] = []
    for number in range(round((1 - START) / STEP) + 1):
        place = ceil((START + number * STEP) * traffic - 1e-9) - 1
        if not 0 <= place < len(scores):
            break
        if not thresholds or scores[place] > thresholds[-1]:
            thresholds.append(scores[place])
    return thresholds


def _missing(count: int, bad: int, labels: int, error: float) -> int | None:
    """Return how many labels are missing until the first test holds, with mistakes as so far."""
    rate = bad / count if count else 0.0
    if rate >= error or not count:
        return None
    low, high = count, MOST_LABELS
    if _chance_of_at_most(int(rate * high), high, error) > 1 - CONFIDENCE:
        return None
    while low < high:
        middle = (low + high) // 2
        if _chance_of_at_most(ceil(rate * middle), middle, error) > 1 - CONFIDENCE:
            low = middle + 1
        else:
            high = middle
    return ceil(low * labels / count) - labels


def _chance_of_at_most(wrong: int, count: int, share: float) -> float:
    """Return the chance that of ``count`` draws with a ``share`` of wrong ones so few are wrong."""
    if share <= 0 or wrong >= count:
        return 1.0
    if share >= 1:
        return 0.0
    yes, no, every = log(share), log1p(-share), lgamma(count + 1)
    return min(
        sum(
            exp(every - lgamma(k + 1) - lgamma(count - k + 1) + k * yes + (count - k) * no)
            for k in range(wrong + 1)
        ),
        1.0,
    )
