"""Escalation of a share: judge the riskiest part of a stream, and keep it at that share."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterable
from math import isfinite

from llmeval_sdk.evaluation.admission import Ruling
from llmeval_sdk.evaluation.sampling import escalation_draw
from llmeval_sdk.process.forks import Locked
from llmeval_sdk.statistics.allocation import Allocation


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
    among the recent ones of the same evaluator, and all draw on the one share.

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
        self._recent: dict[str, RecentScores] = {}

    def warm(self, scores: Iterable[float], by: str = "") -> None:
        """Take in scores of the past, oldest first, such as those of an earlier process."""
        with self._lock:
            recent = self._scores(by)
            for score in scores:
                if isfinite(score):
                    recent.add(score)

    def decide(self, risk: float | None, key: str | None, by: str = "") -> Ruling:
        """Decide on the next record of the stream; ``key`` is the identity that it draws by.

        ``by`` names the evaluator that gave the score. Call it once per record, since the score
        joins the recent ones.
        """
        draw = escalation_draw(key)
        allocation, aimed = self._allocation, self._allocation.share
        if risk is None or not isfinite(risk):
            return Ruling(draw < aimed, aimed, f"unknown: random {aimed:.3g}")
        with self._lock:
            recent = self._scores(by)
            share = aimed + GAIN * self._owed * (1 + abs(self._owed) / STEEP)
            ranks = recent.ranks(risk) if len(recent) >= WARM_UP else None
            probability = aimed if ranks is None else allocation.chance(*ranks, share)
            run = draw < probability
            self._owed += aimed - run
            recent.add(risk)
        if ranks is None:
            why = f"{risk:.2f}: few scores yet, random {aimed:.3g}"
        else:
            why = _why(risk, ranks, allocation.aim(share), run=run)
        return Ruling(run, probability, why)

    def _scores(self, by: str) -> RecentScores:
        return self._recent.setdefault(by, RecentScores(self._window))


def _why(risk: float, ranks: tuple[float, float], aim: float, *, run: bool) -> str:
    first, last = ranks
    top = f"top {aim:.0%} of recent scores"
    if last <= aim:
        return f"{risk:.2f} is in the {top}"
    if first < aim:
        return f"{risk:.2f} is on the edge of the {top}"
    return f"{risk:.2f} is below the {top}" + (", control sample" if run else "")
