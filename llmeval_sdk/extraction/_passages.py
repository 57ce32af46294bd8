"""The passages of a Record as one text, bounded, with a way back to the chunk of every place."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from llmeval_sdk.model import Record


MAX_TEXT = 40_000
"""Characters of all passages together; where there are more, the cited ones come first."""
MAX_PASSAGE = 10_000
MAX_CHUNKS = 500
MAX_QUOTES = 20
_GAP = "\n\n"
_SHOWN = 200


class PossibleValue(NamedTuple):
    """Something in the text that could be a value."""

    start: int
    end: int
    value: str
    """As written, without the marks at its edges."""
    form: str
    """Its normal form; empty where nothing is left of it."""


@dataclass(frozen=True, slots=True)
class Passages:
    """The retrieved passages, and what extractions quote from elsewhere."""

    text: str
    lowered: str
    """The same in lower case, character for character."""
    starts: tuple[int, ...]
    numbers: tuple[int, ...]
    """The 1-based chunk number of each passage; 0 for quoted evidence."""
    cut: bool
    """Whether there was more than is read."""
    kept: dict[str, tuple[PossibleValue, ...]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """Kind -> everything of that kind in the text, where that was asked for before."""

    def number_at(self, place: int) -> int:
        """Return the chunk number of a place in the text; 0 in quoted evidence."""
        return self.numbers[max(0, bisect_right(self.starts, place) - 1)] if self.starts else 0

    def line_at(self, start: int, end: int) -> str:
        """Return the line or lines around a place, at most 200 characters."""
        first = max(self.text.rfind("\n", 0, start) + 1, start - _SHOWN // 2)
        last = self.text.find("\n", end)
        stop = min(last if last >= 0 else len(self.text), end + _SHOWN // 2)
        return self.text[first:stop].strip()[:_SHOWN]

    def shown(self, value: str, start: int, end: int) -> dict[str, Any]:
        """Describe a value at a place for people, judges and metadata."""
        return {
            "value": value[:_SHOWN],
            "chunk_number": self.number_at(start) or None,
            "evidence": self.line_at(start, end),
        }


def passages_of(record: Record) -> Passages:
    """Join what a record retrieved and what its extractions quote beyond that, without repeats."""
    chunks = [
        (number, chunk.content)
        for number, chunk in enumerate((record.retrieved_context or ())[:MAX_CHUNKS], start=1)
        if isinstance(chunk.content, str) and chunk.content.strip()
    ]
    extractions = (record.extractions or ())[:MAX_CHUNKS]
    if sum(len(content) for _, content in chunks) > MAX_TEXT:
        cited = {e.chunk_number for e in extractions if isinstance(e.chunk_number, int)}
        chunks.sort(key=lambda chunk: (chunk[0] not in cited, chunk[0]))
    contents = [content for _, content in chunks]
    for extraction in extractions[:MAX_QUOTES]:
        quote = extraction.evidence
        if isinstance(quote, str) and quote.strip() and not _stands_in(quote, contents):
            contents.append(quote)
            chunks.append((0, quote))
    return _join(tuple((number, content[: MAX_PASSAGE + 1]) for number, content in chunks))


def _stands_in(quote: str, contents: list[str]) -> bool:
    """Say whether a quote is a part of one of the texts, line breaks and spaces aside."""
    quote = quote[:MAX_PASSAGE]
    if any(quote in content for content in contents):
        return True
    plain = " ".join(quote.split())
    return any(plain in " ".join(content[:MAX_PASSAGE].split()) for content in contents)


@lru_cache(32)  # every field of a document asks about the same passages; at most 4 MB of text
def _join(chunks: tuple[tuple[int, str], ...]) -> Passages:
    numbers: dict[str, int] = {}
    for number, content in chunks:
        numbers.setdefault(content[:MAX_PASSAGE], number)
    parts: list[str] = []
    starts: list[int] = []
    size = 0
    for content in numbers:
        if size >= MAX_TEXT:
            break
        starts.append(size)
        parts.append(content[: MAX_TEXT - size])
        size += len(parts[-1]) + len(_GAP)
    text = _GAP.join(parts)
    cut = sum(map(len, parts)) < sum(map(len, numbers)) or any(
        len(content) > MAX_PASSAGE for _, content in chunks
    )
    return Passages(text, lower(text), tuple(starts), tuple(numbers.values())[: len(parts)], cut)


def lower(text: str) -> str:
    """Lower a text without moving anything in it."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)
