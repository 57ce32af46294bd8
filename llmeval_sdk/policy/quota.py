"""Budgeted escalation: judge the riskiest share of a stream, and hold the spend at that share."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

from llmeval_sdk.policy._lock import Locked
from llmeval_sdk.policy.decisions import EscalationDecision
from llmeval_sdk.policy.draw import escalation_draw
from llmeval_sdk.policy.quantile import RecentScores


WARM_UP = 20
"""Scores that have to be known before ranks mean anything."""
GAIN, STEEP = 0.0025, 5.0
"""How the share moves with what is owed: gently around zero, so that a calm stream's riskiest are
chosen by rank alone, and steeply beyond STEEP records, so that no stream gets far."""


class Quota(Locked):
    """Admits the riskiest ``budget`` share of one stream of scored records.

    A record is admitted when its draw is below its inclusion probability p + (1 - p) * control,
    where p is its chance to be in the top share of the recent scores: 1 above the running quantile,
    0 below, in between within ties. The control sample lies inside the budget: the share aimed at
    is (budget - control) / (1 - control), moved by what the stream is owed: budget times its length
    less what was admitted. So drift, steps and sorted streams cost what calm ones do, give or take
    fifty records in all (the idea of adaptive conformal inference, Gibbs and Candès 2021). The
    probability depends on the past and the score alone, never on this record's draw, so weighting
    by its inverse is unbiased.

    Until 20 scores are known, and for records without a score, admission is random at ``budget``.
    """

    __slots__ = ("_aim", "_owed", "_recent", "budget", "control_rate")

    def __init__(self, budget: float, control_rate: float, *, window: int = 500) -> None:
        super().__init__()
        self.budget = budget
        self.control_rate = control_rate
        self._owed = 0.0
        self._aim = (budget - control_rate) / (1 - control_rate) if control_rate < 1 else 1.0
        self._recent = RecentScores(window)

    def warm(self, scores: Iterable[float]) -> None:
        """Take in scores of the past, oldest first, such as those of an earlier process."""
        with self._lock:
            for score in scores:
                if isfinite(score):
                    self._recent.add(score)

    def decide(self, risk: float | None, key: str | None) -> EscalationDecision:
        """Decide on the next record of the stream; ``key`` is the identity that it draws by.

        Call it once per record, since the score joins the recent ones.
        """
        draw = escalation_draw(key)
        if risk is None or not isfinite(risk):
            run = draw < self.budget
            return EscalationDecision(run, self.budget, f"unknown: random {self.budget:.3g}")
        with self._lock:
            share = self._aim + GAIN * self._owed * (1 + abs(self._owed) / STEEP)
            if len(self._recent) < WARM_UP:
                chance = -1.0
                probability = self.budget
            else:
                chance = self._recent.chance_in_top(risk, share)
                probability = chance + (1 - chance) * self.control_rate
            run = draw < probability
            self._owed += self.budget - run
            self._recent.add(risk)
        return EscalationDecision(run, probability, self._why(risk, share, chance, run=run))

    def _why(self, risk: float, share: float, chance: float, *, run: bool) -> str:
        if chance < 0:
            return f"{risk:.2f}: few scores yet, random {self.budget:.3g}"
        top = f"top {max(share, 0.0):.0%} of recent scores"
        if chance >= 1:
            return f"{risk:.2f} is in the {top}"
        if chance > 0:
            return f"{risk:.2f} is on the edge of the {top}"
        return f"{risk:.2f} is below the {top}" + (", control sample" if run else "")
