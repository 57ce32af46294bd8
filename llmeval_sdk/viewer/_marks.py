"""Long texts, with the parts of them that somebody should look at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from llmeval_sdk.viewer._format import MAX_TEXT


MAX_MARKS = 200
_BOX = 400, 10
"""Characters and lines that fit the smallest box, on a phone."""


@dataclass(frozen=True, slots=True)
class Marked:
    """A text in parts, as much of it as a page shows."""

    parts: tuple[tuple[str, bool], ...]
    """Each part, and whether it is marked."""
    rest: int
    """Characters that are not shown."""

    @property
    def scrolls(self) -> bool:
        """Whether it may not fit its box, which then has to be reached by keyboard."""
        texts = [text for text, _ in self.parts]
        return sum(map(len, texts)) > _BOX[0] or sum(text.count("\n") for text in texts) > _BOX[1]


def marked(text: str, spans: Iterable[Sequence[int]] = (), limit: int = MAX_TEXT) -> Marked:
    """Split a text at the ``[start, end]`` characters that are to be marked."""
    shown = text[:limit]
    parts: list[tuple[str, bool]] = []
    at = 0
    for start, end in sorted(_usable(spans, len(shown)))[:MAX_MARKS]:
        if end > at:
            parts += [(shown[at : max(start, at)], False), (shown[max(start, at) : end], True)]
            at = end
    parts.append((shown[at:], False))
    return Marked(tuple((part, on) for part, on in parts if part), len(text) - len(shown))


def places(text: str, quotes: Iterable[str | None]) -> list[tuple[int, int]]:
    """Find where quotes stand in a text, each once."""
    found = []
    for quote in quotes:
        start = text.find(quote) if quote else -1
        if quote and start >= 0:
            found.append((start, start + len(quote)))
    return found


def _usable(spans: object, length: int) -> list[tuple[int, int]]:
    """Keep what is a range of characters: the spans come from stored metadata."""
    found = []
    for span in spans if isinstance(spans, Iterable) else ():
        if isinstance(span, (list, tuple)) and len(span) == 2:
            start, end = span
            if type(start) is int and type(end) is int and 0 <= start < end:
                found.append((start, min(end, length)))
    return found
