"""Reading text: tokens, light stems, sentences with offsets, and which language it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from llmeval_sdk.heuristics.risk.words import (
    FUNCTION_WORDS,
    MONTHS,
    NUMBER_WORDS,
    SCALES,
    STOP_WORDS,
    SYMBOLS,
)


# Scripts written without spaces, and Hangul, whose particles stick to the word.
_DENSE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"  # noqa: E501
_MARKS = "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0963\u0980-\u0dff"
_LETTER = rf"[^\W\d_{_DENSE}]"
_WORD = rf"{_LETTER}[^\W\d_{_DENSE}{_MARKS}]*(?:[{_MARKS}]+[^\W\d_{_DENSE}{_MARKS}]*)*"
_TOKEN = re.compile(rf"\d+(?:[.,]\d+)*|{_WORD}(?:['’]{_WORD})?|[{_DENSE}]+|[%$€£°¥]")
_ASCII_TOKEN = re.compile(r"[a-z]+(?:'[a-z]+)?|\d+(?:[.,]\d+)*|[%$]")
_CLOSE = r"""[\w)"'”’%\]]"""
_BREAK = re.compile(
    rf"""[\n.!?。！？।](?:
        (?<=\n)(?:\s*\n|(?=\s*[^a-z\s]))                # a blank line, or a line of its own
        |(?<=[。！？।])
        |(?:(?<={_CLOSE}{_CLOSE}[.!?])|(?<=\s[.!?]))["'”’)\]*]*\s+(?=[^a-z\s])
    )""",
    re.VERBOSE,
)

NUMBER, WORD, SYMBOL = "number", "word", "symbol"
MAX_SENTENCE = 600
"""Characters; longer stretches without a full stop are cut, so that alignment stays local."""


class Token(NamedTuple):
    """One token of a response: its stem, what it is, and where it stands."""

    stem: str
    kind: str
    start: int
    end: int
    capital: bool


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yield the offsets of each sentence, list item or line, without surrounding space."""
    start = 0
    for end in [*(match.end() for match in _BREAK.finditer(text)), len(text)]:
        for piece in range(start, end, MAX_SENTENCE):
            first, last = piece, min(end, piece + MAX_SENTENCE)
            while first < last and text[first].isspace():
                first += 1
            while first < last and text[last - 1].isspace():
                last -= 1
            if first < last:
                yield first, last
        start = max(start, end)


def tokens(text: str, start: int, end: int, *, english: bool) -> list[Token]:
    """Tokenise ``text[start:end]``, keeping offsets into ``text``."""
    found = []
    for match in _TOKEN.finditer(text, start, end):
        raw = match.group()
        first, last = match.span()
        head = raw[0]
        if head.isdigit():
            found.append(Token(number(raw), NUMBER, first, last, False))
        elif head in SYMBOLS:
            found.append(Token(SYMBOLS[head], SYMBOL, first, last, False))
        elif _is_dense(head):
            found.extend(
                Token(gram, WORD, first + i, first + i + len(gram), False)
                for i, gram in enumerate(_grams(raw))
            )
        else:
            word = stem(raw.lower()) if english else raw.lower()
            found.append(Token(word, WORD, first, last, head.isupper()))
    return found


def stems(text: str, *, english: bool) -> list[str]:
    """Tokenise lower-cased ``text`` into stems only: the fast path for contexts."""
    if english and text.isascii():
        return list(map(_quick, _ASCII_TOKEN.findall(text)))
    result: list[str] = []
    for raw in _TOKEN.findall(text):
        if _is_dense(raw[0]):
            result.extend(_grams(raw))
        elif english or not raw[0].isalpha():
            result.append(_quick(raw))
        else:
            result.append(raw)
    return result


@lru_cache(16384)
def _quick(raw: str) -> str:
    head = raw[0]
    return number(raw) if head.isdigit() else SYMBOLS.get(head) or stem(raw)


@lru_cache(16384)
def stem(word: str) -> str:
    """Cut the commonest English endings off a lower-case word, and expand month names."""
    if "'" in word or "’" in word:
        word = word.replace("’", "'")
        word = word.removesuffix("'s")
    if word in MONTHS:
        return MONTHS[word]
    if len(word) <= 3 or word in STOP_WORDS:
        return word
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith(("sses", "shes", "ches", "xes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending, least in (("ingly", 8), ("edly", 7), ("ing", 6), ("ed", 5), ("ly", 6)):
        if word.endswith(ending) and len(word) >= least:
            word = word[: -len(ending)]
            if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


def number(raw: str) -> str:
    """Write a number one way: ``1,500`` and ``1500.0`` are both ``1500``; ``07`` is ``7``."""
    if raw.isdigit():
        return raw.lstrip("0") or "0"
    comma, dot = raw.rfind(","), raw.rfind(".")
    decimal = max(comma, dot)
    grouped = raw.count(raw[decimal]) > 1 or (comma >= 0 > dot and len(raw) - decimal == 4)
    if grouped:
        return "".join(part for part in re.split("[.,]", raw)).lstrip("0") or "0"
    whole = raw[:decimal].replace(",", "").replace(".", "").lstrip("0") or "0"
    fraction = raw[decimal + 1 :].rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole


def scaled(value: str, scale: str) -> str | None:
    """Multiply out ``1.5`` ``million``; ``None`` where the word is no scale."""
    factor = SCALES.get(scale)
    if factor is None or len(value) > 15:
        return None
    try:
        return f"{float(value) * factor:.0f}"
    except ValueError:
        return None


def number_word(word: str) -> str | None:
    """Return the digits of a spelled-out number; ``one`` is left out, it rarely counts."""
    return NUMBER_WORDS.get(word)


class Language(NamedTuple):
    """Whether English stems and stop words fit a text, and whether that is beyond doubt."""

    english: bool
    sure: bool


def language(sample: str) -> Language:
    """Tell English from everything else, by different function words and letters.

    Not English: most words are not in Latin letters, more function words are of another language,
    or 25 words go by without an English one (which is not sure: it may be a table).
    """
    words = re.findall(r"[^\W\d_]+", sample[:3000].lower())
    latin = sum(word[0] < "\u0250" for word in words)
    if latin < 0.6 * len(words):
        return Language(english=False, sure=True)
    different = set(words)
    hits = {name: len(known & different) for name, known in FUNCTION_WORDS.items()}
    english = hits.pop("en")
    other = max(hits.values())
    if other > english:
        return Language(english=False, sure=other > 3 * english + 2)
    return Language(english=english > 0 or len(words) < 25, sure=english > 3 * other + 3)


def _is_dense(letter: str) -> bool:
    return letter > "\u0dff" and _DENSE_LETTER.match(letter) is not None


_DENSE_LETTER = re.compile(rf"[{_DENSE}]")


def _grams(run: str) -> list[str]:
    return [run[i : i + 2] for i in range(max(1, len(run) - 1))]
