"""What the risk scores read of a Record: its question, and its passages cut into tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice, pairwise

from llmeval_sdk.heuristics.risk import _text
from llmeval_sdk.heuristics.risk._text import BREAK
from llmeval_sdk.model import Chunk, Record, chat


def question(record: Record) -> str:
    """Return what was asked, as the judges read it, or ``""`` if the request is no chat."""
    return chat.bounded_question(record.request)


def passages(chunks: Iterable[Chunk] | None) -> tuple[str, ...]:
    """Return the text of chunks in rank order, without repeats."""
    contents = (chunk.content for chunk in chunks or ())
    return tuple(dict.fromkeys(c for c in contents if isinstance(c, str) and c.strip()))


def question_stems(asked: str, *, english: bool) -> frozenset[str]:
    """Return the stems of a question. A spelled-out number is there as digits too."""
    stems = _text.stems(_text.tokens(asked), english=english)
    digits = (_text.number_word(stem, english=english) for stem in stems)
    return frozenset(stems) | {number for number in digits if number is not None}


MAX_TOKENS = 8_000
MAX_SENTENCES = 2_000
"""The tokens of a context that are read; each sentence counts as one more. Passages of a lower rank
than these are left out, and the evaluation says so."""
_AT_ONCE = 16
"""How many sentences one search cuts into tokens. Few passages have more."""
_WINDOW = 40
_END = re.compile(r"\d[\])]?:")
_MARK = re.compile(
    r"[ \t]{0,8}(?:(?:passage|document|source|chunk|context) ?)?[\[#(]?(\d{1,3})[\])]?:",
    re.IGNORECASE,
)
"""A mark before a passage, such as "passage 2:" or "[2]:". `_END` is far cheaper to look for."""
_LONGEST = 24
"""How many characters a mark may have."""


class Passage:
    """One retrieved text. Its stems are computed when they are first needed."""

    __slots__ = ("_pieces", "_views", "capped", "count", "numbered", "tokens")

    def __init__(self, content: str) -> None:
        spans = list(islice(_text.sentences(content), MAX_SENTENCES + 1))
        self.capped = len(spans) > MAX_SENTENCES
        """Whether not all of the text was read."""
        self.tokens: list[str] = []
        """The tokens of each sentence, at most forty of them, followed by a `BREAK`."""
        for at in range(0, min(len(spans), MAX_SENTENCES), _AT_ONCE):
            if len(self.tokens) >= MAX_TOKENS:
                self.capped = True
                break
            read = spans[at : min(at + _AT_ONCE, MAX_SENTENCES)]
            self.tokens += _text.parted_tokens(content, read)
        if len(self.tokens) > MAX_TOKENS:
            end = self.tokens.index(BREAK, MAX_TOKENS - 1) + 1
            self.capped = self.capped or end < len(self.tokens)
            del self.tokens[end:]
        firsts = _part_long(self.tokens)
        self.count = self.tokens.count(BREAK)
        """How many sentences were read."""
        self.numbered = _numbers(content, spans, firsts) if ":" in content else {}
        """By sentence, the number of the passage that begins there, as in "passage 2: …"."""
        self._views: dict[bool, tuple[list[str], list[int]]] = {}
        self._pieces: list[list[str]] | None = None

    @property
    def pieces(self) -> list[list[str]]:
        """The tokens, sentence by sentence."""
        if self._pieces is None:
            self._pieces, start = [], 0
            for _ in range(self.count):
                end = self.tokens.index(BREAK, start)
                self._pieces.append(self.tokens[start:end])
                start = end + 1
        return self._pieces

    def view(self, *, english: bool) -> tuple[list[str], list[int]]:
        """Return the stems, by the rules for English or for any language, and their `bigrams`."""
        known = self._views.get(english)
        if known is None:
            stems = _text.stems(self.tokens, english=english)
            known = self._views[english] = stems, bigrams(stems)
        return known


def bigrams(stems: Sequence[str]) -> list[int]:
    """Hash each pair of neighbours, because numbers cost the garbage collector nothing."""
    return list(map(hash, pairwise(stems)))


def _part_long(tokens: list[str]) -> list[int]:
    """Split sentences of more than forty tokens in place, and return where each one starts."""
    firsts: list[int] = []
    parted = start = 0
    for _ in range(tokens.count(BREAK)):
        end = tokens.index(BREAK, start)
        firsts.append(len(firsts) + parted)
        while end - start > _WINDOW:
            start += _WINDOW
            tokens.insert(start, BREAK)
            start, end, parted = start + 1, end + 1, parted + 1
        start = end + 1
    return firsts


def _numbers(
    content: str, spans: Sequence[tuple[int, int]], firsts: Sequence[int]
) -> dict[int, int]:
    """Read the marks at the start of lines."""
    marks = []
    for found in _END.finditer(content):
        end = found.end()
        line = content.rfind("\n", max(0, end - _LONGEST), end) + 1
        mark = _MARK.fullmatch(content, line, end) if line or end <= _LONGEST else None
        if mark is not None:
            marks.append((mark.start(1), int(mark[1])))
    numbered: dict[int, int] = {}
    at = 0
    for (_, end), first in zip(spans, firsts, strict=False):
        if at == len(marks):
            break
        while at < len(marks) and marks[at][0] < end:
            numbered[first] = marks[at][1]
            at += 1
    return numbered
