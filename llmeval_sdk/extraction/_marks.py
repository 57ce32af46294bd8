"""Where cue words stand in a text, and how much they speak for a place in it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from math import fsum
from typing import NamedTuple


BEFORE, AFTER = 120, 90
"""Characters before and after a value in which a cue counts. Measured: 60 to 160 hardly differ."""
MAX_PLACES = 200
"""Of one cue."""
_AFTER_WEIGHT = 0.6
_OTHER_LINE = tuple(0.75**lines for lines in range(5))
"""For each number of line breaks between a cue and the value; more than four count as four."""
_LONGEST_CUE = 30


class Marks(NamedTuple):
    """The cues of a field in one text, in the order of their places."""

    lowered: str
    starts: list[int]
    ends: list[int]
    which: list[int]
    weights: list[float]
    """Of each cue: what it is worth, less where it stands everywhere."""

    @classmethod
    def of(cls, lowered: str, cues: Iterable[tuple[str, float]]) -> Marks:
        """Find cues, each a stem and what it is worth, in a lower-case text."""
        marks: list[tuple[int, int, int]] = []
        weights: list[float] = []
        for stem, worth in cues:
            places = _places(lowered, stem)
            if places:
                marks += [(place, place + len(stem), len(weights)) for place in places]
                weights.append(worth / len(places) ** 0.25)
        marks.sort()
        return cls(
            lowered, [m[0] for m in marks], [m[1] for m in marks], [m[2] for m in marks], weights
        )

    def near(self, start: int, end: int) -> float:
        """Say how much the cues speak for a place, as the sum over the nearest of each."""
        starts = self.starts
        low = bisect_left(starts, start - BEFORE - _LONGEST_CUE)
        if low == len(starts) or starts[low] > end + AFTER:  # no cue is near: the usual case
            return 0.0
        return fsum([near for near, _ in self._nearest(start, end).values()])

    def best(self, spans: Sequence[tuple[int, int]]) -> tuple[tuple[int, int] | None, float]:
        """Return the place that cues speak for most, and how much they do."""
        best, most = (spans[0] if spans else None), 0.0
        for start, end in spans:
            near = self.near(start, end)
            if near > most:
                best, most = (start, end), near
        return best, most

    def word(self, start: int, end: int) -> str | None:
        """Return the cue that speaks most for a place, as the text writes it."""
        nearest = self._nearest(start, end)
        if not nearest:
            return None
        _, place = max(nearest.values(), key=lambda say: (say[0], -say[1]))
        stop = place
        while stop < min(len(self.lowered), place + _LONGEST_CUE) and self.lowered[stop].isalnum():
            stop += 1
        return self.lowered[place:stop]

    def _nearest(self, start: int, end: int) -> dict[int, tuple[float, int]]:
        """Return how much each cue near a place speaks for it, and where that cue stands.

        The nearest of a cue on each side decides: what stands farther away is worth less, and no
        fewer line breaks part it from the place.
        """
        lowered, starts, ends, cues, weights = self
        low = bisect_left(starts, start - BEFORE - _LONGEST_CUE)
        middle = bisect_left(starts, end, low)
        high = bisect_right(starts, end + AFTER, middle)
        best: dict[int, tuple[float, int]] = {}
        for at in range(middle - 1, low - 1, -1):
            which = cues[at]
            if which in best:
                continue
            place, stop = starts[at], ends[at]
            if stop > start:  # a part of the value, as in "MIT License"
                best[which] = weights[which], place
            elif (near := 1 - (start - stop) / BEFORE) > 0:
                near *= weights[which]
                lines = lowered.count("\n", stop, start)
                best[which] = near * _OTHER_LINE[min(lines, 4)] if lines else near, place
        passed: set[int] = set()
        for at in range(middle, high):
            which = cues[at]
            if which in passed:
                continue
            passed.add(which)
            place = starts[at]
            near = _AFTER_WEIGHT * (1 - (place - end) / AFTER) * weights[which]
            most = best[which][0] if which in best else 0.0
            if near <= most:  # line breaks would only make it less
                continue
            if lines := lowered.count("\n", end, place):
                near *= _OTHER_LINE[min(lines, 4)]
            if near > most:
                best[which] = near, place
        return best


def _places(lowered: str, stem: str) -> list[int]:
    """Return where words that begin with a stem stand."""
    places = []
    at = lowered.find(stem)
    for _ in range(MAX_PLACES):
        if at < 0:
            break
        if at == 0 or not lowered[at - 1].isalnum():
            places.append(at)
        at = lowered.find(stem, at + len(stem))
    return places
