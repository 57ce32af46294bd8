"""Where cue words stand in a text, and how much they speak for a place in it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple


BEFORE, AFTER = 120, 90
"""Characters before and after a value in which a cue counts. Measured: 60 to 160 hardly differ."""
MAX_PLACES = 200
"""Of one cue."""
_AFTER_WEIGHT = 0.6
_OTHER_LINE = 0.75
"""For each line break between a cue and the value, up to four."""
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
            places = list(_places(lowered, stem))
            if places:
                marks.extend((place, place + len(stem), len(weights)) for place in places)
                weights.append(worth / len(places) ** 0.25)
        marks.sort()
        return cls(
            lowered, [m[0] for m in marks], [m[1] for m in marks], [m[2] for m in marks], weights
        )

    def near(self, start: int, end: int) -> float:
        """Say how much the cues speak for a place, as the sum over the nearest of each."""
        low, high = self._around(start, end)
        if low == high:  # the usual case
            return 0.0
        best = [0.0] * len(self.weights)
        for at in range(low, high):
            which = self.which[at]
            said = self._say(at, start, end)
            best[which] = max(best[which], said)
        return sum(best)

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
        near = range(*self._around(start, end))
        loudest = max(near, key=lambda at: self._say(at, start, end), default=None)
        if loudest is None:
            return None
        place = stop = self.starts[loudest]
        while stop < min(len(self.lowered), place + _LONGEST_CUE) and self.lowered[stop].isalnum():
            stop += 1
        return self.lowered[place:stop]

    def _around(self, start: int, end: int) -> tuple[int, int]:
        """Return the first cue near a place, and the one after the last."""
        low = bisect_left(self.starts, start - BEFORE - _LONGEST_CUE)
        return low, bisect_right(self.starts, end + AFTER, low)

    def _say(self, at: int, start: int, end: int) -> float:
        """Say how much one cue speaks for a place, from its distance and the lines between."""
        place, stop = self.starts[at], self.ends[at]
        if stop <= start:
            near = 1 - (start - stop) / BEFORE
            lines = self.lowered.count("\n", stop, start)
        elif place >= end:
            near = _AFTER_WEIGHT * (1 - (place - end) / AFTER)
            lines = self.lowered.count("\n", end, place)
        else:  # a part of the value, as in "MIT License"
            near, lines = 1.0, 0
        if near <= 0:
            return 0.0
        return (
            near * self.weights[self.which[at]] * (_OTHER_LINE ** min(lines, 4) if lines else 1.0)
        )


def _places(lowered: str, stem: str) -> Iterator[int]:
    """Yield where words that begin with a stem stand."""
    at = lowered.find(stem)
    for _ in range(MAX_PLACES):
        if at < 0:
            return
        if at == 0 or not lowered[at - 1].isalnum():
            yield at
        at = lowered.find(stem, at + len(stem))
