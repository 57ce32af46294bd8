"""Splits text into sentences, tokens and light stems, and tells which language it is in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import add
from typing import NamedTuple

from llmeval_sdk.heuristics.risk import _languages
from llmeval_sdk.heuristics.risk._numerals import NUMERAL, SPELLED_OUT, number, numeral
from llmeval_sdk.heuristics.risk._words import (
    ABBREVIATIONS,
    FUNCTION_WORDS,
    MONTHS,
    NUMBER_WORDS,
    STOP_WORDS,
    SYMBOLS,
)


# Scripts written without spaces, and Hangul, whose particles stick to the word.
_DENSE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"  # noqa: E501
_MARKS = "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0963\u0980-\u0dff"
_LETTER = rf"[^\W\d_{_DENSE}]"
_WORD = rf"{_LETTER}[^\W\d_{_DENSE}{_MARKS}]*(?:[{_MARKS}\u200c]+[^\W\d_{_DENSE}{_MARKS}]*)*"
_DIGITS = "\\d+(?:[.,\u00a0\u202f\u066b\u066c]\\d+)*"
_ANY_TOKEN = re.compile(
    rf"{_DIGITS}|{_WORD}(?:['’]{_WORD})?|{NUMERAL}|(?:(?!{NUMERAL})[{_DENSE}])+|[%٪$€£°¥\0]"
)
_LATIN = "A-Za-zª²³µ¹º¼½¾À-ÖØ-öø-ˁˆ-ˑˠ-ˤˬˮ"
"""Letters below U+0300. A pattern that lists them matches twice as fast as ``\\w`` does."""
_LATIN_TOKEN = re.compile(rf"[{_LATIN}]+(?:['’][{_LATIN}]+)?|{_DIGITS}|[%$€£°¥\0]")
_ASCII_TOKEN = re.compile(r"[A-Za-z]+(?:'[A-Za-z]+)?|\d+(?:[.,]\d+)*|[%$\0]")
_BEYOND_LATIN = re.compile(
    "[\u0300-\u1fff\u2070-\u209f\u2100-\u218f\u2460-\u24ff\u2776-\u2793\u2c00-\ud7ff\uf900-\ufffd\U00010000-\U0001efff\U00020000-\U0003ffff]"
)
_DENSE_LETTER = re.compile(rf"[{_DENSE}]")
_CLOSE = r"""[\w)"'”’%\]]"""
_BREAK = re.compile(
    rf"""[\n.!?。！？।۔؟](?:
        (?<=\n)(?:\s*\n|(?=\s*[^a-z\s]))                # a blank line, or a line of its own
        |(?<=[。！？।۔؟])
        |(?:(?<={_CLOSE}{_CLOSE}[.!?])|(?<=\s[.!?]))["'”’)\]*]*\s+(?=[^a-z\s])
    )""",
    re.VERBOSE,
)

