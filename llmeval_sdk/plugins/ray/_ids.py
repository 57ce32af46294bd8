"""Which rows have the id of an earlier row, over all blocks."""

from __future__ import annotations

from typing import Any


class SeenIds:
    """The ids of all rows so far, at eight bytes a row.

    They are sorted arrays, each at least twice as long as the next, so that there are few.
    """

    def __init__(self) -> None:
        self._sorted: list[Any] = []

    def repeated(self, marks: bytes) -> list[int]:
        """Return the places of those marks that were there before; remember all of them."""
        import numpy as np

        new = np.frombuffer(marks, "<u8")
        before = np.zeros(len(new), bool)
        for known in self._sorted:
            places = np.minimum(np.searchsorted(known, new), len(known) - 1)
            before |= known[places] == new
        if len(new):
            self._sorted.append(np.sort(new))
        while len(self._sorted) > 1 and len(self._sorted[-2]) < 2 * len(self._sorted[-1]):
            last = self._sorted.pop()
            self._sorted[-1] = np.sort(np.concatenate((self._sorted[-1], last)))
        return [int(place) for place in np.flatnonzero(before)]
