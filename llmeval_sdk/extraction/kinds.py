"""What kind of thing a value is, and everything of that kind in a text: the possible rivals."""

from __future__ import annotations

import re
from collections.abc import Iterator

from llmeval_sdk.extraction._passages import Passages


MAX_CANDIDATES = 300
"""Of one kind in one record; a text is not searched for more."""
FREE_FORM = ("name", "line", "text")
"""Kinds that nothing about a value itself can check."""

# Each pattern begins with a set of characters and looks back from behind it, so that the engine
# skips to the next one of the set: five times as fast as a look-behind at the beginning.
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
_MONTHS = rf"{_MONTH}[a-z]{{0,6}}\.?"
_NO_DIGIT = r"(?!\d)"
_ENDS = r"(?![\d.,]*\d)"
_FIGURES_FIRST = (
    rf"\d(?<![\d/.-]\d)\d{{0,3}}(?:([-/.])\d{{1,2}}\1\d{{2,4}}{_NO_DIGIT}"
    rf"|(?:st|nd|rd|th)?(?: of)?[ -]?{_MONTHS},?[ -]{{0,2}}\d{{2,4}}{_NO_DIGIT})"
)
_MONTH_FIRST = (
    rf"{_MONTH}(?<![a-z]...)[a-z]{{0,6}}\.?,? "
    rf"(?:\d{{1,2}}(?:st|nd|rd|th)?,? ?\d{{4}}|\d{{4}}){_NO_DIGIT}"
)
_PATTERNS = {
    "email": (r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,5}",),
    "url": (r"https?://[^\s<>\"'`)\]]{3,200}", r"www\.[^\s<>\"'`)\]]{3,200}"),
    "date": (_FIGURES_FIRST, _MONTH_FIRST),
    "year": (r"[12](?<![\d.,/-].)(?:[0-9])\d\d(?![\d.,/-]*\d)",),
    "money": (rf"\d(?<![\d.,]\d)\d{{0,2}}(?:[, ]?\d{{3}}){{0,6}}[.,]\d{{2}}{_ENDS}",),
    "version": (
        r"\d(?<![\d.]\d)\d{0,3}\.\d{1,4}(?:\.\d{1,4}){0,4}(?:[a-z]{1,3}\d{0,3})?(?![\d.]*\d)",
    ),
    "number": (rf"\d(?<![\d.,]\d)(?:\d{{0,2}}(?:[, ]\d{{3}}){{1,6}}|\d*)(?:[.,]\d+)?{_ENDS}",),
    "code": (r"[a-z\d](?<![\w-].)(?=[a-z/-]{0,12}\d|(?<=\d))[a-z\d/-]{3,30}(?![\w-])",),
}
_COMPILED = {kind: tuple(map(re.compile, patterns)) for kind, patterns in _PATTERNS.items()}
_ASCII = {  # a fixed first set is found a quarter faster than the digits of all scripts
    kind: tuple(re.compile(re.sub(r"^\\d", "[0-9]", pattern)) for pattern in patterns)
    for kind, patterns in _PATTERNS.items()
}
_NAME = re.compile(  # the only kind that capitals make
    r"[^\W\d_a-z](?<![^\W_].)[\w&.'’-]{0,30}"
    r"(?:[ ,]{1,2}(?:of|the|and|de|van|von|der|&|\(?[^\W_a-z][\w&.'’)-]{0,30})){0,7}"
)
_LINE = re.compile(r"[^\n]{3,160}")
_SENTENCE = re.compile(r"[^\n.!?]{20,400}[.!?]?")
_AROUND = re.compile(r"[^\w]{0,4}(?:[A-Za-z]{1,3} ?|[$€£¥₹] ?)?")
_WHOLE = ("email", "url", "code")
_LONGEST_LINE, _MOST_WORDS = 120, 15


def kind_of(value: str) -> str:
    """Name the kind of a value, from the strictest that fits all of it.

    ``email url date year money version number code``, else ``name`` (capitalised words), ``line``
    or, where it is longer than a line, ``text``.
    """
    text = value.strip()
    lowered = text.lower()
    if len(text) <= _LONGEST_LINE:
        around = _AROUND.match(lowered)
        bare = lowered[around.end() :] if around is not None else lowered
        for kind, patterns in _COMPILED.items():
            for candidate in (lowered,) if kind in _WHOLE else (lowered, bare):
                end = len(candidate.rstrip(" .,;:)%"))
                for pattern in patterns:
                    match = pattern.match(candidate)
                    if match is not None and match.end() >= end > 0:
                        return kind
    if not text or len(text) > _LONGEST_LINE or text.count(" ") >= _MOST_WORDS:
        return "text"
    match = _NAME.match(text)
    return "name" if match is not None and match.end() >= len(text) - 2 else "line"


def candidates(kind: str, passages: Passages) -> Iterator[tuple[int, int]]:
    """Yield where something of a kind stands, at most `MAX_CANDIDATES` times.

    A ``line`` is a whole line, ``text`` a sentence.
    """
    left = MAX_CANDIDATES
    if kind in _COMPILED:
        patterns = (_ASCII if passages.lowered.isascii() else _COMPILED)[kind]
        searches = [pattern.finditer(passages.lowered) for pattern in patterns]
    else:
        pattern = _NAME if kind == "name" else _LINE if kind == "line" else _SENTENCE
        searches = [pattern.finditer(passages.text)]
    for search in searches:
        for match in search:
            yield match.span()
            left -= 1
            if left <= 0:
                return
