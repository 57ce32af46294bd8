"""How a share of judgements is spent: on the riskiest for certain, on the rest by a chance.

Judging only the riskiest finds most bad records and says little about all of them; judging at
random says most about all of them and finds few. An `Allocation` does both. With ``u`` the rank of
a record's risk, 0 for the riskiest of all records and 1 for the safest, its chance is::

    p(u) = 1                                                         where u < aim
    p(u) = floor + (control - floor) * (k + 1) * (1 - v) ** k        else, v = (u - aim)/(1 - aim)

The mean of the second line over the rest is ``control`` and its least value ``floor``, so that no
record weighs more than ``1 / floor``. The chance falls with the risk, because where a record is
more likely to be bad its verdict varies more (Neyman's allocation, 1934, in spirit). The whole
comes to ``share`` where ``aim = (share - control) / (1 - control)``.

A ``control`` of at most `FLOOR` makes the chance of the rest constant: nearly all of the share
then goes to the riskiest.
"""

from __future__ import annotations

from dataclasses import dataclass


FLOOR = 0.05
"""The least chance of any record, where the control rate is not smaller still."""
STEEPNESS = 2.0
"""The power by which the chance falls with the risk; chosen by simulation among 1, 2 and 3."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """A share of judgements and the part of it that measures instead of catching.

    Args:
        share: The part of the records to judge, in 0..1.
        control: The mean chance of the records that are not among the riskiest, in 0..1 and at most
            ``share``. It is the knob: near 0 the share catches the most bad records, at ``share``
            it is a random sample that leans towards the risky.
    """

    share: float
    control: float

    @property
    def floor(self) -> float:
        """The least chance that any record has."""
        return min(FLOOR, self.control)

    def aim(self, share: float | None = None) -> float:
        """Return the part of the records, 0..1, that is judged for certain; see `chance`."""
        if self.control >= 1:
            return 1.0
        now = self.share if share is None else share
        return min(max((now - self.control) / (1 - self.control), 0.0), 1.0)

    def chance(self, first: float, last: float, share: float | None = None) -> float:
        """Return the chance with which a record is judged, in 0..1.

        Args:
            first: The rank of the record's risk, 0 for the riskiest of all records, 1 for the
                safest.
            last: Where the ranks of records with the same risk end; the chance is the mean over all
                ranks from ``first`` to ``last``.
            share: What to spend now where that is not `share`, because more or less of it than
                meant was spent before; it may lie outside 0..1.
        """
        now = self.share if share is None else share
        aim = self.aim(now)
        width = last - first
        if width <= 0:
            return 1.0
        certain = min(max((aim - first) / width, 0.0), 1.0)
        if certain >= 1:
            return 1.0
        floor = self.floor
        above = self.control - floor
        if now < self.control:  # even the rest may cost too much now
            above *= min(max((now - floor) / above, 0.0), 1.0) if above > 0 else 0.0
        if above <= 0:
            return certain + (1 - certain) * floor
        power = min(STEEPNESS, (1 - floor) / above - 1)  # so that no chance exceeds 1
        left, right = max(first, aim), max(last, aim)
        falls = _fall(left, aim, power) - _fall(right, aim, power)
        return certain + (1 - certain) * floor + above * (1 - aim) * falls / width


def _fall(rank: float, aim: float, power: float) -> float:
    left: float = max(0.0, 1 - (rank - aim) / (1 - aim))
    return float(left ** (power + 1))


def default_control(share: float) -> float:
    """Return the control rate that a share has by default, 0.45 of it.

    With a fifth of the traffic judged, half of the judgements then are of records below the top.
    """
    return 0.45 * share