BREAK = "\0"
"""Separates the sentences where the tokens of a whole text are one list."""
MAX_SENTENCE = 600
"""The most characters of a sentence. Longer stretches are cut, so that alignment stays local."""
_STEM = 6
"""How many letters of a word count in other languages than English, whose endings inflect."""
_LONGEST_ABBREVIATION = max(map(len, ABBREVIATIONS))
_KEPT_STEMS = 30_000
_SAMPLE = 150
"""How many tokens decide which language a text is in."""


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yield the offsets of each sentence, list item or line, without surrounding space."""
    start, size = 0, len(text)
    for match in chain(_BREAK.finditer(text), (None,)):
        if match is None:
            end = size
        else:
            stop, end = match.span()
            if end < size and text[stop] == "." and _goes_on(text, start, stop, end):
                continue
        while start < end:
            piece = text[start : min(end, start + MAX_SENTENCE)]
            kept = piece.strip()
            if kept:
                first = start if kept[0] == piece[0] else start + piece.index(kept[0])
                yield first, first + len(kept)
            start += len(piece)


def _goes_on(text: str, start: int, stop: int, end: int) -> bool:
    """Return whether the full stop at ``stop`` ends no sentence, as in "10. Flip" or "Dr. Ito"."""
    words = text[max(start, stop - _LONGEST_ABBREVIATION - 1) : stop].split()
    word = words[-1].lstrip("(\"'“‘*") if words and not text[stop - 1].isspace() else ""
    if word.isdecimal():
        if len(word) > 3 or end - start > 40:
            return False
        return text[start:end].strip(" \n\t(*") == f"{word}."
    return word.lower() in ABBREVIATIONS and not text[stop + 1 : end].strip()


def tokens(text: str, start: int = 0, end: int | None = None) -> list[str]:
    """Cut ``text[start:end]`` into words, numbers, runs of a script without spaces, and signs."""
    piece = text[start:end]
    return _cut(piece.replace(BREAK, " ") if BREAK in piece else piece)


def parted_tokens(text: str, spans: Iterable[tuple[int, int]]) -> list[str]:
    """Return the tokens of each span, each followed by a `BREAK`, from one search."""
    if BREAK in text:
        text = text.replace(BREAK, " ")
    return _cut("".join([f"{text[start:end]}{BREAK}" for start, end in spans]))


def _cut(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_TOKEN.findall(text)
    if _BEYOND_LATIN.search(text) is None:
        return _LATIN_TOKEN.findall(text)
    return _ANY_TOKEN.findall(text)


def stems(tokens: Sequence[str], *, english: bool) -> list[str]:
    """Reduce tokens to what is compared: stems, numbers in one form, pairs of dense signs."""
    found = list(stems_of(tokens, english=english))
    if "" not in found:
        return found
    parted: list[str] = []
    for token, stem in zip(tokens, found, strict=True):
        if stem:
            parted.append(stem)
        else:
            parted.extend(grams(token))
    return parted


def stems_of(tokens: Iterable[str], *, english: bool) -> Iterator[str]:
    """Yield the stem of each token, or ``""`` for a run of a script without spaces."""
    return map((_ENGLISH if english else _OTHER).__getitem__, tokens)


def stem_of(token: str, *, english: bool) -> str:
    """Return the stem of a token, or ``""`` for a run of a script without spaces."""
    return (_ENGLISH if english else _OTHER)[token]


def is_dense(token: str) -> bool:
    """Return whether a token is a run of a script without spaces."""
    return token[0] > "\u0dff" and _DENSE_LETTER.match(token) is not None


def grams(run: str) -> list[str]:
    """Return the pairs of neighbours of a run of a script without spaces."""
    return list(map(add, run, run[1:])) or [run]


class _Stems(dict[str, str]):
    """The stems of tokens, computed when one first comes; ``""`` for one to be cut into pairs."""

    def __init__(self, make: Callable[[str], str], *, english: bool) -> None:
        self._make = make
        self._english = english

    def __missing__(self, token: str) -> str:
        head = token[0]
        if head.isdecimal():
            stem = number(token, english=self._english)
        elif head in SYMBOLS:
            stem = SYMBOLS[head]
        elif head > "\u0dff" and is_dense(token):
            stem = numeral(token) if _CJK_NUMERAL.fullmatch(token) else ""
        else:
            stem = self._make(token)
        if len(token) <= 40:
            if len(self) >= _KEPT_STEMS:
                self.clear()
            self[token] = stem
        return stem


_CJK_NUMERAL = re.compile(NUMERAL.split("(?=")[0].removeprefix("(?<!第)"))


def stem(word: str) -> str:
    """Cut the most common English endings off a word, and write month names in full."""
    word = word.lower()
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


def _other_stem(word: str) -> str:
    """Cut a word of another language to its first letters; function words stay whole."""
    word = _languages.fold(word)
    if word in _languages.CLOSED or len(word) <= _STEM:
        return word
    short = word[:_STEM]
    return word[: _STEM + 1] if short in _languages.CLOSED else short


_ENGLISH = _Stems(stem, english=True)
_OTHER = _Stems(_other_stem, english=False)


def number_word(stem: str, *, english: bool) -> str | None:
    """Return the digits that a spelled-out number stands for."""
    return SPELLED_OUT_NUMBERS[english].get(stem)


class Language(NamedTuple):
    """Whether a text is English, and whether it was long enough to be sure."""

    english: bool
    sure: bool
    names_by_capitals: bool = True
    """Whether a capital inside a sentence marks a name, which in German it does not."""


_WRITTEN = {
    written: word
    for word in frozenset().union(*FUNCTION_WORDS.values())
    for written in (word, word.capitalize())
}
_TELLING = frozenset(_WRITTEN)
_ENGLISH_WORDS = FUNCTION_WORDS["en"]
_OTHERS = {name: known for name, known in FUNCTION_WORDS.items() if name != "en"}
_ENGLISH_ALONE = _ENGLISH_WORDS.difference(*_OTHERS.values())


def language(texts: Iterable[Sequence[str]]) -> Language:
    """Tell English from everything else by the tokens of texts: function words and letters.

    Not English: most words are not in Latin letters, more function words are of another language,
    or 25 words go by without an English one (which is not sure: it may be a table).
    """
    different: set[str] = set()
    words = latin = 0
    for tokens in texts:
        sample = set(tokens[:_SAMPLE])
        different |= sample
        if "".join(sample).isascii():
            words += len(sample)
            latin += len(sample)
            continue
        for token in sample:
            head = token[0]
            if head.isalpha():
                words += 1
                latin += head < "\u0250"
    if latin < 0.6 * words:
        return Language(english=False, sure=True)
    telling = {_WRITTEN[written] for written in different & _TELLING}
    english = len(telling & _ENGLISH_WORDS)
    if english > 3 * len(telling - _ENGLISH_ALONE) + 3:
        return Language(english=True, sure=True)  # as the counts below would say
    hits = {name: len(telling & known) for name, known in _OTHERS.items()}
    name = max(hits, key=hits.__getitem__)
    other = hits[name]
    if other > english:
        return Language(False, sure=other > 3 * english + 2, names_by_capitals=name != "de")
    return Language(english=english > 0 or words < 25, sure=english > 3 * other + 3)


_NUMERALS = {f"{SPELLED_OUT}{value}": str(value) for value in range(2, 100)}
SPELLED_OUT_NUMBERS = {
    True: NUMBER_WORDS | _NUMERALS,
    False: _languages.NUMBER_WORDS | _NUMERALS,
}
"""The digits that each stem of a spelled-out number stands for, in English and elsewhere."""


def _spelled(table: Mapping[str, str]) -> dict[str, frozenset[str]]:
    words: dict[str, set[str]] = {}
    for word, digits in table.items():
        words.setdefault(digits, set()).add(word)
    return {digits: frozenset(forms) for digits, forms in words.items()}


SPELLED = {english: _spelled(table) for english, table in SPELLED_OUT_NUMBERS.items()}
"""The stems that stand for digits, in English and elsewhere."""
