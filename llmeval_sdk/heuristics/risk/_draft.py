"""Splits a sentence of a response into words, and finds where the context has each of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from llmeval_sdk.heuristics.risk import _cues, _languages, _text
from llmeval_sdk.heuristics.risk._context import Context
from llmeval_sdk.heuristics.risk._numerals import scaled
from llmeval_sdk.heuristics.risk._words import SCALES, STOP_WORDS, SYMBOLS


_DIGIT = re.compile(r"\d")
NUMBER_WEIGHT = 6.0
NUMBER_WORD_WEIGHT = 3.0


class Sentence(NamedTuple):
    """One sentence of a response: its place, its features, and numbers that the context lacks."""

    start: int
    end: int
    features: dict[str, float]
    numbers_absent: list[str]
    """The numbers that the context lacks, as they were written."""
    own_words: float
    """How many words neither context nor question have, including numbers."""
    english: bool


class Reference(NamedTuple):
    """What the sentences of a response are compared with."""

    context: Context
    question: Collection[str]
    """The stems of the question. What the question says need not stand in the context as well."""
    weigh: Callable[[str], float]
    english: bool
    names_by_capitals: bool = True
    asked: frozenset[int] = frozenset()
    """The sentences of the context that match the question best."""
    asked_missing: float = 0.0
    """The part of the question's mass that the context lacks."""


class Draft(NamedTuple):
    """A sentence that is split into tokens and not compared yet."""

    start: int
    end: int
    raw: str
    item: bool
    tokens: list[str]
    stems: list[str]
    """The stems of the tokens. A run of a script without spaces has several."""
    cited: list[int]


class Word(NamedTuple):
    """A content word or a number, with the sentences of the context that have it."""

    stem: str
    token: str
    at: int
    weight: float
    posting: Sequence[int] | None
    known: bool
    number: bool


def draft(response: str, start: int, end: int, *, english: bool) -> Draft:
    """Split a sentence into tokens, without its list mark and its citations."""
    raw = response[start:end]
    item = _cues.LIST_ITEM.match(raw)
    claim = raw[item.end() :] if item else raw
    tokens = _text.tokens(claim)
    cited: list[int] = []
    if _DIGIT.search(claim):
        kept, rest = "", 0
        for first, last, numbers in _cues.citations(claim):
            kept, rest = kept + claim[rest:first], last
            cited += numbers
        if rest:
            tokens = _text.tokens(kept + claim[rest:])
    return Draft(
        start, end, raw, item is not None, tokens, _text.stems(tokens, english=english), cited
    )


def words_of(
    sentence: Draft, reference: Reference, postings: Mapping[str, list[int]]
) -> list[Word]:
    """Return the content words and numbers of a sentence."""
    words = []
    english, question, weigh = reference.english, reference.question, reference.weigh
    numbers = reference.context.numbers
    tokens = sentence.tokens
    stop = STOP_WORDS if english else _languages.STOP_WORDS
    spelled = _text.SPELLED_OUT_NUMBERS[english]
    stems = _text.stems_of(tokens, english=english)
    for at, (token, stem) in enumerate(zip(tokens, stems, strict=True)):
        if stem in stop or token in SYMBOLS:
            continue
        if not stem:
            for gram in _text.grams(token):
                posting = postings.get(gram)
                known = posting is not None or gram in question
                words.append(Word(gram, gram, at, weigh(gram), posting, known, False))
            continue
        posting = postings.get(stem)
        if stem < ":":
            known = _number_known(stem, tokens[at + 1 : at + 2], reference)
            words.append(
                Word(stem, token, at, NUMBER_WEIGHT, posting if known else None, known, True)
            )
            continue
        weight = weigh(stem)
        known = posting is not None or stem in question
        digits = spelled.get(stem)
        if digits is not None:
            weight, known = min(weight, NUMBER_WORD_WEIGHT), known or digits in numbers
        words.append(Word(stem, token, at, weight, posting, known, False))
    return words


def _number_known(digits: str, following: list[str], reference: Reference) -> bool:
    """Return whether the context has a number. "2 million" is another number than "2 billion"."""
    numbers = reference.context.numbers
    plain = digits in numbers or digits in reference.question
    scale = following[0].lower() if following else ""
    whole = scaled(digits, scale) if scale in SCALES else None
    if whole is None:
        return plain
    return whole in numbers or (plain and len(scale) < 3)
