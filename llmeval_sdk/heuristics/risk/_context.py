"""The retrieved context as the risk scores see it. Each passage is read once for all of them."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from threading import Lock
from typing import Generic, TypeVar

from llmeval_sdk.heuristics.risk import _languages, _text
from llmeval_sdk.heuristics.risk._passage import MAX_SENTENCES, MAX_TOKENS, Passage
from llmeval_sdk.heuristics.risk._text import BREAK, Unit, behind, scaled
from llmeval_sdk.heuristics.risk._words import SCALES
from llmeval_sdk.text.budget import WorkBudget


MAX_CHARACTERS = 40_000
"""How many characters of a context are read. `passage` limits its tokens and sentences too."""
PREFIX = 5
_GRAM = 4
_LONGEST = 24
"""How many letters of a word are cut into parts."""
_SAMPLE = 60
"""How many tokens of a passage decide which language it is in."""
_SCALES = frozenset(SCALES)
_KEPT_CONTEXTS = 8
_KEPT_PASSAGES = 128
_KEPT_CHARACTERS = 100_000
"""How many characters the passages that are kept may have in all. In memory they take about thirty
times as many bytes."""


class Context:
    """A context, with what the features ask of it. It must not be changed once it is built."""

    __slots__ = (
        "_cited",
        "_flat",
        "_negating",
        "_parts",
        "_passages",
        "_postings",
        "_units",
        "bigrams",
        "capped",
        "chunks",
        "english",
        "language",
        "numbers",
        "stems",
    )

    def __init__(self, contents: Sequence[str], *, english: bool | None = None) -> None:
        self.capped = sum(map(len, contents)) > MAX_CHARACTERS
        passages: list[Passage] = []
        characters, tokens, count = MAX_CHARACTERS, 0, 0
        budget = WorkBudget()
        for content in contents:
            if characters <= 0 or tokens >= MAX_TOKENS or count >= MAX_SENTENCES:
                self.capped = True
                break
            budget.spend(len(content[:characters]))
            passage = _passages.get(content[:characters], Passage)
            passages.append(passage)
            self.capped = self.capped or passage.capped
            characters -= len(content)
            count += passage.count
            tokens += len(passage.tokens)
        self.language = _text.language(passage.tokens[:_SAMPLE] for passage in passages[:8])
        self.english = self.language.english if english is None else english
        self.stems: set[str] = set()
        self.bigrams: set[int] = set()
        """The pairs of neighbours. Some of them have a `BREAK`, which no response has."""
        self.chunks: list[int] = []
        """The rank of the passage that each sentence belongs to."""
        self._flat: list[str] = []
        for rank, passage in enumerate(passages):
            stems, pairs = passage.view(english=self.english)
            self._flat += stems
            self.bigrams.update(pairs)
            self.chunks += [rank] * passage.count
        self.stems.update(self._flat)
        self.stems.discard(BREAK)
        self.numbers = self._find_numbers()
        self._passages = passages
        self._cited: list[int] | None = None
        self._parts: set[str] | None = None
        self._negating: dict[int, bool] = {}
        self._postings: dict[str, list[int]] = {}
        """The sentences of each stem that was looked for so far. The lists are never changed."""
        self._units: dict[str, list[Unit | None]] = {}

    @property
    def cited(self) -> list[int]:
        """The number by which an answer cites the passage of each sentence."""
        if self._cited is None:
            self._cited = _numbering(self._passages)
        return self._cited

    def _piece(self, sentence: int) -> list[str]:
        """Return the tokens of a sentence."""
        rank = self.chunks[sentence]
        return self._passages[rank].pieces[sentence - self.chunks.index(rank)]

    def _find_numbers(self) -> set[str]:
        """Return the numbers that the context has, including spelled-out and multiplied ones."""
        numbers = {stem for stem in self.stems if stem < ":"}  # they start with a digit
        if self.english and not _SCALES.isdisjoint(self.stems):
            multiplied = (scaled(*pair) for pair in pairwise(self._flat) if BREAK < pair[0] < ":")
            numbers.update(whole for whole in multiplied if whole is not None)
        spelled = _text.SPELLED_OUT_NUMBERS[self.english]
        numbers.update([spelled[stem] for stem in spelled.keys() & self.stems])
        return numbers

    def where(self, wanted: set[str]) -> dict[str, list[int]]:
        """Return the sentences of each wanted stem that the context has.

        Stems that were wanted before, by this score or another, are not looked for again.
        """
        wanted = wanted & self.stems
        postings = self._postings
        missing = wanted.difference(postings)
        if missing:
            postings.update(self._search(missing))
        return {stem: postings[stem] for stem in wanted}

    def _search(self, stems: set[str]) -> dict[str, list[int]]:
        """Return in which sentences stems stand, from one walk over the context."""
        postings: dict[str, list[int]] = {stem: [] for stem in stems}
        sentence = 0
        for stem in filter({BREAK, *stems}.__contains__, self._flat):
            if stem == BREAK:
                sentence += 1
                continue
            posting = postings[stem]
            if not posting or posting[-1] != sentence:
                posting.append(sentence)
        return postings

    def resembles(self, stem: str, word: str) -> float:
        """Return how much of a word the context has inside other words, 0..1."""
        parts = self._parts
        if parts is None:
            parts = self._parts = self._cut()
        if self.english:
            return float(stem[:PREFIX] in parts) if len(stem) >= PREFIX else 0.0
        grams = _grams(_languages.fold(word[:_LONGEST]))
        return sum(map(parts.__contains__, grams)) / len(grams) if grams else 0.0

    def _cut(self) -> set[str]:
        if self.english:
            return {stem[:PREFIX] for stem in self.stems}
        different = set().union(*[passage.tokens for passage in self._passages])
        words = (token[:_LONGEST] for token in different if len(token) >= _GRAM - 1)
        return {gram for word in words for gram in _grams(_languages.fold(word))}

    def negates(self, sentence: int) -> bool:
        """Return whether a sentence holds a negation."""
        known = self._negating.get(sentence)
        if known is None:
            known = _languages.negates(self._piece(sentence), english=self.english)
            self._negating[sentence] = known
        return known

    def units(self, digits: str, sentences: Iterable[int]) -> list[Unit | None]:
        """Return the units that stand with a number. They are read once for each number."""
        known = self._units.get(digits)
        if known is None:
            known = self._units[digits] = list(self._units_in(digits, sentences))
        return known

    def _units_in(self, digits: str, sentences: Iterable[int]) -> Iterator[Unit | None]:
        forms = {digits, *_text.SPELLED[self.english].get(digits, ())}
        for sentence in sentences:
            piece = self._piece(sentence)
            for at, token in enumerate(piece):
                if _text.stem_of(token, english=self.english) in forms:
                    yield behind(piece, at)


def _grams(word: str) -> list[str]:
    """Cut a word into overlapping parts. They are shorter in scripts whose letters mean more."""
    width = _GRAM - 1 if word > "\u0590" else _GRAM
    return [word[at : at + width] for at in range(len(word) - width + 1)]


def _numbering(passages: Sequence[Passage]) -> list[int]:
    """Number sentences by the marks in the text if there are several, and else by rank."""
    marked = sum(len(passage.numbered) for passage in passages) > 1
    numbers = []
    for rank, passage in enumerate(passages, start=1):
        current = 0 if marked else rank
        for at in range(passage.count):
            if marked:
                current = passage.numbered.get(at, current)
            numbers.append(current)
    return numbers


Built = TypeVar("Built")
Key = TypeVar("Key")


class _Kept(Generic[Key, Built]):
    """A small cache of what was read last, by what it was made of."""

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

    def renew(self) -> None:
        """Go on in a forked child, where the thread that held the lock does not exist."""
        self._lock = Lock()
        self._free = self._room - sum(map(self._size, self._kept))


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


def _renew() -> None:
    _passages.renew()
    _contexts.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
