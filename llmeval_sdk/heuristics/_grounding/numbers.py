"""Reads numbers that are written in figures, with any separators, or in English words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from llmeval_sdk.heuristics._grounding.words import NUMBER_WORDS, SCALES


MAX_DIGITS = 30
"""Longer strings of figures are identifiers and not numbers."""

_MARK = re.compile(r"[^\d]")


def readings(figures: str) -> tuple[float, ...]:
    """Read figures with separators in every way that makes sense, if there is any.

    ``1.234`` is 1.234 or 1234; ``1,234.50``, ``1.234,50`` and ``1 234,50`` are one number each.
    """
    if len(figures) > MAX_DIGITS:
        return ()
    if figures.isdecimal():
        return (float(figures),)
    parts = _MARK.split(figures)
    marks = _MARK.findall(figures)
    kinds = set(marks)
    joined = float("".join(parts))
    if len(kinds) == 1:
        whole = (joined,) if _grouped(parts) else ()
        if len(marks) == 1 and marks[0] in ".,":
            return (float(f"{parts[0]}.{parts[1]}"), *whole)
        return whole
    if len(kinds) == 2 and marks[-1] in ".," and marks[-1] not in marks[:-1]:
        return (float("".join(parts[:-1]) + "." + parts[-1]),) if _grouped(parts[:-1]) else ()
    return ()


def _grouped(parts: Sequence[str]) -> bool:
    """Return whether figures are grouped in threes, or in twos and a last three as in India."""
    return (
        1 <= len(parts[0]) <= 3
        and parts[0][0] != "0"
        and len(parts[-1]) == 3
        and all(2 <= len(part) <= 3 for part in parts[1:])
    )


def spelled(words: Sequence[str], index: int) -> tuple[float, int] | None:
    """Read a number in words that begins at ``index``: its value and the index after it.

    ``twenty-one``, ``two hundred and fifty thousand``; ``None`` where no number begins.
    """
    if words[index] not in NUMBER_WORDS:
        return None
    total, group, index = 0.0, float(NUMBER_WORDS[words[index]]), index + 1
    room = _room(group)
    while index < len(words):
        word = words[index]
        if word in NUMBER_WORDS and 0 < NUMBER_WORDS[word] < room:
            group += NUMBER_WORDS[word]
            room = _room(NUMBER_WORDS[word])
        elif word == "hundred" and 0 < group < 100:
            group *= 100
            room = 100.0
        elif word in SCALES and word != "hundred" and group:
            total += group * SCALES[word]
            group, room = 0.0, 1000.0
        elif not (word == "and" and room >= 100 and _goes_on(words, index + 1)):
            break
        index += 1
    return total + group, index


def _room(value: float) -> float:
    """The bound that the next word must stay below to belong to the same number."""
    return 10.0 if value >= 20 and value % 10 == 0 else 0.0


def _goes_on(words: Sequence[str], index: int) -> bool:
    return index < len(words) and words[index] in NUMBER_WORDS
