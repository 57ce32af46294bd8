"""The retrieved context as sets of stems, read once per passage and shared by the risk scores."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from threading import Lock
from typing import Generic, TypeVar

from llmeval_sdk.heuristics.risk import languages, text
from llmeval_sdk.heuristics.risk.numerals import scaled
from llmeval_sdk.heuristics.risk.units import Unit, behind
from llmeval_sdk.heuristics.risk.words import SCALES


MAX_CHARACTERS = 40_000
MAX_TOKENS = 8_000
MAX_SENTENCES = 2_000
"""Of a context, a sentence counting as one token more; what comes after in rank order is left out,
and the evaluation says so."""
PREFIX = 5
_GRAM = 4
_LONGEST = 24
"""Letters of a word that are cut into parts."""
_WINDOW = 40
_SCALES = frozenset(SCALES)
_KEPT_CONTEXTS = 8
_KEPT_PASSAGES = 128
_KEPT_CHARACTERS = 100_000
"""Of all passages that are kept: what they hold in memory is about thirty times that."""
_MARK = re.compile(
    r"(?:^|\n)[ \t]{0,8}(?:(?:passage|document|source|chunk|context) ?)?[\[#(]?(\d{1,3})[\])]?:",
    re.IGNORECASE,
)
"""A mark before a passage, such as "passage 2:" or "[2]:"."""


class Passage:
    """One retrieved text: its tokens by sentence, and what they are reduced to when asked."""

    __slots__ = ("_views", "capped", "numbered", "pieces")

    def __init__(self, content: str) -> None:
        self.pieces: list[list[str]] = []
        """Tokens of each sentence, at most forty in a row."""
        self.capped = False
        self.numbered: dict[int, int] = {}
        """Sentence -> the number that a mark before it gives, such as "passage 2:"."""
        self._views: dict[bool, View] = {}
        marks = [(m.start(1), int(m[1])) for m in _MARK.finditer(content)] if ":" in content else []
        count = 0
        for start, end in text.sentences(content):
            if count >= MAX_TOKENS or len(self.pieces) >= MAX_SENTENCES:
                self.capped = True
                break
            while marks and marks[0][0] < end:
                self.numbered[len(self.pieces)] = marks.pop(0)[1]
            tokens = text.tokens(content, start, end)
            count += 1 + len(tokens)
            if len(tokens) <= _WINDOW:
                self.pieces.append(tokens)
            else:
                self.pieces += [tokens[at : at + _WINDOW] for at in range(0, len(tokens), _WINDOW)]

    def view(self, *, english: bool) -> View:
        """Return the passage as stems, English ones or those of any language."""
        known = self._views.get(english)
        if known is None:
            known = self._views[english] = View(self.pieces, english=english)
        return known


def _stems(pieces: Sequence[list[str]], *, english: bool) -> Iterator[list[str]]:
    """Yield the stems of each piece; all at once where no token has several."""
    together = text.stems([token for piece in pieces for token in piece], english=english)
    if len(together) != sum(map(len, pieces)):
        yield from (text.stems(piece, english=english) for piece in pieces)
        return
    start = 0
    for piece in pieces:
        yield together[start : start + len(piece)]
        start += len(piece)


class View:
    """What a passage says, as sets."""

    __slots__ = ("bigrams", "numbers", "sentences", "stems")

    def __init__(self, pieces: Sequence[list[str]], *, english: bool) -> None:
        self.sentences: list[frozenset[str]] = []
        self.bigrams: set[int] = set()
        self.numbers: set[str] = set()
        for stems in _stems(pieces, english=english):
            here = frozenset(stems)
            self.sentences.append(here)
            self.bigrams.update(map(hash, pairwise(stems)))
            if english and not _SCALES.isdisjoint(here):
                multiplied = (scaled(*pair) for pair in pairwise(stems) if pair[0] < ":")
                self.numbers.update(whole for whole in multiplied if whole is not None)
        self.stems: set[str] = set().union(*self.sentences)
        self.numbers.update([stem for stem in self.stems if stem < ":"])  # they start with a digit
        spelled = text.SPELLED_OUT_NUMBERS[english]
        self.numbers.update(
            [spelled[stem] for stem in text.SPELLED_OUT_STEMS[english] & self.stems]
        )


class Context:
    """What the features ask of a context; treat it as frozen once built."""

    __slots__ = (
        "_negating",
        "_parts",
        "_pieces",
        "_units",
        "bigrams",
        "capped",
        "chunks",
        "cited",
        "english",
        "language",
        "numbers",
        "sentences",
        "stems",
    )  # fmt: skip

    def __init__(self, contents: Sequence[str], *, english: bool | None = None) -> None:
        self.capped = sum(map(len, contents)) > MAX_CHARACTERS
        passages: list[Passage] = []
        characters, tokens, count = MAX_CHARACTERS, 0, 0
        for content in contents:
            if characters <= 0 or tokens >= MAX_TOKENS or count >= MAX_SENTENCES:
                self.capped = True
                break
            passages.append(_passages.get(content[:characters], Passage))
            self.capped = self.capped or passages[-1].capped
            characters -= len(content)
            count += len(passages[-1].pieces)
            tokens += sum(map(len, passages[-1].pieces)) + len(passages[-1].pieces)
        self.language = text.language(_samples(passages))
        self.english = self.language.english if english is None else english
        views = [passage.view(english=self.english) for passage in passages]
        self.sentences = [sentence for view in views for sentence in view.sentences]
        """The stems of each."""
        self.chunks = [rank for rank, view in enumerate(views) for _ in view.sentences]
        """Sentence -> passage, by rank."""
        self.stems: set[str] = set().union(*(view.stems for view in views))
        self.bigrams: set[int] = set().union(*(view.bigrams for view in views))
        self.numbers: set[str] = set().union(*(view.numbers for view in views))
        self._pieces = [piece for passage in passages for piece in passage.pieces]
        self.cited = _numbering(passages)
        """Sentence -> the number under which an answer cites its passage."""
        self._parts: set[str] | None = None
        self._negating: dict[int, bool] = {}
        self._units: dict[str, list[Unit | None]] = {}

    def where(self, wanted: set[str]) -> dict[str, list[int]]:
        """Return in which sentences each wanted stem stands, for those that do."""
        postings: dict[str, list[int]] = {}
        wanted = wanted & self.stems
        for at, sentence in enumerate(self.sentences):
            for stem in sentence & wanted:
                if stem in postings:
                    postings[stem].append(at)
                else:
                    postings[stem] = [at]
        return postings

    def resembles(self, stem: str, word: str) -> float:
        """Say how much of a word the context has in others, 0..1: the same root, or a compound."""
        parts = self._parts
        if parts is None:
            parts = self._parts = self._cut()
        if self.english:
            return float(stem[:PREFIX] in parts) if len(stem) >= PREFIX else 0.0
        grams = _grams(languages.fold(word[:_LONGEST]))
        return sum(map(parts.__contains__, grams)) / len(grams) if grams else 0.0

    def _cut(self) -> set[str]:
        if self.english:
            return {stem[:PREFIX] for stem in self.stems if len(stem) >= PREFIX}
        different = set().union(*self._pieces)
        words = (token[:_LONGEST] for token in different if len(token) >= _GRAM - 1)
        return {gram for word in words for gram in _grams(languages.fold(word))}

    def negates(self, sentence: int) -> bool:
        """Say whether a sentence negates."""
        known = self._negating.get(sentence)
        if known is None:
            known = languages.negates(self._pieces[sentence], english=self.english)
            self._negating[sentence] = known
        return known

    def units(self, digits: str, sentences: Iterable[int]) -> list[Unit | None]:
        """Return the units behind the places where a number stands; read once per number."""
        known = self._units.get(digits)
        if known is None:
            known = self._units[digits] = list(self._units_in(digits, sentences))
        return known

    def _units_in(self, digits: str, sentences: Iterable[int]) -> Iterator[Unit | None]:
        for sentence in sentences:
            piece = [token.lower() for token in self._pieces[sentence]]
            for at, token in enumerate(piece):
                stem = text.stems((token,), english=self.english)[0]
                if stem == digits or text.number_word(stem, english=self.english) == digits:
                    yield behind(piece, at)


def _grams(word: str) -> list[str]:
    """Cut a word into overlapping parts, shorter ones where letters stand for more."""
    width = _GRAM - 1 if word > "\u0590" else _GRAM
    return [word[at : at + width] for at in range(len(word) - width + 1)]


def _samples(passages: Sequence[Passage]) -> Iterator[list[str]]:
    """Yield tokens of the first passages, to tell their language by."""
    for passage in passages[:8]:
        taken = 0
        for piece in passage.pieces:
            yield piece
            taken += len(piece)
            if taken >= 100:
                break


def _numbering(passages: Sequence[Passage]) -> list[int]:
    """Number sentences by the marks in the text where there are several, else by rank."""
    marked = sum(len(passage.numbered) for passage in passages) > 1
    numbers = []
    for rank, passage in enumerate(passages, start=1):
        current = 0 if marked else rank
        for at in range(len(passage.pieces)):
            if marked:
                current = passage.numbered.get(at, current)
            numbers.append(current)
    return numbers


def bigrams(stems: Sequence[str]) -> Iterator[int]:
    """Hash each pair of neighbours: a set of numbers costs the garbage collector nothing."""
    return map(hash, pairwise(stems))


Built = TypeVar("Built")
Key = TypeVar("Key")


class _Kept(Generic[Key, Built]):
    """The few things read last, by what they were made of."""

    def __init__(self, most: int, size: Callable[[Key], int], largest: int) -> None:
        self._most, self._size, self._room = most, size, largest
        self._free = largest
        self._kept: OrderedDict[Key, Built] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Key, make: Callable[[Key], Built]) -> Built:
        with self._lock:
            known = self._kept.get(key)
            if known is not None:
                self._kept.move_to_end(key)
                return known
        built = make(key)
        with self._lock:
            if key not in self._kept:
                self._free -= self._size(key)
            self._kept[key] = built
            while self._kept and (len(self._kept) > self._most or self._free < 0):
                self._free += self._size(self._kept.popitem(last=False)[0])
        return built

    def forget(self) -> None:
        with self._lock:
            self._kept.clear()
            self._free = self._room


_Contents = tuple[tuple[str, ...], "bool | None"]


def _length(key: _Contents) -> int:
    return sum(map(len, key[0]))


_passages: _Kept[str, Passage] = _Kept(_KEPT_PASSAGES, len, _KEPT_CHARACTERS)
_contexts: _Kept[_Contents, Context] = _Kept(_KEPT_CONTEXTS, _length, 8 * MAX_CHARACTERS)


def of(contents: Sequence[str], *, english: bool | None = None) -> Context:
    """Read passages, or take what was read last; ``english=None`` detects."""
    return _contexts.get((tuple(contents), english), lambda key: Context(key[0], english=key[1]))


def forget() -> None:
    """Empty the caches, for tests and measurements."""
    _passages.forget()
    _contexts.forget()
