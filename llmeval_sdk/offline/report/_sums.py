"""Sums that come out the same in whatever order, and in however many parts, they are added up."""

from __future__ import annotations

from math import fsum


_UNIT = 2.0**-64
"""Amounts are held in this unit, so that no sum of them is too large for a float. It is a power of
two: only amounts below 1e-288 lose digits by it."""
_MOST_PARTS = 512


class ExactSum:
    """The exact sum of floats: it is rounded only when it is read.

    A float sum depends on the order in which rows are finished, and so would a report. `fsum`
    rounds the exact sum once. Here what was added is kept, and now and then replaced by the fewest
    floats with the same exact sum.
    """

    __slots__ = ("_parts",)

    def __init__(self, amount: float = 0.0) -> None:
        self._parts = [amount * _UNIT] if amount else []

    def add(self, amount: float) -> None:
        """Add an amount, which has to be finite."""
        parts = self._parts
        parts.append(amount * _UNIT)
        if len(parts) > _MOST_PARTS:
            self._shorten()

    def merge(self, other: ExactSum) -> None:
        """Add another sum."""
        self._parts += other._parts
        self._shorten()

    @property
    def total(self) -> float:
        """The sum, rounded once; infinite where it is too large for a float."""
        return fsum(self._parts) / _UNIT

    def mean(self, count: int) -> float:
        """Return the sum divided by a count."""
        return fsum(self._parts) / count / _UNIT

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ExactSum):
            return NotImplemented
        self._shorten()
        other._shorten()
        return self._parts == other._parts

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"<sum {self.total:g}>"

    def _shorten(self) -> None:
        """Replace the parts by the sum, what its rounding left out, and so on to the last digit."""
        parts, shorter = self._parts, []
        while rounded := fsum(parts):
            shorter.append(rounded)
            parts.append(-rounded)
        self._parts = shorter
