"""Holds texts that are sent to a model to a length: the middle goes, and a mark says so."""

from __future__ import annotations

from collections.abc import Sequence


TOTAL_CHARACTERS = 160_000
"""About 40,000 tokens: what all parts of one prompt may hold together."""


def shortened(text: str, limit: int) -> str:
    """Cut the middle out of a long text and say so in its place."""
    if len(text) <= limit:
        return text
    head, tail = limit * 3 // 4, limit // 4
    return f"{text[:head]}\n[{len(text) - head - tail} characters left out]\n{text[-tail:]}"


def fair_limit(lengths: Sequence[int], total: int = TOTAL_CHARACTERS) -> int:
    """Find the longest a part may be so that all fit; short ones leave their room to others."""
    left, waiting = total, len(lengths)
    for length in sorted(lengths):
        if length * waiting > left:
            return left // waiting
        left, waiting = left - length, waiting - 1
    return total
