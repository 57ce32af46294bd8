"""Evidence that may be looked at any time: has a mean moved beyond its bound?

A test that is repeated every hour at 5 % raises a false alarm in most months. Here the evidence is
an e-process: the wealth of a gambler who bets, request by request, that the mean lies beyond the
bound. While it does not, nobody can expect to gain, and by Ville's inequality (1939) the wealth
ever exceeds ``1 / alpha`` times its start with a chance of at most ``alpha``, however often and
whenever one looks.

**What is bet on.** Request i contributes ``x = f + judged * (y - f) / p``: f is what its free score
predicts, y the verdict and p the chance that it was judged with. Its mean is the mean of y whatever
f is, as long as f and p were fixed before y was known (Robins, Rotnitzky and Zhao 1994; as bets,
Waudby-Smith, Wu, Ramdas, Karampatziakis and Mineiro 2022). The wealth is multiplied by
``1 + stake * (bound - x)``. The stakes are Kelly's for drops of 5, 10 and 25 points under the
variance seen so far; they are kept so small that a factor is never below 0.1. The largest one is
for groups of few requests, where a collapse has to show within some dozen verdicts.

**Since when.** Quality usually drops after weeks at or above the bound, when a gambler who began on
the first day has lost nearly everything. So a new one begins in each period, with 1/720 of the
wealth an hour, and the evidence is the sum of all of them: a mixture over the times of the change
(Shiryaev-Roberts; an e-detector of Shin, Ramdas and Rinaldo 2023). In any 30 days the gamblers who
begin own one wealth in all, so false alarms happen in at most ``alpha`` of all stretches of 30
days. Nothing has to be restarted on a schedule. Which start has gained most (Page's CUSUM 1954)
says since when.

**Assumptions.** Values lie in 0..1; the chances are those that the records were really drawn with;
within each period the mean given the past is not beyond the bound where there is no reason for an
alarm. Drift and dependence between requests need no assumption of their own, because each bet is
about the next request given the past. Verdicts of two versions of a judge are two sequences: the
caller begins a new one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from math import exp, log
from typing import Any

from llmeval_sdk.statistics.mean import Seen


HORIZON_HOURS = 720.0
"""The stretch of time for which the rate of false alarms is promised."""
DROPS, PARTS = (0.05, 0.10, 0.25), (0.6, 0.25, 0.15)
"""The changes of the mean that the stakes are made for, and the part of the wealth that is bet on
each: more on the small ones, which are harder to see."""
MIN_FACTOR = 0.1
MEMORY = 0.99
"""The factor by which older requests count less after each period, for slope and variance: with
periods of an hour, by half after three days."""
FEW = 50
"""The effective number of judged requests from which on the free score's slope is used."""


@dataclass(slots=True)
class _Past:
    """Weighted sums over the requests before this period, older ones counting less."""

    weight: float = 0.0
    squared_weight: float = 0.0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    xy: float = 0.0
    deviation: float = 0.0
    """Sum of the squared distances of contributions to the bound."""
    count: float = 0.0
    least: float = 1.0
    """The smallest chance so far."""

    def fade(self) -> None:
        """Let older requests count less than those of the period that begins."""
        for name in _FADING:
            setattr(self, name, getattr(self, name) * MEMORY)


_FADING = tuple(each.name for each in fields(_Past) if each.name != "least")


