"""Escalation of a share: judge the riskiest part of a stream, and hold it at that part."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

from llmeval_sdk.policy._lock import Locked
from llmeval_sdk.policy.admission import Ruling
from llmeval_sdk.policy.draw import escalation_draw
from llmeval_sdk.policy.quantile import RecentScores


WARM_UP = 20
"""Scores that have to be known before ranks mean anything."""
GAIN, STEEP = 0.0025, 5.0
"""How the share moves with what is owed: gently around zero, so that a calm stream's riskiest are
chosen by rank alone, and steeply beyond STEEP records, so that no stream gets far."""


class Quota(Locked):
    """Admits the riskiest ``share`` of one stream of scored records.

    Records may be scored by different evaluators, each on a scale of its own: a score is ranked
    among the recent ones of the same evaluator, and all draw on the one share.

    A record is admitted when its draw is below its inclusion probability p + (1 - p) * control,
    where p is its chance to be in the top share of the recent scores: 1 above the running quantile,
    0 below, in between within ties. The control sample lies inside the share: what is aimed at
    is (share - control) / (1 - control), moved by what the stream is owed: share times its length
    less what was admitted. So drift, steps and sorted streams cost what calm ones do, give or take
    fifty records in all (the idea of adaptive conformal inference, Gibbs and Candès 2021). The
    probability depends on the past and the score alone, never on this record's draw, so weighting
    by its inverse is unbiased.

    Until 20 scores are known, and for records without a score, admission is random at ``share``.
    """

    __slots__ = ("_aim", "_owed", "_recent", "_window", "control_rate", "share")

    def __init__(self, share: float, control_rate: float, *, window: int = 500) -> None:
        super().__init__()
        self.share = share
        self.control_rate = control_rate
        self._owed = 0.0
        self._aim = (share - control_rate) / (1 - control_rate) if control_rate < 1 else 1.0
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
        if risk is None or not isfinite(risk):
            run = draw < self.share
            return Ruling(run, self.share, f"unknown: random {self.share:.3g}")
        with self._lock:
            recent = self._scores(by)
            share = self._aim + GAIN * self._owed * (1 + abs(self._owed) / STEEP)
            if len(recent) < WARM_UP:
                chance = -1.0
                probability = self.share
            else:
                chance = recent.chance_in_top(risk, share)
                probability = chance + (1 - chance) * self.control_rate
            run = draw < probability
            self._owed += self.share - run
            recent.add(risk)
        return Ruling(run, probability, self._why(risk, share, chance, run=run))

    def _scores(self, by: str) -> RecentScores:
        return self._recent.setdefault(by, RecentScores(self._window))

    def _why(self, risk: float, share: float, chance: float, *, run: bool) -> str:
        if chance < 0:
            return f"{risk:.2f}: few scores yet, random {self.share:.3g}"
        top = f"top {max(share, 0.0):.0%} of recent scores"
        if chance >= 1:
            return f"{risk:.2f} is in the {top}"
        if chance > 0:
            return f"{risk:.2f} is on the edge of the {top}"
        return f"{risk:.2f} is below the {top}" + (", control sample" if run else "")
