"""Puts the summaries of blocks together, in the order of the data."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llmeval_sdk.errors import DataError
from llmeval_sdk.offline.report.aggregate import Aggregate
from llmeval_sdk.offline.report.storage import SavedBlock, rows_of
from llmeval_sdk.offline.run.rows import MAX_PROBLEMS
from llmeval_sdk.plugins.ray._block import MARK, BlockSummary


# Says which rows have the id of an earlier row, over all blocks.


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


@dataclass(slots=True)
class CheckedBlocks:
    """What is wrong with the rows of all blocks so far.

    Only here is known which place a row has in the whole data, and whether its id appeared in an
    earlier block.

    Args:
        name: of the data, for messages.
        skip_bad: whether bad rows are counted; else the first of them ends the run.
    """

    name: str
    skip_bad: bool
    length: int = 0
    """How many rows there are, with the bad ones."""
    bad: int = 0
    problems: list[str] = field(default_factory=list)
    repeated: list[tuple[str, frozenset[int]]] = field(default_factory=list)
    """Of each block its key, and the rows whose id appeared in an earlier block."""
    _seen: SeenIds = field(default_factory=SeenIds)

    def add(self, summary: BlockSummary) -> frozenset[int]:
        """Check the next block; return the numbers of its rows that repeat an earlier id.

        Raises:
            DataError: a row is bad, unless bad rows are skipped.
        """
        repeats = [summary.ids[place] for place in self._seen.repeated(summary.marks)]
        problems = summary.problems + [
            (number, f"{MARK}{number}, column 'request_id': {text!r} appeared in an earlier row")
            for number, text in repeats
        ]
        if summary.refusal is not None:
            number = int(summary.refusal[1:].partition(":")[0].partition(",")[0])
            before = [problem for problem in problems if problem[0] < number]
            problems = [*(() if self.skip_bad else before), (number, summary.refusal)]
        problems.sort()
        texts = [self._placed(number, problem) for number, problem in problems]
        if summary.refusal is not None or (repeats and not self.skip_bad):
            raise DataError(texts[0])
        self.problems += texts[: MAX_PROBLEMS - len(self.problems)]
        self.bad += summary.bad + len(repeats)
        self.length += summary.length
        numbers = frozenset(number for number, _ in repeats)
        self.repeated.append((summary.key, numbers))
        return numbers

    def left_out(self) -> dict[str, frozenset[int]]:
        """Return by block the rows that need not be evaluated.

        Of two blocks with the same content, the first may need what the second repeats.
        """
        result: dict[str, frozenset[int]] = {}
        for key, numbers in self.repeated:
            result[key] = result.get(key, numbers) & numbers
        return {key: numbers for key, numbers in result.items() if numbers}

    def _placed(self, number: int, problem: str) -> str:
        """Replace the number within the block by the place in the data."""
        rest = problem.removeprefix(f"{MARK}{number}")
        place = f"row {self.length + number}"
        return f"{self.name}, {place}{rest}" if self.name else f"{place}{rest}"


@dataclass(slots=True)
class EvaluatedBlocks:
    """What the blocks say so far; the aggregate is the same for every partition of the data."""

    folder: Path
    left_out: dict[str, frozenset[int]]
    aggregate: Aggregate = field(default_factory=Aggregate)
    blocks: list[SavedBlock] = field(default_factory=list)

    def add(self, summary: BlockSummary, repeated: frozenset[int]) -> None:
        """Take in the next block."""
        dropped = repeated - self.left_out.get(summary.key, frozenset())
        last = self.blocks[-1] if self.blocks else SavedBlock("", 0, 0, 0)
        first = last.first + last.length
        kept = summary.rows, tuple(sorted(dropped))
        block = SavedBlock(summary.key, first, summary.length, *kept)
        aggregate = summary.aggregate
        if dropped:
            aggregate = Aggregate()
            for row in rows_of(self.folder, block):
                aggregate.add(row)
        self.aggregate.merge(aggregate)
        self.blocks.append(block)
