"""What passages state for a field: the value under a label that names it.

A field without a value is right where its document has none. Where "Due date: 3 March 2026" stands
there, the value was probably missed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from llmeval_sdk.process.pieces import find_all
from llmeval_sdk.text.budget import TooLargeError
from llmeval_sdk.text.extraction import Passages, lower, values_in
from llmeval_sdk.text.labels import (
    GROUP_OF,
    VAGUE,
    concept_of,
    end_of_line,
    labels_between,
    words_of_name,
)
from llmeval_sdk.text.support import Span
from llmeval_sdk.text.values import abstained


_MAX_VALUE = 100
"""Characters of what follows a label."""
_MAX_PLACES = 20
_KINDS = {"amount": ("money", "number"), "date": ("date",), "count": ("number",)}
"""Kinds of values that are found by themselves, by the group of what the field asks for."""
_WITH_FIGURES = frozenset(("identifier",))
"""Groups whose values are of no such kind, and have a figure all the same."""

_GAP = r"[ \t°º#]{0,40}(?:[:：|\t]|[.·_]{2}|  )[ \t.·_:：|]{0,300}"
"""Signs of which it consists can be parted in many ways, so that each repeat is bounded."""
_BEHIND = re.compile(rf"{_GAP}([^\n|\t]{{1,{_MAX_VALUE}}})")
_BELOW = re.compile(rf"[ \t:：.|°º#]{{0,300}}\n[ \t]{{0,300}}([^\n|\t]{{1,{_MAX_VALUE}}})")
_WIDE_GAP = re.compile(r" {3,}")
_EDGES = " .,;:*#"


class Stated(NamedTuple):
    """A text that stands where the value of a field would."""

    value: str
    start: int
    end: int


def stated(
    passages: Passages, config: Mapping[str, object], line: int | None = None
) -> Stated | None:
    """Return the first value under a label that names a field; ``None`` if there is none.

    The label is a usual one of business documents for what the field asks for, else the field's own
    name. With a ``line``, given by its first place, only figures on that line count: those in the
    column of the field.
    """
    name, description = config.get("name"), config.get("description")
    name = name if isinstance(name, str) else ""
    concept = concept_of(name, description if isinstance(description, str) else "") or ""
    group = GROUP_OF.get(concept, "")
    try:
        if group in _KINDS:
            return next(_of_kinds(passages, concept, _KINDS[group], line), None)
        return next(_beside(passages, name, concept, group), None) if line is None else None
    except TooLargeError:
        return None


def _of_kinds(
    passages: Passages, concept: str, kinds: tuple[str, ...], line: int | None
) -> Iterator[Stated]:
    labels = passages.field_labels(concept)
    if not labels.has_own or (line is None and concept in VAGUE):
        return
    first, last = 0, len(passages.text)
    if line is not None:
        first, last = line, end_of_line(passages.text, line)
    for kind in kinds:
        for value in values_in(passages, kind):
            if first <= value.start < last and labels.own((value.start, value.end)) is not None:
                yield Stated(value.value, value.start, value.end)


_CELL = re.compile(r"[^\s|]+(?:[^\S\n\t][^\s|]+)*")
_MAX_ROW = 2_000


def stated_in_column(
    passages: Passages, line: int, column: Collection[Span], taken: Collection[Span]
) -> Stated | None:
    """Return the cell of a row that stands in a column; ``None`` if that is empty or unclear.

    Cells are parted by bars, tabs or wide gaps.

    Args:
        passages: the text of the table.
        line: where the row begins.
        column: the places of values on other rows that stand in the column.
        taken: the places of values on the row that belong to other columns.
    """
    text = passages.text
    cells = _cells(text, line)
    votes: Counter[int] = Counter()
    for start, _ in islice(column, _MAX_PLACES):
        others = _cells(text, text.rfind("\n", 0, start) + 1)
        if len(others) == len(cells) > 1:
            votes.update(n for n, (first, last) in enumerate(others) if first <= start < last)
    if not votes:
        return None
    (place, count), *_ = votes.most_common(1)
    start, stop = cells[place]
    value = text[start:stop].strip(_EDGES)
    is_taken = any(first < stop and last > start for first, last in taken)
    if is_taken or count <= votes.total() / 2 or len(value) > _MAX_VALUE or abstained(value):
        return None
    return Stated(value, start, stop)


def _cells(text: str, line: int) -> list[Span]:
    stop = min(end_of_line(text, line), line + _MAX_ROW)
    return [cell.span() for cell in _CELL.finditer(text, line, stop)]


def _beside(passages: Passages, name: str, concept: str, group: str) -> Iterator[Stated]:
    """Yield what stands behind the labels of a field, or on the line below them."""
    text = passages.text
    ends = [one.end for one in passages.labels(group) if one.concept == concept]
    if not ends:
        ends = [match.end() for match in find_all(_phrase(name), passages.lowered)]
    for end in ends[:_MAX_PLACES]:
        match = _BEHIND.match(text, end) or _BELOW.match(text, end)
        if match is None:
            continue
        start, stop = match.span(1)
        if gap := _WIDE_GAP.search(text, start, stop):
            stop = gap.start()
        value = text[start:stop].strip(_EDGES)
        if abstained(value) or labels_between(passages.labels(), start, stop):
            continue
        if group not in _WITH_FIGURES or any(map(str.isdecimal, value)):
            yield Stated(value, start, stop)


@lru_cache(512)
def _phrase(name: str) -> re.Pattern[str]:
    """Return what finds a field's name as a label: at the beginning of a line or a cell."""
    words = map(lower, words_of_name(name[:60]))
    phrase = r"[ ._-]{0,3}".join(map(re.escape, words)) or r"(?!)"
    return re.compile(
        rf"(?:^|[|\t]|   )[ *#]{{0,8}}{phrase}(?={_GAP}|[ \t]{{0,300}}$)", re.MULTILINE
    )