@dataclass(slots=True)
class Evidence:
    """What the requests so far say against "the mean is at least ``bound``".

    Feed it one period after the other with `add`; `total` is the evidence and may be compared with
    ``1 / alpha`` at any time. For "at most", give it ``1 - value`` and ``1 - bound``.
    """

    bound: float
    wealth: list[float] = field(default_factory=lambda: [0.0] * len(DROPS))
    """By drop, in parts of one wealth."""
    gains: list[float] = field(default_factory=lambda: [0.0] * len(DROPS))
    """The logarithm of what the best start has gained, by drop."""
    starts: list[int] = field(default_factory=lambda: [0] * len(DROPS))
    """When the best start was, in nanoseconds since the epoch, by drop."""
    judged: int = 0
    past: _Past = field(default_factory=_Past)

    @property
    def total(self) -> float:
        """The evidence: how many times the gamblers' wealth has grown."""
        return sum(part * wealth for part, wealth in zip(PARTS, self.wealth, strict=True))

    @property
    def since_ns(self) -> int | None:
        """When the change began, as far as can be said; ``None`` where nothing points to one."""
        best = max(range(len(DROPS)), key=lambda place: self.gains[place])
        return self.starts[best] if self.gains[best] > 0 else None

    def add(self, start_ns: int, hours: float, seen: Sequence[Seen]) -> None:
        """Take in the requests of one period.

        Args:
            start_ns: When the period began, in nanoseconds since the epoch.
            hours: The time that it stands for, in which new gamblers begin: its length, and that
                of the empty time before it.
            seen: All requests of it that could have been judged. An empty period changes nothing.
        """
        if not seen:
            return
        judged = [each for each in seen if each.value is not None]
        past = self.past
        past.fade()
        past.least = min([past.least, *(each.chance for each in judged)])
        stakes = self._stakes(_variance(past, self.bound, judged))
        centre, middle, slope = _line(past, self.bound)
        lowest = self._lowest_prediction(max(stakes))
        factors = [1.0] * len(stakes)
        logs = [0.0] * len(stakes)
        for value, chance, predictor in seen:
            x = centre if predictor is None else centre + slope * (predictor - middle)
            x = min(max(x, lowest), 1.0)
            if value is not None:
                x += (value - x) / chance
            off = self.bound - x
            past.deviation += off * off
            for place, stake in enumerate(stakes):
                factors[place] *= 1 + stake * off
            if not 1e-100 < factors[0] < 1e100 or not 1e-100 < factors[-1] < 1e100:
                logs = [total + log(factor) for total, factor in zip(logs, factors, strict=True)]
                factors = [1.0] * len(stakes)
        self._grow(start_ns, hours, [a + log(b) for a, b in zip(logs, factors, strict=True)])
        self.judged += len(judged)
        past.count += len(seen)
        _remember(past, judged)

    def variance(self) -> float:
        """Return the variance of one request's contribution, judged or not."""
        return self.past.deviation / self.past.count if self.past.count else 0.0

    def as_plain(self) -> dict[str, Any]:
        """Return what `from_plain` reads, in types of JSON."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Evidence:
        """Read what `as_plain` returned. Raises `KeyError` or `TypeError` for anything else.

        What was written when there were fewer `DROPS` begins to bet on the others.
        """
        past = {each.name: float(plain["past"][each.name]) for each in fields(_Past)}
        further = [0] * (len(DROPS) - len(plain["wealth"]))
        return cls(
            float(plain["bound"]),
            [float(part) for part in (*plain["wealth"], *further)],
            [float(part) for part in (*plain["gains"], *further)],
            [int(part) for part in (*plain["starts"], *further)],
            int(plain["judged"]),
            _Past(**past),
        )

    def _stakes(self, variance: float) -> list[float]:
        """Return the part of the wealth to bet on each drop, per unit of the scale."""
        most = (1 - MIN_FACTOR) / max(1 - self.bound, 0.05)
        return [min(drop / (variance + drop * drop), most) for drop in DROPS]

    def _lowest_prediction(self, stake: float) -> float:
        """Return the least f for which no contribution is so high that a factor is too small."""
        least = self.past.least
        if least >= 1:
            return 0.0
        highest = self.bound + (1 - MIN_FACTOR) / stake
        return min(max((1 / least - highest) / (1 / least - 1), 0.0), 1.0)

    def _grow(self, start_ns: int, hours: float, logs: list[float]) -> None:
        for place, gain in enumerate(logs):
            begins = hours / HORIZON_HOURS
            self.wealth[place] = min((self.wealth[place] + begins) * _exp(gain), 1e300)
            if self.gains[place] <= 0:
                self.gains[place], self.starts[place] = 0.0, start_ns
            self.gains[place] += gain


def _exp(power: float) -> float:
    return exp(min(max(power, -690.0), 690.0))


def _variance(past: _Past, bound: float, judged: Sequence[Seen]) -> float:
    """Return the variance of a contribution, from earlier periods as far as there are any."""
    prior, few = max(bound * (1 - bound), 0.01), 200.0
    weights = [1 / each.chance for each in judged]
    if weights:
        prior *= sum(w * w for w in weights) / sum(weights)
    return (past.deviation + few * prior) / (past.count + few)


def _line(past: _Past, bound: float) -> tuple[float, float, float]:
    """Return the prediction for a usual request, what is usual, and the slope on the free score."""
    if past.weight <= 0 or past.weight**2 < FEW * past.squared_weight:
        return bound, 0.0, 0.0
    middle, centre = past.x / past.weight, past.y / past.weight
    spread = past.xx / past.weight - middle * middle
    joint = past.xy / past.weight - middle * centre
    return centre, middle, joint / spread if spread > 1e-12 else 0.0


def _remember(past: _Past, judged: Sequence[Seen]) -> None:
    """Add this period's judged requests to the sums, for the line of the next one."""
    usual = past.x / past.weight if past.weight else 0.0
    for value, chance, predictor in judged:
        x = usual if predictor is None else predictor
        if value is None:
            continue
        weight = 1 / chance
        past.weight += weight
        past.squared_weight += weight * weight
        past.x += weight * x
        past.y += weight * value
        past.xx += weight * x * x
        past.xy += weight * x * value
