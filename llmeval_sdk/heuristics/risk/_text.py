"""Splits text into sentences, tokens and light stems, tells its language, and cuts passages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from operator import add
from typing import NamedTuple

from llmeval_sdk.heuristics.risk import _words
from llmeval_sdk.heuristics.risk._words import (
    ABBREVIATIONS,
    FUNCTION_WORDS,
    MONTHS,
    NUMBER_WORDS,
    SCALES,
    STOP_WORDS,
    SYMBOLS,
)
from llmeval_sdk.model import Chunk, Record, chat
from llmeval_sdk.process.pieces import find_all, pause


# Brings numbers into one form, so that "1,500" and "1500.0" are the same.

_HAN = dict(zip("一二三四五六七八九两兩", (1, 2, 3, 4, 5, 6, 7, 8, 9, 2, 2), strict=True))
SPELLED_OUT = "="
"""Stands before the digits of a number that was written as a word, such as a Chinese numeral."""
_COUNTED = "个個天日周週年月小分秒人次倍歳歲岁時时か度名位件本台枚回点公米元円"
NUMERAL = f"(?<!第)(?:[二三四五六七八九十两兩][一二三四五六七八九十]{{0,2}})(?=[{_COUNTED}])"
"""A Chinese or Japanese numeral below a hundred that stands before what it counts."""
_SEPARATORS = str.maketrans({"\u00a0": "", "\u202f": "", "\u066c": "", "\u066b": "."})


def number(raw: str, *, english: bool = True) -> str:
    """Bring a number into one form: ``1,500`` and ``1500.0`` are both ``1500``; ``07`` is ``7``.

    Digits of every script become ASCII ones. Outside English, ``1.500`` is 1500 too.
    """
    if not raw.isascii():
        raw = raw.translate(_SEPARATORS)
        raw = "".join(str(int(sign)) if sign.isdecimal() else sign for sign in raw)
    if raw.isdigit():
        return raw.lstrip("0") or "0"
    comma, dot = raw.rfind(","), raw.rfind(".")
    decimal = max(comma, dot)
    three = len(raw) - decimal == 4 and min(comma, dot) < 0
    grouped = raw.count(raw[decimal]) > 1 or (three and (comma >= 0 or not english))
    if grouped:
        return "".join(part for part in re.split("[.,]", raw)).lstrip("0") or "0"
    whole = raw[:decimal].replace(",", "").replace(".", "").lstrip("0") or "0"
    fraction = raw[decimal + 1 :].rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole


def _numeral(written: str) -> str:
    """Turn a Chinese or Japanese numeral below a hundred into the stem of a spelled-out number."""
    tens, ten, ones = written.rpartition("十")
    value = 10 * (_HAN.get(tens[-1:], 1) if ten else 0) + _HAN.get(ones[-1:], 0)
    return f"{SPELLED_OUT}{value}"


@lru_cache(4096)
def scaled(value: str, scale: str) -> str | None:
    """Multiply "1.5" by "million". ``None`` if the second is no scale or the first is too long."""
    factor = SCALES.get(scale)
    if factor is None or len(value) > 15:
        return None
    whole, _, fraction = value.partition(".")
    product = int(whole + fraction) * factor
    if product % 10 ** len(fraction):
        return None
    return str(product // 10 ** len(fraction))


_FORMS: dict[str, tuple[str, str]] = {
    form: (dimension, unit)
    for line in _words.lines("units")
    for head, forms in [line.split(": ")]
    for dimension, unit in [head.split()]
    for form in forms.split()
}
_MAX_LENGTH = max(map(len, _FORMS))
_SUFFIXES = {
    form: found
    for form, found in _FORMS.items()
    if form in {"tag", "tage", "woche", "wochen", "stund", "minut", "monat", "jahr", "dagen"}
}
_ENDING = 4
"""How many letters of inflection may follow the listed form of a word."""
_REACH = 3
"""How many words behind a number may be its unit. In "two working days" the second one is."""

Unit = tuple[str, str]


def unit(word: str) -> Unit | None:
    """Return the dimension and the unit that a lower-case word, or a run of signs, starts with."""
    exact = _FORMS.get(word)
    if exact is not None:
        return exact
    dense = word > "\u0dff"
    if dense and word[0] in "个個" and word[1:2] not in ("月", ""):
        word = word[1:]
    least = 1 if dense else max(3, len(word) - _ENDING)
    for length in range(min(len(word) - 1, _MAX_LENGTH), least - 1, -1):
        found = _FORMS.get(word[:length])
        if found is not None:
            return found
    if not dense and 7 <= len(word) <= 24:  # a compound, such as "Werktagen"
        for ending in (0, 1, 2):
            tail = word[: len(word) - ending]
            for size in (3, 4, 5, 6):
                found = _SUFFIXES.get(tail[-size:])
                if found is not None:
                    return found
    return None


def behind(words: Sequence[str], at: int) -> Unit | None:
    """Return the unit of the number at a place among words, or a sign before it."""
    for word in words[at + 1 : at + 1 + _REACH]:
        if word[0].isdecimal():
            break
        found = unit(word.lower())
        if found is not None:
            return found
    return unit(words[at - 1]) if at and words[at - 1] in ("€", "$", "£", "¥") else None


def changed(here: Unit, there: Iterable[Unit | None]) -> bool:
    """Say whether the context gives a number in other units of the same dimension only."""
    alike = {other[1] for other in there if other is not None and other[0] == here[0]}
    return bool(alike) and here[1] not in alike


# Scripts written without spaces, and Hangul, whose particles stick to the word.
_DENSE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"  # noqa: E501
_MARKS = "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0963\u0980-\u0dff"
_LETTER = rf"[^\W\d_{_DENSE}]"
_WORD = rf"{_LETTER}[^\W\d_{_DENSE}{_MARKS}]*(?:[{_MARKS}\u200c][^\W\d_{_DENSE}{_MARKS}]*)*"
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
_FULL_STOPS = "。！？।۔؟"
"""The signs that end a sentence wherever they stand."""


_AFTER_STOP = rf"""(?:(?<={_CLOSE}{_CLOSE}[.!?])|(?<=\s[.!?]))["'”’)\]*]*\s+(?=[^a-z\s])"""
_NEW_LINE = r"(?<=\n)(?:\s*\n|(?=\s*[^a-z\s]))"
"""A blank line, or a line of its own."""
_BREAK = re.compile(rf"[\n.!?{_FULL_STOPS}](?:{_NEW_LINE}|(?<=[{_FULL_STOPS}])|{_AFTER_STOP})")
_USUAL_BREAK = re.compile(rf"[\n.!?](?:{_NEW_LINE}|{_AFTER_STOP})")
"""The same for texts without those signs. It takes half the time."""

BREAK = "\0"
"""Separates the sentences where the tokens of a whole text are one list."""
MAX_SENTENCE = 600
"""The most characters of a sentence. Longer stretches are cut, so that alignment stays local."""
_STEM = 6
"""How many letters of a word count in other languages than English, whose endings inflect."""
_MAX_ABBREVIATION = max(map(len, ABBREVIATIONS))
_KEPT_STEMS = 20_000
_SAMPLE = 150
"""How many tokens decide which language a text is in."""


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yield the offsets of each sentence, list item or line, without surrounding space."""
    start, size = 0, len(text)
    usual = text.isascii() or not any(map(text.__contains__, _FULL_STOPS))
    for match in chain(find_all(_USUAL_BREAK if usual else _BREAK, text), (None,)):
        if match is None:
            end = size
        else:
            stop, end = match.span()
            if end < size and text[stop] == "." and _goes_on(text, start, stop, end):
                continue
        while start < end:
            piece = text[start : end if end - start <= MAX_SENTENCE else start + MAX_SENTENCE]
            kept = piece.strip()
            if kept:
                first = start if kept[0] == piece[0] else start + piece.index(kept[0])
                yield first, first + len(kept)
            start += len(piece)


def _goes_on(text: str, start: int, stop: int, end: int) -> bool:
    """Return whether the full stop at ``stop`` ends no sentence, as in "10. Flip" or "Dr. Ito"."""
    tail = text[max(start, stop - _MAX_ABBREVIATION - 1) : stop]
    if len(tail) > _MAX_ABBREVIATION and tail.isalpha():
        return False
    words = tail.split()
    word = words[-1].lstrip("(\"'“‘*") if words and not text[stop - 1].isspace() else ""
    if word.isdecimal():
        if len(word) > 3 or end - start > 40:
            return False
        return text[start:end].strip(" \n\t(*") == f"{word}."
    return word.lower() in ABBREVIATIONS and not text[stop + 1 : end].strip()


def tokens(text: str, start: int = 0, end: int | None = None) -> list[str]:
    """Cut ``text[start:end]`` into words, numbers, runs of a script without spaces, and signs."""
    piece = text[start:end]
    if BREAK in piece:
        piece = piece.replace(BREAK, " ")
    if has_joined_words(piece):
        return _cut(piece)
    return list(chain.from_iterable(map(tokens_of_word, words_of(piece))))


_NEVER_IN_TOKENS = '()[]{}"`|*:;!?/<>=+-_\\#@&^~'
_TO_SPACES = str.maketrans(dict.fromkeys(_NEVER_IN_TOKENS, " "))


def words_of(text: str) -> list[str]:
    """Return what stands between spaces, and between common signs that no token has.

    Without the signs there are fewer different words, so that tables of them know more of a text.
    """
    if text.isascii():  # only there is a translation fast
        text = text.translate(_TO_SPACES)
    return text.replace(", ", " ").replace(". ", " ").split()


JOINER = "\u200c"
_JOINING = f"\u00a0\u202f{JOINER}"
"""Spaces that stand within numbers, and a sign that stands within words of some scripts."""
BESIDE = "\"'(),-.:;[]`*?!"
"""Signs beside words that are no tokens."""
LONGEST_WORD = 40
"""How many characters a word has at most that is kept."""


def has_joined_words(text: str) -> bool:
    """Return whether a token may hold what elsewhere stands between two, so that spaces mislead."""
    return not text.isascii() and any(map(text.__contains__, _JOINING))


class _Tokens(dict[str, tuple[str, ...]]):
    """The tokens of what stands between two spaces: its signs may make it several, or none.

    To look them up takes a third of the time of a search.
    """

    def __missing__(self, word: str) -> tuple[str, ...]:
        bare = word.strip(BESIDE)
        cut = (bare,) if bare.isascii() and bare.isalpha() else tuple(_cut(word))
        if len(word) <= LONGEST_WORD:
            if len(self) >= _KEPT_STEMS:
                self.clear()
            self[word] = cut
        return cut


tokens_of_word = _Tokens().__getitem__


def parted_tokens(text: str, spans: Iterable[tuple[int, int]]) -> list[str]:
    """Return the tokens of each span, each followed by a `BREAK`, from one search."""
    if BREAK in text:
        text = text.replace(BREAK, " ")
    return _cut("".join([f"{text[start:end]}{BREAK}" for start, end in spans]))


def _cut(text: str) -> list[str]:
    pause()
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
            stem = _numeral(token) if _CJK_NUMERAL.fullmatch(token) else ""
        else:
            stem = self._make(token)
        if len(token) <= 40:
            if len(self) >= _KEPT_STEMS:
                self.clear()
            self[token] = stem
        return stem


_CJK_NUMERAL = re.compile(NUMERAL.split("(?=", maxsplit=1)[0].removeprefix("(?<!第)"))


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
    word = _words.fold(word)
    if word in _words.CLOSED or len(word) <= _STEM:
        return word
    short = word[:_STEM]
    return word[: _STEM + 1] if short in _words.CLOSED else short


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


class Sample(NamedTuple):
    """What the language of a text is told by."""

    words: int
    """How many different words of it were looked at."""
    latin: int
    """How many of them begin with a Latin letter, or are ASCII."""
    telling: frozenset[str]
    """The function words of any language among them."""

    @property
    def is_latin(self) -> bool:
        return self.latin >= 0.6 * self.words


def sample(tokens: Sequence[str]) -> Sample:
    """Look at the first tokens of a text for what tells its language."""
    different = set(tokens[:_SAMPLE])
    words = latin = len(different)
    if not "".join(different).isascii():
        letters = [head for token in different if (head := token[0]).isalpha()]
        words, latin = len(letters), sum([head < "\u0250" for head in letters])
    telling = frozenset([_WRITTEN[written] for written in different & _TELLING])
    return Sample(words, latin, telling)


def language(samples: Iterable[Sample]) -> Language:
    """Tell English from everything else by samples of texts: function words and letters.

    Not English: most words are not in Latin letters, more function words are of another language,
    or 25 words go by without an English one (which is not sure: it may be a table).
    """
    every = list(zip(*samples, strict=True)) or [(0,), (0,), ()]
    whole = Sample(sum(every[0]), sum(every[1]), frozenset().union(*every[2]))
    if not whole.is_latin:
        return Language(english=False, sure=True)
    words, _, telling = whole
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
    False: _words.OTHER_NUMBER_WORDS | _NUMERALS,
}
"""The digits that each stem of a spelled-out number stands for, in English and elsewhere."""


def _spelled(table: Mapping[str, str]) -> dict[str, frozenset[str]]:
    words: dict[str, set[str]] = {}
    for word, digits in table.items():
        words.setdefault(digits, set()).add(word)
    return {digits: frozenset(forms) for digits, forms in words.items()}


SPELLED = {english: _spelled(table) for english, table in SPELLED_OUT_NUMBERS.items()}
"""The stems that stand for digits, in English and elsewhere."""


# The question and the passages of a Record.


def question(record: Record) -> str:
    """Return what was asked, as the judges read it, or ``""`` if the request is no chat."""
    return chat.bounded_question(record.request)


def passages(chunks: Iterable[Chunk] | None) -> tuple[str, ...]:
    """Return the text of chunks in rank order, without repeats."""
    contents = (chunk.content for chunk in chunks or ())
    return tuple(dict.fromkeys(c for c in contents if isinstance(c, str) and c.strip()))


def question_stems(asked: str, *, english: bool) -> frozenset[str]:
    """Return the stems of a question. A spelled-out number is there as digits too."""
    asked_for = stems(tokens(asked), english=english)
    digits = (number_word(stem, english=english) for stem in asked_for)
    return frozenset(asked_for) | {number for number in digits if number is not None}
